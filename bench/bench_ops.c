/* SPDX-License-Identifier: BSD-3-Clause */
/* Times every operation of the CPU backend beside this machine's own ceilings, measured in the same run.
 *
 *     bench_ops [cells [dims [levels [clusters [threads [operation]]]]]]      repeats until each operation has had a second
 *
 * CPU time over threads is reported, so that a machine shared with others still gives numbers to compare; wall time stands beside it.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "method.h"
#include "ceilings.h"

static double clock_now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench {
    struct uni_cells_sorted cells;
    struct uni_backend backend;
    double *O, *S;
    float *W, *Y, *out;
    struct uni_shift shift;
    struct uni_fit fit;
};

static void assign_first(struct bench *b)
{
    (void)b->backend.assign(&b->backend, b->O, NULL, NULL, b->Y);
}

static void assign_later(struct bench *b)
{
    (void)b->backend.assign(&b->backend, b->O, NULL, &b->shift, b->Y);
}

static void sweep(struct bench *b)
{
    (void)b->backend.sweep(&b->backend, b->O, NULL, 1, 0);
}

static void sweep_fit(struct bench *b)
{
    (void)b->backend.sweep(&b->backend, b->O, &b->fit, 1, 0);
}

static void sweep_terms(struct bench *b)
{
    (void)b->backend.sweep(&b->backend, b->O, &b->fit, 1, 1);
}

static void moments(struct bench *b)
{
    (void)b->backend.moments(&b->backend, b->S, NULL);
}

static void read_corrected(struct bench *b)
{
    (void)b->backend.read(&b->backend, UNI_CELLS_CORRECTED, &b->shift, b->out);
}

static const struct operation {
    const char *name;
    void (*run)(struct bench *);
    int products; /* of 2 D K flops a cell */
    int z, base, out; /* passes over Z, base, rows of D written */
} operations[] = {{"assign, first round", assign_first, 1, 1, 1, 0}, {"assign", assign_later, 2, 1, 2, 0},
                  {"sweep", sweep, 0, 0, 1, 0},                      {"sweep with objective", sweep_fit, 0, 0, 1, 0},
                  {"sweep with terms", sweep_terms, 0, 0, 2, 0},     {"moments", moments, 1, 1, 1, 0},
                  {"read corrected", read_corrected, 1, 1, 1, 1}};

static double time_operation(const struct operation *op, struct bench *b, double *cpu_best)
{
    double best = HUGE_VAL, spent = 0;
    *cpu_best = HUGE_VAL;
    op->run(b);
    for (int i = 0; i < 3 || (spent < 1 && i < 1000); i++) {
        double wall = clock_now(CLOCK_MONOTONIC), cpu = clock_now(CLOCK_PROCESS_CPUTIME_ID);
        op->run(b);
        wall = clock_now(CLOCK_MONOTONIC) - wall;
        cpu = (clock_now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)b->backend.threads;
        spent += wall;
        best = fmin(best, wall);
        *cpu_best = fmin(*cpu_best, cpu);
    }
    return best;
}

static double normal(uint64_t *state)
{
    double u = uni_random_unit(state) + 1e-300, v = uni_random_unit(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Cells around 30 types, a shift per level; levels of uneven size. */
static void make_cells(float *Z, int32_t *level, int64_t n, int64_t d, int64_t levels)
{
    enum { TYPES = 30, POOL = 65536 };
    static float pool[POOL];
    uint64_t state = 1;
    float *centre = malloc(sizeof *centre * (size_t)((TYPES + levels) * d));
    for (int64_t i = 0; i < (TYPES + levels) * d; i++)
        centre[i] = (float)(normal(&state) * (i < TYPES * d ? 2 : 0.5));
    for (int64_t i = 0; i < POOL; i++)
        pool[i] = (float)(0.6 * normal(&state));
    for (int64_t i = 0; i < n; i++) {
        int64_t type = uni_random_below(&state, TYPES);
        uint64_t at = uni_random(&state);
        level[i] = i < levels ? (int32_t)i : (int32_t)(uni_random_unit(&state) * (0.5 + 0.5 * uni_random_unit(&state)) * (double)levels);
        for (int64_t j = 0; j < d; j++)
            Z[i * d + j] = centre[type * d + j] + centre[(TYPES + level[i]) * d + j] + pool[(at + (uint64_t)j * 7919) % POOL];
    }
    free(centre);
}

int main(int argc, char **argv)
{
    int64_t size[5] = {200000, 50, 10, 100, 1};
    for (int i = 1; i < argc && i <= 5; i++)
        size[i - 1] = atoll(argv[i]);
    int64_t n = size[0], d = size[1], levels = size[2], K = size[3];
    struct bench b = {0};
    struct uni_warnings warnings = {0};
    struct uni_options o;
    struct uni_matrix m, plain;
    struct uni_batch batch = {.n_cells = n, .n_levels = levels};
    float *Z = malloc((size_t)(n * d) * sizeof *Z);
    int32_t *level = malloc((size_t)n * sizeof *level);
    uni_options_init(&o, sizeof o);
    o.n_clusters = K;
    o.threads = size[4];
    o.force = 1;
    make_cells(Z, level, n, d, levels);
    batch.level = level;
    m = (struct uni_matrix){Z, UNI_FLOAT32, n, d, 0, 0};
    if (uni_problem_open(&b.cells, &warnings, n, d, &batch, 1, &o) || uni_matrix_check(&m, &plain, &warnings) ||
        uni_problem_sort(&b.cells, &o) || uni_problem_settle(&b.cells, &o, K)) {
        fprintf(stderr, "bench_ops: %s\n", uni_last_error());
        return 1;
    }
    const struct uni_problem *p = &b.cells.problem;
    uni_cpu_backend(&b.backend);
    if (b.backend.open(&b.backend, p, &plain)) {
        fprintf(stderr, "bench_ops: %s\n", uni_last_error());
        return 1;
    }
    b.O = calloc((size_t)(p->G * K), sizeof *b.O);
    b.S = calloc((size_t)(p->G * K * d), sizeof *b.S);
    b.W = calloc((size_t)(p->G * K * d), sizeof *b.W);
    b.shift = (struct uni_shift){b.W, NULL, 1};
    b.Y = calloc((size_t)(K * d), sizeof *b.Y);
    b.out = Z;
    for (int64_t k = 0; k < K; k++) {
        memcpy(b.Y + k * d, Z + (k * 7919 % n) * d, (size_t)d * sizeof *Z);
        (void)uni_normalise(b.Y + k * d, d);
    }
    double flops = ceiling_flops(), bytes = ceiling_bytes();
    printf("%s, %lld thread%s; %lld cells x %lld, %lld levels, %lld clusters; one core: %.0f GFLOP/s, %.1f GB/s read\n\n", b.backend.name,
           (long long)b.backend.threads, b.backend.threads == 1 ? "" : "s", (long long)n, (long long)d, (long long)p->G, (long long)K, flops * 1e-9,
           bytes * 1e-9);
    printf("| operation | ns/cell CPU | ns/cell wall | GFLOP/s a thread | GB/s a thread | floor ns/cell | share of floor |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *op = &operations[i];
        if (argc > 6 && strcmp(op->name, argv[6]) != 0)
            continue;
        double cpu, wall = time_operation(op, &b, &cpu), cells = (double)n;
        double work = op->products * 2.0 * (double)(d * K), moved = (op->z + op->out) * 4.0 * (double)d + op->base * 2.0 * (double)K;
        double floor_ns = 1e9 * fmax(work / flops, moved / bytes) / (double)b.backend.threads, thread = cpu * (double)b.backend.threads;
        printf("| %s | %.1f | %.1f | %.0f | %.1f | %.1f | %.0f %% |\n", op->name, cpu / cells * 1e9, wall / cells * 1e9, work * cells / thread * 1e-9,
               moved * cells / thread * 1e-9, floor_ns, 100 * floor_ns / (cpu / cells * 1e9));
    }
    b.backend.close(&b.backend);
    uni_problem_close(&b.cells);
    free(b.O), free(b.S), free(b.W), free(b.Y), free(Z), free(level);
    return 0;
}
