/* SPDX-License-Identifier: BSD-3-Clause */
/* splitmix64 (Steele, Lea, Flood 2014): one word of state, the same numbers on every machine. */
#include "method.h"

uint64_t uni_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t uni_random_below(uint64_t *state, int64_t n)
{
    return (int64_t)(((unsigned __int128)uni_random(state) * (uint64_t)n) >> 64);
}

double uni_random_unit(uint64_t *state)
{
    return (double)(uni_random(state) >> 11) * 0x1p-53;
}
