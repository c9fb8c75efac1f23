/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CUDA backend's files share. Rows lie as the problem has them, by (group, block). Pieces with cells are numbered by
   (block, group), so that a step of a sweep is a range of them. Masses are summed in parts, (level, block): of one variable these
   are the pieces; of several, the parts of the levels come after those of the P pieces. The last Q parts are those of all cells,
   r. Sums over cells are 64-bit integers, added in any order with the same result. Letters: backend.h. */
#ifndef UNI_CUDA_BACKEND_H
#define UNI_CUDA_BACKEND_H

#include <cuda_runtime.h>
#include <stdint.h>

#include "cuda_plugin.h"

#define BASE_SCALE 32768.0f     /* keeps small assignments out of half precision's subnormals */
#define MASS_SCALE 4294967296.0 /* of the sums in M and X: 2^32, so at most 2^30 rows */

enum {
    TILE = 16,         /* rows of a tile: all of one piece; a piece's last may be part-filled */
    CHUNK = 64,        /* and of a chunk */
    BATCH_PIECES = 16, /* most pieces, */
    WARP_ROWS = 1024,  /* and rows a warp, of a batch of a step: their sums are float32 */
    STEP_WARPS = 8,
    ENTROPY_BLOCKS = 512,
    RIDGE_THREADS = 256,
    MOST_CLUSTERS = 8, /* of a block of the ridge's threads: a warp each */
    MOST_SLICES = 32,  /* of the levels, there: a lane of a warp each */
    MOMENT_CHUNKS = 256 /* whose float32 sums the moments by warpgroups keep before they give them away */,
    MOST_TABLES = 25, /* that R of the damped update is made from, base among them */
    KEPT_TABLES = 4   /* of these, base aside, whose scales of a row are kept in registers */
};

extern const struct uni_cuda_host *uni_cuda_lib;

/* UNI_OK, or a sentence that names the call. */
int uni_cuda_checked(cudaError_t, const char *call);
#define CUDA(call) uni_cuda_checked((call), #call)
#define TRY(call)                                                                                                                \
    do {                                                                                                                         \
        if ((err = (call)) != 0)                                                                                                 \
            goto done;                                                                                                           \
    } while (0)

/* The thread is a guest on a device: when this ends it has the one that it came with, unless nobody uses that here. */
struct uni_cuda_visit {
    int device = -1, before = -1;
    ~uni_cuda_visit();
};
int uni_cuda_enter(struct uni_cuda_visit *, int64_t device);
/* Fails with a sentence where the card is too old; and where there is no such device. */
int uni_cuda_new_enough(const cudaDeviceProp *card);
int uni_cuda_usable(int64_t device);

struct uni_cuda_piece {
    uint32_t row, n; /* its rows */
    uint32_t before; /* rows of its block before it */
    int32_t group, block;
};

/* A piece at its level of a variable. */
struct uni_cuda_place {
    int32_t part, previous, next; /* the level's parts that are updated before and after it; itself where it is alone */
    int32_t first;                /* is the piece the first of the part? */
    float theta, share;
};

/* R of the damped update: base (share[0] / sum_k base + sum over t > 0 of share[t] P_t / sum_k base P_t), P_t and 1 / sum_k base
   P_t in slot[t] of pen and row_scale. */
struct uni_cuda_recipe {
    int n;
    float share[MOST_TABLES];
    int slot[MOST_TABLES];
};

struct uni_cuda_tile { /* rows row .. row + n - 1 of a piece; n is the low five bits of packed */
    uint32_t row, packed;
};

struct uni_cuda_chunk { /* rows row .. row + n - 1, at most CHUNK, of a piece */
    uint32_t row, n;
    int32_t piece, group;
};

struct uni_cuda_batch { /* rows from .. to - 1 of a block; its pieces are consecutive, none: no rows; next: -1, or another for the
                           same threads */
    uint32_t from, to;
    int32_t piece, pieces, next, unused;
};

/* What kernels are told: sizes and device arrays. Table rows are Kp long (K padded to 8), rows of Z Dz (D padded to 4); zeros
 * there. */
struct uni_cuda_view {
    int64_t N, N_all;
    int D, Dz, K, Kp, G, Q, P, single;
    int V, levels;                 /* levels: of one variable its groups, else B */
    int parts, r_part;             /* all parts; the first of r */
    int damped;                    /* the update is: R is made by the recipe */
    float scale, add;              /* a and b of the penalty */
    struct uni_cuda_recipe recipe; /* as of the last sweep */
    int grid;                      /* blocks of a step: also how its batches are dealt out */
    int tiles, chunks;
    int step_rows;                 /* most rows of a warp in a step */
    int batch_pieces;              /* most pieces of a batch that there is */
    float *Z;                      /* (N_all,Dz) */
    void *base;                    /* (N,Kp) */
    float *L;                      /* (N + 8) */
    float *row_sum;                /* (N) 1 / s, of the plain moments */
    float *row_scale;              /* (slots,N + 8, see uni_cuda_scales) 1 / s of the last sweep; damped: of each */
    float *base_scale;             /* (see uni_cuda_scales) 1 / sum of base, or NULL: hopper's damped update alone */
    struct uni_cuda_piece *piece;  /* (P) */
    struct uni_cuda_place *place;  /* (P,V) */
    struct uni_cuda_tile *tile;    /* (tiles) in the order of the rows */
    uint32_t *group_tile;          /* (G + 1) */
    struct uni_cuda_chunk *chunk;  /* (chunks) likewise */
    uint32_t *group_chunk;         /* (G + 1) */
    struct uni_cuda_batch *batch;  /* (Q,grid), then those that others name as next */
    int *block_piece;              /* (Q + 1) */
    int *group_piece;              /* (G,Q) its pieces, by block; -1: none */
    int *group_row;                /* (G,V) rows of W whose sum is the group's */
    int *level_first, *level_last; /* (levels + 1) each level's first and last part, -1: it has no cells; of r */
    double *level_theta, *level_share, *level_mass; /* (levels) */
    double *lambda;                                 /* (levels) fixed; 0: automatic */
    float *pen;                /* (slots,P,Kp) penalties of each piece's last update; damped: of the round's sweeps */
    long long *M[2];           /* (parts,Kp) masses of this sweep and of the one before, by turns */
    long long *X;              /* (parts,Kp) O without the part and the one before it; damped: a third turn of M */
    long long *S;              /* (G,K,D) moments times S_scale */
    long long *level_S;        /* (B + 1,K,D) the same by level, and of all groups that take part in a cluster's system */
    unsigned char *takes_part; /* (G,K) */

    double S_scale;
    double *O;     /* (G,K) */
    double *ridge; /* (G,K) lambda, negative where the pair is left out. Of one variable, as c and W[1] */
    double *c;     /* (K,D) */
    float *W[2];   /* (G,K,D) corrections: new and last; of several variables one, (B,K,D) */
    float *Y;      /* (K,D), behind result */
    uint4 *W_fragments, *Y_fragments;
    float *Yt;         /* (D,Kp) for the plain path */
    float2 *logit;     /* (Kp) v = logit.x (z . Y) + logit.y, in base 2, in the order of the pass's columns */
    float *sigma;      /* (Kp) */
    double *part;      /* (parts) of the objective, from the last pass */
    double *entropy;   /* (ENTROPY_BLOCKS) */
    double *diversity; /* (levels) */
    double *moved;     /* (blocks of corrections,2) */
    double *slice;     /* (K,slices,D + 3) */
    int *cluster;      /* (2,K) kept levels; degenerate */
    int *ended;        /* (K + 2) blocks of threads that have: of intercepts, a number for those of the same clusters; of
                          corrections; of level_tables. 0 between kernels */
    double *result;    /* see enum */
};

/* Numbers of a slot of row_scale: bulk copies take windows that begin on a border of 16 bytes, and end behind the last row. */
static inline __host__ __device__ int64_t uni_cuda_scales(const struct uni_cuda_view &v)
{
    return v.N / 4 * 4 + 8;
}

/* Bytes from one row of base to the next in shared memory: an odd number of 16, so that eight rows meet in no bank. */
static inline __host__ __device__ int uni_cuda_pitch(int Kp)
{
    return 2 * Kp + (Kp / 8 % 2 ? 0 : 16);
}

/* The masses of a damped update's turn: three take turns, one is read, one added to, one cleared. */
static inline __host__ __device__ long long *masses(const struct uni_cuda_view &v, int turn)
{
    turn %= 3;
    return turn == 0 ? v.M[0] : turn == 1 ? v.M[1] : v.X;
}

/* The moments by warpgroups: the chunks of a block of threads begin here, and end where the next one's do. */
static inline __host__ __device__ uint32_t uni_cuda_moments_begin(const struct uni_cuda_view &v, uint32_t block, uint32_t blocks)
{
    return (uint32_t)((uint64_t)v.chunks * block / blocks);
}

/* Does the block with the chunks begin .. end - 1 store S of a group with the chunks first .. last - 1, in one go? Else there
   must be zeros: it, and others, add to them. */
static inline __host__ __device__ bool uni_cuda_stores(uint32_t first, uint32_t last, uint32_t begin, uint32_t end)
{
    return begin <= first && first < last && last <= end && last - first <= MOMENT_CHUNKS;
}

/* Clusters of a block of the ridge's threads: their dimensions are columns that lie side by side, two a thread at most. */
static inline __host__ __device__ int uni_cuda_clusters(int K, int D)
{
    const int most = D > RIDGE_THREADS ? 1 : RIDGE_THREADS / D < MOST_CLUSTERS ? RIDGE_THREADS / D : (int)MOST_CLUSTERS;
    return most < K ? most : K;
}

/* What goes back to the host after a sweep or a solve; then Y. */
enum {
    RESULT_TOTAL,
    RESULT_ENTROPY,
    RESULT_DIVERSITY,
    RESULT_CHANGE,
    RESULT_PRUNED,
    RESULT_SKIPPED,
    RESULT_DEGENERATE,
    RESULT_UNUSED, /* Y begins on a border of 16 bytes */
    RESULTS
};

/* ---- cuda_backend.cu */
void uni_cuda_operations(struct uni_backend *);

/* ---- cuda_layout.cu: host lists -> device */
struct uni_cuda_lists {
    struct uni_cuda_piece *piece;
    struct uni_cuda_place *place;
    struct uni_cuda_tile *tile;
    uint32_t *group_tile;
    struct uni_cuda_chunk *chunk;
    uint32_t *group_chunk;
    struct uni_cuda_batch *batch;
    int *block_piece, *group_piece, *group_row, *level_first, *level_last;
    int64_t pieces, parts, tiles, chunks, batches, step_rows, batch_pieces, most_pieces;
};
int uni_cuda_lists_open(struct uni_cuda_lists *, const struct uni_problem *, int grid);
int uni_cuda_batch_pieces(const struct uni_problem *);
int64_t uni_cuda_levels(const struct uni_problem *);
void uni_cuda_lists_close(struct uni_cuda_lists *);
int64_t uni_cuda_batch_bound(const struct uni_problem *, int64_t pieces, int grid);

/* The tensor-core paths: K <= 8 kt, D <= 8 dt. */
struct uni_cuda_fast {
    int kt, dt; /* 0: the plain path */
};

/* Where the large arrays lie: all on the card; Z, or Z and base, in memory of the host that kernels reach. */
enum uni_cuda_way { ROWS_ON_CARD, Z_ON_HOST, ROWS_ON_HOST, WAYS };

struct uni_cuda_pages { /* of the host, pinned */
    char *at;
    size_t bytes;
    int pinned;
    void *card; /* the same memory, as kernels see it */
};

struct uni_cuda_graph {
    cudaGraphExec_t exec;
    int64_t sweeps;
};

struct uni_cuda {
    const struct uni_problem *p;
    struct uni_cuda_view v;
    struct uni_cuda_fast fast;
    cudaStream_t stream;
    cudaEvent_t before; /* on the caller's stream: what was queued there before the call */
    int device, cores;  /* multiprocessors */
    int64_t threads;
    char *block;                  /* the device memory */
    void *pinned;                 /* results and centroids on their way */
    struct uni_cuda_lanes *lanes; /* threads' buffers for rows in and out */
    struct uni_cuda_lists lists;
    /* where the large arrays lie, enum uni_cuda_way */
    int way;
    struct uni_cuda_pages host_Z, host_base;
    /* of the seeding */
    float *seed_X, *seed_Y;
    long long *seed_out; /* sums, counts, scores, indices: cuda_seed.cu */
    int64_t seed_rows;   /* the first of seed_X have come */
    int packed;          /* W_fragments are those of W[W_now], in which of the layouts */
    float step;          /* what the correction of the pass under way is multiplied by */
    int Y_known;         /* Y and what is made of it are those of the last solve, which lie in pinned */
    cudaEvent_t answer;
    int lambda_known;
    int64_t sweeps;            /* since the last assign */
    int moments_made;          /* S is that of R as it stands */
    int S_clear, tables_clear; /* what the next moments, and the next assign, add to */
    int degenerate;            /* a solve was */
    int scales_known;          /* row_scale is that of the last sweep */
    int parity;                /* the turn of M that has the last sweep's masses */
    int other_clear;           /* of the block update: M of the other turn is all 0 */
    int slots;                 /* of pen; damped: most sweeps whose tables are kept */
    int W_now;                 /* W[W_now] has the last corrections */
    int one_sigma;
    int shifts; /* exponents of the softmax may underflow */
    double W_scale;
    float largest;                     /* of |Z| */
    int early;                         /* the card has programmatic dependent launch */
    int of_hopper, hopper;             /* the card has warpgroups' products, and the passes with them are used */
    struct uni_cuda_graph graph[2][3]; /* by parity; without fit, with one sigma's, with any */
};

/* ---- cuda_open.cu */
int uni_cuda_open(struct uni_backend *, const struct uni_problem *, const struct uni_matrix *);
int uni_cuda_bytes(const struct uni_problem *, const int64_t *group_cells, struct uni_takes *);
void uni_cuda_close(struct uni_backend *);

size_t uni_cuda_W_bytes(const struct uni_cuda *);

/* ---- cuda_fit.cu: arrays that do not fit the card */
/* What may be taken of the card: what is free, or less where UNISONO_CUDA_MEMORY says so; in words. */
int uni_cuda_room(int64_t *room, const char **is);
/* The first of the ways that fits the card; bytes: of the card, for each. Fails with a sentence where none does. */
int uni_cuda_choose(struct uni_cuda *, const int64_t bytes[WAYS], struct uni_takes *);
int uni_cuda_host_has_room(const struct uni_cuda *);
/* Takes the host's memory of the way, and sets v.Z and v.base to it. */
int uni_cuda_host_open(struct uni_cuda *, struct uni_backend *);
void uni_cuda_host_close(struct uni_cuda *); /* when no kernel is under way */

/* ---- cuda_copy.cu: rows in and out; tasks on host threads */
int uni_cuda_each(struct uni_backend *, int64_t n, void (*task)(void *context, int64_t i), void *context);
int uni_cuda_lanes_open(struct uni_cuda *);
void uni_cuda_lanes_close(struct uni_cuda *);
int uni_cuda_rows_in(struct uni_cuda *, const struct uni_matrix *);
int uni_cuda_rows_out(struct uni_cuda *, enum uni_cells, int corrected, void *dst);

/* ---- cuda_reach.cu: memory of the caller's that the card reaches */
struct uni_cuda_source {
    const char *data;
    int64_t row_stride, col_stride;
    int D, wide; /* wide: float64 */
    int word;    /* 4, 8 or 16 bytes that its rows of float32 are aligned to; 0: value by value */
};
struct uni_cuda_found { /* values that cannot be used: how many, and the places row * D + column of the first; all bits set: none
                         */
    unsigned long long count, first, large;
};
struct uni_cuda_source uni_cuda_source_of(const struct uni_matrix *plain);
/* Launches; found, unless NULL: values are looked at. */
int uni_cuda_gather(float *to, int width, const struct uni_cuda_source *, const uint32_t *row, int64_t n, struct uni_cuda_found *,
                    cudaStream_t);
int uni_cuda_scatter(float *to, int width, const float *from, int stride, const uint32_t *row, int64_t n, cudaStream_t);
/* uni_cuda_rows and uni_cuda_put of the library. */
int uni_cuda_rows_to(float *dst, const struct uni_matrix *plain, const int64_t *row, int64_t n, const struct uni_problem *);
int uni_cuda_put_to(void *dst, const void *src, int64_t bytes, const struct uni_problem *);

/* ---- launches: queued on a stream; errors are found by uni_cuda_checked(cudaGetLastError()) */
struct uni_cuda_pass {
    uint32_t from, to; /* tiles */
    int corrected;     /* by W[W_now], packed, times c->step */
    float *out;        /* rows of D, from row_from on: only correct; NULL: go on to base */
    int64_t row_from;
    int fit;
};
int uni_cuda_assign_fast(const struct uni_cuda *, const struct uni_cuda_pass *, int blocks, cudaStream_t);
int uni_cuda_hopper_assign(const struct uni_cuda *, const struct uni_cuda_pass *, cudaStream_t);
int uni_cuda_hopper_moments(const struct uni_cuda *, int fit, cudaStream_t);
int uni_cuda_hopper_moments_blocks(const struct uni_cuda *);
int uni_cuda_hopper_pack(const struct uni_cuda *, const float *W, int Y, cudaStream_t); /* W: NULL, or also; Y: too */
int uni_cuda_row_scales(const struct uni_cuda *, cudaStream_t);
int uni_cuda_assign_plain(const struct uni_cuda *, const struct uni_cuda_pass *, int blocks, cudaStream_t);
int uni_cuda_moments_fast(const struct uni_cuda *, int fit, cudaStream_t); /* fit: damped, a part a block */
int uni_cuda_moments_blocks(const struct uni_cuda *);
int uni_cuda_moments_plain(const struct uni_cuda *, cudaStream_t);
int uni_cuda_assignments(const struct uni_cuda *, const struct uni_cuda_pass *, cudaStream_t);
int uni_cuda_entropy(const struct uni_cuda *, cudaStream_t);
int uni_cuda_damped_fit(const struct uni_cuda *, int terms, cudaStream_t);
int uni_cuda_fit_blocks(const struct uni_cuda *); /* of it: each leaves two parts */
int uni_cuda_next_table(struct uni_cuda_recipe *, int slots);
int uni_cuda_sweeps(struct uni_cuda *, int64_t sweeps, int fit); /* fit: 1 with one sigma, 2 with one for every cluster */
int uni_cuda_damped_sweeps(struct uni_cuda *, int64_t sweeps);
int uni_cuda_pack_W(const struct uni_cuda *, const float *W, cudaStream_t);
int uni_cuda_pack_Y(const struct uni_cuda *, cudaStream_t);
int uni_cuda_clear_tables(struct uni_cuda *, cudaStream_t);
int uni_cuda_clear_moments(const struct uni_cuda *, cudaStream_t); /* before hopper's */
int uni_cuda_start_tables(struct uni_cuda *, cudaStream_t);
int uni_cuda_end_tables(struct uni_cuda *, int parts, int fit_of_base, int terms, cudaStream_t);
int uni_cuda_turn_Y(const struct uni_cuda *, cudaStream_t);
int uni_cuda_slices(int64_t levels);
int uni_cuda_ridge(struct uni_cuda *, double alpha, double cutoff, cudaStream_t);
int uni_cuda_moments_by_level(const struct uni_cuda *, cudaStream_t);
int uni_cuda_moments_to_double(const struct uni_cuda *, long long *S, int64_t rows, cudaStream_t);

/* ---- cuda_seed.cu */
int64_t uni_cuda_seed_words(const struct uni_problem *);
int64_t uni_cuda_seed_pinned(const struct uni_problem *); /* bytes */
int uni_cuda_nearest(struct uni_backend *, int32_t *index, float *score, double *sum, int64_t *count, int wanted,
                     const struct uni_rows *, const float *Y, int64_t n);

/* cuda_near.cu: struct uni_near_device (near_device.h) */
int uni_cuda_near_open(void **state, int64_t device, const float *panels, int64_t n_panels, int64_t D, int64_t R);
int uni_cuda_near_find(void *state, const float *query, int64_t M, struct uni_near_listed *list);
void uni_cuda_near_close(void *state);

#endif
