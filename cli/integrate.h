/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of `unisono integrate`, as its files share it. */
#ifndef UNI_CLI_INTEGRATE_H
#define UNI_CLI_INTEGRATE_H

#include "cli.h"
#include "io.h"
#include "progress.h"
#include "unisono.h"

struct integrate_options {
    const char *input, *output, *meta, *basis, *key_added, *centroids, *trace, *model; /* of argv; NULL where not given */
    const char *batch[UNI_MAX_VARIABLES];
    int n_batches;
    int in_place, dry_run, overwrite, low_memory, help;
    int level; /* -1 quiet, 0, 1 verbose */
    struct uni_options method;
};

/* Wall seconds of the program's own stages; the library's are in its summary. */
struct integrate_seconds {
    double labels, read, open, run, result, write, start, total;
};

struct integrate {
    struct integrate_options options;
    enum io_format input_format, output_format;
    struct io_labels labels[UNI_MAX_VARIABLES];
    struct uni_batch batches[UNI_MAX_VARIABLES];
    struct io_matrix matrix;
    struct uni_plan plan;
    int64_t memory_needed, memory_left; /* memory_left: before anything was taken; -1 unknown */
    float *centroids;
    float *values;       /* (n_cells, n_dims): the embedding, and after the run its correction; freed early where lean */
    const float *result; /* what is written: values, or where lean the run's own rows */
    int lean;            /* memory is short: one array of cells less, somewhat slower */
    struct progress progress;
    struct uni_harmony *run;
    const struct uni_summary *summary; /* once there is one */
    int64_t n_warned;                  /* warnings that have been shown */
    struct integrate_seconds seconds;
};

/* ---- integrate_options.c ---- */
int integrate_options_read(struct integrate_options *, int argc, char **argv);

/* ---- integrate_entries.c: what uns/KEY says ---- */
enum { ENTRIES_MAX = 96 };
struct entries {
    struct io_entry at[ENTRIES_MAX];
    int64_t count;
    void *owned[2 * ENTRIES_MAX];
    int n_owned;
};
int entries_open(struct entries *, const struct integrate *); /* EXIT_FAILED: out of memory */
void entries_close(struct entries *);

/* ---- trace.c ---- */
/* The JSON report as text, to be freed; NULL when there is no memory for it. */
char *trace_text(const struct integrate *);

/* ---- model.c ---- */
/* Most memory that model_write takes at once. */
int64_t model_bytes(const struct uni_plan *);
int model_check(const struct integrate_options *);
int model_write(const struct integrate *);

#endif
