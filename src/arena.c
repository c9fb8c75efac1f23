/* SPDX-License-Identifier: BSD-3-Clause */
#define _DEFAULT_SOURCE
#include "arena.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"
#include "unisono.h"

enum { BORDER = 64, SLACK = 64 /* kernels may read one vector past an array's end */ };

int64_t uni_product(int64_t a, int64_t b)
{
    int64_t product;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t padded(const struct uni_array_row *row)
{
    int64_t bytes;
    if (row->count < 0 || __builtin_mul_overflow(row->count, (int64_t)row->size, &bytes) || bytes > INT64_MAX - BORDER - SLACK)
        return -1;
    return (bytes + SLACK + BORDER - 1) / BORDER * BORDER;
}

int64_t uni_arena_bytes(const struct uni_array_row *rows, int n)
{
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        int64_t bytes = padded(&rows[i]);
        if (bytes < 0 || __builtin_add_overflow(total, bytes, &total))
            return -1;
    }
    return total;
}

int uni_arena_open(struct uni_arena *arena, const struct uni_array_row *rows, int n, const char *what)
{
    int64_t bytes = uni_arena_bytes(rows, n);
    arena->block = NULL;
    arena->bytes = 0;
    if (bytes < 0)
        return uni_fail(UNI_MEMORY, "the sizes asked for exceed 2^63 bytes of memory for %s; use fewer cells, clusters or levels",
                        what);
    /* Mapped, not malloc'd: pages are zero, come when they are first written, and go back when the run ends. */
    void *block = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return uni_fail(UNI_MEMORY,
                        "no memory for %s: %.1f MB asked for; use fewer cells or clusters, or a machine with more memory", what,
                        (double)bytes / 1e6);
#ifdef MADV_HUGEPAGE
    if (bytes >= (int64_t)1 << 22) /* fewer page faults and address look-ups; a refusal changes nothing */
        (void)madvise(block, (size_t)bytes, MADV_HUGEPAGE);
#endif
    arena->block = block;
    arena->bytes = bytes;
    char *next = block;
    for (int i = 0; i < n; i++) {
        memcpy(rows[i].where, &next, sizeof next);
        next += padded(&rows[i]);
    }
    return UNI_OK;
}

void uni_arena_give_back(const void *array, int64_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)array + page - 1) / page * page,
                    end = ((uintptr_t)array + (uintptr_t)bytes) / page * page;
    if (from < end) /* whole pages alone: the neighbours' values stay */
        (void)madvise((void *)from, end - from, MADV_DONTNEED);
}

void uni_arena_close(struct uni_arena *arena)
{
    if (arena->block)
        munmap(arena->block, (size_t)arena->bytes);
    arena->block = NULL;
    arena->bytes = 0;
}
