/* SPDX-License-Identifier: BSD-3-Clause */
/* A caller of the library who has memory and streams of his own: by the driver's functions, which are found where there is a
   driver (or tests/card's stand-in for one). */
#ifndef TESTS_CUDA_CALLER_H
#define TESTS_CUDA_CALLER_H

#include <stdint.h>

enum place { PAGEABLE, ON_CARD, PINNED, REGISTERED, MANAGED };

/* 0: there is no driver. Of device 0, for the calling thread. */
int caller_open(void);
/* NULL: there is no such memory here. It must be given back. */
void *caller_take(enum place, int64_t bytes);
void caller_give(enum place, void *);
/* Between memory of a place and this process's; done on return. 0: it failed. */
int caller_copy_to(enum place, void *there, const void *from, int64_t bytes);
int caller_copy_from(enum place, void *to, const void *there, int64_t bytes);

void *caller_stream(void);
void caller_end_stream(void *);
/* Queues work that takes a while, in memory of the card, and then a copy from pinned memory to there. */
int caller_copy_later(void *there, const void *pinned, int64_t bytes, void *stream, void *scratch, int64_t scratch_bytes);
int caller_await(void *stream);

#endif
