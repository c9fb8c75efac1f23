/* SPDX-License-Identifier: BSD-3-Clause */
/* What waits in a stream, or is kept in a graph. */
#ifndef TESTS_CARD_STREAMS_H
#define TESTS_CARD_STREAMS_H

#include "card.h"

enum card_kind { CARD_COPY, CARD_SET, CARD_KERNEL, CARD_RECORD, CARD_WAIT };

struct CUevent_st {
    struct CUevent_st *next;
    uint64_t ticket; /* of its last record; 0: none */
    struct CUstream_st *stream;
    int device;
};

struct card_step { /* that waits */
    struct card_step *next;
    enum card_kind kind;
    uint64_t ticket, until; /* until: of a wait for another stream, which is `to` */
    void *to;
    const void *from;
    size_t bytes;
    int value;
    unsigned grid;
    const struct card_kernel *kernel;
    _Alignas(16) char arguments[CARD_MOST_ARGUMENTS];
};

struct CUgraph_st {
    struct CUgraph_st *next;
    struct card_step *first;
    int is_exec; /* can be launched */
};

struct CUstream_st {
    struct CUstream_st *next;
    struct card_step *first;
    struct CUgraph_st *captured; /* NULL: it is not captured */
    int device, destroyed;
};

extern struct CUgraph_st *card_graphs;

void card_append(struct card_step **first, const struct card_step *like);
void card_forget(struct card_step **first);
/* The stream of a call; NULL, and a problem, where it is none, or another device's, or (unless it may be) captured. */
struct CUstream_st *card_stream_of(cudaStream_t given, const char *function, int may_be_captured);

#endif
