/* SPDX-License-Identifier: BSD-3-Clause */
#include "made_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t made_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

double made_uniform(uint64_t *state)
{
    return (double)(made_random(state) >> 11) * 0x1p-53;
}

double made_normal(uint64_t *state)
{
    double u = 1 - made_uniform(state), v = made_uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void made_empty(struct made_data *data, int64_t n, int64_t d, int64_t n_levels)
{
    *data = (struct made_data){.n = n, .d = d, .n_levels = n_levels};
    data->Z = calloc((size_t)(n * d), sizeof *data->Z);
    data->level = calloc((size_t)n, sizeof *data->level);
    data->type = calloc((size_t)n, sizeof *data->type);
    if (!data->Z || !data->level || !data->type)
        exit(2);
}

void made_free(struct made_data *data)
{
    free(data->Z);
    free(data->level);
    free(data->type);
    free(data->shift);
    *data = (struct made_data){0};
}

void made_fixture(struct made_data *data, int64_t n, int64_t d)
{
    made_empty(data, n, d, 2);
    for (int64_t i = 1; i <= n; i++) {
        data->level[i - 1] = (int32_t)((i - 1) % 2);
        for (int64_t j = 1; j <= d; j++)
            data->Z[(i - 1) * d + j - 1] =
                (float)(sin(0.7 * (double)i * (double)j + 0.3 * (double)j) + cos(1.3 * (double)i + (double)j));
    }
}

/* Level of a cell: geometric sizes from 1 to skew; the first n_levels cells have a level each, so that none stays empty. */
static int32_t draw_level(const struct problem_case *c, int64_t i, uint64_t *state)
{
    if (i < c->n_levels)
        return (int32_t)i;
    double total = 0, u = made_uniform(state), step = c->n_levels > 1 ? pow(c->skew, 1.0 / (double)(c->n_levels - 1)) : 1;
    for (int64_t l = 0; l < c->n_levels; l++)
        total += pow(step, (double)l);
    int64_t level = 0;
    for (double sum = 1 / total; sum < u && level < c->n_levels - 1; sum += pow(step, (double)level) / total)
        level++;
    return (int32_t)level;
}

static void centre(struct made_data *data)
{
    for (int64_t j = 0; j < data->d; j++) {
        double mean = 0;
        for (int64_t i = 0; i < data->n; i++)
            mean += (double)data->Z[i * data->d + j] / (double)data->n;
        for (int64_t i = 0; i < data->n; i++)
            data->Z[i * data->d + j] -= (float)mean;
    }
}

static void draw_vectors(float *vector, int64_t count, int64_t d, double length, uint64_t *state)
{
    for (int64_t i = 0; i < count * d; i++)
        vector[i] = (float)(length / sqrt((double)d) * made_normal(state));
}

void made_case(struct made_data *data, const struct problem_case *c, uint64_t seed)
{
    uint64_t state = seed * 1000003 + (uint64_t)(c->n_cells * 31 + c->n_dims);
    int64_t n = c->n_cells, d = c->n_dims, L = c->n_levels, T = c->n_types;
    made_empty(data, n, d, L);
    data->n_types = T;
    data->shift = calloc((size_t)(T * L * d), sizeof *data->shift);
    float *centre_of = calloc((size_t)(T * d), sizeof *centre_of), *common = calloc((size_t)(L * d), sizeof *common);
    char *lost = calloc((size_t)(T * L), 1);
    if (!data->shift || !centre_of || !common || !lost)
        exit(2);
    draw_vectors(centre_of, T, d, 3 * sqrt((double)d), &state);
    draw_vectors(common, L, d, c->shift * sqrt((double)d), &state);
    draw_vectors(data->shift, T * L, d, 0.3 * c->shift * sqrt((double)d), &state);
    for (int64_t pair = 0; pair < T * L; pair++) {
        lost[pair] = made_uniform(&state) < c->type_loss && pair / L != 0;
        for (int64_t j = 0; j < d; j++)
            data->shift[pair * d + j] += common[pair % L * d + j];
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t level = data->level[i] = draw_level(c, i, &state);
        do
            data->type[i] = (int32_t)(made_random(&state) % (uint64_t)T);
        while (lost[data->type[i] * L + level] && made_uniform(&state) < 0.99);
        for (int64_t j = 0; j < d; j++)
            data->Z[i * d + j] = (float)((double)centre_of[data->type[i] * d + j] +
                                         (double)data->shift[(data->type[i] * L + level) * d + j] + made_normal(&state));
    }
    centre(data);
    free(centre_of);
    free(common);
    free(lost);
}
