/* SPDX-License-Identifier: BSD-3-Clause */
/* What uni_open does with the cuda backend, step by step, as open_run in src/harmony.c has them, and then whole calls: a run from
 * the host's memory and back.
 *
 *     bench_open cells dims levels [repeats=2] [clusters=100] [cpu] [in=PLACE] [out=PLACE]
 *
 * PLACE: card, pinned, registered or managed, where the embedding lies or the result goes; else plain memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/cuda/cuda_caller.h"
#include "../tests/cuda/cuda_made.h"
#include "method.h"
#include "pool.h"

struct job {
    struct made made;
    struct uni_options options;
    struct uni_matrix matrix;
    struct uni_batch batch;
    enum place in, out;
};

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(int err)
{
    if (err) {
        printf("failed: %s\n", uni_last_error());
        exit(1);
    }
}

/* Prints the time since *from, and sets it to now. */
static void lap(const char *what, double *from)
{
    double now = seconds();
    printf(" %s %.3f", what, now - *from);
    fflush(stdout);
    *from = now;
}

/* Steps are of plain memory alone. */
static void steps(const struct job *j)
{
    struct uni_cells_sorted cells = {0};
    struct uni_warnings warnings = {0};
    struct uni_matrix plain;
    struct uni_seed seed = {0};
    struct uni_backend b = {0};
    struct uni_problem *p = &cells.problem;
    printf("  steps, s:");
    double from = seconds();
    check(uni_problem_open(&cells, &warnings, j->made.n, j->made.d, &j->batch, 1, &j->options));
    lap("labels", &from);
    p->pool = uni_pool_open(uni_pool_size(p->threads), p->cancel);
    if (!p->pool)
        exit(1);
    lap("threads", &from);
    check(uni_matrix_check_on(p->pool, &j->matrix, &plain, &warnings));
    lap("check", &from);
    if (j->options.backend == UNI_BACKEND_CUDA)
        check(uni_cuda_backend(&b, 0));
    else
        uni_cpu_backend(&b);
    lap("driver", &from);
    check(uni_problem_sort(&cells, &j->options));
    lap("sort", &from);
    check(uni_seed_open(&seed, p, &plain, p->K, 0, 0));
    check(uni_problem_settle(&cells, &j->options, p->K));
    lap("sample", &from);
    check(b.open(&b, p, &plain));
    lap("copy in", &from);
    b.close(&b);
    lap("close", &from);
    printf("\n");
    uni_seed_close(&seed);
    uni_pool_close(p->pool);
    uni_problem_close(&cells);
}

static void whole(const struct job *j, float *out)
{
    struct uni_harmony *h = NULL;
    double from = seconds();
    printf("  whole, s:");
    check(uni_open(&h, &j->matrix, &j->batch, 1, &j->options));
    lap("open", &from);
    check(uni_run(h));
    const struct uni_summary *s = uni_summary(h);
    lap("run", &from);
    printf(" (seeding %.3f, %lld rounds)", s->seconds_seed, (long long)s->n_rounds);
    check(uni_read(h, UNI_CORRECTED, out));
    lap("read", &from);
    uni_close(h);
    lap("close", &from);
    printf("\n");
}

static enum place place_of(const char *name)
{
    static const char *const names[] = {"plain", "card", "pinned", "registered", "managed"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum place)i;
    fprintf(stderr, "no such memory: %s\n", name);
    exit(2);
}

/* The embedding goes to its place; out is filled, so that its pages are there, as a caller's may be. */
static float *settle(struct job *j)
{
    const int64_t bytes = j->made.n * j->made.d * 4;
    if ((j->in != PAGEABLE || j->out != PAGEABLE) && !caller_open()) {
        fprintf(stderr, "there is no driver of a card\n");
        exit(2);
    }
    if (j->in != PAGEABLE) {
        void *there = caller_take(j->in, bytes);
        if (!there || !caller_copy_to(j->in, there, j->made.Z, bytes))
            exit(2);
        free(j->made.Z);
        j->made.Z = NULL;
        j->matrix.data = there;
    }
    float *out = caller_take(j->out, bytes);
    if (!out)
        exit(2);
    if (j->out != ON_CARD)
        memset(out, 1, (size_t)bytes);
    return out;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: bench_open cells dims levels [repeats=2] [clusters=100] [cpu] [in=PLACE] [out=PLACE]\n");
        return 2;
    }
    int64_t n = atoll(argv[1]), d = atoll(argv[2]), levels = atoll(argv[3]);
    int repeats = 2;
    uni_options_init(&j.options, sizeof j.options);
    j.options.force = 1;
    j.options.n_clusters = 100;
    j.options.backend = UNI_BACKEND_CUDA;
    for (int i = 4; i < argc; i++) {
        if (strncmp(argv[i], "repeats=", 8) == 0)
            repeats = atoi(argv[i] + 8);
        if (strncmp(argv[i], "clusters=", 9) == 0)
            j.options.n_clusters = atoll(argv[i] + 9);
        if (strncmp(argv[i], "in=", 3) == 0)
            j.in = place_of(argv[i] + 3);
        if (strncmp(argv[i], "out=", 4) == 0)
            j.out = place_of(argv[i] + 4);
        if (strcmp(argv[i], "cpu") == 0)
            j.options.backend = UNI_BACKEND_CPU;
    }
    made_open(&j.made, n, d, levels, 2, 16);
    j.matrix = (struct uni_matrix){j.made.Z, UNI_FLOAT32, n, d, 0, 0};
    j.batch = (struct uni_batch){"batch", n, levels, j.made.level, NULL};
    float *out = settle(&j);
    printf("%lld x %lld, %lld levels, K %lld\n", (long long)n, (long long)d, (long long)levels, (long long)j.options.n_clusters);
    for (int i = 0; i < repeats; i++) {
        if (j.in == PAGEABLE)
            steps(&j);
        whole(&j, out);
    }
    caller_give(j.out, out);
    if (j.in != PAGEABLE)
        caller_give(j.in, (void *)(uintptr_t)j.matrix.data);
    made_close(&j.made);
    return 0;
}
