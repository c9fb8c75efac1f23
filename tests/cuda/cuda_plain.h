/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a backend as plain loops in double, on rows in the problem's order. */
#ifndef TESTS_CUDA_PLAIN_H
#define TESTS_CUDA_PLAIN_H

#include "method.h"

struct plain {
    const struct uni_problem *p;
    double *Z;        /* (N,D) */
    double *base, *R; /* (N,K) */
    double *dist;     /* (N,K) */
    int64_t *group, *block;
};

void plain_open(struct plain *, const struct uni_problem *, const struct uni_matrix *);
void plain_assign(struct plain *, double *O, struct uni_fit *, const struct uni_shift *, const float *Y);
void plain_sweep(struct plain *, double *O, struct uni_fit *, int64_t sweeps);
void plain_moments(const struct plain *, double *S);
/* (N_all,D) in the caller's order */
void plain_corrected(const struct plain *, const struct uni_shift *, double *dst);
void plain_close(struct plain *);

#endif
