/* SPDX-License-Identifier: BSD-3-Clause */
/* How rows move: lanes of host threads, shared by cuda_copy.cu, where these copy, and cuda_reach.cu, where the card does. */
#ifndef UNI_CUDA_LANES_H
#define UNI_CUDA_LANES_H

#include <pthread.h>

#include "cuda_backend.h"

enum { BUFFER = 1 << 20, MOST_LANES = 12, REACH_LANES = 2, REACH_ROOM = 32 << 20 };

struct mover;

struct lane { /* a thread's */
    const struct mover *all;
    pthread_t thread;
    int started, err, index;
    char sentence[512];
    cudaStream_t stream;
    cudaEvent_t ready[2];
    char *pinned[2], *device[2]; /* the size of a buffer each */
};

/* Kept from open to close: pinned memory is slow to get. */
struct uni_cuda_lanes {
    int n;
    char *pinned, *device;
    int64_t room; /* bytes at device; what lanes share out where the card reaches the caller's array */
    struct lane lane[MOST_LANES];
};

struct mover { /* one way, for one caller's array */
    struct uni_cuda *c;
    const struct uni_matrix *source;
    struct uni_cuda_source from;
    struct uni_cuda_found *found; /* on the card */
    enum uni_cells what;
    int corrected, lanes;
    float *dst;
    int64_t width, chunks, tiles; /* floats of a row; tiles of a chunk, rows going in */
    int (*work)(struct lane *);
};

/* Rows of the caller's on their way in: row[i], NULL: first + i, goes to place[first + i], NULL: i. */
struct uni_cuda_order {
    const uint32_t *row, *place;
    int64_t first;
};

/* Every lane's work, on threads. */
int uni_cuda_move(struct mover *);
/* UNI_STOPPED where the caller wants that. */
int uni_cuda_cancelled(const struct mover *);
/* Ends a lane's work, however it went: no copy from or to its buffers is under way. */
int uni_cuda_settled(const struct lane *, int err);
/* Rows out: launches those of a chunk of tiles, to memory on the card. *row: the first; *rows: how many. */
int uni_cuda_make_rows(const struct lane *, int64_t chunk, float *to, int64_t *row, int64_t *rows);

/* cuda_reach.cu: all rows in, all rows out, where the card reaches the caller's array. */
int uni_cuda_take_rows(struct mover *);
int uni_cuda_put_all(struct mover *);

#endif
