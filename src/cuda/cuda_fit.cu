/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the two large arrays lie. Where all does not fit the card, Z, and if that is not enough base too, lie in memory of the
   host that is pinned and mapped into the card's addresses: the same kernels read and write them there over PCIe, and the result
   is the same bytes. What a run takes is known, and held against what there is, before anything is taken. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../method.h"
#include "cuda_backend.h"

static const int64_t HUGE_PAGE = 2 << 20, PAGE = 4096, TOUCH = 64 << 20;

/* Bytes of Z and of base where they lie on the host, in whole huge pages. */
static size_t pages_of(int64_t bytes)
{
    return (size_t)((bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}

static size_t Z_pages(const struct uni_cuda *c)
{
    return c->way >= Z_ON_HOST ? pages_of(c->v.N_all * c->v.Dz * 4) : 0;
}

static size_t base_pages(const struct uni_cuda *c)
{
    return c->way >= ROWS_ON_HOST ? pages_of(c->v.N * c->v.Kp * (c->v.single ? 4 : 2)) : 0;
}

int uni_cuda_room(int64_t *room, const char **is)
{
    int err = 0;
    size_t free_bytes = 0, total = 0;
    char *end = NULL;
    long long most = 0;
    const char *limit = getenv("UNISONO_CUDA_MEMORY");
    TRY(CUDA(cudaMemGetInfo(&free_bytes, &total)));
    *room = (int64_t)free_bytes;
    *is = "free";
    if (!limit || !*limit)
        return UNI_OK;
    most = strtoll(limit, &end, 10);
    if (*end || most <= 0)
        return uni_cuda_lib->fail(UNI_OPTION, "UNISONO_CUDA_MEMORY is \"%.60s\"; it must be a number of bytes", limit);
    if (most < *room) {
        *room = most;
        *is = "allowed by UNISONO_CUDA_MEMORY";
    }
done:
    return err;
}

/* The least traffic of a round: Z is read by two passes; base is read by these and by each sweep, and written once. */
static double moved_in_round(const struct uni_cuda *c)
{
    return 2 * (double)Z_pages(c) + (double)(c->p->sweeps + 3) * (double)base_pages(c);
}

static void describe(const struct uni_cuda *c, int64_t all, int64_t room, const char *is, struct uni_takes *takes)
{
    *takes->note = 0;
    if (c->way == ROWS_ON_CARD)
        return;
    snprintf(takes->note, sizeof takes->note,
             "%lld cells need %.3g GB of memory on the card, and %.3g are %s: %.3g GB lie there, and %s (%.3g GB) in the host's "
             "memory; "
             "each round moves %.3g GB over PCIe, which is slower",
             (long long)c->p->N_all, (double)all / 1e9, (double)room / 1e9, is, (double)takes->card / 1e9,
             c->way == Z_ON_HOST ? "the embedding" : "the embedding and the assignments", (double)takes->host / 1e9,
             moved_in_round(c) / 1e9);
}

int uni_cuda_choose(struct uni_cuda *c, const int64_t bytes[WAYS], struct uni_takes *takes)
{
    int err = 0;
    int64_t room = 0;
    const char *is = "";
    TRY(uni_cuda_room(&room, &is));
    for (c->way = 0; c->way < WAYS - 1 && bytes[c->way] > room;)
        c->way++;
    if (bytes[c->way] > room)
        TRY(uni_cuda_lib->fail(
            UNI_MEMORY,
            "%lld cells need %lld bytes of memory on the card, and %lld are %s, even with the embedding and the "
            "assignments in the host's memory; use fewer clusters, or backend cpu",
            (long long)c->p->N_all, (long long)bytes[c->way], (long long)room, is));
    takes->card = bytes[c->way];
    takes->host = (int64_t)(Z_pages(c) + base_pages(c));
    describe(c, bytes[ROWS_ON_CARD], room, is, takes);
done:
    return err;
}

int uni_cuda_host_has_room(const struct uni_cuda *c)
{
    int64_t needed = (int64_t)(Z_pages(c) + base_pages(c)), left = needed ? uni_cuda_lib->memory_left(NULL) : -1;
    if (left < 0 || needed <= left)
        return UNI_OK;
    return uni_cuda_lib->fail(
        UNI_MEMORY,
        "%lld cells do not fit the card and need %lld bytes of the host's memory, and %lld are available; use "
        "fewer clusters, or precision half",
        (long long)c->p->N_all, (long long)needed, (long long)left);
}

/* ---- pinned memory in quantity ------------------------------------------------------------------------------------------ */

/* cudaHostAlloc clears it page by page in one thread. Here each thread touches some, in huge pages, before the driver pins them.
 */
struct touching {
    const struct uni_problem *p;
    const struct uni_cuda_pages *pages;
};

static void touch(void *context, int64_t part)
{
    const struct touching *t = (const struct touching *)context;
    volatile char *at = (volatile char *)t->pages->at;
    int64_t bytes = (int64_t)t->pages->bytes, end = (part + 1) * TOUCH < bytes ? (part + 1) * TOUCH : bytes;
    for (int64_t i = part * TOUCH; i < end && !(t->p->cancel && *t->p->cancel); i += PAGE)
        at[i] = 0;
}

static int pages_open(struct uni_cuda_pages *pages, size_t bytes, struct uni_backend *b, const struct uni_problem *p)
{
    int err = 0;
    struct touching t = {p, pages};
    if (!bytes)
        return UNI_OK;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory of the host for cells that do not fit the card: %zu bytes asked for",
                                  bytes);
    pages->at = (char *)at;
    pages->bytes = bytes;
    (void)madvise(at, bytes, MADV_HUGEPAGE); /* a refusal changes nothing but the time */
    (void)madvise(at, bytes, MADV_DONTFORK); /* else the first write after a fork would go to a page that the card does not see */
    TRY(uni_cuda_each(b, ((int64_t)bytes + TOUCH - 1) / TOUCH, touch, &t));
    if (p->cancel && *p->cancel)
        TRY(uni_cuda_lib->fail(UNI_STOPPED, "cancelled by the caller"));
    TRY(CUDA(cudaHostRegister(at, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped)));
    pages->pinned = 1;
    TRY(CUDA(cudaHostGetDevicePointer(&pages->card, at, 0)));
done:
    return err;
}

static void pages_close(struct uni_cuda_pages *pages)
{
    if (pages->pinned)
        (void)cudaHostUnregister(pages->at);
    if (pages->at)
        munmap(pages->at, pages->bytes);
    *pages = {};
}

int uni_cuda_host_open(struct uni_cuda *c, struct uni_backend *b)
{
    int err = 0;
    TRY(pages_open(&c->host_Z, Z_pages(c), b, c->p));
    TRY(pages_open(&c->host_base, base_pages(c), b, c->p));
    if (c->host_Z.at)
        c->v.Z = (float *)c->host_Z.card;
    if (c->host_base.at)
        c->v.base = c->host_base.card;
done:
    return err;
}

void uni_cuda_host_close(struct uni_cuda *c)
{
    pages_close(&c->host_Z);
    pages_close(&c->host_base);
}
