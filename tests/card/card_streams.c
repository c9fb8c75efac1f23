/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asynchronous: copies, launches and graphs wait in their stream until somebody waits for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card_streams.h"

static struct CUstream_st *streams, usual[16]; /* usual: the NULL stream of each device */
static struct CUevent_st *events;
struct CUgraph_st *card_graphs;
static uint64_t tickets;
static char left[4096];

/* ---- steps --------------------------------------------------------------------------------------------------------------- */

static void drain_stream(const struct CUstream_st *which, uint64_t ticket);

static void do_step(const struct card_step *s)
{
    const void *arguments[10];
    size_t at = 0;
    switch (s->kind) {
    case CARD_COPY:
        memcpy(card_storage(s->to), card_storage(s->from), s->bytes);
        break;
    case CARD_SET:
        memset(card_storage(s->to), s->value, s->bytes);
        break;
    case CARD_KERNEL:
        for (int i = 0; s->kernel && i < 10 && s->kernel->sizes[i]; i++) {
            arguments[i] = s->arguments + at;
            at += (s->kernel->sizes[i] + 15) / 16 * 16;
        }
        if (s->kernel)
            s->kernel->run(arguments, s->grid);
        break;
    case CARD_WAIT:
        drain_stream(s->to, s->until);
        break;
    default:
        break;
    }
}

/* Up to and with the one of that ticket; 0: all. */
static void drain(struct CUstream_st *s, uint64_t ticket)
{
    while (s->first && (ticket == 0 || s->first->ticket <= ticket)) {
        struct card_step *now = s->first;
        s->first = now->next;
        do_step(now);
        free(now);
    }
}

/* One that may have been destroyed since. */
static void drain_stream(const struct CUstream_st *which, uint64_t ticket)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s == which)
            drain(s, ticket);
    for (int i = 0; i < 16; i++)
        if (&usual[i] == which)
            drain(&usual[i], ticket);
}

void card_append(struct card_step **first, const struct card_step *like)
{
    struct card_step *s = malloc(sizeof *s);
    if (!s)
        abort();
    *s = *like;
    s->ticket = ++tickets;
    s->next = NULL;
    while (*first)
        first = &(*first)->next;
    *first = s;
}

void card_forget(struct card_step **first)
{
    for (struct card_step *s = *first, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    *first = NULL;
}

/* Streams that are destroyed and empty are gone. */
static void sweep_up(void)
{
    for (struct CUstream_st **link = &streams; *link;) {
        struct CUstream_st *s = *link;
        if (s->destroyed && !s->first) {
            *link = s->next;
            free(s);
        } else {
            link = &s->next;
        }
    }
}

void card_drain_device(int device)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->device == device)
            drain(s, 0);
    drain(&usual[device], 0);
    sweep_up();
}

void card_drop(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        card_forget(&s->first);
    for (int i = 0; i < 16; i++)
        card_forget(&usual[i].first);
}

static int touches(const struct card_step *s, const char *at, size_t bytes)
{
    const char *to = s->to, *from = s->from;
    return s->kind == CARD_COPY && ((to < at + bytes && at < to + s->bytes) || (from < at + bytes && at < from + s->bytes));
}

void card_pending(const void *at, size_t bytes, const char *what)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        for (const struct card_step *step = s->first; step; step = step->next)
            if (touches(step, at, bytes)) {
                card_problem("%s while a copy that nobody has waited for may be under way", what);
                return;
            }
}

void card_unfinished(const char *what)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        for (const struct card_step *step = s->first; step; step = step->next)
            if (step->kind == CARD_KERNEL) {
                card_problem("%s while a kernel that nobody has waited for may be under way", what);
                return;
            }
}

const char *card_streams_left(void)
{
    int n_streams = 0, n_events = 0, n_graphs = 0;
    for (struct CUstream_st *s = streams; s; s = s->next)
        n_streams += !s->destroyed;
    for (struct CUevent_st *e = events; e; e = e->next)
        n_events++;
    for (struct CUgraph_st *g = card_graphs; g; g = g->next)
        n_graphs++;
    *left = 0;
    if (n_streams || n_events || n_graphs)
        snprintf(left, sizeof left, "%d streams, %d events and %d graphs were not given back\n", n_streams, n_events, n_graphs);
    return left;
}

/* ---- streams and events -------------------------------------------------------------------------------------------------- */

struct CUstream_st *card_stream_of(cudaStream_t given, const char *function, int may_be_captured)
{
    struct CUstream_st *s = given ? streams : &usual[card_device()];
    usual[card_device()].device = card_device();
    while (given && s && (s != given || s->destroyed))
        s = s->next;
    if (!s)
        card_problem("%s on a stream that is none", function);
    else if (s->device != card_device())
        card_problem("%s on a stream of device %d while the thread's is %d", function, s->device, card_device());
    else if (s->captured && !may_be_captured)
        card_problem("%s on a stream that is captured", function);
    else
        return s;
    return NULL;
}

cudaStream_t card_new_stream(void)
{
    card_use();
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->next = streams;
    s->device = card_device();
    streams = s;
    return s;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    CARD_CALL;
    if (flags != cudaStreamNonBlocking)
        card_problem("a stream that waits for others");
    *stream = card_new_stream();
    return cudaSuccess;
}

void card_end_stream(cudaStream_t stream)
{
    struct CUstream_st *s = streams;
    while (s && (s != stream || s->destroyed))
        s = s->next;
    if (!s)
        card_problem("a stream that is none was destroyed");
    else if (s->captured)
        card_problem("a stream was destroyed while it is captured");
    if (s)
        s->destroyed = 1;
    sweep_up();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    CARD_OPEN;
    card_end_stream(stream);
    return fate;
}

cudaError_t card_await(cudaStream_t stream, const char *function)
{
    struct CUstream_st *s = card_stream_of(stream, function, 0);
    if (!s)
        return card_says(cudaErrorInvalidResourceHandle);
    drain(s, 0);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CARD_CALL;
    return card_await(stream, __func__);
}

static struct CUevent_st *event_of(cudaEvent_t event, const char *function)
{
    struct CUevent_st *e = events;
    while (e && e != event)
        e = e->next;
    if (!e)
        card_problem("%s of an event that is none", function);
    return e;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    CARD_CALL;
    (void)flags;
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e)
        return card_says(cudaErrorMemoryAllocation);
    e->next = events;
    e->device = card_device();
    events = e;
    *event = e;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    CARD_OPEN;
    struct CUevent_st **link = &events;
    if (!event_of(event, __func__))
        return fate;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    free(event);
    return fate;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    CARD_CALL;
    struct CUstream_st *s = card_stream_of(stream, __func__, 0);
    struct CUevent_st *e = event_of(event, __func__);
    if (!s || !e || e->device != s->device)
        return card_says(cudaErrorInvalidResourceHandle);
    card_append(&s->first, &(struct card_step){.kind = CARD_RECORD});
    e->ticket = tickets;
    e->stream = s;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    CARD_CALL;
    const struct CUevent_st *e = event_of(event, __func__);
    if (e && e->ticket)
        drain_stream(e->stream, e->ticket);
    return e ? cudaSuccess : card_says(cudaErrorInvalidResourceHandle);
}

/* As late as it may be: when this stream comes to it. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    CARD_CALL;
    (void)flags;
    struct CUstream_st *s = card_stream_of(stream, __func__, 0);
    const struct CUevent_st *e = event_of(event, __func__);
    if (!s || !e)
        return card_says(cudaErrorInvalidResourceHandle);
    if (e->ticket)
        card_append(&s->first, &(struct card_step){.kind = CARD_WAIT, .to = e->stream, .until = e->ticket});
    return cudaSuccess;
}

/* ---- copies -------------------------------------------------------------------------------------------------------------- */

static int is_on(enum card_side side, int on_card)
{
    return on_card ? side == CARD_DEVICE : side == CARD_PINNED || side == CARD_PAGEABLE;
}

static int is_sound(enum card_side there, enum card_side here, enum cudaMemcpyKind kind)
{
    if (kind == cudaMemcpyDefault)
        return there != CARD_NOWHERE && here != CARD_NOWHERE;
    return is_on(there, kind == cudaMemcpyHostToDevice) && is_on(here, kind == cudaMemcpyDeviceToHost);
}

/* What a copy to or from pageable memory has read or written when it returns. */
cudaError_t card_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream, int waits,
                      const char *function)
{
    struct CUstream_st *s = card_stream_of(stream, function, 0);
    enum card_side there = card_side_of(to, bytes, card_device()), here = card_side_of(from, bytes, card_device());
    if (!s || (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDefault))
        return card_says(cudaErrorInvalidResourceHandle);
    if (bytes && !is_sound(there, here, kind)) {
        card_problem("%s of %zu bytes %s the card is outside of what is allocated", function, bytes,
                     kind == cudaMemcpyHostToDevice ? "to" : "from");
        return card_says(cudaErrorInvalidValue);
    }
    if (bytes)
        card_append(&s->first, &(struct card_step){.kind = CARD_COPY, .to = to, .from = from, .bytes = bytes});
    if (waits || there == CARD_PAGEABLE || here == CARD_PAGEABLE)
        drain(s, 0);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CARD_CALL;
    return card_copy(to, from, bytes, kind, NULL, 1, __func__);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CARD_CALL;
    return card_copy(to, from, bytes, kind, stream, 0, __func__);
}

cudaError_t card_fill(void *to, int value, size_t bytes, cudaStream_t stream, const char *function)
{
    struct CUstream_st *s = card_stream_of(stream, function, 0);
    if (!s)
        return card_says(cudaErrorInvalidResourceHandle);
    const enum card_side side = card_side_of(to, bytes, card_device());
    if (bytes && side != CARD_DEVICE && side != CARD_PINNED) {
        card_problem("%s of %zu bytes is outside of what is allocated", function, bytes);
        return card_says(cudaErrorInvalidValue);
    }
    if (bytes)
        card_append(&s->first, &(struct card_step){.kind = CARD_SET, .to = to, .bytes = bytes, .value = value});
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    CARD_CALL;
    return card_fill(to, value, bytes, NULL, __func__);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    CARD_CALL;
    return card_fill(to, value, bytes, stream, __func__);
}
