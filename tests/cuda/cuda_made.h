/* SPDX-License-Identifier: BSD-3-Clause */
/* Made-up cells for the CUDA tests and benchmarks: types, a shift per level, noise; every number from a counter, so that threads
   can make any part of it. */
#ifndef TESTS_CUDA_MADE_H
#define TESTS_CUDA_MADE_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct made {
    int64_t n, d, levels;
    float *Z;       /* (n,d) */
    int32_t *level; /* (n) */
};

static inline uint64_t made_hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Four sixteen-bit uniforms: near enough to a normal number, variance 1. */
static inline float made_noise(uint64_t x)
{
    x = made_hash(x);
    float sum = (float)(x & 0xffff) + (float)(x >> 16 & 0xffff) + (float)(x >> 32 & 0xffff) + (float)(x >> 48);
    return (sum * (1 / 65536.0f) - 2) * 1.7320508f;
}

struct made_part {
    struct made *m;
    int64_t from, to;
    double skew;
};

static inline void *made_rows(void *context)
{
    struct made_part *p = context;
    struct made *m = p->m;
    for (int64_t i = p->from; i < p->to; i++) {
        uint64_t h = made_hash((uint64_t)i * 3 + 1);
        double u = (double)(h >> 11) / 9007199254740992.0;
        int64_t type = (int64_t)(made_hash((uint64_t)i * 3 + 2) % 40);
        u = p->skew > 0 ? u * (1 + p->skew * u) / (1 + p->skew) : u; /* fewer and fewer in later levels */
        int64_t level = i < m->levels ? i : (int64_t)(u * (double)m->levels) % m->levels;
        m->level[i] = (int32_t)level;
        for (int64_t j = 0; j < m->d; j++) {
            float centre = 2.5f * made_noise((uint64_t)(type * m->d + j) + 1000000007u);
            float shift = 0.7f * made_noise((uint64_t)(level * m->d + j) + 5000000029u);
            m->Z[i * m->d + j] = centre + shift + made_noise((uint64_t)(i * m->d + j) * 2 + 77000000017u);
        }
    }
    return NULL;
}

static inline void made_open(struct made *m, int64_t n, int64_t d, int64_t levels, double skew, int threads)
{
    pthread_t thread[64];
    struct made_part part[64];
    *m = (struct made){n, d, levels, malloc((size_t)(n * d) * 4 + 64), malloc((size_t)n * 4 + 64)};
    if (!m->Z || !m->level)
        exit(2);
    for (int t = 0; t < threads; t++) {
        part[t] = (struct made_part){m, n * t / threads, n * (t + 1) / threads, skew};
        pthread_create(&thread[t], NULL, made_rows, &part[t]);
    }
    for (int t = 0; t < threads; t++)
        pthread_join(thread[t], NULL);
}

static inline void made_close(struct made *m)
{
    free(m->Z);
    free(m->level);
}

#endif
