/* SPDX-License-Identifier: BSD-3-Clause */
/* Affinities of t-SNE (van der Maaten and Hinton 2008, section 2): p of j given i falls with the squared distance as a Gaussian
 * whose width gives each cell the same perplexity, and p of the pair is the mean of both directions over N. As in van der Maaten
 * 2014 cells beyond the 3 * perplexity nearest count as 0; those are found exactly.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../pool.h"
#include "../error.h"
#include "tsne.h"

enum { ROWS = 64, STEPS = 100 }; /* cells of a task; halvings of a width's interval, of which double precision needs fewer */

struct neighbour {
    float square, p;
    int32_t cell;
};

struct search {
    const float *X, *Xt;
    int64_t N, D, M, padded;
    double entropy;         /* ln perplexity */
    float *square;          /* (threads, padded) */
    struct neighbour *near; /* (N,M) */
};

static int farther(const struct neighbour *a, const struct neighbour *b)
{
    return a->square > b->square || (a->square == b->square && a->cell > b->cell);
}

/* Puts the farthest of a heap whose top was replaced on top again. */
static void sift(struct neighbour *heap, int64_t n)
{
    for (int64_t at = 0, child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && farther(&heap[child + 1], &heap[child]))
            child++;
        if (!farther(&heap[child], &heap[at]))
            return;
        struct neighbour swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

static int by_cell(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

static int farthest_first(const void *a, const void *b)
{
    return farther(b, a) - farther(a, b);
}

/* The M nearest of cell i, itself left out, by cell. */
static void nearest(const struct search *s, struct neighbour *near, const float *square, int64_t i)
{
    int64_t n = 0;
    for (int64_t j = 0; j < s->N; j++) {
        struct neighbour next = {square[j], 0, (int32_t)j};
        if (j == i)
            continue;
        if (n < s->M) {
            near[n++] = next;
            if (n == s->M) /* a falling order is a heap */
                qsort(near, (size_t)n, sizeof *near, farthest_first);
        } else if (farther(near, &next)) {
            near[0] = next;
            sift(near, n);
        }
    }
    qsort(near, (size_t)n, sizeof *near, by_cell);
}

/* Weights exp(-b (d^2 - least)) and their entropy. */
static double entropy_at(const struct search *s, struct neighbour *near, double b, double least, double *total)
{
    double sum = 0, moment = 0;
    for (int64_t k = 0; k < s->M; k++) {
        double above = near[k].square - least, weight = exp(-b * above);
        near[k].p = (float)weight;
        sum += weight;
        moment += weight * above;
    }
    *total = sum;
    return log(sum) + b * moment / sum;
}

static void calibrate(const struct search *s, struct neighbour *near)
{
    double least = INFINITY, mean = 0, total = 1;
    for (int64_t k = 0; k < s->M; k++) {
        least = fmin(least, near[k].square);
        mean += near[k].square / (double)s->M;
    }
    double low = 0, high = INFINITY, b = mean > least ? 1 / (mean - least) : 1;
    for (int step = 0; step < STEPS; step++) {
        double entropy = entropy_at(s, near, b, least, &total);
        if (fabs(entropy - s->entropy) < 1e-7)
            break;
        if (entropy > s->entropy)
            low = b;
        else
            high = b;
        b = isinf(high) ? 2 * b : 0.5 * (low + high);
    }
    for (int64_t k = 0; k < s->M; k++)
        near[k].p = (float)(near[k].p / total / (2 * (double)s->N));
}

static void search_rows(void *context, int64_t task, int thread)
{
    const struct search *s = context;
    float *square = s->square + thread * s->padded;
    for (int64_t i = task * ROWS; i < s->N && i < (task + 1) * ROWS; i++) {
        uni_tsne_squares(square, s->X + i * s->D, s->Xt, s->D, s->padded);
        nearest(s, s->near + i * s->M, square, i);
        calibrate(s, s->near + i * s->M);
    }
}

/* Each row of near with its column: cells are visited in rising order, so rows are in rising order too. Two lists are merged per
   cell: those that it has near, and those that have it. */
static int join(struct uni_affinities *a, const struct search *s)
{
    int64_t N = s->N, M = s->M, *start = calloc((size_t)N + 2, sizeof *start);
    struct neighbour *back = malloc((size_t)(N * M) * sizeof *back);
    a->first = calloc((size_t)N + 1, sizeof *a->first);
    a->other = malloc((size_t)(N * (2 * M + UNI_TSNE_LANES)) * sizeof *a->other);
    a->p = malloc((size_t)(N * (2 * M + UNI_TSNE_LANES)) * sizeof *a->p);
    if (!start || !back || !a->first || !a->other || !a->p) {
        free(start);
        free(back);
        return uni_fail(UNI_MEMORY, "no memory for the affinities of %lld cells", (long long)N);
    }
    for (int64_t e = 0; e < N * M; e++)
        start[s->near[e].cell + 2]++;
    for (int64_t i = 2; i <= N + 1; i++)
        start[i] += start[i - 1];
    for (int64_t e = 0; e < N * M; e++) {
        back[start[s->near[e].cell + 1]] = s->near[e];
        back[start[s->near[e].cell + 1]++].cell = (int32_t)(e / M);
    }
    int64_t used = 0;
    for (int64_t i = 0; i < N; i++) {
        const struct neighbour *there = s->near + i * M, *here = back + start[i];
        const struct neighbour *there_end = there + M, *here_end = back + start[i + 1];
        while (there < there_end || here < here_end) {
            int64_t j = there == there_end         ? here->cell
                        : here == here_end         ? there->cell
                        : there->cell < here->cell ? there->cell
                                                   : here->cell;
            float p = 0;
            if (there < there_end && there->cell == j)
                p += (there++)->p;
            if (here < here_end && here->cell == j)
                p += (here++)->p;
            a->other[used] = (int32_t)j;
            a->p[used++] = p;
        }
        for (; used % UNI_TSNE_LANES; used++) {
            a->other[used] = (int32_t)i;
            a->p[used] = 0;
        }
        a->first[i + 1] = used;
    }
    free(start);
    free(back);
    return UNI_OK;
}

int uni_affinities_open(struct uni_affinities *a, const float *X, int64_t N, int64_t D, double perplexity, struct uni_pool *pool,
                        const volatile int *cancel)
{
    int err = 0;
    int64_t wanted = (int64_t)ceil(3 * perplexity);
    struct search s = {.X = X, .N = N, .D = D, .entropy = log(perplexity)};
    memset(a, 0, sizeof *a);
    s.M = wanted < N - 1 ? wanted : N - 1;
    s.padded = (N + UNI_TSNE_LANES - 1) / UNI_TSNE_LANES * UNI_TSNE_LANES;
    float *Xt = calloc((size_t)(D * s.padded), sizeof *Xt);
    s.square = malloc((size_t)(uni_pool_threads(pool) * s.padded) * sizeof *s.square);
    s.near = malloc((size_t)(N * s.M) * sizeof *s.near);
    s.Xt = Xt;
    if (!Xt || !s.square || !s.near)
        TRY(uni_fail(UNI_MEMORY, "no memory for the neighbours of %lld cells", (long long)N));
    for (int64_t i = 0; i < N; i++)
        for (int64_t d = 0; d < D; d++)
            Xt[d * s.padded + i] = X[i * D + d];
    if (uni_pool_run(pool, search_rows, &s, (N + ROWS - 1) / ROWS) || (cancel && *cancel))
        TRY(uni_fail(UNI_STOPPED, "stopped while t-SNE looked for neighbours"));
    TRY(join(a, &s));
done:
    free(Xt);
    free(s.square);
    free(s.near);
    if (err)
        uni_affinities_close(a);
    return err;
}

void uni_affinities_close(struct uni_affinities *a)
{
    free(a->first);
    free(a->other);
    free(a->p);
    memset(a, 0, sizeof *a);
}
