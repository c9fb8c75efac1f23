/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory on the card and pinned memory. An address on the card is one of a range that nobody can touch; what it stands for lies
 * elsewhere. Addresses are not used again, so that what is freed is known as such. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "card.h"

struct region {
    struct region *next;
    char *at, *storage; /* storage: of memory on the card */
    size_t bytes;
    int device, on_card, registered, mapped; /* registered: the host's own, pinned afterwards */
};

static struct region *regions;
static char *range, *range_end, *range_next, left[4096];

static struct region *find(const void *at)
{
    for (struct region *r = regions; r; r = r->next)
        if ((const char *)at >= r->at && (const char *)at < r->at + r->bytes)
            return r;
    return NULL;
}

static char *new_address(size_t bytes)
{
    size_t size = (size_t)1 << 42;
    while (!range && size > (size_t)1 << 32) {
        void *got = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        range = got == MAP_FAILED ? NULL : got;
        range_end = range + size;
        range_next = range;
        size /= 2;
    }
    size_t whole = (bytes + 65535) / 65536 * 65536 + 65536; /* and a gap */
    if (!range || (size_t)(range_end - range_next) < whole)
        return NULL;
    char *at = range_next;
    range_next += whole;
    return at;
}

enum card_side card_side_of(const void *at, size_t bytes, int device)
{
    const struct region *r = find(at);
    int in_range = (const char *)at >= range && (const char *)at < range_end;
    if (!r)
        return in_range ? CARD_NOWHERE : CARD_PAGEABLE;
    if ((size_t)(r->at + r->bytes - (const char *)at) < bytes)
        return CARD_NOWHERE;
    return !r->on_card ? CARD_PINNED : r->device == device ? CARD_DEVICE : CARD_NOWHERE;
}

void *card_storage(const void *at)
{
    const struct region *r = find(at);
    return !r ? (void *)(uintptr_t)at : r->on_card ? r->storage + ((const char *)at - r->at) : r->at + ((const char *)at - r->at);
}

int card_is_mapped(const void *at, size_t bytes)
{
    const struct region *r = find(at);
    return r && !r->on_card && r->mapped && (size_t)(r->at + r->bytes - (const char *)at) >= bytes;
}

int64_t card_taken(int device)
{
    int64_t sum = 0;
    for (const struct region *r = regions; r; r = r->next)
        sum += r->on_card && r->device == device ? (int64_t)r->bytes : 0;
    return sum;
}

const char *card_memory_left(void)
{
    size_t used = 0;
    *left = 0;
    for (const struct region *r = regions; r && used < sizeof left - 100; r = r->next)
        used += (size_t)snprintf(left + used, sizeof left - used, "%zu bytes of %s memory were not given back\n", r->bytes,
                                 r->on_card      ? "the card's"
                                 : r->registered ? "registered"
                                                 : "pinned");
    return left;
}

void *card_take(void *at, size_t bytes, enum card_kind_of_memory kind)
{
    card_use();
    struct region *r = calloc(1, sizeof *r);
    char *storage = kind == CARD_REGISTERED ? NULL : calloc(bytes ? bytes : 1, 1);
    at = kind == CARD_OF_CARD ? new_address(bytes) : kind == CARD_OF_HOST ? storage : at;
    if (!r || !at || bytes == 0) {
        free(r), free(storage);
        return NULL;
    }
    *r = (struct region){
        regions, at, storage, bytes, card_device(), kind == CARD_OF_CARD, kind == CARD_REGISTERED, kind != CARD_OF_CARD};
    regions = r;
    return at;
}

static cudaError_t take(void **where, size_t bytes, enum card_kind_of_memory kind)
{
    *where = card_take(NULL, bytes, kind);
    return *where || bytes == 0 ? cudaSuccess : card_says(cudaErrorMemoryAllocation);
}

int card_region(const void *at, int *device, const void **first, size_t *bytes)
{
    const struct region *r = find(at);
    *device = r ? r->device : 0;
    *first = r ? r->at : NULL;
    *bytes = r ? r->bytes : 0;
    return !r ? 0 : r->on_card ? 2 : 1;
}

int card_give(void *at, enum card_kind_of_memory kind, const char *function)
{
    struct region *r = find(at);
    if (!r || r->at != at || r->on_card != (kind == CARD_OF_CARD) || r->registered != (kind == CARD_REGISTERED)) {
        card_problem("%s of %p, which is nothing to be freed so", function, at);
        return 0;
    }
    if (r->on_card)
        card_drain_device(r->device);
    else
        card_pending(r->at, r->bytes, "pinned memory was freed");
    struct region **link = &regions;
    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    free(r->storage);
    free(r);
    return 1;
}

cudaError_t cudaMalloc(void **where, size_t bytes)
{
    CARD_CALL;
    return take(where, bytes, CARD_OF_CARD);
}

cudaError_t cudaHostAlloc(void **where, size_t bytes, unsigned flags)
{
    CARD_CALL;
    (void)flags;
    return take(where, bytes, CARD_OF_HOST);
}

/* What fails to be given back cannot be given back again: it counts as given. */
cudaError_t cudaFree(void *at)
{
    CARD_OPEN;
    if (at)
        card_give(at, CARD_OF_CARD, __func__);
    return fate;
}

cudaError_t cudaFreeHost(void *at)
{
    CARD_OPEN;
    if (at)
        card_give(at, CARD_OF_HOST, __func__);
    return fate;
}

/* ---- memory of the host that is pinned afterwards ------------------------------------------------------------------------ */

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
    CARD_CALL;
    for (const struct region *other = regions; other; other = other->next)
        if ((char *)at < other->at + other->bytes && other->at < (char *)at + bytes) {
            card_problem("memory was registered twice, or is the card's");
            return card_says(cudaErrorInvalidValue);
        }
    if (!card_take(at, bytes, CARD_REGISTERED))
        return card_says(cudaErrorMemoryAllocation);
    regions->mapped = (flags & cudaHostRegisterMapped) != 0;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *at)
{
    CARD_OPEN;
    card_unfinished("memory was unregistered");
    card_give(at, CARD_REGISTERED, __func__);
    return fate;
}

cudaError_t cudaHostGetDevicePointer(void **card, void *at, unsigned flags)
{
    CARD_CALL;
    if (flags || !card_is_mapped(at, 1)) {
        card_problem("%s of memory that is not mapped", __func__);
        return card_says(cudaErrorInvalidValue);
    }
    *card = at;
    return cudaSuccess;
}
