/* SPDX-License-Identifier: BSD-3-Clause */
/* Times the CUDA backend: 10 rounds x 4 sweeps with the data on the card, stage by stage, and a whole run from the host's memory
 * and back.
 *
 *     bench_cuda cells dims levels clusters [single] [damped] [variables=1] [repeats=11] [copy=4270] [memory=BYTES] [rounds]
 *
 * damped: the update of all cells at once. variables: as nested in the first, levels / 40 (2), and crossing it, 3 (3). copy:
 * GB/s. memory: most of the card's that is taken; where all does not fit it, what lies in the host's is told. rounds: no whole
 * runs, which take as much of the host's memory again. One line: ms of a run (best and median of repeats), per round ms of each
 * stage, bytes a cell of device memory, and the share of the card's copy bandwidth that the run's least traffic comes to: each
 * round reads base 6 times and writes it once, and reads Z twice.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/cuda/cuda_made.h"
#include "method.h"

enum { ROUNDS = 10, SWEEPS = 4, RESERVE = 256 << 20 /* of cuda_open.cu: for the driver */ };

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
    int32_t *outer, *crossed;
    struct uni_batch batch[3];
    int variables, damped, single, repeats, rounds;
    double copy;
    struct uni_matrix matrix;
    struct uni_options options;
    struct uni_cells_sorted cells;
    struct uni_warnings warnings;
    struct uni_backend b;
    float *start, *Y, *W;
    double *O, *level_O, *S, *scratch; /* of several variables: the ridge is the library's */
    struct uni_shift shift;
    unsigned char *part;
    double stage[4];
};

static void wait_for(struct uni_backend *b)
{
    check(b->tables(b, NULL, NULL));
}

/* Moments and ridge, as uni_run does them. */
static void solve(struct job *j)
{
    struct uni_backend *b = &j->b;
    const struct uni_problem *p = &j->cells.problem;
    struct uni_ridge ridge = {.cutoff = 1e-5, .alpha = 0.2, .lambda = j->cells.lambda};
    int solved;
    check(b->solve(b, &ridge, j->Y, &solved));
    j->shift = (struct uni_shift){.W = solved ? UNI_KEPT : j->W, .step = 1};
    if (solved)
        return;
    double *E = j->level_O + p->B * p->K;
    struct uni_sums sums = {.O = j->O, .level_O = j->level_O, .E = E, .S = j->S};
    check(b->tables(b, j->O, NULL));
    uni_levels_of_groups(j->level_O, j->O, p);
    uni_expected(E, j->level_O, p);
    uni_joint_parts(j->part, &ridge, j->level_O, p);
    check(b->moments(b, j->S, j->part));
    check(uni_ridge_joint(&ridge, j->W, NULL, j->Y, &sums, p, b, j->scratch));
}

/* As uni_run calls the backend. stages: wait after every operation, and add up their times. */
static double run_rounds(struct job *j, int stages)
{
    struct uni_backend *b = &j->b;
    struct uni_fit fit;
    memcpy(j->Y, j->start, (size_t)(j->cells.problem.K * j->made.d) * sizeof(float));
    wait_for(b);
    double began = now(), at = began, t;
    for (int r = 0; r < ROUNDS; r++) {
        check(b->assign(b, NULL, r == 0 ? &fit : NULL, r == 0 ? NULL : &j->shift, j->Y));
        if (stages) {
            wait_for(b);
            t = now(), j->stage[r == 0 ? 3 : 0] += t - at, at = t;
        }
        check(b->sweep(b, NULL, &fit, SWEEPS, 0));
        if (stages)
            t = now(), j->stage[1] += t - at, at = t;
        solve(j);
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
    check(uni_open(&h, &j->matrix, j->batch, j->variables, &j->options));
    double b = now();
    check(uni_run(h));
    double c = now();
    check(uni_read(h, UNI_CORRECTED, out));
    double d = now();
    const struct uni_summary *s = uni_summary(h);
    printf("  from the host and back: open %.0f, run %.1f (seeding %.1f, %lld rounds), read %.0f ms; %.2f GB of the host's "
           "memory, %.2f of the card's\n",
           b - a, c - b, 1e3 * s->seconds_seed, (long long)s->n_rounds, d - c, (double)s->bytes / 1e9,
           (double)s->bytes_card / 1e9);
    uni_close(h);
}

static void read_arguments(struct job *j, int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: bench_cuda cells dims levels clusters [single] [damped] [variables=1] [repeats=11] [copy=4270] "
                        "[memory=BYTES] [rounds]\n");
        exit(2);
    }
    j->variables = 1, j->repeats = 11, j->copy = 4270;
    for (int i = 5; i < argc; i++) {
        j->single |= strcmp(argv[i], "single") == 0;
        j->damped |= strcmp(argv[i], "damped") == 0;
        j->rounds |= strcmp(argv[i], "rounds") == 0;
        if (strncmp(argv[i], "variables=", 10) == 0)
            j->variables = atoi(argv[i] + 10);
        if (strncmp(argv[i], "repeats=", 8) == 0)
            j->repeats = atoi(argv[i] + 8);
        if (strncmp(argv[i], "copy=", 5) == 0)
            j->copy = atof(argv[i] + 5);
        if (strncmp(argv[i], "memory=", 7) == 0)
            setenv("UNISONO_CUDA_MEMORY", argv[i] + 7, 1);
    }
}

static void make_job(struct job *j, int64_t n, int64_t d, int64_t levels, int64_t K)
{
    made_open(&j->made, n, d, levels, 2, 16);
    uni_options_init(&j->options, sizeof j->options);
    j->options.n_clusters = K;
    j->options.force = 1;
    j->options.precision = j->single ? UNI_SINGLE : UNI_HALF;
    j->options.update = j->damped ? UNI_UPDATE_JACOBI : UNI_UPDATE_BLOCKS;
    j->options.backend = UNI_BACKEND_CUDA;
    j->outer = malloc((size_t)n * sizeof *j->outer);
    j->crossed = malloc((size_t)n * sizeof *j->crossed);
    for (int64_t i = 0; i < n; i++) {
        j->outer[i] = j->made.level[i] / 40;
        j->crossed[i] = (int32_t)(made_hash((uint64_t)i * 5 + 11) % 3);
    }
    j->batch[0] = (struct uni_batch){"batch", n, levels, j->made.level, NULL};
    j->batch[1] = (struct uni_batch){"outer", n, levels / 40 + 1, j->outer, NULL};
    j->batch[2] = (struct uni_batch){"crossed", n, 3, j->crossed, NULL};
    j->matrix = (struct uni_matrix){j->made.Z, UNI_FLOAT32, n, d, d * 4, 4};
    j->start = malloc((size_t)(K * d) * sizeof(float));
    j->Y = malloc((size_t)(K * d) * sizeof(float));
    check(uni_problem_open(&j->cells, &j->warnings, n, d, j->batch, j->variables, &j->options));
    check(uni_problem_sort(&j->cells, &j->options));
    check(uni_problem_settle(&j->cells, &j->options, K));
    const struct uni_problem *p = &j->cells.problem;
    if (j->variables > 1) {
        j->part = malloc((size_t)(p->G * K));
        j->W = calloc((size_t)(p->B * K * d), sizeof *j->W);
        j->O = malloc((size_t)(p->G * K) * 8);
        j->level_O = malloc((size_t)(2 * p->B * K) * 8);
        j->S = malloc((size_t)((p->by_level ? p->B + 1 : p->G) * K * d) * 8);
        j->scratch = malloc((size_t)uni_joint_scratch(p) * 8);
    }
    for (int64_t k = 0; k < K; k++) {
        memcpy(j->start + k * d, j->made.Z + (k * (n / K)) * d, (size_t)d * sizeof(float));
        (void)uni_normalise(j->start + k * d, d);
    }
}

static void report(struct job *j, double opened)
{
    double times[64];
    const struct uni_problem *p = &j->cells.problem;
    run_rounds(j, 0);
    for (int i = 0; i < j->repeats; i++)
        times[i] = run_rounds(j, 0);
    qsort(times, (size_t)j->repeats, sizeof *times, by_size);
    for (int i = 0; i < 3; i++)
        run_rounds(j, 1);
    double n = (double)p->N, Kp = (double)((p->K + 7) / 8 * 8), Dz = (double)((p->D + 3) / 4 * 4), median = times[j->repeats / 2];
    double traffic = ROUNDS * (7 * Kp * (j->single ? 4 : 2) + 2 * Dz * 4) * n;
    printf(
        "%lld x %lld, %lld levels of %d, %lld groups, K %lld, %s, %s: run best %.2f median %.2f worst %.2f ms (%.3f ms/M); a "
        "round: "
        "assign %.3f sweeps %.3f solve %.3f, first assign %.3f ms; %.0f bytes a cell on the card, %.0f on the host; %.0f %% of "
        "%.0f GB/s; open %.0f ms\n",
        (long long)p->N, (long long)p->D, (long long)p->B, p->V, (long long)p->G, (long long)p->K, j->single ? "single" : "half",
        j->damped ? "damped" : "blocks", times[0], median, times[j->repeats - 1], median / n * 1e6, j->stage[0] / 27,
        j->stage[1] / 30, j->stage[2] / 30, j->stage[3] / 3, (double)(j->b.takes.card - RESERVE) / n, (double)j->b.takes.host / n,
        100 * traffic / (median * 1e-3) / (j->copy * 1e9), j->copy, opened);
    if (*j->b.takes.note)
        printf("  %s\n", j->b.takes.note);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct job j = {0};
    read_arguments(&j, argc, argv);
    int64_t n = atoll(argv[1]), d = atoll(argv[2]);
    make_job(&j, n, d, atoll(argv[3]), atoll(argv[4]));
    check(uni_cuda_backend(&j.b, 0));
    double opened = now();
    check(j.b.open(&j.b, &j.cells.problem, &j.matrix));
    report(&j, now() - opened);
    j.b.close(&j.b);
    float *out = j.rounds ? NULL : malloc((size_t)(n * d) * sizeof(float));
    for (int64_t i = 0; out && i < n * d; i++)
        out[i] = NAN;
    for (int i = 0; out && i < (n > 20000000 ? 1 : 2); i++)
        whole(&j, out);
    free(out);
    free(j.start), free(j.Y), free(j.W), free(j.O), free(j.level_O), free(j.S), free(j.scratch), free(j.part);
    free(j.outer), free(j.crossed);
    uni_problem_close(&j.cells);
    made_close(&j.made);
    return 0;
}
