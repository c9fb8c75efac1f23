/* SPDX-License-Identifier: BSD-3-Clause */
/* The one pass over the cells: the length of every cell's correction, and sums per slice; then the rows of the levels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../pool.h"
#include "../error.h"
#include "diagnose.h"

enum { AHEAD = 8 };

static void slice_task(void *context, int64_t task, int thread)
{
    struct uni_diagnose_cells *c = context;
    const struct uni_slice *slice = &c->slice[task];
    const int64_t D = c->D;
    float *before = c->row + thread * 2 * D, *after = before + D;
    double *sum = c->sum + task * 2 * D, square[2] = {0, 0};
    for (int64_t i = slice->first; i < slice->first + slice->n; i++) {
        double moved = 0;
        if (i + AHEAD < slice->first + slice->n) { /* rows of a group lie anywhere in memory */
            uni_matrix_fetch(c->before, c->order[i + AHEAD]);
            uni_matrix_fetch(c->after, c->order[i + AHEAD]);
        }
        uni_matrix_row(before, c->before, c->order[i]);
        uni_matrix_row(after, c->after, c->order[i]);
        for (int64_t j = 0; j < D; j++) {
            double a = (double)before[j], b = (double)after[j];
            sum[j] += a;
            sum[D + j] += b;
            square[0] += a * a;
            square[1] += b * b;
            moved += (b - a) * (b - a);
        }
        c->length[i] = (float)sqrt(moved);
    }
    c->square[2 * task] = square[0];
    c->square[2 * task + 1] = square[1];
}

int uni_diagnose_pass(struct uni_diagnose_cells *c, struct uni_pool *pool)
{
    int err = uni_pool_run(pool, slice_task, c, c->n_slices);
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

/* ---- order statistics ------------------------------------------------------------------------------------------------------ */

/* Puts the value of rank k in its place, the smaller before it, the larger behind. The pivot is the middle one of three. */
static float select_rank(float *x, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        float a = x[low], b = x[low + (high - low) / 2], c = x[high];
        float pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            while (x[++i] < pivot)
                ;
            while (x[--j] > pivot)
                ;
            if (i >= j)
                break;
            float t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return x[k];
}

/* Rank of the quantile q: the smallest value that at least the share q of the values do not exceed. */
static int64_t rank_of(double q, int64_t n)
{
    int64_t rank = (int64_t)ceil(q * (double)n - 1e-9) - 1;
    return rank < 0 ? 0 : rank;
}

struct uni_lengths uni_lengths_of(float *x, int64_t n)
{
    struct uni_lengths l = {NAN, NAN, NAN, NAN};
    double squares = 0;
    if (n == 0)
        return l;
    for (int64_t i = 0; i < n; i++) /* before the order changes */
        squares += (double)x[i] * (double)x[i];
    l.rms = sqrt(squares / (double)n);
    int64_t middle = rank_of(0.5, n), tail = rank_of(0.999, n);
    l.p999 = (double)select_rank(x, n, tail);
    l.median = (double)select_rank(x, tail + 1, middle);
    l.most = l.p999;
    for (int64_t i = tail; i < n; i++)
        l.most = (double)x[i] > l.most ? (double)x[i] : l.most;
    return l;
}

/* ---- levels ---------------------------------------------------------------------------------------------------------------- */

/* Lengths of the cells of every level of one variable, run after run; a group's cells lie together already. */
static void gather_lengths(struct uni_diagnose_cells *c, int64_t v)
{
    int64_t *place = c->counter, n = c->level_first[v + 1] - c->level_first[v];
    memset(place, 0, (size_t)(n + 1) * sizeof *place);
    for (int64_t g = 0; g < c->n_groups; g++)
        place[uni_diagnose_level(c, v, c->order[c->group[g].first]) - c->level_first[v] + 1] += c->group[g].cells;
    for (int64_t l = 0; l < n; l++)
        place[l + 1] += place[l];
    for (int64_t g = 0; g < c->n_groups; g++) {
        int64_t l = uni_diagnose_level(c, v, c->order[c->group[g].first]) - c->level_first[v];
        memcpy(c->scratch + place[l], c->length + c->group[g].first, (size_t)c->group[g].cells * sizeof *c->length);
        place[l] += c->group[g].cells;
    }
}

static void level_lengths(struct uni_diagnose_work *w, struct uni_diagnose_cells *c, int64_t v)
{
    int64_t first = 0;
    gather_lengths(c, v);
    for (int64_t l = c->level_first[v]; l < c->level_first[v + 1]; l++) {
        struct uni_level_diagnosis *level = &w->levels[l];
        struct uni_lengths lengths = uni_lengths_of(c->scratch + first, level->cells);
        level->length_median = lengths.median;
        level->length_rms = lengths.rms;
        level->length_999 = lengths.p999;
        level->length_max = lengths.most;
        level->distance = lengths.median / (1 - (double)level->cells / (double)c->N);
        first += level->cells;
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
    memcpy(c->scratch, c->length, (size_t)c->N * sizeof *c->length);
    struct uni_lengths all = uni_lengths_of(c->scratch, c->N);
    w->answer.length_median = all.median;
    w->answer.length_rms = all.rms;
    w->answer.length_999 = all.p999;
    w->answer.length_max = all.most;
    for (int64_t v = 0; v < c->V; v++)
        level_lengths(w, c, v);
    level_spreads(w, c);
}
