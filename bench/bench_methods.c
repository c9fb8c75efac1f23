/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run costs in every way to run it: several variables, many levels, the damped update, weights, a covariate, the R
 * package's ways. The cases are run in turn, over and over, and each is compared with what its line names in the same turn.
 *
 *     bench_methods [cells [rounds [repeats [threads]]]]      1000000 3 3 2
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unisono.h"

enum { DIMS = 50, CLUSTERS = 100, TYPES = 40, SAMPLES = 800, MOST_REPEATS = 25 };

struct cells {
    int64_t n;
    float *Z;                                           /* (n,DIMS) */
    int32_t *ten, *many, *huge, *sample, *donor, *site; /* (n); a sample is of one donor, a donor of one site */
    double *number;                                     /* (n) weights, or a covariate */
};

static const struct way {
    const char *name;
    int beside; /* the way that it is compared with */
    const char *option, *value;
    enum { TEN, MANY, HUGE_NUMBER, SAMPLE, NESTED } labels;
    int weights, covariate;
} ways[] = {
    {"10 levels", 0, NULL, NULL, TEN, 0, 0},
    {"10 levels, theta 1.5", 0, "theta", "1.5", TEN, 0, 0},
    {"1,344 levels", 0, NULL, NULL, MANY, 0, 0},
    {"20,000 levels", 0, NULL, NULL, HUGE_NUMBER, 0, 0},
    {"800 levels", 0, NULL, NULL, SAMPLE, 0, 0},
    {"800 samples in 20 donors and 3 sites", 4, NULL, NULL, NESTED, 0, 0},
    {"10 levels, update jacobi", 0, "update", "jacobi", TEN, 0, 0},
    {"10 levels, weights", 0, NULL, NULL, TEN, 1, 0},
    {"10 levels, one covariate", 0, NULL, NULL, TEN, 0, 1},
    {"10 levels, compat r-2.0.4", 0, "compat", "r-2.0.4", TEN, 0, 0},
};
enum { WAYS = sizeof ways / sizeof *ways };

static double uniform(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

static void *room(int64_t count, size_t size)
{
    void *p = calloc((size_t)count, size);
    if (!p) {
        fprintf(stderr, "bench_methods: no memory for %lld cells\n", (long long)count);
        exit(2);
    }
    return p;
}

static void make_cells(struct cells *c, int64_t n)
{
    uint64_t state = 1;
    float centre[TYPES * DIMS];
    int32_t **labels[] = {&c->ten, &c->many, &c->huge, &c->sample, &c->donor, &c->site};
    c->n = n;
    c->Z = room(n * DIMS, sizeof *c->Z);
    c->number = room(n, sizeof *c->number);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        *labels[i] = room(n, sizeof(int32_t));
    for (int i = 0; i < TYPES * DIMS; i++)
        centre[i] = (float)(4 * (uniform(&state) + uniform(&state) - 1));
    for (int64_t i = 0; i < n; i++) {
        const float *at = centre + (int64_t)(uniform(&state) * TYPES) * DIMS;
        int32_t sample = (int32_t)(uniform(&state) * SAMPLES);
        for (int64_t j = 0; j < DIMS; j++)
            c->Z[i * DIMS + j] =
                at[j] + (float)(2 * (uniform(&state) + uniform(&state) + uniform(&state) - 1.5)) + (float)(sample % DIMS == j);
        c->sample[i] = sample;
        c->donor[i] = sample / 40;
        c->site[i] = sample / 40 % 3;
        c->ten[i] = sample % 10;
        c->many[i] = (int32_t)(uniform(&state) * 1344);
        c->huge[i] = (int32_t)(uniform(&state) * 20000);
        c->number[i] = 0.5 + uniform(&state);
    }
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of uni_open and uni_run. */
static double run(const struct cells *c, const struct way *way, int64_t rounds, int64_t threads)
{
    static const int64_t n_levels[] = {10, 1344, 20000, SAMPLES, SAMPLES};
    const struct uni_matrix m = {.data = c->Z, .dtype = UNI_FLOAT32, .n_cells = c->n, .n_dims = DIMS};
    const int32_t *first[] = {c->ten, c->many, c->huge, c->sample, c->sample};
    const struct uni_batch batches[3] = {{.n_cells = c->n, .n_levels = n_levels[way->labels], .level = first[way->labels]},
                                         {.n_cells = c->n, .n_levels = SAMPLES / 40, .level = c->donor},
                                         {.n_cells = c->n, .n_levels = 3, .level = c->site}};
    const struct uni_covariate covariate = {"number", c->n, c->number};
    struct uni_options o;
    struct uni_harmony *h = NULL;
    uni_options_init(&o, sizeof o);
    int err = way->option ? uni_options_set(&o, way->option, way->value) : UNI_OK;
    o.n_clusters = CLUSTERS;
    o.max_rounds = rounds;
    o.tol = -1;
    o.threads = threads;
    o.backend = UNI_BACKEND_CPU;
    o.weights = way->weights ? c->number : NULL;
    o.n_weights = c->n;
    o.covariates = way->covariate ? &covariate : NULL;
    o.n_covariates = way->covariate;
    double from = now();
    if (!err)
        err = uni_open(&h, &m, batches, way->labels == NESTED ? 3 : 1, &o);
    if (!err)
        err = uni_run(h);
    double seconds = now() - from;
    uni_close(h);
    if (err) {
        fprintf(stderr, "bench_methods: %s: %s\n", way->name, uni_last_error());
        exit(1);
    }
    return seconds;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_spread(double *values, int64_t n)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    printf(" %.2f (%.2f-%.2f) |", values[n / 2], values[0], values[n - 1]);
}

int main(int argc, char **argv)
{
    static double seconds[WAYS][MOST_REPEATS];
    int64_t size[4] = {1000000, 3, 3, 2};
    struct cells c;
    for (int i = 1; i < argc && i <= 4; i++)
        size[i - 1] = atoll(argv[i]);
    if (size[2] < 1 || size[2] > MOST_REPEATS) {
        fprintf(stderr, "bench_methods: %lld repeats; 1 to %d are possible\n", (long long)size[2], MOST_REPEATS);
        return 2;
    }
    make_cells(&c, size[0]);
    for (int64_t r = 0; r < size[2]; r++)
        for (int w = 0; w < WAYS; w++)
            seconds[w][r] = run(&c, &ways[w], size[1], size[3]);
    printf("%lld cells x %d, %d clusters, %lld rounds, %lld threads; median (least-largest) of %lld\n\n| | s | x | of "
           "|\n|---|---|---|---|\n",
           (long long)size[0], DIMS, CLUSTERS, (long long)size[1], (long long)size[3], (long long)size[2]);
    for (int w = WAYS - 1; w >= 0; w--) { /* backwards: sorting a way's seconds loses their turns */
        double ratio[MOST_REPEATS];
        for (int64_t r = 0; r < size[2]; r++)
            ratio[r] = seconds[w][r] / seconds[ways[w].beside][r];
        printf("| %s |", ways[w].name);
        print_spread(seconds[w], size[2]);
        print_spread(ratio, size[2]);
        printf(" %s |\n", ways[ways[w].beside].name);
    }
    return 0;
}
