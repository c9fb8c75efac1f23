/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of the program: seeded, and the same on every machine. */
#ifndef UNI_RANDOM_BITS_H
#define UNI_RANDOM_BITS_H

#include <stdint.h>

/* The next number of a stream (splitmix64: Steele, Lea and Flood 2014). */
static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t x = (*state += 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

#endif
