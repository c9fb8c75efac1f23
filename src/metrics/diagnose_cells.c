/* SPDX-License-Identifier: BSD-3-Clause */
/* The one pass over the cells: the length of every cell's correction, and sums per slice; then the rows of the levels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../pool.h"
#include "../error.h"
#include "diagnose.h"

enum { AHEAD = 8, LANES = 4 /* sums side by side: one would wait for each addition */ };

/* The row where it lies, if it can be read there, else a copy. */
static const float *row_at(float *copy, const struct uni_matrix *m, int64_t row)
{
    const char *at = (const char *)m->data + row * m->row_stride;
    if (m->dtype == UNI_FLOAT32 && m->col_stride == 4 && (uintptr_t)at % sizeof(float) == 0)
        return (const float *)(const void *)at;
    uni_matrix_row(copy, m, row);
    return copy;
}

/* Adds a cell's rows and, in lanes, their squares; returns the length of what is between them. */
static double add_cell(double *restrict sum, double square[restrict 2][LANES], const float *before, const float *after, int64_t D)
{
    double moved[LANES] = {0};
    const int64_t whole = D / LANES * LANES;
    for (int64_t j = 0; j < whole; j += LANES)
        for (int i = 0; i < LANES; i++) {
            double a = (double)before[j + i], b = (double)after[j + i];
            sum[j + i] += a;
            sum[D + j + i] += b;
            square[0][i] += a * a;
            square[1][i] += b * b;
            moved[i] += (b - a) * (b - a);
        }
    for (int64_t j = whole; j < D; j++) {
        double a = (double)before[j], b = (double)after[j];
        sum[j] += a;
        sum[D + j] += b;
        square[0][j - whole] += a * a;
        square[1][j - whole] += b * b;
        moved[j - whole] += (b - a) * (b - a);
    }
    return sqrt((moved[0] + moved[2]) + (moved[1] + moved[3]));
}

static void slice_task(void *context, int64_t task, int thread)
{
    struct uni_diagnose_cells *c = context;
    const struct uni_slice *slice = &c->slice[task];
    const int64_t D = c->D, end = slice->first + slice->n;
    float *copy = c->row + thread * 2 * D;
    double square[2][LANES] = {{0}};
    for (int64_t i = slice->first; i < end; i++) {
        if (i + AHEAD < end) { /* rows of a group lie anywhere in memory */
            uni_matrix_fetch(c->before, c->order[i + AHEAD]);
            uni_matrix_fetch(c->after, c->order[i + AHEAD]);
        }
        const float *before = row_at(copy, c->before, c->order[i]), *after = row_at(copy + D, c->after, c->order[i]);
        c->length[i] = (float)add_cell(c->sum + task * 2 * D, square, before, after, D);
    }
    for (int side = 0; side < 2; side++)
        c->square[2 * task + side] = (square[side][0] + square[side][2]) + (square[side][1] + square[side][3]);
}

int uni_diagnose_pass(struct uni_diagnose_cells *c)
{
    int err = uni_pool_run(c->pool, slice_task, c, c->n_slices);
    for (int64_t s = 0; !err && s < c->n_slices; s++)
        if (!isfinite(c->square[2 * s] + c->square[2 * s + 1]))
            err = uni_fail(UNI_INPUT, "the embeddings' values are so large that their squares are beyond any number");
    return err;
}

void uni_diagnose_squares(double left[2], const struct uni_diagnose_cells *c, int64_t first_slice, int64_t n_slices, double *mean)
{
    const int64_t D = c->D;
    int64_t n = 0;
    memset(mean, 0, (size_t)(2 * D) * sizeof *mean);
    left[0] = left[1] = 0;
    for (int64_t s = first_slice; s < first_slice + n_slices; s++) {
        n += c->slice[s].n;
        for (int64_t j = 0; j < 2 * D; j++)
            mean[j] += c->sum[s * 2 * D + j];
        for (int side = 0; side < 2; side++)
            left[side] += c->square[2 * s + side];
    }
    for (int64_t j = 0; j < 2 * D; j++) {
        mean[j] /= (double)n;
        left[j / D] -= (double)n * mean[j] * mean[j];
    }
    /* What is left of subtracting equal sums is rounding. */
    for (int side = 0; side < 2; side++)
        left[side] = left[side] > 0 ? left[side] : 0;
}

/* ---- levels ---------------------------------------------------------------------------------------------------------------- */

enum { SHARES = 64 /* of the groups */ };

static void gather_share(void *context, int64_t share, int thread)
{
    const struct uni_diagnose_cells *c = context;
    (void)thread;
    for (int64_t g = c->n_groups * share / SHARES; g < c->n_groups * (share + 1) / SHARES; g++)
        memcpy(c->scratch + c->group[g].place, c->length + c->group[g].first, (size_t)c->group[g].cells * sizeof *c->length);
}

/* Lengths of the cells of every level of one variable, run after run; a group's cells lie together already. The runs' borders are
 * left in the counter. */
static void gather_lengths(struct uni_diagnose_cells *c, int64_t v)
{
    int64_t *place = c->counter, n = c->level_first[v + 1] - c->level_first[v];
    memset(place, 0, (size_t)(n + 2) * sizeof *place);
    for (int64_t g = 0; g < c->n_groups; g++)
        place[uni_diagnose_level(c, v, c->order[c->group[g].first]) - c->level_first[v] + 2] += c->group[g].cells;
    for (int64_t l = 0; l < n; l++)
        place[l + 2] += place[l + 1];
    for (int64_t g = 0; g < c->n_groups; g++) {
        int64_t *next = &place[uni_diagnose_level(c, v, c->order[c->group[g].first]) - c->level_first[v] + 1];
        c->group[g].place = *next;
        *next += c->group[g].cells;
    }
    (void)uni_pool_run(c->pool, gather_share, c, SHARES);
}

static void level_lengths(struct uni_diagnose_work *w, struct uni_diagnose_cells *c, int64_t v)
{
    gather_lengths(c, v);
    uni_lengths_of_runs(c->lengths, c, c->counter, c->level_first[v + 1] - c->level_first[v]);
    for (int64_t l = c->level_first[v]; l < c->level_first[v + 1]; l++) {
        struct uni_level_diagnosis *level = &w->levels[l];
        const struct uni_lengths *lengths = &c->lengths[l - c->level_first[v]];
        level->length_median = lengths->median;
        level->length_rms = lengths->rms;
        level->length_999 = lengths->p999;
        level->length_max = lengths->most;
        level->distance = lengths->median / (1 - (double)level->cells / (double)c->N);
    }
}

/* The spread of a level is that of its groups: what other variables shift apart is no spread. */
static void level_spreads(struct uni_diagnose_work *w, struct uni_diagnose_cells *c)
{
    double *mean = c->mean, left[2];
    for (int64_t g = 0; g < c->n_groups; g++) {
        const struct uni_diagnose_group *group = &c->group[g];
        if (group->cells < UNI_FEWEST)
            continue;
        uni_diagnose_squares(left, c, group->first_slice, group->n_slices, mean);
        for (int64_t v = 0; v < c->V; v++) {
            double *sums = w->level_squares + 3 * uni_diagnose_level(c, v, c->order[group->first]);
            sums[0] += left[0];
            sums[1] += left[1];
            sums[2] += (double)(group->cells - 1);
        }
    }
    for (int64_t l = 0; l < c->level_first[c->V]; l++) {
        const double *sums = w->level_squares + 3 * l;
        w->levels[l].spread = sums[2] > 0 ? sqrt(sums[0] / sums[2]) : NAN;
        w->levels[l].spread_kept = sums[0] > 0 ? sqrt(sums[1] / sums[0]) : NAN;
    }
}

void uni_diagnose_levels(struct uni_diagnose_work *w, struct uni_diagnose_cells *c)
{
    struct uni_lengths all = uni_lengths_of(c, c->length, c->N);
    w->answer.length_median = all.median;
    w->answer.length_rms = all.rms;
    w->answer.length_999 = all.p999;
    w->answer.length_max = all.most;
    for (int64_t v = 0; v < c->V; v++)
        level_lengths(w, c, v);
    level_spreads(w, c);
}
