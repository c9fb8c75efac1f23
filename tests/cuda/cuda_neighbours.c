/* SPDX-License-Identifier: BSD-3-Clause */
/* LISI with the neighbours from the card: the CPU's bytes, and how long both take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_check.h"
#include "method.h"

static void lisi(const char *name, const struct bench *b, int backend, int64_t sample, double perplexity, double *values,
                 double *seconds)
{
    struct uni_lisi_options o;
    double from = uni_seconds();
    uni_lisi_options_init(&o, sizeof o);
    o.backend = backend;
    o.sample = sample;
    o.perplexity = perplexity;
    must(name, "uni_lisi", uni_lisi(&b->matrix, b->batch, 1, &o, values, NULL, NULL));
    *seconds = uni_seconds() - from;
}

void check_neighbours(const struct shape *s, int64_t sample, double perplexity)
{
    struct bench b;
    double seconds[3];
    bench_open(&b, s);
    int64_t n = sample && sample < s->n ? sample : s->n, bytes = n * (int64_t)sizeof(double);
    double *card = malloc((size_t)bytes), *cpu = malloc((size_t)bytes);
    poison(card, bytes);
    lisi(s->name, &b, UNI_BACKEND_CUDA, sample, perplexity, card, &seconds[0]);
    lisi(s->name, &b, UNI_BACKEND_CUDA, sample, perplexity, card, &seconds[1]);
    lisi(s->name, &b, UNI_BACKEND_CPU, sample, perplexity, cpu, &seconds[2]);
    expect(s->name, "neighbours", memcmp(card, cpu, (size_t)bytes) ? 1 : 0, 0);
    printf("%s: LISI of %lld cells of %lld x %lld: %.2f and %.2f s with the card, %.2f s without\n", s->name, (long long)n,
           (long long)s->n, (long long)s->d, seconds[0], seconds[1], seconds[2]);
    free(card);
    free(cpu);
    bench_close(&b);
}
