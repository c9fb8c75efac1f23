/* SPDX-License-Identifier: BSD-3-Clause */
/* Order statistics of the lengths of corrections. A few are put in order by one thread, in place; many are counted by all
 * threads, which leaves them as they are: no number tells which of both it was. */
#include <math.h>
#include <string.h>

#include "../pool.h"
#include "diagnose.h"

enum { LARGE = 1 << 20 /* values that are worth all threads */, SLICES = 16 /* of a task that counts */ };

/* ---- one thread ------------------------------------------------------------------------------------------------------------ */

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

static double squares_of(const float *x, int64_t n)
{
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return squares;
}

static struct uni_lengths of_few(float *x, int64_t n)
{
    struct uni_lengths l = {NAN, NAN, NAN, NAN};
    double squares = 0;
    if (n == 0)
        return l;
    for (int64_t first = 0; first < n; first += UNI_SLICE) /* before the order changes */
        squares += squares_of(x + first, n - first < UNI_SLICE ? n - first : UNI_SLICE);
    l.rms = sqrt(squares / (double)n);
    int64_t middle = rank_of(0.5, n), tail = rank_of(0.999, n);
    l.p999 = (double)select_rank(x, n, tail);
    l.median = (double)select_rank(x, tail + 1, middle);
    l.most = l.p999;
    for (int64_t i = tail; i < n; i++)
        l.most = (double)x[i] > l.most ? (double)x[i] : l.most;
    return l;
}

/* ---- all threads ----------------------------------------------------------------------------------------------------------- */

/* Of no float below zero, nor NaN: as such, their bits have the order of their values. */
struct many {
    struct uni_diagnose_cells *c;
    const float *x;
    int64_t n;
    uint32_t known, mask; /* bits that the value looked for has, above those counted */
    int shift;
};

static void square_task(void *context, int64_t slice, int thread)
{
    const struct many *m = context;
    const int64_t first = slice * UNI_SLICE, n = m->n - first < UNI_SLICE ? m->n - first : UNI_SLICE;
    float *most = &m->c->most[thread];
    m->c->partial[slice] = squares_of(m->x + first, n);
    for (int64_t i = first; i < first + n; i++)
        *most = m->x[i] > *most ? m->x[i] : *most;
}

/* Counts into rows of its thread: sums of whole numbers, whoever counted what. */
static void count_task(void *context, int64_t task, int thread)
{
    const struct many *m = context;
    const int64_t step = SLICES * UNI_SLICE, end = m->n - task * step < step ? m->n : (task + 1) * step;
    int64_t *counts = m->c->counts + (int64_t)thread * UNI_LENGTH_BINS;
    for (int64_t i = task * step; i < end; i++) {
        uint32_t bits;
        memcpy(&bits, m->x + i, sizeof bits);
        if ((bits & m->mask) == m->known)
            counts[bits >> m->shift & (UNI_LENGTH_BINS - 1)]++;
    }
}

/* The value of rank k, from its uppermost bits to the lowest. */
static float rank_among(struct many *m, int64_t k)
{
    static const int shifts[] = {21, 10, 0};
    float value;
    m->known = m->mask = 0;
    for (int round = 0; round < 3; round++) {
        int64_t *counts = m->c->counts, bin = 0;
        m->shift = shifts[round];
        memset(counts, 0, (size_t)(m->c->threads * UNI_LENGTH_BINS) * sizeof *counts);
        (void)uni_pool_run(m->c->pool, count_task, m, (m->n + SLICES * UNI_SLICE - 1) / (SLICES * UNI_SLICE));
        for (int64_t t = 1; t < m->c->threads; t++)
            for (int64_t b = 0; b < UNI_LENGTH_BINS; b++)
                counts[b] += counts[t * UNI_LENGTH_BINS + b];
        for (; k >= counts[bin]; bin++)
            k -= counts[bin];
        m->known |= (uint32_t)bin << m->shift;
        m->mask = UINT32_MAX << m->shift;
    }
    memcpy(&value, &m->known, sizeof value);
    return value;
}

static struct uni_lengths of_many(struct uni_diagnose_cells *c, const float *x, int64_t n)
{
    struct many m = {.c = c, .x = x, .n = n};
    const int64_t slices = (n + UNI_SLICE - 1) / UNI_SLICE;
    float most = 0;
    double squares = 0;
    memset(c->most, 0, (size_t)c->threads * sizeof *c->most);
    (void)uni_pool_run(c->pool, square_task, &m, slices);
    for (int64_t s = 0; s < slices; s++)
        squares += c->partial[s];
    for (int64_t t = 0; t < c->threads; t++)
        most = c->most[t] > most ? c->most[t] : most;
    return (struct uni_lengths){.median = (double)rank_among(&m, rank_of(0.5, n)),
                                .p999 = (double)rank_among(&m, rank_of(0.999, n)),
                                .most = (double)most,
                                .rms = sqrt(squares / (double)n)};
}

struct uni_lengths uni_lengths_of(struct uni_diagnose_cells *c, const float *x, int64_t n)
{
    if (n >= LARGE)
        return of_many(c, x, n);
    memcpy(c->scratch, x, (size_t)n * sizeof *x);
    return of_few(c->scratch, n);
}

/* ---- runs of them ---------------------------------------------------------------------------------------------------------- */

struct runs {
    struct uni_diagnose_cells *c;
    const int64_t *first;
    struct uni_lengths *lengths;
};

static void run_task(void *context, int64_t run, int thread)
{
    const struct runs *r = context;
    const int64_t n = r->first[run + 1] - r->first[run];
    (void)thread;
    if (n < LARGE)
        r->lengths[run] = of_few(r->c->scratch + r->first[run], n);
}

void uni_lengths_of_runs(struct uni_lengths *lengths, struct uni_diagnose_cells *c, const int64_t *first, int64_t n)
{
    struct runs r = {c, first, lengths};
    (void)uni_pool_run(c->pool, run_task, &r, n);
    for (int64_t run = 0; run < n; run++)
        if (first[run + 1] - first[run] >= LARGE)
            lengths[run] = of_many(c, c->scratch + first[run], first[run + 1] - first[run]);
}
