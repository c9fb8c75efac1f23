/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int checks, failures;

double apart(const double *a, const double *b, int64_t n)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return isnan(difference) ? HUGE_VAL : size > 0 ? sqrt(difference / size) : sqrt(difference);
}

double apart_f(const float *a, const double *b, int64_t n)
{
    double *wide = malloc((size_t)n * sizeof *wide + 8), x;
    for (int64_t i = 0; i < n; i++)
        wide[i] = a[i];
    x = apart(wide, b, n);
    free(wide);
    return x;
}

void expect(const char *where, const char *what, double x, double limit)
{
    checks++;
    if (x <= limit)
        return;
    failures++;
    printf("FAIL %-28s %-34s %.3g, at most %.3g\n", where, what, x, limit);
}

void must(const char *where, const char *what, int err)
{
    checks++;
    if (!err)
        return;
    failures++;
    printf("FAIL %-28s %-34s %s\n", where, what, uni_last_error());
}

void poison(void *p, int64_t bytes)
{
    memset(p, 0xff, (size_t)bytes);
}

void bench_open(struct bench *b, const struct shape *s)
{
    memset(b, 0, sizeof *b);
    made_open(&b->made, s->n, s->d, s->levels, s->skew, 4);
    uni_options_init(&b->options, sizeof b->options);
    if (s->first)
        must(s->name, "flavor", uni_options_set(&b->options, "flavor", "harmony1"));
    if (s->damped) {
        b->options.update = UNI_UPDATE_JACOBI;
        b->options.sweeps = s->damped + 1;
    }
    b->options.n_clusters = s->K;
    b->options.force = 1;
    b->options.precision = s->single ? UNI_SINGLE : UNI_HALF;
    if (s->cluster_sigma) {
        b->sigma = malloc((size_t)s->K * sizeof *b->sigma);
        for (int64_t k = 0; k < s->K; k++)
            b->sigma[k] = 0.05 + 0.2 * (double)(k % 7) / 7;
        b->options.cluster_sigma = b->sigma;
        b->options.n_cluster_sigma = s->K;
    }
    b->variables = s->variables ? s->variables : 1;
    b->crossed = malloc((size_t)s->n * 4);
    b->outer = malloc((size_t)s->n * 4);
    for (int64_t i = 0; i < s->n; i++) {
        b->crossed[i] = (int32_t)(made_hash((uint64_t)i * 5 + 11) % 4);
        b->outer[i] = b->made.level[i] / 2;
    }
    b->batch[0] = (struct uni_batch){"batch", s->n, s->levels + (s->odd_ones ? 1 : 0), b->made.level, NULL};
    b->batch[1] = (struct uni_batch){"crossed", s->n, 4, b->crossed, NULL};
    b->batch[2] = (struct uni_batch){"outer", s->n, s->levels, b->outer, NULL};
    if (s->odd_ones) {
        memset(b->made.Z + 5 * s->d, 0, (size_t)s->d * sizeof(float));
        for (int64_t i = 17; i < s->n; i += 97)
            b->made.level[i] = -1;
        b->options.missing = UNI_MISSING_SKIP;
    }
    b->matrix = (struct uni_matrix){b->made.Z, UNI_FLOAT32, s->n, s->d, s->d * 4, 4};
}

void bench_sort(struct bench *b, const struct shape *s)
{
    must(s->name, "problem",
         uni_problem_open(&b->cells, &b->warnings, s->n, s->d, b->batch, b->variables, &b->options) ||
             uni_problem_sort(&b->cells, &b->options) || uni_problem_settle(&b->cells, &b->options, s->K));
    b->cells.problem.by_level = s->variables == 3;
}

void bench_close(struct bench *b)
{
    uni_problem_close(&b->cells);
    made_close(&b->made);
    free(b->sigma), free(b->crossed), free(b->outer);
}
