/* SPDX-License-Identifier: BSD-3-Clause */
/* A study as users have them: made-up cells of several batch variables, perhaps with weights and continuous variables, and the
   product's run of it against the oracle's. */
#ifndef TESTS_STUDY_H
#define TESTS_STUDY_H

#include "agreement.h"

enum { STUDY_VARIABLES = UNI_MAX_VARIABLES, STUDY_COVARIATES = 2 };

enum study_kind {
    STUDY_NESTED,  /* sample (24) nested in donor (6), nested in site (2) */
    STUDY_CROSSED, /* sample (24), donor (5) and site (3), drawn apart; further ones of 2 to 4 levels, of any kind */
    STUDY_ODD,     /* crossed; donor and site have a level without cells, one of a single cell, a rare one */
    STUDY_KINDS
};

struct study {
    struct made_data data; /* its level is that of the first variable */
    int n;                 /* variables */
    struct uni_batch batch[STUDY_VARIABLES];
    int32_t *level[STUDY_VARIABLES];
    double *weight; /* (n) or NULL */
    int n_covariates;
    double *value[STUDY_COVARIATES]; /* (n) */
    struct uni_covariate covariate[STUDY_COVARIATES];
};

void study_make(struct study *s, enum study_kind kind, int n_variables);
/* Of one variable, by a list that is the same everywhere. */
void study_make_case(struct study *s, const struct problem_case *c);
/* Draws weights of 0.25 to 4, and covariates that shift the cells. */
void study_weigh(struct study *s);
void study_covary(struct study *s, int n_covariates);
void study_close(struct study *s);

/* For small runs that are compared closely: 20 clusters, float32 base, terms, five rounds in any case. */
struct uni_options study_options(void);

/* The study's variables, weights and covariates go with the options. Opens; fails the test where that fails. */
struct uni_harmony *study_open(const struct study *s, struct uni_options options);
void study_run(struct product *p, const struct study *s, const struct uni_options *options);
/* What uni_open answers, whose run is closed. */
int study_refused(const struct study *s, struct uni_options options);

/* What the product's run stands for, with its start and blocks. Z is the caller's to free. */
struct ref_problem study_problem(const struct product *p, const struct study *s, const struct uni_options *options);

/* Runs both and asserts that they agree, slopes included, at `scale` as in agreement.h. */
void study_follows(const struct study *s, const struct uni_options *options, double scale);

#endif
