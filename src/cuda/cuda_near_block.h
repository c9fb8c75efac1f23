/* SPDX-License-Identifier: BSD-3-Clause */
/* What a block of threads does for the neighbours of its queries: their highest scores among all cells (metrics/neighbours.h).
 *
 * Written in what C and CUDA C have in common, as turns between two waits: a turn is done by every thread of the block, or every
 * lane of a warp. On a card a thread takes its own part of it; compiled as C the parts follow one another, so that tests run the
 * same lines where there is no card.
 */
#ifndef UNI_CUDA_NEAR_BLOCK_H
#define UNI_CUDA_NEAR_BLOCK_H

#include "../near_device.h"

enum {
    NEAR_THREADS = 256,
    NEAR_WARPS = NEAR_THREADS / 32,
    NEAR_QUERIES = 64, /* of a block: 4 for every 16 threads */
    NEAR_TILE = 128,   /* cells that are looked at together, two panels: 8 for every 16th thread */
    NEAR_CHUNK = 32    /* dimensions that are in shared memory at a time */
};

#ifdef __CUDACC__
#define NEAR_CODE __device__ static __forceinline__
#define NEAR_ALIGNED __align__(16)
#define EACH_THREAD(t) for (int t = (int)threadIdx.x, t##_turn = 1; t##_turn; t##_turn = 0)
#define EACH_WARP(w) for (int w = (int)threadIdx.x / 32, w##_turn = 1; w##_turn; w##_turn = 0)
#define EACH_LANE(l) for (int l = (int)threadIdx.x % 32, l##_turn = 1; l##_turn; l##_turn = 0)
#define BLOCK_WAITS __syncthreads()
#define WARP_WAITS __syncwarp()
#define TAKE_NUMBER(at) atomicAdd(at, 1)
#define OF_THREAD(t) 0 /* its own registers */
#define THREADS_HERE 1
#define UNROLLED _Pragma("unroll")
#else
#define NEAR_CODE static inline
#define NEAR_ALIGNED _Alignas(16)
#define EACH_THREAD(t) for (int t = 0; t < NEAR_THREADS; t++)
#define EACH_WARP(w) for (int w = 0; w < NEAR_WARPS; w++)
#define EACH_LANE(l) for (int l = 0; l < 32; l++)
#define BLOCK_WAITS (void)0
#define WARP_WAITS (void)0
#define TAKE_NUMBER(at) (*(at))++
#define OF_THREAD(t) (t)
#define THREADS_HERE NEAR_THREADS
#define UNROLLED
#endif

struct near_four {
    NEAR_ALIGNED float v[4];
};

/* The same for all blocks. */
struct near_work {
    const float *panels; /* (n_panels, D + 1, UNI_NEAR_PANEL) */
    int64_t n_panels;
    const float *query; /* (M, D) */
    int64_t M;
    int D, R;                     /* R: 128 or 256 */
    int64_t stride;               /* of the order in which tiles are looked at: has no factor in common with their number */
    uint64_t *kept;               /* (blocks, NEAR_QUERIES, 2 R) the highest so far, and those that came since */
    struct uni_near_listed *list; /* (M, R) */
};

/* In shared memory. */
struct near_shared {
    float *query;     /* (D, NEAR_QUERIES) */
    float *cells;     /* (NEAR_CHUNK, NEAR_TILE) */
    uint64_t *sorted; /* (NEAR_WARPS, 2 R) */
    float *limit;     /* (NEAR_QUERIES) a score that counts; rises */
    int *count;       /* (NEAR_QUERIES) */
};

/* Of the order of tiles: about 0.62 of their number, so that wherever cells are sorted the first tiles are of all kinds. */
static inline int64_t near_stride(int64_t n_panels)
{
    int64_t tiles = (n_panels + 1) / 2, stride = (int64_t)(0.618034 * (double)tiles);
    for (stride += stride == 0;; stride++) {
        int64_t a = tiles, b = stride;
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

static inline int64_t near_shared_bytes(int D, int R)
{
    return (int64_t)4 * D * NEAR_QUERIES + 4 * NEAR_CHUNK * NEAR_TILE + 16 * (int64_t)NEAR_WARPS * R + 8 * NEAR_QUERIES;
}

NEAR_CODE struct near_shared near_shared_at(char *at, int D, int R)
{
    struct near_shared s;
    s.sorted = (uint64_t *)(void *)at;
    s.cells = (float *)(void *)(s.sorted + 2 * NEAR_WARPS * R);
    s.query = s.cells + NEAR_CHUNK * NEAR_TILE;
    s.limit = s.query + D * NEAR_QUERIES;
    s.count = (int *)(void *)(s.limit + NEAR_QUERIES);
    return s;
}

/* ---- scores as words that are ordered as they are; of equal ones the lower cell is the higher word; 0 is none */

union near_bits {
    float score;
    uint32_t word;
};

NEAR_CODE uint64_t near_key(float score, uint32_t cell)
{
    union near_bits b;
    b.score = score;
    return (uint64_t)(b.word >> 31 ? ~b.word : b.word | 0x80000000u) << 32 | (uint32_t)~cell;
}

NEAR_CODE float near_score(uint64_t key)
{
    union near_bits b;
    b.word = (uint32_t)(key >> 32);
    b.word = b.word >> 31 ? b.word & 0x7fffffffu : ~b.word;
    return b.score;
}

/* ---- turns ---- */

/* The block's queries, dimension by dimension. Where there are fewer, the others find nothing. */
NEAR_CODE void near_take_queries(const struct near_work *w, const struct near_shared *s, int64_t first)
{
    EACH_THREAD(t)
    {
        for (int i = t; i < w->D * NEAR_QUERIES; i += NEAR_THREADS) {
            int q = i % NEAR_QUERIES, d = i / NEAR_QUERIES;
            s->query[i] = first + q < w->M ? w->query[(first + q) * w->D + d] : 0;
        }
        if (t < NEAR_QUERIES) {
            s->limit[t] = first + t < w->M ? -3.402823466e38f : 3.402823466e38f;
            s->count[t] = 0;
        }
    }
}

/* Dimensions d .. d + n - 1 of a tile; a panel beyond the last is the last again. */
NEAR_CODE void near_take_cells(const struct near_work *w, const struct near_shared *s, int64_t tile, int d, int n)
{
    EACH_THREAD(t)
    {
        for (int i = t; i < n * NEAR_TILE / 4; i += NEAR_THREADS) {
            int row = i / (NEAR_TILE / 4), column = i % (NEAR_TILE / 4) * 4;
            int64_t panel = 2 * tile + column / UNI_NEAR_PANEL;
            panel = panel < w->n_panels ? panel : w->n_panels - 1;
            *(struct near_four *)(void *)(s->cells + row * NEAR_TILE + column) =
                *(const struct near_four *)(const void *)(w->panels + (panel * (w->D + 1) + 1 + d + row) * UNI_NEAR_PANEL +
                                                          column % UNI_NEAR_PANEL);
        }
    }
}

/* The cells' own part of every score. */
NEAR_CODE void near_start(const struct near_work *w, int64_t tile, int t, float score[4][8])
{
    UNROLLED for (int half = 0; half < 2; half++)
    {
        int64_t panel = 2 * tile + half;
        struct near_four own = {{-3.402823466e38f, -3.402823466e38f, -3.402823466e38f, -3.402823466e38f}};
        if (panel < w->n_panels)
            own = *(const struct near_four *)(const void *)(w->panels + panel * (w->D + 1) * UNI_NEAR_PANEL + t % 16 * 4);
        UNROLLED for (int q = 0; q < 4; q++) UNROLLED for (int c = 0; c < 4; c++) score[q][4 * half + c] = own.v[c];
    }
}

NEAR_CODE void near_add_products(const struct near_shared *s, int d, int n, int t, float score[4][8])
{
    const float *query = s->query + d * NEAR_QUERIES + t / 16 * 4, *cells = s->cells + t % 16 * 4;
    for (int i = 0; i < n; i++) {
        struct near_four q = *(const struct near_four *)(const void *)(query + i * NEAR_QUERIES);
        struct near_four a = *(const struct near_four *)(const void *)(cells + i * NEAR_TILE);
        struct near_four b = *(const struct near_four *)(const void *)(cells + i * NEAR_TILE + UNI_NEAR_PANEL);
        UNROLLED for (int m = 0; m < 4; m++) UNROLLED for (int c = 0; c < 4; c++)
        {
            score[m][c] += q.v[m] * a.v[c];
            score[m][4 + c] += q.v[m] * b.v[c];
        }
    }
}

NEAR_CODE void near_note(const struct near_work *w, const struct near_shared *s, uint64_t *kept, int64_t tile, int t,
                         float score[4][8])
{
    UNROLLED for (int m = 0; m < 4; m++)
    {
        int q = t / 16 * 4 + m;
        float limit = s->limit[q];
        UNROLLED for (int c = 0; c < 8; c++) if (score[m][c] > -3.4e38f && score[m][c] >= limit)
        {
            int64_t cell = tile * NEAR_TILE + c / 4 * UNI_NEAR_PANEL + t % 16 * 4 + c % 4;
            kept[2 * w->R * q + TAKE_NUMBER(&s->count[q])] = near_key(score[m][c], (uint32_t)cell);
        }
    }
}

/* A warp puts what a query has in order, the highest first. */
NEAR_CODE void near_sort(uint64_t *sorted, const uint64_t *kept, int count, int room)
{
    EACH_LANE(l)
    {
        for (int i = l; i < room; i += 32)
            sorted[i] = i < count ? kept[i] : 0;
    }
    WARP_WAITS;
    for (int size = 2; size <= room; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            EACH_LANE(l)
            {
                for (int i = l; i < room / 2; i += 32) {
                    int low = 2 * i - (i & (stride - 1)), falls = (low & size) == 0 || size == room;
                    uint64_t a = sorted[low], b = sorted[low + stride];
                    if ((a < b) == falls) {
                        sorted[low] = b;
                        sorted[low + stride] = a;
                    }
                }
            }
            WARP_WAITS;
        }
}

/* Queries that might have no room for another tile keep their R highest; at the end all do, and give them. */
NEAR_CODE void near_settle(const struct near_work *w, const struct near_shared *s, uint64_t *kept, int64_t first, int end)
{
    const int R = w->R;
    EACH_WARP(warp)
    {
        uint64_t *sorted = s->sorted + 2 * R * warp;
        for (int q = warp; q < NEAR_QUERIES; q += NEAR_WARPS) {
            int count = s->count[q];
            if (end ? first + q >= w->M : count <= 2 * R - NEAR_TILE)
                continue;
            near_sort(sorted, kept + 2 * R * q, count, 2 * R);
            EACH_LANE(l)
            {
                for (int i = l; i < R && !end; i += 32)
                    kept[2 * R * q + i] = sorted[i];
                for (int i = l; i < R && end; i += 32) {
                    struct uni_near_listed *to = &w->list[(first + q) * R + i];
                    to->score = sorted[i] ? near_score(sorted[i]) : -3.402823466e38f;
                    to->cell = sorted[i] ? ~(uint32_t)sorted[i] : UNI_NEAR_NONE;
                }
                if (l == 0 && !end) {
                    s->limit[q] = near_score(sorted[R - 1]);
                    s->count[q] = R;
                }
            }
            WARP_WAITS;
        }
    }
}

NEAR_CODE void near_block_work(const struct near_work *w, int64_t block, char *shared)
{
    const struct near_shared s = near_shared_at(shared, w->D, w->R);
    const int64_t first = block * NEAR_QUERIES, tiles = (w->n_panels + 1) / 2;
    uint64_t *kept = w->kept + block * NEAR_QUERIES * 2 * w->R;
    near_take_queries(w, &s, first);
    for (int64_t i = 0, tile = 0; i < tiles; i++, tile = (tile + w->stride) % tiles) {
        float score[THREADS_HERE][4][8];
        EACH_THREAD(t)
        {
            near_start(w, tile, t, score[OF_THREAD(t)]);
        }
        for (int d = 0; d < w->D; d += NEAR_CHUNK) {
            int n = w->D - d < NEAR_CHUNK ? w->D - d : NEAR_CHUNK;
            BLOCK_WAITS;
            near_take_cells(w, &s, tile, d, n);
            BLOCK_WAITS;
            EACH_THREAD(t)
            {
                near_add_products(&s, d, n, t, score[OF_THREAD(t)]);
            }
        }
        EACH_THREAD(t)
        {
            near_note(w, &s, kept, tile, t, score[OF_THREAD(t)]);
        }
        BLOCK_WAITS;
        near_settle(w, &s, kept, first, 0);
    }
    BLOCK_WAITS;
    near_settle(w, &s, kept, first, 1);
}

#endif
