/* SPDX-License-Identifier: BSD-3-Clause */
/* Which call fails, the errors, the devices, and the report: card.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"

int card_degenerate, card_from_ptx, card_host_rows;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long calls, fail_at, turn;
enum { MOST_NOTED = 20000 };
static char noted[MOST_NOTED];
static cudaError_t failure = cudaErrorMemoryAllocation, dead;
static char failed[64], problems[1 << 16], answer[1 << 17];
static long long count = 1, free_bytes = 80000000000, capability = 90;
static _Thread_local cudaError_t last;
static _Thread_local int device;
static int used[16]; /* has this process a context on the device? */
static FILE *list;

int card_lock(void)
{
    pthread_mutex_lock(&mutex);
    return 1;
}

void card_unlock(int *held)
{
    (void)held;
    pthread_mutex_unlock(&mutex);
}

void card_problem(const char *format, ...)
{
    size_t length = strlen(problems);
    va_list args;
    va_start(args, format);
    vsnprintf(problems + length, sizeof problems - length, format, args);
    va_end(args);
    length = strlen(problems);
    snprintf(problems + length, sizeof problems - length, "\n");
}

/* After one of these nothing works any more in the process. */
static int stays(cudaError_t error)
{
    return error == cudaErrorInsufficientDriver || error == cudaErrorIllegalAddress || error == cudaErrorLaunchTimeout ||
           error == cudaErrorLaunchFailure || error == cudaErrorECCUncorrectable ||
           (error >= cudaErrorHardwareStackError && error <= cudaErrorInvalidPc);
}

cudaError_t card_says(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
    return error;
}

int card_is_dead(void)
{
    return dead != cudaSuccess;
}

/* Is this the first call from its place, since card_begin (1), or at all (2)? */
static int newness(const void *caller)
{
    static struct {
        const void *caller;
        long turn;
    } places[4096];
    int i = 0;
    while (i < 4095 && places[i].caller && places[i].caller != caller)
        i++;
    int new = !places[i].caller ? 2 : places[i].turn != turn;
    places[i].caller = caller;
    places[i].turn = turn;
    return new;
}

static void note(const char *function, const void *caller)
{
    if (calls < MOST_NOTED)
        noted[calls] = (char)newness(caller);
    Dl_info place;
    if (!list)
        return;
    if (!dladdr(caller, &place))
        place.dli_fbase = NULL;
    fprintf(list, "%ld %s %#lx\n", calls, function, (unsigned long)((const char *)caller - (const char *)place.dli_fbase));
    fflush(list);
}

cudaError_t card_fate(const char *function, const void *caller)
{
    calls++;
    note(function, caller);
    if (dead == cudaSuccess && calls == fail_at) {
        snprintf(failed, sizeof failed, "%s", function);
        if (!stays(failure))
            return card_says(failure);
        dead = failure;
        card_drop();
    }
    return card_says(dead);
}

int card_count(void)
{
    return (int)count;
}

void card_use(void)
{
    used[device] = 1;
}

int card_device(void)
{
    return device;
}

/* ---- for tests ----------------------------------------------------------------------------------------------------------- */

void card_begin(long at, int error)
{
    __attribute__((cleanup(card_unlock), unused)) int held = card_lock();
    calls = 0;
    turn++;
    fail_at = at;
    failure = error ? (cudaError_t)error : cudaErrorMemoryAllocation;
    dead = last = cudaSuccess;
    device = 0;
    *failed = *problems = 0;
    memset(used, 0, sizeof used);
    card_host_rows = 0;
}

int card_on_host(void)
{
    return card_host_rows;
}

int card_used(int which)
{
    return used[which];
}

int card_current(void)
{
    return device;
}

long card_calls(void)
{
    return calls;
}

int card_is_new(long call)
{
    return call < MOST_NOTED ? noted[call] : 0;
}

const char *card_failed(void)
{
    return failed;
}

const char *card_problems(void)
{
    __attribute__((cleanup(card_unlock), unused)) int held = card_lock();
    snprintf(answer, sizeof answer, "%s%s%s", problems, card_memory_left(), card_streams_left());
    return answer;
}

void card_set(const char *name, long long value)
{
    if (strcmp(name, "count") == 0)
        count = value;
    else if (strcmp(name, "free") == 0)
        free_bytes = value;
    else if (strcmp(name, "capability") == 0)
        capability = value;
    else if (strcmp(name, "degenerate") == 0)
        card_degenerate = (int)value;
    else if (strcmp(name, "from ptx") == 0)
        card_from_ptx = (int)value;
    else if (strcmp(name, "current") == 0)
        used[device = (int)value] = 1;
}

static long long from_environment(const char *name, long long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoll(text) : otherwise;
}

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("CARD_LIST");
    list = name && *name ? fopen(name, "w") : NULL;
    fail_at = (long)from_environment("CARD_FAIL_AT", 0);
    failure = (cudaError_t)from_environment("CARD_ERROR", cudaErrorMemoryAllocation);
    count = from_environment("CARD_COUNT", count);
    free_bytes = from_environment("CARD_FREE", free_bytes);
    capability = from_environment("CARD_CAPABILITY", capability);
    card_degenerate = (int)from_environment("CARD_DEGENERATE", 0);
}

__attribute__((destructor)) static void end(void)
{
    const char *name = getenv("CARD_REPORT");
    FILE *report = name && *name ? fopen(name, "w") : NULL;
    if (!report)
        return;
    fputs(card_problems(), report);
    if (fail_at > calls)
        fprintf(report, "only %ld calls were made\n", calls);
    fclose(report);
}

/* ---- errors and devices -------------------------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void)
{
    CARD_OPEN;
    cudaError_t was = fate != cudaSuccess ? fate : last;
    last = cudaSuccess;
    return was;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch",
     "system has unsupported display driver / cuda driver combination"},
};

static size_t find_error(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return i;
    return 1;
}

/* These two ask the card nothing. */
const char *cudaGetErrorName(cudaError_t error)
{
    return errors[find_error(error)].name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return errors[find_error(error)].text;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    CARD_CALL;
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    CARD_CALL;
    *n = (int)count;
    return count ? cudaSuccess : card_says(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *card, int which)
{
    CARD_CALL;
    if (which < 0 || which >= count)
        return card_says(cudaErrorInvalidDevice);
    memset(card, 0, sizeof *card);
    snprintf(card->name, sizeof card->name, "made-up card %d", which);
    card->major = (int)capability / 10;
    card->minor = (int)capability % 10;
    card->multiProcessorCount = 4;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int which)
{
    CARD_CALL;
    if (which < 0 || which >= count || what != cudaDevAttrMaxSharedMemoryPerBlockOptin)
        return card_says(cudaErrorInvalidValue);
    *value = 227 << 10;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int which)
{
    CARD_CALL;
    if (which < 0 || which >= count)
        return card_says(cudaErrorInvalidDevice);
    device = which;
    card_use();
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *which)
{
    CARD_CALL;
    *which = device;
    return cudaSuccess;
}

/* What the driver says of a device that the runtime has not been asked for: a name of the driver, not of the runtime. */
static int context_state(int which, unsigned *flags, int *active)
{
    *flags = 0;
    *active = used[which];
    return 0;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *how)
{
    CARD_CALL;
    (void)version, (void)flags;
    int (*function)(int, unsigned *, int *) = context_state;
    *found = NULL;
    *how = cudaDriverEntryPointSymbolNotFound;
    if (strcmp(name, "cuDevicePrimaryCtxGetState") == 0) {
        memcpy(found, &function, sizeof function);
        *how = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    CARD_CALL;
    card_drain_device(device);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_now, size_t *total)
{
    CARD_CALL;
    card_use();
    int64_t taken = card_taken(device);
    *free_now = (size_t)(free_bytes > taken ? free_bytes - taken : 0);
    *total = 85000000000;
    return cudaSuccess;
}
