/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting centroids (harmony2.md section 6): spherical k-means on a bounded, stratified sample of the cells, with a tenth of the
   centroids kept for the cells that fit worst, which is where rare types are. How many steps: what was measured is in
   docs/performance.md. Or, as the R package does, k-means++ on all cells. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "error.h"
#include "method.h"

enum { QUICK_STEPS = 4, FIRST_STEPS = 4, FIRST_STEPS_ALONE = 6, TAIL_STEPS = 5, LAST_STEPS = 2, R_STEPS = 25 };
enum { QUICK_SHARE = 4, QUICK_ROWS = 10 }; /* the quick steps see a fourth of the sample, where that is 10 rows a centroid */
enum { AHEAD = 12 }; /* rows asked for before they are needed */

static int64_t sample_size(const struct uni_seed *s, int64_t N)
{
    return N < UNI_SAMPLE || s->all ? N : UNI_SAMPLE;
}

enum { ARRAYS = 11 };
static void list_arrays(struct uni_array_row list[ARRAYS], struct uni_seed *s, int64_t M, int64_t D, int64_t K)
{
    const struct uni_array_row rows[ARRAYS] = {UNI_ARRAY(s->X, M * D),
                                               UNI_ARRAY(s->tail, s->all && !s->far ? 0 : M * D),
                                               UNI_ARRAY(s->index, M),
                                               UNI_ARRAY(s->score, M),
                                               UNI_ARRAY(s->order, M),
                                               UNI_ARRAY(s->chance, M),
                                               UNI_ARRAY(s->sum, K * D),
                                               UNI_ARRAY(s->count, K),
                                               UNI_ARRAY(s->part_sum, K * D),
                                               UNI_ARRAY(s->part_count, K),
                                               UNI_ARRAY(s->weight, s->weighted ? 2 * M : 0)};
    memcpy(list, rows, sizeof rows);
}

int64_t uni_seed_bytes(int64_t N, int64_t D, int64_t K, int all, int weighted)
{
    struct uni_seed s = {.all = all, .weighted = weighted};
    struct uni_array_row list[ARRAYS];
    list_arrays(list, &s, sample_size(&s, N), D, K);
    return uni_arena_bytes(list, ARRAYS);
}

/* Bits of a row, folded; the two zeros count as one. */
static uint64_t row_hash(const float *row, int64_t D)
{
    uint64_t state = 0;
    for (int64_t j = 0; j < D; j++) {
        float value = row[j] + 0.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        state = state * 31 + bits;
        state = uni_random(&state);
    }
    return state | 1;
}

/* Adds to an open hash table of `slots` words, more than are ever added; returns 1 where it was not there yet. */
static int add_hash(uint64_t *table, int64_t slots, uint64_t hash)
{
    int64_t at = (int64_t)(hash % (uint64_t)slots);
    while (table[at] && table[at] != hash)
        at = at + 1 == slots ? 0 : at + 1;
    int fresh = table[at] == 0;
    table[at] = hash;
    return fresh;
}

/* Of the sample's row j: every fourth comes first, so that the first fourth of the rows is a sample like the whole. */
static int64_t place_of(int64_t j, int64_t M)
{
    int64_t part = j % QUICK_SHARE, longer = M % QUICK_SHARE;
    return part * (M / QUICK_SHARE) + (part < longer ? part : longer) + j / QUICK_SHARE;
}

/* Different rows among the sampled, K at most, those of zeros left out. */
static void count_distinct(struct uni_seed *s, uint64_t *table, int64_t slots, const struct uni_matrix *plain, int64_t M, int64_t K)
{
    const int64_t D = plain->n_dims;
    float *row = s->X; /* not taken yet */
    for (int64_t j = 0; j < M && s->distinct < K; j++) {
        uni_matrix_row(row, plain, s->order[j]);
        if (uni_dot(row, row, D) > 0)
            s->distinct += add_hash(table, slots, row_hash(row, D));
    }
}

enum { TAKEN_ROWS = 256 }; /* by a task */
struct taking {
    struct uni_seed *s;
    const struct uni_matrix *plain;
    int64_t M;
};

/* Score tells which rows are not zero. */
static void take_rows(void *context, int64_t task, int thread)
{
    const struct taking *t = context;
    struct uni_seed *s = t->s;
    const int64_t D = t->plain->n_dims, end = (task + 1) * TAKEN_ROWS < t->M ? (task + 1) * TAKEN_ROWS : t->M;
    (void)thread;
    for (int64_t j = task * TAKEN_ROWS; j < end; j++) {
        if (j + AHEAD < end)
            uni_matrix_fetch(t->plain, s->order[j + AHEAD]);
        uni_matrix_row(s->X + j * D, t->plain, s->order[j]);
        s->score[j] = (float)uni_normalise(s->X + j * D, D);
    }
}

/* Rows of zeros go. */
static void close_up(struct uni_seed *s, int64_t M, int64_t D)
{
    for (int64_t j = 0; j < M; j++) {
        if (!(s->score[j] > 0))
            continue;
        if (s->M < j) {
            memcpy(s->X + s->M * D, s->X + j * D, (size_t)D * sizeof *s->X);
            if (s->weighted)
                s->weight[s->M] = s->weight[j];
        }
        s->M++;
    }
}

int uni_seed_open(struct uni_seed *s, const struct uni_problem *p, const struct uni_matrix *plain, int64_t K, int all,
                  uint64_t seed)
{
    int err = 0;
    *s = (struct uni_seed){.all = all, .weighted = p->weight != NULL, .far = p->reached};
    int64_t M = sample_size(s, p->N), slots = 2 * M + 1;
    uint64_t *table = NULL, state = seed;
    struct taking taking = {s, plain, M};
    struct uni_matrix sample = {NULL, UNI_FLOAT32, M, p->D, 4 * p->D, 4};
    struct uni_array_row list[ARRAYS];
    list_arrays(list, s, M, p->D, K);
    TRY(uni_arena_open(&s->arena, list, ARRAYS, "the sample of cells"));
    table = calloc((size_t)slots, sizeof *table);
    if (!table)
        TRY(uni_fail(UNI_MEMORY, "no memory for counting different cells: %lld bytes asked for", (long long)(slots * 8)));
    for (int64_t j = 0; j < M; j++) {
        /* Rows are sorted by level: one from each of M equal stretches is a sample stratified over levels. */
        int64_t at = p->N == M ? j : (int64_t)(((double)j + uni_random_unit(&state)) * ((double)p->N / (double)M));
        at = at < p->N ? at : p->N - 1;
        int64_t place = s->all ? j : place_of(j, M);
        s->order[place] = p->row[at];
        if (s->weighted)
            s->weight[place] = p->weight[at];
    }
    if (s->far) { /* the tail is not taken yet */
        TRY(uni_cuda_rows(s->tail, plain, s->order, M, p));
        sample.data = s->tail;
        taking.plain = plain = &sample;
        for (int64_t j = 0; j < M; j++)
            s->order[j] = j;
    }
    count_distinct(s, table, slots, plain, M, K);
    TRY(uni_pool_run(p->pool, take_rows, &taking, M / TAKEN_ROWS + 1));
    close_up(s, M, p->D);
done:
    free(table);
    if (err)
        uni_seed_close(s);
    return err;
}

void uni_seed_close(struct uni_seed *s)
{
    uni_arena_close(&s->arena);
}

static int64_t worst_row(const float *score, int64_t M)
{
    int64_t worst = 0;
    for (int64_t i = 1; i < M; i++)
        if (score[i] < score[worst])
            worst = i;
    return worst;
}

/* A centroid without cells moves to the worst fitted one, if there is any that does not fit perfectly. */
static void revive(float *y, const float *X, float *score, int64_t M, int64_t D)
{
    int64_t worst = worst_row(score, M);
    if (score[worst] < 1 - 1e-6f)
        memcpy(y, X + worst * D, (size_t)D * sizeof *y);
    score[worst] = 1;
}

/* Adds rows that count differently. */
static void weighted_sums(struct uni_seed *s, const float *X, const float *weight, int64_t M, int64_t D)
{
    for (int64_t i = 0; i < M; i++) {
        double *sum = s->sum + s->index[i] * D;
        s->count[s->index[i]]++;
        for (int64_t d = 0; d < D; d++)
            sum[d] += (double)weight[i] * X[i * D + d];
    }
}

/* Sum and count of every centroid, and what is wanted, and score where a centroid has no rows: as many rows at a time as a
   backend takes. */
static int nearest_rows(struct uni_seed *s, const float *Y, const struct uni_rows *rows, const float *weight, int wanted,
                        int64_t K, int64_t D, struct uni_backend *b)
{
    const int64_t M = rows->M;
    memset(s->sum, 0, (size_t)(K * D) * sizeof *s->sum);
    memset(s->count, 0, (size_t)K * sizeof *s->count);
    for (int64_t first = 0; first < M; first += UNI_SAMPLE) {
        int64_t n = M - first < UNI_SAMPLE ? M - first : UNI_SAMPLE;
        struct uni_rows part = {rows->X + first * D, n, 0, n};
        int err = b->nearest(b, s->index + first, s->score + first, weight ? NULL : s->part_sum, weight ? NULL : s->part_count,
                             weight ? UNI_WANT_INDEX | UNI_WANT_SCORE : wanted, M <= UNI_SAMPLE ? rows : &part, Y, K);
        if (err)
            return err;
        for (int64_t i = 0; !weight && i < K * D; i++)
            s->sum[i] += s->part_sum[i];
        for (int64_t k = 0; !weight && k < K; k++)
            s->count[k] += s->part_count[k];
    }
    if (weight)
        weighted_sums(s, rows->X, weight, M, D);
    return UNI_OK;
}

/* weight (M) of the rows, or NULL. Leaves the last step's scores. */
static int lloyd(struct uni_seed *s, float *Y, struct uni_rows rows, const float *weight, int64_t K, int64_t D, int steps,
                 struct uni_backend *b)
{
    for (int step = 0; step < steps; step++) {
        int err = nearest_rows(s, Y, &rows, weight, step == steps - 1 ? UNI_WANT_SCORE : 0, K, D, b);
        if (err)
            return err;
        rows.from = rows.to = 0;
        for (int64_t k = 0; k < K; k++) {
            float *y = Y + k * D;
            double squares = 0;
            for (int64_t d = 0; d < D; d++)
                squares += s->sum[k * D + d] * s->sum[k * D + d];
            const double length = sqrt(squares);
            if (s->count[k] == 0)
                revive(y, rows.X, s->score, rows.M, D);
            else if (squares > 1e-20)
                for (int64_t d = 0; d < D; d++)
                    y[d] = (float)(s->sum[k * D + d] / length);
        }
    }
    return UNI_OK;
}

struct scored {
    float score;
    int32_t row;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void swap(struct scored *a, struct scored *b)
{
    struct scored hand = *a;
    *a = *b;
    *b = hand;
}

/* One of at[from] .. at[to - 1] that a few more than n of the range are likely to be below: then few are moved. */
static struct scored pivot_of(const struct scored *at, int64_t from, int64_t to, int64_t n)
{
    enum { TRIED = 64, MORE = 3 };
    struct scored tried[TRIED];
    const int64_t step = (to - from) / TRIED, place = n / (step + 1) + MORE;
    if (step < 8 || place >= TRIED)
        return at[from + (to - from) / 2];
    for (int64_t i = 0; i < TRIED; i++)
        tried[i] = at[from + i * step];
    qsort(tried, TRIED, sizeof *tried, by_score);
    return tried[place];
}

/* The n lowest of `rows` to the front, in order (Hoare's selection). */
static void lowest_first(struct scored *at, int64_t rows, int64_t n)
{
    for (int64_t from = 0, to = rows - 1; from < to;) {
        int64_t i = from - 1, j = to + 1;
        const struct scored pivot = pivot_of(at, from, to, n - from);
        for (;;) {
            do
                i++;
            while (by_score(&at[i], &pivot) < 0);
            do
                j--;
            while (by_score(&pivot, &at[j]) < 0);
            if (i >= j)
                break;
            swap(&at[i], &at[j]);
        }
        if (n - 1 <= j)
            to = j;
        else
            from = j + 1;
    }
    qsort(at, (size_t)n, sizeof *at, by_score);
}

/* The rows farthest from their nearest centroid, into s->tail; at least K2 of them. Returns their number. */
static int64_t take_tail(struct uni_seed *s, int64_t K2, int64_t D)
{
    double share = fmax(0.02, 10.0 * (double)K2 / (double)s->M);
    int64_t n = (int64_t)ceil(fmin(share, 1) * (double)s->M);
    struct scored *sorted = (struct scored *)(void *)s->order; /* which is no longer needed */
    _Static_assert(sizeof *sorted <= sizeof *s->order, "scores take the room of the order");
    for (int64_t i = 0; i < s->M; i++)
        sorted[i] = (struct scored){s->score[i], (int32_t)i};
    lowest_first(sorted, s->M, n);
    for (int64_t i = 0; i < n; i++) {
        memcpy(s->tail + i * D, s->X + sorted[i].row * D, (size_t)D * sizeof *s->X);
        if (s->weighted) /* the tail's lie behind the sample's */
            s->weight[s->M + i] = s->weight[sorted[i].row];
    }
    return n;
}

/* k-means++ (Arthur and Vassilvitskii 2007) on unit rows: the next centre with a chance as its squared distance, 2 (1 - x.y),
   times its weight. */
static void spread_out(float *Y, int64_t K, const float *X, const float *weight, int64_t n, int64_t D, double *chance,
                       uint64_t *state)
{
    for (int64_t i = 0; i < n; i++)
        chance[i] = weight ? (double)weight[i] : 1;
    for (int64_t k = 0; k < K; k++) {
        double total = 0;
        for (int64_t i = 0; i < n; i++)
            total += chance[i];
        double left = uni_random_unit(state) * total;
        int64_t pick = total > 0 ? 0 : uni_random_below(state, n);
        while (total > 0 && pick < n - 1 && (left -= chance[pick]) >= 0)
            pick++;
        memcpy(Y + k * D, X + pick * D, (size_t)D * sizeof *Y);
        for (int64_t i = 0; i < n; i++) {
            double distance = fmax(2 * (1 - uni_dot(X + i * D, X + pick * D, D)), 0) * (weight ? (double)weight[i] : 1);
            chance[i] = k == 0 ? distance : fmin(chance[i], distance);
        }
    }
}

/* Random rows become the first K centroids. */
static void pick_rows(struct uni_seed *s, float *Y, int64_t K, int64_t D, uint64_t *state)
{
    for (int64_t i = 0; i < s->M; i++)
        s->order[i] = i;
    for (int64_t k = 0; k < K; k++) {
        int64_t other = k + uni_random_below(state, s->M - k), row = s->order[other];
        s->order[other] = s->order[k];
        s->order[k] = row;
        memcpy(Y + k * D, s->X + row * D, (size_t)D * sizeof *Y);
    }
}

/* Where to is soon found on a part of the sample; the steps after them see all of it, or the large types would be fitted badly and
   fill the tail. */
static int first_steps(struct uni_seed *s, float *Y, const float *weight, int64_t K, int64_t D, struct uni_backend *b)
{
    const int64_t M = s->M / QUICK_SHARE;
    const struct uni_rows quick = {s->X, M, 0, M}, all = {s->X, s->M, 0, s->M}, others = {s->X, s->M, M, s->M};
    if (M < QUICK_ROWS * K)
        return lloyd(s, Y, all, weight, K, D, FIRST_STEPS_ALONE, b);
    int err = lloyd(s, Y, quick, weight, K, D, QUICK_STEPS, b);
    return err ? err : lloyd(s, Y, others, weight, K, D, FIRST_STEPS, b);
}

int uni_seed_run(struct uni_seed *s, float *Y, struct uni_backend *b, int64_t K, int64_t D, uint64_t seed)
{
    int err = 0;
    uint64_t state = seed ^ 0xD1B54A32D192ED03u;
    int64_t K2 = (K + 5) / 10, K1 = K - K2, rows = 0;
    const float *weight = s->weighted ? s->weight : NULL;
    struct uni_rows sample = {s->X, s->M, 0, s->M}, tail = {s->tail, 0, 0, 0};
    if (s->M == 0) { /* only cells of zeros: any direction is as good */
        for (int64_t k = 0; k < K; k++)
            Y[k * D] = 1;
        return UNI_OK;
    }
    if (s->all) {
        spread_out(Y, K, s->X, weight, s->M, D, s->chance, &state);
        return lloyd(s, Y, sample, weight, K, D, R_STEPS, b);
    }
    pick_rows(s, Y, K1, D, &state);
    TRY(first_steps(s, Y, weight, K1, D, b));
    if (K2 > 0) {
        rows = take_tail(s, K2, D); /* by the last step's scores: the centroids have moved once since, but little */
        spread_out(Y + K1 * D, K2, s->tail, weight ? weight + s->M : NULL, rows, D, s->chance, &state);
        tail.M = tail.to = rows;
        TRY(lloyd(s, Y + K1 * D, tail, weight ? weight + s->M : NULL, K2, D, TAIL_STEPS, b));
    }
    sample.to = rows; /* where the tail lay since; the others have come */
    TRY(lloyd(s, Y, sample, weight, K, D, LAST_STEPS, b));
done:
    return err;
}
