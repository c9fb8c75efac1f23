/* SPDX-License-Identifier: BSD-3-Clause */
/* t-SNE (van der Maaten and Hinton 2008) of some thousand cells: the repulsion is summed over all pairs, nothing is drawn at
 * random. Exaggeration and gains are the authors', the step size is that of Belkina et al. 2019. With the momentum of the last
 * steps 300 of them come as far as 650 with the authors' (tests/report/test_tsne.c); set in before the groups have come apart, it
 * would throw them into each other's way. Pairs are added up by tiles of two blocks of cells, each into room of its own, and the
 * room in the order of the blocks: the same sums for any number of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../pool.h"
#include "../error.h"
#include "../method.h"
#include "../surroundings.h"
#include "tsne.h"

enum { ROWS = 64, BLOCK = 256, MOST_BLOCKS = 64 }; /* cells of a task; of a block, at least; blocks */
enum { EARLY = 80, LET_GO = 160, ALL = 300 };      /* steps with exaggeration; until groups have come apart; in all */
static const double exaggeration = 12, least_step = 1, least_gain = 0.01, start_spread = 1e-4;
static const double momentum_early = 0.5, momentum_let_go = 0.8, momentum_late = 0.95;

struct descent {
    int64_t N, padded, block, n_blocks;
    const struct uni_affinities *affinities;
    float *x, *y;     /* (padded) where the cells are */
    float *felt;      /* (n_blocks,2,padded) along x and y, of the cells of one block */
    double *q;        /* (n_blocks,n_blocks) sum over a tile of q; those above the diagonal are 0 */
    double *place;    /* (N,2) as x, y */
    double *velocity; /* (N,2) */
    double *gain;     /* (N,2) */
    double scale, momentum, step, total;
};

/* Tiles on and below the diagonal, row by row. */
static void repel(void *context, int64_t task, int thread)
{
    struct descent *t = context;
    int64_t row = 0, column = task;
    (void)thread;
    while (column > row)
        column -= ++row;
    float *from_column = t->felt + 2 * column * t->padded, *from_row = t->felt + 2 * row * t->padded;
    struct uni_tsne_tile tile = {t->x,
                                 t->y,
                                 row * t->block,
                                 row + 1 < t->n_blocks ? (row + 1) * t->block : t->padded,
                                 column * t->block,
                                 column + 1 < t->n_blocks ? (column + 1) * t->block : t->padded,
                                 from_column,
                                 from_column + t->padded,
                                 from_row,
                                 from_row + t->padded};
    size_t wide = (size_t)(tile.i_end - tile.i) * sizeof(float), high = (size_t)(tile.j_end - tile.j) * sizeof(float);
    memset(tile.i_x + tile.i, 0, wide);
    memset(tile.i_y + tile.i, 0, wide);
    memset(tile.j_x + tile.j, 0, high);
    memset(tile.j_y + tile.j, 0, high);
    t->q[row * t->n_blocks + column] = uni_tsne_repulsion(&tile);
}

/* gradient_i = 4 sum_j (scale p_ij - q_ij / total) q_ij (y_i - y_j) */
static void gradient_of(double gradient[2], const struct descent *t, int64_t i)
{
    const struct uni_affinities *a = t->affinities;
    double felt[2] = {0};
    float pull[2];
    uni_tsne_attraction(pull, t->x, t->y, i, a->other + a->first[i], a->p + a->first[i], a->first[i + 1] - a->first[i]);
    for (int64_t b = 0; b < t->n_blocks; b++)
        for (int k = 0; k < 2; k++)
            felt[k] += t->felt[(2 * b + k) * t->padded + i];
    for (int k = 0; k < 2; k++)
        gradient[k] = 4 * (t->scale * pull[k] - felt[k] / t->total);
}

static void move(void *context, int64_t task, int thread)
{
    struct descent *t = context;
    (void)thread;
    for (int64_t i = task * ROWS; i < t->N && i < (task + 1) * ROWS; i++) {
        double gradient[2];
        gradient_of(gradient, t, i);
        for (int64_t k = 2 * i; k < 2 * i + 2; k++) {
            int turned = (gradient[k - 2 * i] > 0) != (t->velocity[k] > 0);
            t->gain[k] = fmax(turned ? t->gain[k] + 0.2 : t->gain[k] * 0.8, least_gain);
            t->velocity[k] = t->momentum * t->velocity[k] - t->step * t->gain[k] * gradient[k - 2 * i];
            t->place[k] += t->velocity[k];
        }
    }
}

/* Moves the middle to 0, and the cells to where the sums read them. */
static void settle(struct descent *t)
{
    double middle[2] = {0};
    for (int64_t k = 0; k < 2 * t->N; k++)
        middle[k % 2] += t->place[k] / (double)t->N;
    for (int64_t i = 0; i < t->N; i++) {
        t->place[2 * i] -= middle[0];
        t->place[2 * i + 1] -= middle[1];
        t->x[i] = (float)t->place[2 * i];
        t->y[i] = (float)t->place[2 * i + 1];
    }
}

/* The start, or the first two dimensions, at a small spread. A column that says nothing is filled with the golden ratio's
 * sequence, which has no pattern. */
static void begin(struct descent *t, const float *X, int64_t D, const float *start)
{
    double widest = 0;
    for (int64_t k = 0; k < 2; k++) {
        const float *column = start ? start + k : k < D ? X + k : NULL;
        int64_t apart = start ? 2 : D;
        double mean = 0, square = 0;
        for (int64_t i = 0; column && i < t->N; i++)
            mean += (double)column[i * apart] / (double)t->N;
        for (int64_t i = 0; column && i < t->N; i++)
            square += (column[i * apart] - mean) * (column[i * apart] - mean) / (double)t->N;
        widest = fmax(widest, sqrt(square));
        for (int64_t i = 0; i < t->N; i++)
            t->place[2 * i + k] = square > 0 ? column[i * apart] - mean : NAN;
    }
    for (int64_t k = 0; k < 2 * t->N; k++) {
        double even = fmod((double)(k + 1) * 0.61803398874989485, 1) - 0.5;
        t->place[k] = start_spread * (isnan(t->place[k]) ? even : t->place[k] / widest);
        t->gain[k] = 1;
    }
    for (int64_t i = t->N; i < t->padded; i++)
        t->x[i] = t->y[i] = UNI_TSNE_FAR * (float)(i - t->N + 1);
    settle(t);
}

static int descend(struct descent *t, struct uni_pool *pool, const volatile int *cancel)
{
    int64_t tasks = (t->N + ROWS - 1) / ROWS, tiles = t->n_blocks * (t->n_blocks + 1) / 2;
    t->step = fmax((double)t->N / exaggeration, least_step);
    for (int step = 0; step < ALL; step++) {
        t->scale = step < EARLY ? exaggeration : 1;
        t->momentum = step < EARLY ? momentum_early : step < LET_GO ? momentum_let_go : momentum_late;
        int stopped = uni_pool_run(pool, repel, t, tiles);
        t->total = 0;
        for (int64_t b = 0; b < t->n_blocks * t->n_blocks; b++)
            t->total += t->q[b];
        if (stopped || uni_pool_run(pool, move, t, tasks) || (cancel && *cancel))
            return uni_fail(UNI_STOPPED, "stopped while t-SNE moved the cells");
        settle(t);
    }
    for (int64_t k = 0; k < 2 * t->N; k++)
        if (!isfinite(t->place[k]))
            return uni_fail(UNI_NUMERIC, "t-SNE of %lld cells broke down", (long long)t->N);
    return UNI_OK;
}

static int descent_open(struct descent *t, int64_t N)
{
    int64_t lanes = UNI_TSNE_LANES, least = (N + MOST_BLOCKS - 1) / MOST_BLOCKS;
    t->N = N;
    t->padded = (N + lanes - 1) / lanes * lanes;
    t->block = least > BLOCK ? (least + lanes - 1) / lanes * lanes : BLOCK;
    t->n_blocks = (t->padded + t->block - 1) / t->block;
    t->x = calloc((size_t)(t->padded * (2 + 2 * t->n_blocks)), sizeof *t->x);
    t->place = calloc((size_t)(N * 6 + t->n_blocks * t->n_blocks), sizeof *t->place);
    if (!t->x || !t->place)
        return uni_fail(UNI_MEMORY, "no memory for the t-SNE of %lld cells", (long long)N);
    t->y = t->x + t->padded;
    t->felt = t->y + t->padded;
    t->velocity = t->place + 2 * N;
    t->gain = t->velocity + 2 * N;
    t->q = t->gain + 2 * N;
    return UNI_OK;
}

static int rows_open(float **X, const struct uni_matrix *plain)
{
    *X = malloc((size_t)(plain->n_cells * plain->n_dims) * sizeof **X);
    if (!*X)
        return uni_fail(UNI_MEMORY, "no memory for the t-SNE of %lld cells", (long long)plain->n_cells);
    for (int64_t i = 0; i < plain->n_cells; i++)
        uni_matrix_row(*X + i * plain->n_dims, plain, i);
    return UNI_OK;
}

static int check(const struct uni_matrix *m, const float *start, double perplexity)
{
    int64_t N = m->n_cells;
    if (N < 2 || m->n_dims < 1)
        return uni_fail(UNI_INPUT, "the embedding is %lld x %lld: t-SNE needs two cells or more, and a dimension", (long long)N,
                        (long long)m->n_dims);
    if (N > INT32_MAX)
        return uni_fail(UNI_INPUT, "t-SNE of %lld cells would take years: sample some thousand", (long long)N);
    if (!(perplexity >= 1 && perplexity <= 1000))
        return uni_fail(UNI_OPTION, "perplexity is %g: it must be a number from 1 to 1000", perplexity);
    for (int64_t k = 0; start && k < 2 * N; k++)
        if (!isfinite(start[k]))
            return uni_fail(UNI_INPUT, "the start of t-SNE has a value that is not finite, of cell %lld", (long long)(k / 2 + 1));
    return UNI_OK;
}

int uni_tsne(float *place, const struct uni_matrix *embedding, const float *start, double perplexity, int64_t threads,
             const volatile int *cancel)
{
    OWN_SURROUNDINGS;
    int err = 0;
    struct uni_matrix plain = {0};
    struct uni_warnings warnings = {0};
    struct descent t = {0};
    struct uni_affinities affinities = {0};
    struct uni_pool *pool = NULL;
    float *X = NULL;
    TRY(check(embedding, start, perplexity));
    TRY(uni_matrix_check(embedding, &plain, &warnings));
    int64_t N = plain.n_cells;
    perplexity = fmax(1, fmin(perplexity, (double)(N - 1) / 3));
    TRY(rows_open(&X, &plain));
    TRY(descent_open(&t, N));
    pool = uni_pool_open(threads > 0 ? threads : uni_cpu_count(), cancel);
    if (!pool)
        TRY(uni_fail(UNI_MEMORY, "no memory for threads"));
    TRY(uni_affinities_open(&affinities, X, N, plain.n_dims, perplexity, pool, cancel));
    t.affinities = &affinities;
    begin(&t, X, plain.n_dims, start);
    TRY(descend(&t, pool, cancel));
    for (int64_t k = 0; k < 2 * N; k++)
        place[k] = (float)t.place[k];
done:
    for (int64_t k = 0; err && k < 2 * plain.n_cells; k++)
        place[k] = NAN;
    uni_pool_close(pool);
    uni_affinities_close(&affinities);
    free(t.x);
    free(t.place);
    free(X);
    return err;
}
