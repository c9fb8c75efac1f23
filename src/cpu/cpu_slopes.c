/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums with covariates: the cells of every sum count by a covariate's value, or by the product of two. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

/* group_mass of one group: its runs in their order. */
static void masses_task(void *context, int64_t g, int thread)
{
    struct uni_cpu *c = context;
    const int64_t Kv = c->shape.Kv;
    float *sum = uni_cpu_weighted_P(c, thread);
    double *total = c->group_mass + g * Kv;
    memset(total, 0, (size_t)Kv * sizeof *total);
    for (int64_t i = c->layout.group_run[g]; i < c->layout.group_run[g + 1]; i++) {
        struct uni_run run = uni_cpu_run(c, i);
        const int64_t first = c->layout.run[i].first;
        c->kernels->masses(&c->shape, &run, uni_cpu_run_P(c, i), c->x1 + first, c->x2 ? c->x2 + first : NULL, sum,
                           uni_cpu_scratch(c, thread));
        for (int64_t k = 0; k < Kv; k++)
            total[k] += sum[k];
    }
}

static int masses_of(struct uni_cpu *c, const float *x1, const float *x2)
{
    c->x1 = x1;
    c->x2 = x2;
    return uni_pool_run(c->pool, masses_task, c, c->p->G);
}

/* xS (K,D) = sum of x R Z over all groups, a few of them at a time */
static int moments_of_covariate(struct uni_cpu *c, double *xS, const float *x, const unsigned char *part)
{
    const struct uni_problem *p = c->p;
    memset(xS, 0, (size_t)(p->K * p->D) * sizeof *xS);
    for (int64_t g = 0; g < p->G; g += GROUPS_AT_ONCE) {
        int64_t end = g + GROUPS_AT_ONCE < p->G ? g + GROUPS_AT_ONCE : p->G;
        int err = uni_cpu_moments_of(c, c->group_S, g, end, x);
        if (err)
            return err;
        for (int64_t i = 0; i < (end - g) * p->K; i++)
            for (int64_t d = 0; part[g * p->K + i] && d < p->D; d++)
                xS[i % p->K * p->D + d] += c->group_S[i * p->D + d];
    }
    return UNI_OK;
}

int uni_cpu_slopes(struct uni_backend *b, double *xS, double *xO, double *xx, const unsigned char *part)
{
    int err = 0;
    struct uni_cpu *c = b->state;
    const struct uni_problem *p = c->p;
    const int64_t Kv = c->shape.Kv;
    memset(xx, 0, (size_t)(p->X * p->X * p->K) * sizeof *xx);
    for (int x = 0; x < p->X; x++) {
        TRY(moments_of_covariate(c, xS + x * p->K * p->D, p->x + x * p->N, part));
        TRY(masses_of(c, p->x + x * p->N, NULL));
        for (int64_t g = 0; g < p->G; g++)
            memcpy(xO + (x * p->G + g) * p->K, c->group_mass + g * Kv, (size_t)p->K * sizeof *xO);
        for (int y = 0; y <= x; y++) {
            double *sum = xx + (x * p->X + y) * p->K;
            TRY(masses_of(c, p->x + x * p->N, p->x + y * p->N));
            for (int64_t i = 0; i < p->G * p->K; i++)
                sum[i % p->K] += part[i] ? c->group_mass[i / p->K * Kv + i % p->K] : 0;
            memcpy(xx + (y * p->X + x) * p->K, sum, (size_t)p->K * sizeof *xx);
        }
    }
done:
    return err;
}
