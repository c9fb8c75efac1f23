/* SPDX-License-Identifier: BSD-3-Clause */
/* Times the CUDA backend: 10 rounds x 4 sweeps with the data on the card, stage by stage, and a whole run from the host's memory
 * and back.
 *
 *     bench_cuda cells dims levels clusters [single [repeats]]
 *
 * One line: ms of a run (best and median of repeats), per round ms of each stage, bytes a cell of device memory, and the share of
 * the card's copy bandwidth that the run's least traffic comes to: each round reads base 6 times and writes it once, and reads Z
 * twice.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/cuda/cuda_made.h"
#include "method.h"

enum { ROUNDS = 10, SWEEPS = 4 };

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void check(int err)
{
    if (err) {
        printf("failed: %s\n", uni_last_error());
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct job {
    struct made made;
    struct uni_batch batch;
    struct uni_matrix matrix;
    struct uni_options options;
    struct uni_cells_sorted cells;
    struct uni_warnings warnings;
    struct uni_backend b;
    float *start, *Y;
    double stage[4];
};

static void wait_for(struct uni_backend *b)
{
    check(b->tables(b, NULL, NULL));
}

/* As uni_run calls the backend. stages: wait after every operation, and add up their times. */
static double run_rounds(struct job *j, int stages)
{
    struct uni_backend *b = &j->b;
    struct uni_ridge ridge = {.cutoff = 1e-5, .alpha = 0.2, .lambda = j->cells.lambda, .group_cells = j->cells.group_cells};
    struct uni_fit fit;
    int solved;
    memcpy(j->Y, j->start, (size_t)(j->cells.problem.K * j->made.d) * sizeof(float));
    wait_for(b);
    double began = now(), at = began, t;
    for (int r = 0; r < ROUNDS; r++) {
        check(b->assign(b, NULL, r == 0 ? &fit : NULL, r == 0 ? NULL : UNI_KEPT, j->Y));
        if (stages) {
            wait_for(b);
            t = now(), j->stage[r == 0 ? 3 : 0] += t - at, at = t;
        }
        check(b->sweep(b, NULL, &fit, SWEEPS, 0));
        if (stages)
            t = now(), j->stage[1] += t - at, at = t;
        check(b->solve(b, &ridge, j->Y, &solved));
        if (stages)
            t = now(), j->stage[2] += t - at, at = t;
    }
    wait_for(b);
    return now() - began;
}

static void whole(struct job *j, float *out)
{
    struct uni_harmony *h = NULL;
    double a = now();
    check(uni_open(&h, &j->matrix, &j->batch, 1, &j->options));
    double b = now();
    check(uni_run(h));
    double c = now();
    check(uni_read(h, UNI_CORRECTED, out));
    double d = now();
    const struct uni_summary *s = uni_summary(h);
    printf("  from the host and back: open %.0f, run %.1f (seeding %.1f, %lld rounds), read %.0f ms; %.2f GB on card and host\n",
           b - a, c - b, 1e3 * s->seconds_seed, (long long)s->n_rounds, d - c, (double)s->bytes / 1e9);
    uni_close(h);
}

int main(int argc, char **argv)
{
    struct job j = {0};
    if (argc < 5) {
        fprintf(stderr, "usage: bench_cuda cells dims levels clusters [single [repeats [copy GB/s]]]\n");
        return 2;
    }
    int64_t n = atoll(argv[1]), d = atoll(argv[2]), levels = atoll(argv[3]), K = atoll(argv[4]);
    int single = argc > 5 && atoi(argv[5]), repeats = argc > 6 ? atoi(argv[6]) : 11;
    double copy = argc > 7 ? atof(argv[7]) : 4270, times[64];
    made_open(&j.made, n, d, levels, 2, 16);
    uni_options_init(&j.options, sizeof j.options);
    j.options.n_clusters = K;
    j.options.force = 1;
    j.options.precision = single ? UNI_SINGLE : UNI_HALF;
    j.options.backend = UNI_BACKEND_CUDA;
    j.batch = (struct uni_batch){"batch", n, levels, j.made.level, NULL};
    j.matrix = (struct uni_matrix){j.made.Z, UNI_FLOAT32, n, d, d * 4, 4};
    j.start = malloc((size_t)(K * d) * sizeof(float));
    j.Y = malloc((size_t)(K * d) * sizeof(float));
    check(uni_problem_open(&j.cells, &j.warnings, n, d, &j.batch, 1, &j.options));
    check(uni_problem_sort(&j.cells, &j.options));
    check(uni_problem_settle(&j.cells, &j.options, K));
    check(uni_cuda_backend(&j.b));
    double opened = now();
    check(j.b.open(&j.b, &j.cells.problem, &j.matrix));
    opened = now() - opened;
    for (int64_t k = 0; k < K; k++) {
        memcpy(j.start + k * d, j.made.Z + (k * (n / K)) * d, (size_t)d * sizeof(float));
        (void)uni_normalise(j.start + k * d, d);
    }
    run_rounds(&j, 0);
    for (int i = 0; i < repeats; i++)
        times[i] = run_rounds(&j, 0);
    qsort(times, (size_t)repeats, sizeof *times, by_size);
    for (int i = 0; i < 3; i++)
        run_rounds(&j, 1);
    double Kp = (double)((K + 7) / 8 * 8), Dz = (double)((d + 3) / 4 * 4),
           traffic = ROUNDS * (7 * Kp * (single ? 4 : 2) + 2 * Dz * 4) * (double)n;
    double bytes = (double)j.b.bytes(&j.cells.problem, j.cells.group_cells) / (double)n;
    printf("%lld x %lld, %lld levels, K %lld, %s: run best %.2f median %.2f ms (%.3f ms/M); a round: assign %.3f sweeps %.3f "
           "solve %.3f, first assign "
           "%.3f ms; %.0f bytes a cell; %.0f %% of %.0f GB/s; open %.0f ms\n",
           (long long)n, (long long)d, (long long)levels, (long long)K, single ? "single" : "half", times[0], times[repeats / 2],
           times[repeats / 2] / (double)n * 1e6, j.stage[0] / 27, j.stage[1] / 30, j.stage[2] / 30, j.stage[3] / 3, bytes,
           100 * traffic / (times[repeats / 2] * 1e-3) / (copy * 1e9), copy, opened);
    fflush(stdout);
    j.b.close(&j.b);
    float *out = malloc((size_t)(n * d) * sizeof(float));
    for (int64_t i = 0; out && i < n * d; i++)
        out[i] = NAN;
    for (int i = 0; out && i < (n > 20000000 ? 1 : 2); i++)
        whole(&j, out);
    free(out);
    free(j.start);
    free(j.Y);
    uni_problem_close(&j.cells);
    made_close(&j.made);
    return 0;
}
