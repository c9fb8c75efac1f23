/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `unisono score` offer each other. */
#ifndef UNI_CLI_SCORE_H
#define UNI_CLI_SCORE_H

#include "cli.h"
#include "io.h"
#include "progress.h"

enum { SCORE_BASES = 16, SCORE_COLUMNS = 16 };

struct score_options {
    const char *input, *meta, *output;
    const char *column[SCORE_COLUMNS]; /* the batches, then the cell types */
    int is_type[SCORE_COLUMNS];
    int n_columns;
    const char *basis[SCORE_BASES];
    int n_bases;
    int json, overwrite, quiet, help;
    struct uni_lisi_options lisi;
};

/* One column of labels in one basis. */
struct score {
    const char *basis, *column;
    int is_type;
    struct uni_lisi_score s;
};

struct score_job {
    struct score_options options;
    enum io_format format;
    struct io_stamp input_was; /* at the beginning */
    struct io_strings keys;    /* of obsm, where no basis was named */
    struct io_labels labels[SCORE_COLUMNS];
    struct uni_batch batches[SCORE_COLUMNS];
    struct io_matrix matrix; /* of the basis at hand */
    float *values;           /* its values */
    struct uni_lisi_plan plan;
    struct score scores[SCORE_BASES * SCORE_COLUMNS];
    int n_scores;
    char *notes[2 * SCORE_BASES + SCORE_COLUMNS];
    int n_notes;
    struct progress progress;

    /* of -o */
    struct io_strings names, cells; /* names of its columns; of cells, where the input has them */
    char cell_header[64];
    float *table; /* (n_cells, names) NaN: not looked at */
};

int score_options_read(struct score_options *, int argc, char **argv);

/* On a scale from 0 to 1 where higher is better: of batches (median - 1) / (levels - 1), of cell types (levels - median) /
   (levels - 1). NaN where there is one level. */
double score_scaled(const struct score *);
void score_print(const struct score_job *); /* the table, or JSON, to stdout */

#endif
