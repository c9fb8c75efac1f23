/* SPDX-License-Identifier: BSD-3-Clause */
/* Built for the machine it runs on (-march=native): the widest vectors that it has. CPU time, so that other programs do not count. */
#define _GNU_SOURCE
#include "ceilings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __AVX512F__
enum { BYTES = 64 };
#elif defined(__AVX2__)
enum { BYTES = 32 };
#else
enum { BYTES = 16 };
#endif
enum { LANES = BYTES / 4, CHAINS = 12 };
typedef float vf __attribute__((vector_size(BYTES)));

static volatile float sink;

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double ceiling_flops(void)
{
    double best = 0;
    for (int repeat = 0; repeat < 5; repeat++) {
        vf a[CHAINS], x = (vf){0} + 0.999f, y = (vf){0} + 0.5f;
        const int steps = 5000000;
        for (int c = 0; c < CHAINS; c++)
            a[c] = x * (float)c;
        double from = cpu_now();
        for (int i = 0; i < steps; i++)
#pragma GCC unroll 12
            for (int c = 0; c < CHAINS; c++)
                a[c] = a[c] * x + y;
        double spent = cpu_now() - from;
        for (int c = 0; c < CHAINS; c++)
            sink = a[c][0];
        best = fmax(best, 2.0 * LANES * CHAINS * steps / spent);
    }
    return best;
}

double ceiling_bytes(void)
{
    const size_t bytes = (size_t)1 << 29, n = bytes / BYTES;
    vf *data = aligned_alloc(BYTES, bytes);
    double best = 0;
    if (!data)
        return NAN;
    memset(data, 1, bytes);
    for (int repeat = 0; repeat < 5; repeat++) {
        vf sum[8] = {{0}};
        double from = cpu_now();
        for (size_t i = 0; i < n; i += 8)
#pragma GCC unroll 8
            for (int c = 0; c < 8; c++)
                sum[c] += data[i + (size_t)c];
        double spent = cpu_now() - from;
        for (int c = 0; c < 8; c++)
            sink = sum[c][0];
        best = fmax(best, (double)bytes / spent);
    }
    free(data);
    return best;
}
