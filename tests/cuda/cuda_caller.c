/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda_caller.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;
static struct {
    int (*init)(unsigned), (*retain)(void **, int), (*current)(void *);
    int (*take)(address *, size_t), (*give)(address);
    int (*take_pinned)(void **, size_t, unsigned), (*give_pinned)(void *);
    int (*pin)(void *, size_t, unsigned), (*unpin)(void *);
    int (*take_managed)(address *, size_t, unsigned);
    int (*to)(address, const void *, size_t), (*from)(void *, address, size_t),
        (*to_later)(address, const void *, size_t, void *);
    int (*fill)(address, unsigned char, size_t, void *);
    int (*stream)(void **, unsigned), (*await)(void *), (*end)(void *);
} driver;

static const struct {
    const char *name;
    void *where;
} functions[] = {{"cuInit", &driver.init},
                 {"cuDevicePrimaryCtxRetain", &driver.retain},
                 {"cuCtxSetCurrent", &driver.current},
                 {"cuMemAlloc_v2", &driver.take},
                 {"cuMemFree_v2", &driver.give},
                 {"cuMemHostAlloc", &driver.take_pinned},
                 {"cuMemFreeHost", &driver.give_pinned},
                 {"cuMemHostRegister_v2", &driver.pin},
                 {"cuMemHostUnregister", &driver.unpin},
                 {"cuMemAllocManaged", &driver.take_managed},
                 {"cuMemcpyHtoD_v2", &driver.to},
                 {"cuMemcpyDtoH_v2", &driver.from},
                 {"cuMemcpyHtoDAsync_v2", &driver.to_later},
                 {"cuMemsetD8Async", &driver.fill},
                 {"cuStreamCreate", &driver.stream},
                 {"cuStreamSynchronize", &driver.await},
                 {"cuStreamDestroy_v2", &driver.end}};

int caller_open(void)
{
    void *context, *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found)
            return 0;
        memcpy(functions[i].where, &found, sizeof found);
    }
    return driver.init(0) == 0 && driver.retain(&context, 0) == 0 && driver.current(context) == 0;
}

void *caller_take(enum place place, int64_t bytes)
{
    void *at = NULL;
    address there = 0;
    if (place == PINNED)
        return driver.take_pinned(&at, (size_t)bytes, 0) == 0 ? at : NULL;
    if (place == PAGEABLE || place == REGISTERED) {
        at = malloc((size_t)bytes);
        if (at && place == REGISTERED && driver.pin(at, (size_t)bytes, 0) != 0) {
            free(at);
            at = NULL;
        }
        return at;
    }
    int err = place == ON_CARD ? driver.take(&there, (size_t)bytes) : driver.take_managed(&there, (size_t)bytes, 1);
    return err ? NULL : (void *)(uintptr_t)there;
}

void caller_give(enum place place, void *at)
{
    if (at && place == REGISTERED)
        (void)driver.unpin(at);
    if (place == PAGEABLE || place == REGISTERED)
        free(at);
    else if (at && place == PINNED)
        (void)driver.give_pinned(at);
    else if (at)
        (void)driver.give((address)(uintptr_t)at);
}

int caller_copy_to(enum place place, void *there, const void *from, int64_t bytes)
{
    if (place == ON_CARD)
        return driver.to((address)(uintptr_t)there, from, (size_t)bytes) == 0;
    memcpy(there, from, (size_t)bytes);
    return 1;
}

int caller_copy_from(enum place place, void *to, const void *there, int64_t bytes)
{
    if (place == ON_CARD)
        return driver.from(to, (address)(uintptr_t)there, (size_t)bytes) == 0;
    memcpy(to, there, (size_t)bytes);
    return 1;
}

void *caller_stream(void)
{
    void *stream = NULL;
    return driver.stream(&stream, 1) == 0 ? stream : NULL; /* 1: it waits for no other */
}

void caller_end_stream(void *stream)
{
    if (stream)
        (void)driver.end(stream);
}

int caller_copy_later(void *there, const void *pinned, int64_t bytes, void *stream, void *scratch, int64_t scratch_bytes)
{
    enum { FILLS = 30 };
    int err = 0;
    for (int i = 0; i < FILLS && !err; i++)
        err = driver.fill((address)(uintptr_t)scratch, (unsigned char)i, (size_t)scratch_bytes, stream);
    return !err && driver.to_later((address)(uintptr_t)there, pinned, (size_t)bytes, stream) == 0;
}

int caller_await(void *stream)
{
    return driver.await(stream) == 0;
}
