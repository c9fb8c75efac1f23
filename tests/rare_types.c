/* SPDX-License-Identifier: BSD-3-Clause */
#include "rare_types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 30, BATCHES = 8 };

struct world {
    double centre[RARE_TYPES][D], common[BATCHES][D], own[RARE_TYPES][BATCHES][D];
    double type_end[RARE_TYPES], batch_end[BATCHES]; /* cumulative shares */
    double lean[RARE_TYPES][BATCHES];                /* chance that a cell of the type stays in a batch drawn for it */
};

/* Spread of the types along each dimension, falling off as principal components do. */
static double spread(int j)
{
    return 4.5 / sqrt(1 + 0.5 * j);
}

static void draw_world(struct world *w, uint64_t *state)
{
    for (int t = 0; t < RARE_TYPES; t++)
        for (int j = 0; j < D; j++)
            w->centre[t][j] =
                t < RARE_CLOSE ? spread(j) * made_normal(state) : w->centre[t - RARE_CLOSE][j] + 0.25 * made_normal(state);
    for (int b = 0; b < BATCHES; b++)
        for (int j = 0; j < D; j++)
            w->common[b][j] = 0.25 * spread(j) * made_normal(state);
    for (int t = 0; t < RARE_TYPES; t++)
        for (int b = 0; b < BATCHES; b++) {
            w->lean[t][b] = 0.3 + 0.7 * made_uniform(state);
            for (int j = 0; j < D; j++)
                w->own[t][b][j] = 0.08 * spread(j) * made_normal(state);
        }
}

static void set_shares(struct world *w)
{
    double rest = 1 - 3 * 0.001 - 2 * 0.0001, sum = 0, end = 0;
    for (int t = 0; t < RARE_COMMON; t++)
        sum += pow(0.003 / 0.2, t / 24.0);
    for (int t = 0; t < RARE_TYPES; t++) {
        if (t < RARE_COMMON)
            end += rest * pow(0.003 / 0.2, t / 24.0) / sum;
        else
            end += t == RARE_SEPARATE_TINY || t == RARE_CLOSE_TINY ? 0.0001 : 0.001;
        w->type_end[t] = end;
    }
    end = sum = 0;
    for (int b = 0; b < BATCHES; b++)
        sum += pow(0.8, b);
    for (int b = 0; b < BATCHES; b++)
        w->batch_end[b] = end += pow(0.8, b) / sum;
}

static int draw_from(const double *end, int count, uint64_t *state)
{
    double u = made_uniform(state);
    int i = 0;
    while (i < count - 1 && u >= end[i])
        i++;
    return i;
}

void rare_types(struct made_data *data, int64_t n, uint64_t seed)
{
    uint64_t state = seed * 7919 + 17;
    struct world *w = calloc(1, sizeof *w);
    if (!w)
        exit(2);
    draw_world(w, &state);
    set_shares(w);
    made_empty(data, n, D, BATCHES);
    data->n_types = RARE_TYPES;
    for (int64_t i = 0; i < n; i++) {
        /* shares of the types are exact, as a type of 20 cells must have 20 */
        double at = ((double)i + 0.5) / (double)n;
        int t = 0, b;
        while (t < RARE_TYPES - 1 && at >= w->type_end[t])
            t++;
        do
            b = draw_from(w->batch_end, BATCHES, &state);
        while (made_uniform(&state) > w->lean[t][b]);
        data->type[i] = t, data->level[i] = b;
        for (int j = 0; j < D; j++)
            data->Z[i * D + j] = (float)(w->centre[t][j] + w->common[b][j] + w->own[t][b][j] + made_normal(&state));
    }
    free(w);
}
