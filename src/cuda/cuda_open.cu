/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CUDA backend holds: one block of device memory, listed once; opened and closed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../method.h"
#include "cuda_backend.h"
#include "cuda_hopper.cuh"

enum { MOST_D = 512, MOST_K = 1024 };
enum { RESERVE = 256 << 20, HOST_BUFFERS = 24 << 20 }; /* of copies, on the card with what the driver takes, and on the host */

/* The smallest of these shapes that holds D and K; K <= 8 kt, D <= 8 dt. */
static struct uni_cuda_fast fast_of(const struct uni_problem *p)
{
    static const struct uni_cuda_fast shapes[] = {{8, 4}, {8, 8}, {13, 4}, {13, 7}, {16, 4}, {16, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (p->K <= 8 * shapes[i].kt && p->D <= 8 * shapes[i].dt)
            return shapes[i];
    return {0, 0};
}

/* Blocks of threads of a step: one a multiprocessor, so that the next step's are there too while it ends; two where each would
   have the tables of many pieces to make, and where a step is a whole sweep. */
static int grid_of(const struct uni_problem *p, int cores)
{
    return p->jacobi || p->G > 4 * (int64_t)cores ? 2 * cores : cores;
}

/* The passes of the warpgroups are of compute capability 9.0 and base in half precision. Of the block update they keep 1 / s and
   P W of a piece in halves, whose range holds penalties that differ by a factor of 2^32: as they do for all levels but the
   rarest, and powers that are not far from the usual. Of the damped update they take as many tables as the usual sweeps leave.
   The least penalty that there can be: E = share r and O <= r in ((a E + b) / (O + E + b))^theta. */
static int suits_hopper(const struct uni_cuda *c)
{
    const struct uni_problem *p = c->p;
    double bits = 0;
#ifndef UNI_CUDA_HOPPER
    return 0;
#endif
    for (int u = 0; u < p->V; u++) {
        double most = 0;
        for (int64_t l = p->level_first[u]; l < p->level_first[u + 1]; l++)
            if (p->level_share[l] > 0) {
                double least = p->penalty_scale * p->level_share[l] / (1 + p->level_share[l]);
                most = fmax(most, -p->level_theta[l] * log2(fmin(least, 1)));
            }
        bits += most;
    }
    return c->of_hopper && c->fast.kt && !p->single && (p->jacobi ? c->slots <= KEPT_TABLES : bits <= 32);
}

/* Tables of penalties that are kept. */
static int slots_of(const struct uni_problem *p)
{
    int64_t past = p->sweeps < MOST_TABLES - 1 ? p->sweeps : MOST_TABLES - 1;
    return p->jacobi && past > 1 ? (int)past : 1;
}

static void view_of(struct uni_cuda_view *v, const struct uni_problem *p, int64_t pieces, int64_t parts, int64_t tiles,
                    int64_t chunks, int grid)
{
    v->N = p->N;
    v->N_all = p->N_all;
    v->D = (int)p->D;
    v->Dz = ((int)p->D + 3) / 4 * 4;
    v->K = (int)p->K;
    v->Kp = ((int)p->K + 7) / 8 * 8;
    v->G = (int)p->G;
    v->Q = (int)p->Q;
    v->P = (int)pieces;
    v->V = p->V;
    v->levels = (int)uni_cuda_levels(p);
    v->parts = (int)parts;
    v->r_part = (int)(parts - p->Q);
    v->damped = p->jacobi;
    v->scale = (float)p->penalty_scale;
    v->add = (float)p->penalty_add;
    v->tiles = (int)tiles;
    v->chunks = (int)chunks;
    v->single = p->single;
    v->grid = grid;
}

struct array {
    void *where;
    int64_t count;
    size_t size;
};
#define ARRAY(pointer, n)                                                                                                        \
    {                                                                                                                            \
        &(pointer), (int64_t)(n), sizeof *(pointer)                                                                              \
    }

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A place for each array of a list, behind the `at` bytes that are dealt out already; sets the pointers where there is a block.
   Returns the bytes that are dealt out then. */
static int64_t deal(const struct array *list, size_t n, char *block, int64_t at)
{
    for (size_t i = 0; i < n; i++) {
        char *place = block + at;
        if (block)
            memcpy(list[i].where, &place, sizeof place);
        at += (list[i].count * (int64_t)list[i].size + 255) / 256 * 256;
    }
    return at;
}
#define DEAL(list, block, at) deal(list, sizeof(list) / sizeof *(list), block, at)

/* Rows, and how they are cut. */
static int64_t deal_rows(struct uni_cuda *c, int64_t batches, char *block, int64_t at)
{
    struct uni_cuda_view *v = &c->v;
    int64_t G = v->G;
    char *base = NULL;
    struct array list[] = {ARRAY(v->Z, c->way >= Z_ON_HOST ? 0 : v->N_all * v->Dz),
                           ARRAY(base, c->way >= ROWS_ON_HOST ? 0 : v->N * v->Kp * (v->single ? 4 : 2)),
                           ARRAY(v->L, v->N + 8),
                           ARRAY(v->row_sum, c->fast.kt ? 0 : v->N),
                           ARRAY(v->row_scale, c->slots * uni_cuda_scales(*v)),
                           ARRAY(v->base_scale, v->damped ? uni_cuda_scales(*v) : 0),
                           ARRAY(v->piece, v->P),
                           ARRAY(v->place, (int64_t)v->P * v->V),
                           ARRAY(v->tile, v->tiles),
                           ARRAY(v->group_tile, G + 1),
                           ARRAY(v->chunk, v->chunks),
                           ARRAY(v->group_chunk, G + 1),
                           ARRAY(v->batch, batches),
                           ARRAY(v->block_piece, v->Q + 1),
                           ARRAY(v->group_piece, G * v->Q),
                           ARRAY(v->group_row, G * v->V),
                           ARRAY(v->level_first, v->levels + 1),
                           ARRAY(v->level_last, v->levels + 1),
                           ARRAY(v->level_theta, v->levels),
                           ARRAY(v->level_share, v->levels),
                           ARRAY(v->level_mass, v->levels),
                           ARRAY(v->lambda, v->levels)};
    at = DEAL(list, block, at);
    v->base = base;
    return at;
}

/* What is summed over cells, and what is made of it. The ridge of several variables is the library's. */
static int64_t deal_tables(struct uni_cuda *c, char *block, int64_t at)
{
    struct uni_cuda_view *v = &c->v;
    int64_t parts = v->parts, G = v->G, K = v->K, D = v->D, M = v->N < UNI_SAMPLE ? v->N : UNI_SAMPLE;
    int64_t ridge = v->V == 1 ? 1 : 0, W_rows = v->V == 1 ? G : v->levels;
    int64_t W_words = (c->fast.kt + 1) / 2 * c->fast.dt * 32, Y_words = (c->fast.dt + 1) / 2 * c->fast.kt * 32;
    struct array list[] = {ARRAY(v->pen, (int64_t)c->slots * v->P * v->Kp),
                           ARRAY(v->M[0], parts * v->Kp),
                           ARRAY(v->M[1], parts * v->Kp),
                           ARRAY(v->X, parts * v->Kp),
                           ARRAY(v->S, G * K * D),
                           ARRAY(v->level_S, c->p->by_level ? (c->p->B + 1) * K * D : 0),
                           ARRAY(v->takes_part, c->p->by_level ? G * K : 0),
                           ARRAY(v->O, G * K),
                           ARRAY(v->ridge, ridge * G * K),
                           ARRAY(v->c, ridge * K * D),
                           ARRAY(v->W[0], W_rows * K * D),
                           ARRAY(v->W[1], ridge * G * K * D),
                           ARRAY(v->W_fragments, G * W_words),
                           ARRAY(v->Y_fragments, Y_words),
                           ARRAY(v->Yt, c->fast.kt ? 0 : D * v->Kp),
                           ARRAY(v->logit, 8 * c->fast.kt),
                           ARRAY(v->sigma, v->Kp),
                           ARRAY(v->part, most((int64_t)v->Q * v->grid, 2 * uni_cuda_fit_blocks(c))),
                           ARRAY(v->entropy, ENTROPY_BLOCKS),
                           ARRAY(v->diversity, v->levels),
                           ARRAY(v->moved, ridge * K * uni_cuda_slices(G) * 2),
                           ARRAY(v->slice, ridge * K * uni_cuda_slices(G) * (D + 3)),
                           ARRAY(v->cluster, 2 * K),
                           ARRAY(v->ended, K + 2),
                           ARRAY(v->result, RESULTS + (K * D + 1) / 2),
                           ARRAY(c->seed_X, M * D),
                           ARRAY(c->seed_Y, K * D),
                           ARRAY(c->seed_out, uni_cuda_seed_words(c->p))};
    at = DEAL(list, block, at);
    v->Y = block ? (float *)(v->result + RESULTS) : NULL;
    return at;
}

/* All that the card holds, in one block. Returns its bytes. */
static int64_t deal_out(struct uni_cuda *c, int64_t batches, char *block)
{
    return deal_tables(c, block, deal_rows(c, batches, block, 0));
}

/* Of all levels. */
static int64_t most_parts(const struct uni_problem *p, int64_t pieces)
{
    return pieces * p->V < p->B * p->Q ? pieces * p->V : p->B * p->Q;
}

/* Which way the arrays lie, by the memory that the card has. */
static int choose_way(struct uni_cuda *c, int64_t batches, struct uni_takes *takes)
{
    int64_t bytes[WAYS];
    for (c->way = 0; c->way < WAYS; c->way++)
        bytes[c->way] = deal_out(c, batches, NULL) + RESERVE;
    return uni_cuda_choose(c, bytes, takes);
}

/* The host's copies of the lists. */
static int64_t lists_bytes(const struct uni_cuda *c, int64_t batches)
{
    const struct uni_cuda_view *v = &c->v;
    return (int64_t)v->P * (int64_t)(sizeof *v->piece + v->V * sizeof *v->place) + v->tiles * (int64_t)sizeof *v->tile +
           batches * (int64_t)sizeof *v->batch + (int64_t)v->G * v->Q * (int64_t)sizeof *v->group_piece;
}

/* Results and centroids, or what the seeding sends and gets. */
static int64_t pinned_bytes(const struct uni_problem *p)
{
    return most((int64_t)(RESULTS * sizeof(double)) + p->K * p->D * (int64_t)sizeof(float), uni_cuda_seed_pinned(p));
}

int uni_cuda_bytes(const struct uni_problem *p, const int64_t *group_cells, struct uni_takes *takes)
{
    int err = 0;
    struct uni_cuda c = {};
    struct uni_cuda_visit visit;
    cudaDeviceProp card;
    int64_t pieces = 0, batches = 0;
    TRY(uni_cuda_enter(&visit, p->device));
    TRY(CUDA(cudaGetDeviceProperties(&card, (int)p->device)));
    for (int64_t g = 0; g < p->G; g++)
        pieces += group_cells[g] < p->Q ? group_cells[g] : p->Q;
    c.cores = card.multiProcessorCount;
    c.p = p;
    c.fast = fast_of(p);
    c.slots = slots_of(p);
    view_of(&c.v, p, pieces, pieces + p->Q + (p->V > 1 ? most_parts(p, pieces) : 0), p->N / TILE + pieces, p->N / CHUNK + pieces,
            grid_of(p, c.cores));
    batches = uni_cuda_batch_bound(p, pieces, grid_of(p, c.cores));
    TRY(choose_way(&c, batches, takes));
    takes->host += lists_bytes(&c, batches) + HOST_BUFFERS + pinned_bytes(p);
done:
    return err;
}

static int open_device(struct uni_cuda *c, char *name, size_t size)
{
    int err = 0;
    cudaDeviceProp card;
    TRY(CUDA(cudaGetDeviceProperties(&card, c->device)));
    TRY(uni_cuda_new_enough(&card));
    snprintf(name, size, "cuda (%.20s)", card.name);
    c->cores = card.multiProcessorCount;
    c->early = card.major >= 9;
    c->of_hopper = card.major == 9 && card.minor == 0;
    TRY(CUDA(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking)));
    TRY(CUDA(cudaEventCreateWithFlags(&c->answer, cudaEventDisableTiming)));
    TRY(CUDA(cudaEventCreateWithFlags(&c->before, cudaEventDisableTiming)));
done:
    return err;
}

static int take_memory(struct uni_cuda *c, struct uni_backend *b)
{
    int err = 0;
    TRY(choose_way(c, c->lists.batches, &b->takes));
    TRY(uni_cuda_host_has_room(c));
    TRY(CUDA(cudaMalloc((void **)&c->block, (size_t)deal_out(c, c->lists.batches, NULL))));
    deal_out(c, c->lists.batches, c->block);
    TRY(uni_cuda_host_open(c, b));
done:
    return err;
}

#define SEND(to, from, n) CUDA(cudaMemcpy(to, from, (size_t)(n) * sizeof *(from), cudaMemcpyHostToDevice))

/* By level: of one variable by group. */
static int send_levels(struct uni_cuda *c)
{
    int err = 0;
    const struct uni_problem *p = c->p;
    int64_t n = c->v.levels;
    double *theta = (double *)malloc((size_t)(3 * n) * sizeof *theta), *share = theta + n, *mass = share + n;
    if (!theta)
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory for %lld levels", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t level = p->V > 1 ? i : p->group_level[i];
        theta[i] = p->level_theta[level];
        share[i] = p->level_share[level];
        mass[i] = p->level_mass[level];
    }
    TRY(SEND(c->v.level_theta, theta, n));
    TRY(SEND(c->v.level_share, share, n));
    TRY(SEND(c->v.level_mass, mass, n));
done:
    free(theta);
    return err;
}

static int send_lists(struct uni_cuda *c)
{
    int err = 0;
    const struct uni_cuda_lists *l = &c->lists;
    const struct uni_cuda_view *v = &c->v;
    float sigma[MOST_K] = {0};
    c->one_sigma = 1;
    for (int k = 0; k < v->K; k++) {
        sigma[k] = (float)c->p->sigma[k];
        c->one_sigma = c->one_sigma && sigma[k] == sigma[0];
        c->shifts |= sigma[k] < 0.06f; /* else of at least 2^-97: -4 / sigma in base 2 */
    }
    TRY(SEND(v->sigma, sigma, v->Kp));
    TRY(SEND(v->piece, l->piece, v->P));
    TRY(SEND(v->place, l->place, (int64_t)v->P * v->V));
    TRY(SEND(v->tile, l->tile, v->tiles));
    TRY(SEND(v->group_tile, l->group_tile, v->G + 1));
    TRY(SEND(v->chunk, l->chunk, v->chunks));
    TRY(SEND(v->group_chunk, l->group_chunk, v->G + 1));
    TRY(SEND(v->batch, l->batch, l->batches));
    TRY(SEND(v->block_piece, l->block_piece, v->Q + 1));
    TRY(SEND(v->group_piece, l->group_piece, (int64_t)v->G * v->Q));
    TRY(SEND(v->group_row, l->group_row, (int64_t)v->G * v->V));
    TRY(SEND(v->level_first, l->level_first, v->levels + 1));
    TRY(SEND(v->level_last, l->level_last, v->levels + 1));
    TRY(send_levels(c));
    TRY(CUDA(cudaMemset(v->W[0], 0, uni_cuda_W_bytes(c)))); /* the correction before the first is none */
    TRY(CUDA(cudaMemset(v->ended, 0, (size_t)(v->K + 2) * sizeof *v->ended)));
    TRY(CUDA(cudaMemset(v->L, 0, (size_t)v->N * sizeof(float))));
    TRY(CUDA(cudaDeviceSynchronize()));
done:
    return err;
}

/* The largest |Z|; as bits, floats without sign have the order of integers. */
__global__ void largest_entry(const float *Z, int64_t n, unsigned *out)
{
    float most = 0;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        most = fmaxf(most, fabsf(Z[i]));
    most = warp_most(most);
    if (threadIdx.x % 32 == 0)
        atomicMax(out, __float_as_uint(most));
}

/* Do warpgroups multiply in the code that runs? Not in what a driver compiles from PTX, as it can be made to for any card. */
__global__ void of_warpgroups(unsigned *out)
{
    *out = UNI_WGMMA;
}

/* Powers of two: W_scale takes Z and W to halves, S_scale sums of Z to 64-bit integers. And what the card runs. */
static int look(struct uni_cuda *c)
{
    int err = 0, exponent = 0, rows = 0;
    struct {
        float largest;
        unsigned wide;
    } seen = {0, 0};
    TRY(CUDA(cudaMemsetAsync(c->v.result, 0, sizeof seen, c->stream)));
    largest_entry<<<4 * c->cores, 256, 0, c->stream>>>(c->v.Z, c->v.N_all * c->v.Dz, (unsigned *)c->v.result);
    of_warpgroups<<<1, 1, 0, c->stream>>>((unsigned *)c->v.result + 1);
    TRY(CUDA(cudaGetLastError()));
    TRY(CUDA(cudaMemcpyAsync(&seen, c->v.result, sizeof seen, cudaMemcpyDeviceToHost, c->stream)));
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
    c->hopper = c->hopper && seen.wide;
    c->v.base_scale = c->hopper && c->v.damped ? c->v.base_scale : NULL;
    (void)frexp((double)seen.largest, &exponent); /* largest < 2^exponent */
    (void)frexp((double)c->v.N, &rows);
    c->W_scale = ldexp(1, 9 - exponent < 100 ? 9 - exponent : 100);
    c->v.S_scale = ldexp(1, 61 - exponent - rows);
done:
    return err;
}

int uni_cuda_open(struct uni_backend *b, const struct uni_problem *p, const struct uni_matrix *source)
{
    int err = 0;
    struct uni_cuda *c = (struct uni_cuda *)calloc(1, sizeof *c);
    struct uni_cuda_visit visit;
    b->state = c;
    if (!c)
        TRY(uni_cuda_lib->fail(UNI_MEMORY, "no memory for the cuda backend: %zu bytes asked for", sizeof *c));
    if (p->D > MOST_D || p->K > MOST_K)
        TRY(uni_cuda_lib->fail(UNI_OPTION, "%lld dimensions and %lld clusters: the cuda backend takes %d and %d; use backend cpu",
                               (long long)p->D, (long long)p->K, MOST_D, MOST_K));
    c->p = p;
    c->device = (int)p->device;
    b->threads = c->threads = p->threads ? p->threads : uni_cuda_lib->cpus;
    TRY(uni_cuda_enter(&visit, c->device));
    TRY(open_device(c, b->name, sizeof b->name));
    TRY(uni_cuda_lists_open(&c->lists, p, grid_of(p, c->cores)));
    c->fast = fast_of(p);
    c->slots = slots_of(p);
    view_of(&c->v, p, c->lists.pieces, c->lists.parts, c->lists.tiles, c->lists.chunks, grid_of(p, c->cores));
    c->hopper = suits_hopper(c);
    c->v.batch_pieces = (int)c->lists.most_pieces;
    c->v.step_rows = (int)(c->lists.step_rows + 3) / 4 * 4;
    TRY(take_memory(c, b));
    TRY(CUDA(cudaHostAlloc(&c->pinned, (size_t)pinned_bytes(p), cudaHostAllocDefault)));
    TRY(send_lists(c));
    TRY(uni_cuda_lanes_open(c));
    TRY(uni_cuda_rows_in(c, source));
    TRY(look(c));
done:
    if (err)
        uni_cuda_close(b);
    return err;
}

void uni_cuda_close(struct uni_backend *b)
{
    struct uni_cuda *c = (struct uni_cuda *)b->state;
    struct uni_cuda_visit visit;
    if (!c)
        return;
    (void)uni_cuda_enter(&visit, c->device);
    for (int parity = 0; parity < 2; parity++)
        for (int fit = 0; fit < 3; fit++)
            if (c->graph[parity][fit].exec)
                cudaGraphExecDestroy(c->graph[parity][fit].exec);
    uni_cuda_lanes_close(c);
    cudaFree(c->block); /* waits for all kernels */
    uni_cuda_host_close(c);
    cudaFreeHost(c->pinned);
    if (c->answer)
        cudaEventDestroy(c->answer);
    if (c->before)
        cudaEventDestroy(c->before);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    (void)cudaGetLastError();
    uni_cuda_lists_close(&c->lists);
    free(c);
    b->state = NULL;
}
