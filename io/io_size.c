/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and products of sizes. One that does not fit becomes INT64_MAX, which nothing has room for and every comparison finds too
   large; so a formula of several steps needs one check, at its end. A negative size is one that was too large before. */
#include <stdlib.h>

#include "io_internal.h"

int64_t io_product(int64_t a, int64_t b)
{
    int64_t product;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t io_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* No machine has more; a sanitizer's allocator ends the program rather than say no. */
static const int64_t most_memory = INT64_C(1) << 46;

void *io_room(int64_t count, size_t size)
{
    int64_t bytes = io_product(count, (int64_t)size);
    return bytes > most_memory ? NULL : malloc(bytes ? (size_t)bytes : 1);
}

void *io_room_zeroed(int64_t count, size_t size)
{
    int64_t bytes = io_product(count, (int64_t)size);
    return bytes > most_memory ? NULL : calloc(bytes ? (size_t)bytes : 1, 1);
}

void *io_room_grown(void *memory, int64_t count, size_t size)
{
    int64_t bytes = io_product(count, (int64_t)size);
    return bytes > most_memory ? NULL : realloc(memory, bytes ? (size_t)bytes : 1);
}

/* deflate makes at most 1032 out of one byte; the constant is for what small files hold beside values. */
enum { MOST_EXPANSION = 1100, ALLOWANCE = 1 << 20 };

int64_t io_most_expanded(int64_t bytes)
{
    return io_sum(io_product(bytes, MOST_EXPANSION), ALLOWANCE);
}
