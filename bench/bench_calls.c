/* SPDX-License-Identifier: BSD-3-Clause */
/* What one call of the library takes, stage by stage: uni_open, uni_run and its parts, uni_take, uni_close. For small data, where what surrounds
 * the kernels counts most, and for what happens once a run whatever the rounds.
 *
 *     bench_calls [cells [dims [levels [clusters [rounds [threads [repeats]]]]]]]      3000 30 4 100 10 2 101
 *
 * Repeats follow each other in one process; median (least-largest) of each stage in milliseconds, and its share of the sum.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unisono.h"

enum { CELLS, DIMS, LEVELS, CLUSTERS, ROUNDS, THREADS, REPEATS, SIZES };
enum { OPEN, SEED, ASSIGN, SWEEP, MOMENTS, RIDGE, TAKE, CLOSE, ALL, STAGES };
static const char *const names[] = {"open", "seeding", "assign", "sweeps", "moments", "ridge", "take", "close", "all"};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static double uniform(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

/* 20 types, a shift for every level; levels of uneven size. */
static void make_cells(float *Z, int32_t *level, const int64_t *size)
{
    enum { TYPES = 20 };
    const int64_t D = size[DIMS], B = size[LEVELS];
    uint64_t state = 1;
    float *centre = malloc((size_t)((TYPES + B) * D) * sizeof *centre);
    for (int64_t i = 0; i < (TYPES + B) * D; i++)
        centre[i] = (float)((uniform(&state) + uniform(&state) - 1) * (i < TYPES * D ? 6 : 1.5));
    for (int64_t i = 0; i < size[CELLS]; i++) {
        const float *type = centre + (int64_t)(uniform(&state) * TYPES) * D;
        level[i] = i < B ? (int32_t)i : (int32_t)(uniform(&state) * (0.5 + 0.5 * uniform(&state)) * (double)B);
        const float *shift = centre + (TYPES + level[i]) * D;
        for (int64_t j = 0; j < D; j++)
            Z[i * D + j] = type[j] + shift[j] + (float)(2 * (uniform(&state) + uniform(&state) + uniform(&state) - 1.5));
    }
    free(centre);
}

static int call(double *ms, const struct uni_matrix *m, const struct uni_batch *batch, const struct uni_options *o)
{
    struct uni_harmony *h = NULL;
    const float *rows;
    double began = now(), from = began;
    int err = uni_open(&h, m, batch, 1, o);
    ms[OPEN] = now() - from;
    if (!err)
        err = uni_run(h);
    from = now();
    if (!err)
        err = uni_take(h, &rows);
    ms[TAKE] = now() - from;
    if (err) {
        fprintf(stderr, "bench_calls: %s\n", uni_last_error());
        return err;
    }
    const struct uni_summary *s = uni_summary(h);
    ms[SEED] = 1e3 * s->seconds_seed;
    ms[ASSIGN] = 1e3 * s->seconds_assign;
    ms[SWEEP] = 1e3 * s->seconds_sweep;
    ms[MOMENTS] = 1e3 * s->seconds_moments;
    ms[RIDGE] = 1e3 * s->seconds_ridge;
    from = now();
    uni_close(h);
    ms[CLOSE] = now() - from;
    ms[ALL] = now() - began;
    return UNI_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_table(const double (*ms)[STAGES], const int64_t *size)
{
    double *values = malloc((size_t)size[REPEATS] * sizeof *values), all = 0;
    printf("%lld cells x %lld, %lld levels, %lld clusters, %lld rounds forced, %lld threads; median (least-largest) of %lld\n\n", (long long)size[CELLS],
           (long long)size[DIMS], (long long)size[LEVELS], (long long)size[CLUSTERS], (long long)size[ROUNDS], (long long)size[THREADS],
           (long long)size[REPEATS]);
    printf("| stage | ms | share |\n|---|---|---|\n");
    for (int stage = STAGES - 1; stage >= 0; stage--) {
        for (int64_t i = 0; i < size[REPEATS]; i++)
            values[i] = ms[i][stage];
        qsort(values, (size_t)size[REPEATS], sizeof *values, by_size);
        double median = values[size[REPEATS] / 2];
        all = stage == ALL ? median : all;
        printf("| %s | %.2f (%.2f-%.2f) | %.1f %% |\n", names[stage], median, values[0], values[size[REPEATS] - 1], 100 * median / all);
    }
    free(values);
}

int main(int argc, char **argv)
{
    int64_t size[SIZES] = {3000, 30, 4, 100, 10, 2, 101};
    int err = 0;
    for (int i = 1; i < argc && i <= SIZES; i++)
        size[i - 1] = atoll(argv[i]);
    if (size[CELLS] < 2 || size[REPEATS] < 1)
        return fprintf(stderr, "bench_calls: 2 cells and one repeat are the least\n"), 2;
    float *Z = malloc((size_t)(size[CELLS] * size[DIMS]) * sizeof *Z);
    int32_t *level = malloc((size_t)size[CELLS] * sizeof *level);
    double(*ms)[STAGES] = calloc((size_t)size[REPEATS], sizeof *ms);
    make_cells(Z, level, size);
    struct uni_matrix m = {.data = Z, .dtype = UNI_FLOAT32, .n_cells = size[CELLS], .n_dims = size[DIMS]};
    struct uni_batch batch = {.n_cells = size[CELLS], .n_levels = size[LEVELS], .level = level};
    struct uni_options o;
    uni_options_init(&o, sizeof o);
    o.n_clusters = size[CLUSTERS];
    o.max_rounds = size[ROUNDS];
    o.tol = -1;
    o.threads = size[THREADS];
    o.force = 1;
    o.backend = UNI_BACKEND_CPU;
    for (int64_t i = -1; i < size[REPEATS] && !err; i++) /* the first warms the machine up */
        err = call(ms[i < 0 ? 0 : i], &m, &batch, &o);
    if (!err)
        print_table((const double(*)[STAGES])ms, size);
    free(Z), free(level), free(ms);
    return err;
}
