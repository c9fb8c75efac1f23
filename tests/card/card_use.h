/* SPDX-License-Identifier: BSD-3-Clause */
/* A use of the library from the beginning to the end, with all that can be read; and the stand-in for the card. */
#ifndef TESTS_CARD_USE_H
#define TESTS_CARD_USE_H

#include "cuda_caller.h"
#include "cuda_check.h"

struct use {
    const char *name;
    int64_t cells, dims, levels;
    const char *options; /* "name=value ..." */
    int variables;       /* 0: one */
    int seeded;          /* the library chooses the starting centroids */
    int cluster_sigma, odd_ones;
    int by_level; /* the seam's operations, with sums by level, which the library asks for where there are a great many groups */
    int degenerate; /* the card says that the ridge systems are */
    int from_ptx;   /* its kernels are those that any card can run */
    enum place in,
        out; /* where the embedding lies, and where results go; of another than PAGEABLE the caller's stream is his own */
    int way; /* the card is too small for all: 1: Z lies on the host, 2: base too */
};

enum { ARRAYS = 8 };
struct got { /* what a use read */
    int status;
    char sentence[512], backend[64], warning[512];
    void *array[ARRAYS];
    int64_t bytes[ARRAYS];
    int mangled;        /* the embedding as given is not what was given */
    int stale;          /* a read that failed left numbers, or did not work when it was tried again */
    int64_t card_bytes; /* as the plan says */
};

/* The stand-in's own functions, from the plugin that UNISONO_CUDA_PLUGIN names. */
struct card {
    void (*begin)(long at, int error);
    long (*calls)(void);
    int (*is_new)(long call);
    const char *(*failed)(void), *(*problems)(void);
    void (*set)(const char *, long long);
    int (*current)(void), (*used)(int), (*on_host)(void);
};
extern struct card card;
int card_open(void); /* 0: none is named; -1: it cannot be used, which is a failure */

/* again: a read that fails is tried once more. */
void use_run(struct got *, const struct use *, int again);
/* The card's memory that the plan of a use says it takes; -1: it is refused. */
int64_t use_card_bytes(const struct use *);
void got_free(struct got *);
int got_same(const struct got *, const struct got *);

#endif
