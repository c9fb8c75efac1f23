/* SPDX-License-Identifier: BSD-3-Clause */
/* The search itself: what products say of a tile of queries, and what float64 makes of it. See neighbours.c. */
#include "neighbours.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "../cpu/cpu_kernels.h"
#include "../error.h"
#include "../pool.h"

enum { ANSWERED = -1 }; /* instead of how many have been measured */

/* The queries of a task, and its thread's memory. */
struct tile {
    int64_t first, n; /* queries */
    struct uni_near near;
    int64_t step; /* cells are found by number / step */
    float *query, *limit, *low;
    double *square;
    int64_t *looked, *lows, *have;
    struct uni_near_cell *best;
};

static int64_t cell_of(const struct uni_neighbours *s, int64_t query)
{
    return s->job.query ? s->job.query[query] : query;
}

/* Of the queries from first on, to before end. */
static struct tile tile_open(const struct uni_neighbours *s, int64_t first, int64_t end, int thread)
{
    int64_t at = thread * s->tile;
    struct tile t = {.first = first,
                     .n = end - first < s->tile ? end - first : s->tile,
                     .query = s->query + at * s->D,
                     .limit = s->limit + at,
                     .low = s->low + at * s->k,
                     .square = s->square + at,
                     .looked = s->looked + at,
                     .lows = s->lows + at,
                     .have = s->have + at,
                     .best = s->near + at * s->k};
    t.near = (struct uni_near){.D = s->D,
                               .M = uni_near_parts(t.n, NEAR_ROWS) * NEAR_ROWS,
                               .query = t.query,
                               .limit = t.limit,
                               .doubt = (float)(2.000001 * uni_near_margin(s->D) / (1 - uni_near_margin(s->D))),
                               .found = s->found + at * s->room,
                               .count = s->count + at,
                               .room = s->room};
    for (int64_t i = 0; i < t.near.M; i++) {
        t.lows[i] = t.have[i] = t.looked[i] = t.near.count[i] = 0;
        t.limit[i] = i < t.n ? -FLT_MAX : HUGE_VALF; /* all cells reach it; none does */
        if (i < t.n)
            t.square[i] = uni_near_place(s, cell_of(s, first + i), t.query + i * s->D, 1, 2);
        else
            memset(t.query + i * s->D, 0, (size_t)s->D * sizeof *t.query);
    }
    return t;
}

/* In eight sums side by side, else each addition would wait for the one before. */
#define SQUARE(name, type)                                                                                                       \
    static double name(const void *x, const void *y, int64_t D)                                                                  \
    {                                                                                                                            \
        const type *a = x, *b = y;                                                                                               \
        double part[8] = {0};                                                                                                    \
        int64_t whole = D / 8 * 8;                                                                                               \
        for (int64_t d = 0; d < whole; d += 8)                                                                                   \
            for (int i = 0; i < 8; i++) {                                                                                        \
                double off = (double)a[d + i] - (double)b[d + i];                                                                \
                part[i] += off * off;                                                                                            \
            }                                                                                                                    \
        for (int64_t d = whole; d < D; d++) {                                                                                    \
            double off = (double)a[d] - (double)b[d];                                                                            \
            part[d - whole] += off * off;                                                                                        \
        }                                                                                                                        \
        return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));                        \
    }
SQUARE(square_of_floats, float)
SQUARE(square_of_doubles, double)

static double square_of(const struct uni_neighbours *s, int64_t a, int64_t b)
{
    const char *x = s->rows + a * s->row_stride, *y = s->rows + b * s->row_stride;
    return s->wide ? square_of_doubles(x, y, s->D) : square_of_floats(x, y, s->D);
}

static void fetch_row(const struct uni_neighbours *s, int64_t cell)
{
    const char *row = s->rows + cell * s->row_stride;
    for (int64_t byte = 0; byte < s->D * (s->wide ? 8 : 4); byte += 64)
        __builtin_prefetch(row + byte);
}

/* The limit rises to this, less what rounding it and products that underflow may make. */
static void raise_limit(const struct uni_neighbours *s, float *limit, double to)
{
    float least = (float)(to - fabs(to) * 0x1p-22 - ((double)s->D + 4) * 0x1p-140);
    *limit = least > *limit ? least : *limit;
}

/* Looks at the cells found since the last time, and lets go those that cannot be among the nearest. */
static void tighten(const struct uni_neighbours *s, struct tile *t, int64_t row)
{
    struct uni_found *found = t->near.found + row * s->room;
    const int64_t self = cell_of(s, t->first + row), count = t->near.count[row], seen_before = t->step == 1 && s->n_coarse;
    int64_t n = t->looked[row];
    float *low = t->low + row * s->k;
    double doubt = 2 * uni_near_margin(s->D) * t->square[row];
    for (int64_t i = n; i < count; i++) {
        struct uni_found f = found[i];
        f.cell *= t->step;
        if (f.score < t->limit[row] || f.cell == self || (seen_before && f.cell % s->stride == 0))
            continue;
        found[n++] = f;
        uni_high_add(low, &t->lows[row], s->k, f.low);
        if (t->lows[row] == s->k)
            raise_limit(s, &t->limit[row], (double)low[0] - doubt);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (found[i].score >= t->limit[row])
            found[kept++] = found[i];
    t->near.count[row] = t->looked[row] = kept;
}

/* Measures what has been found. seen: all cells before this one have been looked at. */
static void measure(const struct uni_neighbours *s, struct tile *t, int64_t row, int64_t seen)
{
    const struct uni_found *found = t->near.found + row * s->room;
    const int64_t self = cell_of(s, t->first + row), count = t->near.count[row];
    struct uni_near_cell *best = t->best + row * s->k;
    for (int64_t i = 0; i < count; i++)
        fetch_row(s, found[i].cell);
    for (int64_t i = 0; i < count; i++)
        uni_near_add(best, &t->have[row], s->k, (struct uni_near_cell){square_of(s, self, found[i].cell), found[i].cell});
    t->near.count[row] = t->looked[row] = 0;
    if (t->have[row] < s->k)
        return;
    if (best->square == 0 && best->cell < seen) {
        t->limit[row] = HUGE_VALF; /* k cells in the same place, and those to come have higher numbers */
        return;
    }
    double square = best->square * (1 + ((double)s->D + 4) * 0x1p-52) * s->scale * s->scale;
    raise_limit(s, &t->limit[row], (1 - uni_near_margin(s->D)) * t->square[row] - square);
}

/* Holds all panels against the tile. */
static void scan(const struct uni_neighbours *s, struct tile *t, const float *panels, int64_t n_panels, int64_t step)
{
    const volatile int *cancel = s->job.cancel;
    t->step = step;
    for (int64_t p = 0; p < n_panels && !(cancel && *cancel); p++) {
        t->near.panel = panels + p * (s->D + 1) * NEAR_CELLS;
        t->near.first = p * NEAR_CELLS;
        s->kernels->find_near(&t->near);
        for (int64_t row = 0; row < t->n; row++) {
            if (t->near.count[row] <= s->room - NEAR_CELLS)
                continue;
            tighten(s, t, row);
            if (t->near.count[row] > s->room - 2 * NEAR_CELLS)
                measure(s, t, row, step == 1 ? (p + 1) * NEAR_CELLS : 0);
        }
    }
    for (int64_t row = 0; row < t->n; row++)
        tighten(s, t, row);
}

/* What is left is measured, and the query has its answer. */
static void answer(const struct uni_neighbours *s, struct tile *t, int64_t row, int thread)
{
    measure(s, t, row, s->N);
    uni_near_sort(t->best + row * s->k, s->k);
    s->each(s->context, t->first + row, t->best + row * s->k, thread);
}

static void search(void *context, int64_t task, int thread)
{
    struct uni_neighbours *s = context;
    const volatile int *cancel = s->job.cancel;
    struct tile t = tile_open(s, task * s->tile, s->job.n_queries, thread);
    scan(s, &t, s->coarse, s->n_coarse, s->stride);
    scan(s, &t, s->panels, s->n_panels, 1);
    for (int64_t row = 0; row < t.n && !(cancel && *cancel); row++)
        answer(s, &t, row, thread);
}

/* ---- with a device: it lists the cells that score highest ------------------------------------------------------------------ */

static void place_queries(void *context, int64_t task, int thread)
{
    struct uni_neighbours *s = context;
    (void)thread;
    for (int64_t i = task * s->tile; i < (task + 1) * s->tile && i < s->batch_end - s->batch; i++)
        uni_near_place(s, cell_of(s, s->batch + i), s->batch_query + i * s->D, 1, 2);
}

/* A query's list is as if it had been found by a scan. 0: cells that are not on it may be among the nearest. */
static int take_list(const struct uni_neighbours *s, struct tile *t, int64_t row)
{
    const struct uni_near_listed *list = s->listed + (t->first + row - s->batch) * s->R;
    struct uni_found *found = t->near.found + row * s->room;
    int64_t n = 0;
    for (; n < s->R && list[n].cell < s->N; n++) {
        const float *own = s->panels + list[n].cell / NEAR_CELLS * (s->D + 1) * NEAR_CELLS + list[n].cell % NEAR_CELLS;
        found[n] = (struct uni_found){list[n].cell, list[n].score, list[n].score + t->near.doubt * *own};
    }
    t->near.count[row] = n;
    tighten(s, t, row);
    return n < s->R || list[n - 1].score < t->limit[row];
}

/* Queries with more cells about as near as the last on their list, copies of one cell say, look at all cells here: their limit is
 * good, but what was found is found again. */
static void search_listed(void *context, int64_t task, int thread)
{
    struct uni_neighbours *s = context;
    const volatile int *cancel = s->job.cancel;
    struct tile t = tile_open(s, s->batch + task * s->tile, s->batch_end, thread);
    int64_t left = 0;
    t.step = 1;
    for (int64_t row = 0; row < t.n && !(cancel && *cancel); row++) {
        if (take_list(s, &t, row)) {
            answer(s, &t, row, thread);
            t.limit[row] = HUGE_VALF; /* no cell reaches it */
            t.have[row] = ANSWERED;
        } else {
            t.near.count[row] = t.looked[row] = t.lows[row] = 0;
            left++;
        }
    }
    if (left && !(cancel && *cancel))
        scan(s, &t, s->panels, s->n_panels, 1);
    for (int64_t row = 0; row < t.n && left && !(cancel && *cancel); row++)
        if (t.have[row] != ANSWERED)
            answer(s, &t, row, thread);
}

static int find_listed(struct uni_neighbours *s)
{
    int err = 0;
    const volatile int *cancel = s->job.cancel;
    for (s->batch = 0; s->batch < s->job.n_queries; s->batch = s->batch_end) {
        int64_t rest = s->job.n_queries - s->batch, n = rest < UNI_NEAR_BATCH ? rest : UNI_NEAR_BATCH;
        s->batch_end = s->batch + n;
        TRY(uni_pool_run(s->pool, place_queries, s, uni_near_parts(n, s->tile)));
        TRY(s->job.device->find(s->device_state, s->batch_query, n, s->listed));
        if (cancel && *cancel)
            TRY(uni_fail(UNI_STOPPED, "cancelled by the caller"));
        TRY(uni_pool_run(s->pool, search_listed, s, uni_near_parts(n, s->tile)));
    }
done:
    return err;
}

int uni_neighbours_find(struct uni_neighbours *s,
                        void (*each)(void *context, int64_t i, const struct uni_near_cell *near, int thread), void *context)
{
    s->each = each;
    s->context = context;
    return s->device_state ? find_listed(s) : uni_pool_run(s->pool, search, s, uni_near_parts(s->job.n_queries, s->tile));
}
