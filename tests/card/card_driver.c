/* SPDX-License-Identifier: BSD-3-Clause */
/* What a caller of the library uses himself: his memory and his streams, and what the driver says of an address. The stand-in is
 * found as libcuda.so.1, where it is loaded. These calls are the caller's: they are neither counted nor made to fail, but where
 * the card is broken for good. */
#include <string.h>

#include "card.h"

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801, LAUNCH_FAILED = 719 };
typedef unsigned long long address;

CARD_API int cuInit(unsigned flags);
CARD_API int cuDevicePrimaryCtxRetain(void **context, int device);
CARD_API int cuCtxSetCurrent(void *context);
CARD_API int cuMemAlloc_v2(address *at, size_t bytes);
CARD_API int cuMemFree_v2(address at);
CARD_API int cuMemHostAlloc(void **at, size_t bytes, unsigned flags);
CARD_API int cuMemFreeHost(void *at);
CARD_API int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags);
CARD_API int cuMemHostUnregister(void *at);
CARD_API int cuMemAllocManaged(address *at, size_t bytes, unsigned flags);
CARD_API int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes);
CARD_API int cuMemcpyDtoH_v2(void *to, address from, size_t bytes);
CARD_API int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream);
CARD_API int cuMemsetD8Async(address to, unsigned char value, size_t bytes, void *stream);
CARD_API int cuStreamCreate(void **stream, unsigned flags);
CARD_API int cuStreamSynchronize(void *stream);
CARD_API int cuStreamDestroy_v2(void *stream);
CARD_API int cuPointerGetAttributes(unsigned n, const int *which, void **values, address at);

#define CALLERS __attribute__((cleanup(card_unlock), unused)) int held = card_lock()

static int state(void)
{
    return card_is_dead() ? LAUNCH_FAILED : OK;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = context;
    return OK;
}

int cuCtxSetCurrent(void *context)
{
    (void)context;
    return OK;
}

int cuMemAlloc_v2(address *at, size_t bytes)
{
    CALLERS;
    void *got = card_take(NULL, bytes, CARD_OF_CARD);
    *at = (address)(uintptr_t)got;
    return got ? OK : OUT_OF_MEMORY;
}

int cuMemFree_v2(address at)
{
    CALLERS;
    return card_give((void *)(uintptr_t)at, CARD_OF_CARD, __func__) ? state() : INVALID_VALUE;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    CALLERS;
    (void)flags;
    *at = card_take(NULL, bytes, CARD_OF_HOST);
    return *at ? OK : OUT_OF_MEMORY;
}

int cuMemFreeHost(void *at)
{
    CALLERS;
    return card_give(at, CARD_OF_HOST, __func__) ? state() : INVALID_VALUE;
}

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    CALLERS;
    (void)flags;
    return card_take(at, bytes, CARD_REGISTERED) ? OK : OUT_OF_MEMORY;
}

int cuMemHostUnregister(void *at)
{
    CALLERS;
    return card_give(at, CARD_REGISTERED, __func__) ? state() : INVALID_VALUE;
}

int cuMemAllocManaged(address *at, size_t bytes, unsigned flags)
{
    (void)bytes, (void)flags;
    *at = 0;
    return NOT_SUPPORTED;
}

int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes)
{
    CALLERS;
    return state() ? state() : (int)card_copy((void *)(uintptr_t)to, from, bytes, cudaMemcpyHostToDevice, NULL, 1, __func__);
}

int cuMemcpyDtoH_v2(void *to, address from, size_t bytes)
{
    CALLERS;
    return state() ? state() : (int)card_copy(to, (void *)(uintptr_t)from, bytes, cudaMemcpyDeviceToHost, NULL, 1, __func__);
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream)
{
    CALLERS;
    return state() ? state() : (int)card_copy((void *)(uintptr_t)to, from, bytes, cudaMemcpyHostToDevice, stream, 0, __func__);
}

int cuMemsetD8Async(address to, unsigned char value, size_t bytes, void *stream)
{
    CALLERS;
    return state() ? state() : (int)card_fill((void *)(uintptr_t)to, value, bytes, stream, __func__);
}

int cuStreamCreate(void **stream, unsigned flags)
{
    CALLERS;
    (void)flags;
    *stream = card_new_stream();
    return OK;
}

int cuStreamSynchronize(void *stream)
{
    CALLERS;
    return state() ? state() : (int)card_await(stream, __func__);
}

int cuStreamDestroy_v2(void *stream)
{
    CALLERS;
    card_end_stream(stream);
    return state();
}

int cuPointerGetAttributes(unsigned n, const int *which, void **values, address at)
{
    CALLERS;
    int device;
    const void *first;
    size_t bytes;
    const unsigned type = (unsigned)card_region((const void *)(uintptr_t)at, &device, &first, &bytes), none = 0;
    for (unsigned i = 0; i < n && !card_is_dead(); i++) {
        const address begin = (address)(uintptr_t)first;
        switch (which[i]) {
        case 2:
            memcpy(values[i], &type, sizeof type);
            break;
        case 8:
            memcpy(values[i], &none, sizeof none);
            break;
        case 9:
            memcpy(values[i], &device, sizeof device);
            break;
        case 11:
            memcpy(values[i], &begin, sizeof begin);
            break;
        case 12:
            memcpy(values[i], &bytes, sizeof bytes);
            break;
        default:
            card_problem("the driver is asked for attribute %d", which[i]);
        }
    }
    return state();
}
