/* SPDX-License-Identifier: BSD-3-Clause */
/* How far the run is: one line redrawn on a terminal, a line per round when verbose, else nothing. */
#ifndef UNI_CLI_PROGRESS_H
#define UNI_CLI_PROGRESS_H

#include <stdint.h>

struct uni_progress;

struct progress {
    int lines;    /* a line per round */
    int redraws;  /* stderr is a terminal, and one line may be redrawn */
    int shown;    /* there is a line to clear */
    double drawn; /* when it was drawn */
    char stage[80];
    double stage_began;
    const char *part; /* of several runs, which one this is; or NULL */
    long long part_number, part_count;
};

void progress_open(struct progress *, int level);                            /* level: -1 quiet, 0, 1 a line per round */
void progress_stage(struct progress *, const char *doing, const char *what); /* "reading", "atlas.h5ad" */
void progress_part(struct progress *, const char *part, long long number, long long count); /* "donor 7", 2 of 12 */
int progress_round(const struct uni_progress *, void *progress);             /* a uni_progress_fn */
void progress_cells(int64_t done, int64_t n_cells, void *progress); /* a uni_lisi_progress_fn: how far the stage is */
void progress_clear(struct progress *);                                      /* before anything else goes to stderr */

#endif
