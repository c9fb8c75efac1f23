/* SPDX-License-Identifier: BSD-3-Clause */
/* Where memory of the caller's lies. Whoever has memory of a card, or pinned memory, has loaded the driver: it is asked if it is
   there, and never loaded, so that this holds for every build and costs microseconds where there is no CUDA. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../backend.h"

/* Of cuda.h. */
enum { TYPE = 2, IS_MANAGED = 8, ORDINAL = 9, RANGE_START = 11, RANGE_SIZE = 12 };
enum { ON_HOST = 1, ON_CARD = 2 };
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, DEINITIALIZED = 4, INVALID_CONTEXT = 201 };
typedef int (*attributes_of)(unsigned n, const int *which, void **values, unsigned long long at);

struct said {
    unsigned type, managed;
    int device;
    unsigned long long first;
    size_t bytes;
};

/* Returns the driver's error. Of memory that it does not know all is 0. */
static int ask(struct said *s, attributes_of driver, uintptr_t at)
{
    static const int which[] = {TYPE, IS_MANAGED, ORDINAL, RANGE_START, RANGE_SIZE};
    void *values[] = {&s->type, &s->managed, &s->device, &s->first, &s->bytes};
    *s = (struct said){0};
    return driver(sizeof which / sizeof *which, which, values, at);
}

static enum uni_where where_of(const struct said *s)
{
    return s->managed ? UNI_MANAGED : s->type == ON_CARD ? UNI_ON_CARD : s->type == ON_HOST ? UNI_PINNED : UNI_PAGEABLE;
}

static enum uni_where find(attributes_of driver, uintptr_t at, int64_t bytes, int64_t *device)
{
    struct said begin, end;
    int error = ask(&begin, driver, at);
    if (error == INVALID_VALUE || error == NOT_INITIALIZED || error == DEINITIALIZED || error == INVALID_CONTEXT)
        return UNI_PAGEABLE;
    if (error != SUCCESS)
        return UNI_UNSAID;
    enum uni_where where = where_of(&begin);
    const unsigned long long offset = (unsigned long long)at - begin.first;
    *device = begin.device;
    if (where == UNI_PINNED) /* what is pinned in part only is left to the processors */
        return offset <= begin.bytes && (unsigned long long)bytes <= begin.bytes - offset ? UNI_PINNED : UNI_PAGEABLE;
    if (where == UNI_PAGEABLE)
        return where;
    /* An allocation may be of several ranges: asked is for both ends. */
    error = ask(&end, driver, at + (uintptr_t)bytes - 1);
    return error != SUCCESS ? UNI_UNSAID : where_of(&end) != where || end.device != begin.device ? UNI_TORN : where;
}

/* The kernel writes four bytes there, or finds that it cannot. */
int uni_is_writable(void *at)
{
    return syscall(SYS_getcpu, at, NULL, NULL) == 0;
}

enum uni_where uni_where_is(const void *first, int64_t bytes, int64_t *device)
{
    *device = 0;
    void *loaded = bytes > 0 ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (!loaded) {
        (void)dlerror(); /* that it is not there is no news for the caller */
        return UNI_PAGEABLE;
    }
    attributes_of driver;
    *(void **)&driver = dlsym(loaded, "cuPointerGetAttributes");
    enum uni_where where = driver ? find(driver, (uintptr_t)first, bytes, device) : UNI_PAGEABLE;
    dlclose(loaded);
    return where;
}
