/* SPDX-License-Identifier: BSD-3-Clause */
/* A card that is none: the functions of the CUDA runtime that src/cuda calls, for machines without a card. The plugin's own host
 * code is linked with it instead of with the runtime, and loaded as ever. What it stands in for is made as strict as what is
 * documented:
 *
 * - an address on the card is no address here: the host that reads or writes it dies;
 * - a copy must lie within an allocation that is not yet freed, on the side that it is said to be on;
 * - what is asynchronous happens as late as it may: when its stream, or an event recorded behind it, is waited for;
 * - streams, events and launches belong to a device, which must be the thread's current one;
 * - a graph is captured and launched, or refused, as there; grids and shared memory have a card's limits;
 * - an error stays the thread's last one until it is asked for, and one of a kernel's kind stays for good;
 * - memory of the host that a kernel is given is pinned and mapped, and is not let go while a kernel is under way;
 * - all is given back in the end, once.
 *
 * Kernels do nothing, but for those that the host's way depends on, which leave something plausible (card_kernels.cu).
 *
 * The environment:
 *     CARD_FAIL_AT=N        the call number N, from 1, fails; calls are counted from the first on
 *     CARD_ERROR=CODE       with this cudaError (2, out of memory, unless given); 700 and the like stay
 *     CARD_LIST=FILE        writes every call: number, function, where the plugin makes it
 *     CARD_REPORT=FILE      at exit: what was broken of the above, and what was not given back; empty where all is well
 *     CARD_COUNT=N CARD_FREE=BYTES CARD_CAPABILITY=75     how many cards, the free memory of each, 7.5
 *     CARD_DEGENERATE=1     the ridge systems are degenerate, so that the library solves
 * A test in the same process calls the functions below. */
#ifndef TESTS_CARD_H
#define TESTS_CARD_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CARD_API __attribute__((visibility("default")))

/* ---- for tests in the same process: names for dlsym */

/* A new process, as it were: no error stays, calls are counted from 1, and call `at` fails with `error`; 0: none. */
CARD_API void card_begin(long at, int error);
CARD_API long card_calls(void);           /* since then */
CARD_API int card_is_new(long call);      /* is it the first from its place since then (1), or at all (2)? */
CARD_API const char *card_failed(void);   /* the function that was made to fail, or "" */
CARD_API const char *card_problems(void); /* what was broken since, and what is not given back as it stands; a line each */
CARD_API void card_set(const char *name,
                       long long value); /* "count", "free", "capability", "degenerate", "from ptx"; "current": this thread's device */
CARD_API int card_current(void);         /* this thread's device */
CARD_API int card_used(int device);      /* has anything been made on it? */
CARD_API int card_on_host(void);         /* since card_begin: kernels were given Z (1), base (2) in memory of the host */

/* ---- among its files */

/* card_calls.c */
extern int card_degenerate, card_from_ptx; /* the ridge systems are; kernels are what the driver compiled */
void card_problem(const char *format, ...) __attribute__((format(printf, 1, 2)));
int card_lock(void);
void card_unlock(int *held);
cudaError_t card_fate(const char *function, const void *caller); /* of the call that begins */
cudaError_t card_says(cudaError_t);                              /* ends it: the thread's last error is this one, if it is one */
int card_is_dead(void);
int card_count(void);
void card_use(void);   /* something is made on the thread's device */
int card_device(void); /* the thread's current one */

/* Every function begins with one of these. OPEN: as it is. CALL: and ends where the call fails. */
#define CARD_OPEN                                                                                                                \
    __attribute__((cleanup(card_unlock), unused)) int held = card_lock();                                                        \
    const cudaError_t fate = card_fate(__func__, __builtin_return_address(0))
#define CARD_CALL                                                                                                                \
    CARD_OPEN;                                                                                                                   \
    if (fate != cudaSuccess)                                                                                                     \
    return fate

/* card_memory.c */
enum card_side { CARD_DEVICE, CARD_PINNED, CARD_PAGEABLE, CARD_NOWHERE };
enum card_side card_side_of(const void *at, size_t bytes,
                            int device); /* NOWHERE: on a card, but not within what is allocated there */
void *card_storage(const void *at);      /* where it really lies */
const char *card_memory_left(void);
int64_t card_taken(int device);
int card_is_mapped(const void *at, size_t bytes); /* in memory of the host, for kernels */
extern int card_host_rows;

enum card_kind_of_memory { CARD_OF_CARD, CARD_OF_HOST, CARD_REGISTERED };
void *card_take(void *at, size_t bytes, enum card_kind_of_memory);       /* at: what is registered */
int card_give(void *at, enum card_kind_of_memory, const char *function); /* 0: it was nothing of that kind */
/* What the driver says: 0 unknown, 1 the host's, 2 a card's; of which device; its beginning and size. */
int card_region(const void *at, int *device, const void **first, size_t *bytes);

/* card_streams.c */
cudaError_t card_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind, cudaStream_t, int waits,
                      const char *function);
cudaError_t card_fill(void *to, int value, size_t bytes, cudaStream_t, const char *function);
cudaStream_t card_new_stream(void);
void card_end_stream(cudaStream_t);
cudaError_t card_await(cudaStream_t, const char *function);
void card_pending(const void *at, size_t bytes, const char *what); /* a problem if something asynchronous is still to touch it */
void card_unfinished(const char *what);                            /* a problem if a kernel is under way */
void card_drain_device(int device);
void card_drop(void); /* the device is dead: nothing that waits will happen */
const char *card_streams_left(void);

/* card_kernels.cu */
#define CARD_MOST_ARGUMENTS 2048
struct card_kernel {
    const char *name;                                         /* of the function, without its types */
    void (*run)(const void *const *arguments, unsigned grid); /* pointers to the arguments, in their order */
    size_t sizes[10];                                         /* of them; 0 ends */
};
const struct card_kernel *card_kernel_of(const char *mangled); /* NULL: it does nothing */

#ifdef __cplusplus
}
#endif
#endif
