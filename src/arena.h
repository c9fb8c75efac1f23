/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything a part of the library needs, listed once: the same list says how many bytes, and deals them out of one block. */
#ifndef UNI_ARENA_H
#define UNI_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct uni_array_row {
    void *where; /* address of the pointer to set */
    int64_t count;
    size_t size;
};

#define UNI_ARRAY(pointer, n)                                                                                                    \
    {                                                                                                                            \
        &(pointer), (n), sizeof *(pointer)                                                                                       \
    }

struct uni_arena {
    void *block;
    int64_t bytes;
};

/* a x b; INT64_MAX where that is more, or one of them is negative. Every product of sizes that a caller chooses goes through it,
   or follows from one that did. */
int64_t uni_product(int64_t a, int64_t b);

/* Bytes of the whole list; -1 where they exceed what an int64_t can say. */
int64_t uni_arena_bytes(const struct uni_array_row *rows, int n);

/* Takes one block, zeroed, every array on a border of 64 bytes, and sets the pointers. what: whose memory, for the sentence. */
int uni_arena_open(struct uni_arena *, const struct uni_array_row *rows, int n, const char *what);
/* The memory of an array of the arena that is not needed any more, before the arena is closed. */
void uni_arena_give_back(const void *array, int64_t bytes);
void uni_arena_close(struct uni_arena *);

#endif
