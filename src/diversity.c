/* SPDX-License-Identifier: BSD-3-Clause */
/* Observed and expected mass of every level in every cluster, and the objective's term that couples them. */
#include <string.h>

#include "formula.h"
#include "method.h"

void uni_levels_of_groups(double *level_O, const double *O, const struct uni_problem *p)
{
    memset(level_O, 0, (size_t)(p->B * p->K) * sizeof *level_O);
    for (int64_t g = 0; g < p->G; g++)
        for (int v = 0; v < p->V; v++) {
            double *level = level_O + p->group_level[g * p->V + v] * p->K;
            for (int64_t k = 0; k < p->K; k++)
                level[k] += O[g * p->K + k];
        }
}

/* E[l,k] = pr_l * sum over levels of O[l,k]. The first variable's levels hold every cell once. */
void uni_expected(double *E, const double *level_O, const struct uni_problem *p)
{
    double *r_sum = E; /* made in the first row, which is scaled last */
    memset(E, 0, (size_t)p->K * sizeof *E);
    for (int64_t l = 0; l < p->B; l++)
        for (int64_t k = 0; k < p->K; k++)
            r_sum[k] += level_O[l * p->K + k];
    for (int64_t k = 0; k < p->K; k++)
        r_sum[k] /= p->V;
    for (int64_t l = p->B - 1; l >= 0; l--)
        for (int64_t k = 0; k < p->K; k++)
            E[l * p->K + k] = r_sum[k] * p->level_share[l];
}

/* Levels in equal parts, as many whatever the threads. */
enum { MOST_PARTS = 64, LEVELS_A_PART = 32 };
struct terms {
    const double *level_O, *E;
    const struct uni_problem *p;
    int64_t n;
    double part[MOST_PARTS];
};

static void add_terms(void *context, int64_t part)
{
    struct terms *t = context;
    const struct uni_problem *p = t->p;
    double sum = 0;
    for (int64_t l = p->B * part / t->n; l < p->B * (part + 1) / t->n; l++)
        for (int64_t k = 0; k < p->K; k++)
            if (t->level_O[l * p->K + k] > 0)
                sum += uni_diversity_term(p->sigma[k], p->level_theta[l], t->level_O[l * p->K + k], t->E[l * p->K + k],
                                          p->penalty_scale, p->penalty_add);
    t->part[part] = sum;
}

int uni_diversity(double *sum, const double *level_O, const double *E, const struct uni_problem *p, struct uni_backend *b)
{
    struct terms t = {.level_O = level_O, .E = E, .p = p, .n = p->B / LEVELS_A_PART};
    t.n = t.n < 1 ? 1 : t.n < MOST_PARTS ? t.n : MOST_PARTS;
    int err = b->each(b, t.n, add_terms, &t);
    *sum = 0;
    for (int64_t i = 0; i < t.n; i++)
        *sum += t.part[i];
    return err;
}
