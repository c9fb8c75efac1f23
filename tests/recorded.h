/* SPDX-License-Identifier: BSD-3-Clause */
/* The recorded runs of the R package harmony 2.0.4 (../shared/data, described in its README), as arrays. The folder is the
 * environment's UNISONO_SHARED, else the place the build names; tests skip when it is not there. */
#ifndef TESTS_RECORDED_H
#define TESTS_RECORDED_H

#include "reference.h"

#include <stdint.h>

#define RECORDED_ROUNDS 10
#define RECORDED_MAX_OBJECTIVES 256

struct recorded_name {
    const char *set, *config;
};

/* Every run with a start and orders; two_variables says which take part in tests of one variable. */
#define RECORDED_RUNS 44
extern const struct recorded_name recorded_names[RECORDED_RUNS];
int recorded_two_variables(const struct recorded_name *name);

struct recorded {
    const struct recorded_name *name;
    struct ref_problem problem; /* everything but tol and stop: those never fire (tol < 0) */
    int64_t B;
    double *o, *e;                            /* (rounds + 1, K, B) as recorded; index 0: after the first base assignments */
    double *y;                                /* (rounds, K, d) */
    double *Zcorr;                            /* (n, d) */
    double *Zcorr_round1;                     /* (n, d) or NULL */
    double *Zcorr_rounds;                     /* (rounds, n, d) or NULL */
    double *R, *R_init, *R_round1, *R_rounds; /* (n, K), R_rounds (rounds, n, K); or NULL */
    int64_t n_objectives;
    double total[RECORDED_MAX_OBJECTIVES], distance[RECORDED_MAX_OBJECTIVES], entropy[RECORDED_MAX_OBJECTIVES],
        cross[RECORDED_MAX_OBJECTIVES];
    double sweeps[RECORDED_ROUNDS], would_stop[RECORDED_ROUNDS], pruned[RECORDED_ROUNDS], skipped[RECORDED_ROUNDS];
    void *owned[32];
    int n_owned;
};

/* 1 when the reference data are there; else prints "skipped: ..." once and returns 0. */
int recorded_available(void);

/* Path of a file of the reference data; valid until the next call. */
const char *recorded_path(const char *set, const char *folder, const char *file);

void recorded_open(struct recorded *data, const struct recorded_name *name);
void recorded_close(struct recorded *data);

/* Codes of a column of a tab-separated file with a header, in the order of `names` (n_names), or by first appearance where names
   is NULL; returns them (n cells, to be freed) and their number in *n. */
int32_t *recorded_labels(const char *path, const char *column, const char *const *names, int n_names, int64_t *n);

/* Mean iLISI of a run as ../shared/data/lisi.tsv has it; NaN where it has none. */
double recorded_ilisi(const struct recorded_name *name);

#endif
