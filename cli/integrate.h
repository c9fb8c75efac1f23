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
    const char *regress[UNI_MAX_VARIABLES];
    int n_regress;
    const char *weights, *within, *label;
    int in_place, dry_run, overwrite, low_memory, help;
    int level; /* -1 quiet, 0, 1 verbose */
    struct uni_options method;
};

/* Wall seconds of the program's own stages; the library's are in its summary. */
struct integrate_seconds {
    double labels, read, open, run, result, diagnose, write, start, total;
};

/* A run as the reports need it: that of all cells, or one for every level of --within. */
struct integrate_run {
    const char *level; /* of --within, or NULL */
    int64_t cells;
    const struct uni_summary *summary;
    struct uni_summary copy; /* of a run that is closed, with what it points to */
    struct uni_diagnosis *diagnosis;
};

struct integrate {
    struct integrate_options options;
    enum io_format input_format, output_format;
    struct io_stamp input_was; /* at the beginning */
    struct io_labels labels[UNI_MAX_VARIABLES];
    struct uni_batch batches[UNI_MAX_VARIABLES];
    struct io_labels within, types_read; /* types_read: of --label, as types has them */
    struct uni_batch types;
    double *numbers[UNI_MAX_VARIABLES + 1]; /* (n_cells) of --regress, then of --weights */
    struct uni_covariate covariates[UNI_MAX_VARIABLES];
    struct io_matrix matrix;
    struct uni_plan plan;
    int64_t memory_needed, memory_left; /* memory_left: before anything was taken; -1 unknown */
    float *centroids;
    float *values;       /* (n_cells, n_dims): the embedding, until the result is there; where lean, until the run has its copy */
    const float *result; /* what is written: the run's own rows, or values where the run is read or gone */
    int lean;            /* memory is short: one array of cells less, somewhat slower */
    struct progress progress;
    struct uni_harmony *run;
    const struct uni_summary *summary; /* once there is one; with --within of all runs together */
    struct integrate_run *runs;        /* (n_runs) */
    int64_t n_runs, largest_run;       /* largest_run: cells of the one that takes most memory */
    struct integrate_run whole;        /* without --within */
    struct uni_summary total;          /* with it */
    char total_reason[64];
    int64_t n_warned; /* warnings that have been shown */
    struct integrate_seconds seconds;
};

/* ---- integrate_options.c ---- */
int integrate_options_read(struct integrate_options *, int argc, char **argv);

/* ---- integrate.c ---- */
int failed_library(int status); /* says the library's last sentence */
void show_warnings(struct integrate *, const struct uni_summary *);

/* ---- integrate_columns.c: what is known of each cell beside its embedding ---- */
/* cells: the names that a table's rows are put in the order of, or NULL. */
int columns_load(struct integrate *, const struct io_strings *cells);
void columns_close(struct integrate *);
/* Joint levels of all batch variables, as --combine has them: numbered by their first cells. -1: no memory. */
int columns_joint(struct io_labels *, const struct integrate *);

/* ---- integrate_within.c: a run for every level of --within ---- */
/* Instead of one uni_plan; the plan is that of the run that takes most. needed: the memory of all. */
int within_plan(struct integrate *, int64_t names, int64_t *needed);
/* Instead of one run: the values of every level are corrected where they are. */
int within_run(struct integrate *);
void within_close(struct integrate *);

/* ---- integrate_entries.c: what uns/KEY says ---- */
enum { ENTRIES_MAX = 160 };
struct entries {
    struct io_entry at[ENTRIES_MAX];
    int64_t count;
    void *owned[2 * ENTRIES_MAX];
    int n_owned;
};
int entries_open(struct entries *, const struct integrate *); /* EXIT_FAILED: out of memory */
void entries_close(struct entries *);
/* For who has more to say. Return 0, or -1: no memory. entries_own_text frees the text in the end; rows: n structs of size bytes,
   of which a member becomes the entry's numbers, an int64_t where whole, else a double. */
int entries_text(struct entries *, const char *name, const char *text);
int entries_own_text(struct entries *, const char *name, char *text);
int entries_rows(struct entries *, const char *name, const void *rows, int64_t n, size_t size, size_t member, int whole);

/* ---- trace.c ---- */
/* The JSON report as text, to be freed; NULL when there is no memory for it. */
char *trace_text(const struct integrate *);

/* ---- model.c ---- */
/* Most memory that model_write takes at once. */
int64_t model_bytes(const struct uni_plan *);
int model_check(const struct integrate_options *);
int model_write(const struct integrate *);

#endif
