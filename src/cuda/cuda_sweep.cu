/* SPDX-License-Identifier: BSD-3-Clause */
/* The block update. R is never stored: for a cell of a piece with penalties P, R = base P / s, s = sum_k base P, so with G = sum of
   base / s over the piece's cells its part of O is P G. One kernel is one block's update, tables included: every block of threads makes
   the penalties of the pieces that it has rows of. All steps of some sweeps are one graph; each step's kernel starts, and loads its
   first rows, while the one before it ends.

   O is not kept but X, O without the piece, as of the piece's last update. With j the piece of the group that was updated before piece i,
   X[i] = X[j] + M[j] - M_old[i]: what was there without j, plus j's new part, minus i's old one. */
#include <cuda_fp16.h>

#include "../formula.h"
#include "cuda_backend.h"
#include "cuda_device.cuh"

struct step_smem { /* of the batch's pieces; first, last: the workers that have rows of it */
    uint32_t row[BATCH_PIECES], before[BATCH_PIECES], end[BATCH_PIECES];
    int first[BATCH_PIECES], last[BATCH_PIECES], previous[BATCH_PIECES];
    float theta[BATCH_PIECES];
    double share[BATCH_PIECES];
    double part[STEP_WARPS];
};

/* Rows of a batch that a worker gets: whole sets of `sub`. */
__device__ __forceinline__ uint32_t rows_of_worker(const uni_cuda_batch &b, uint32_t workers, uint32_t sub)
{
    return (b.to - b.from + workers * sub - 1) / (workers * sub) * sub;
}

__device__ __forceinline__ void take_pieces(const uni_cuda_view &v, const uni_cuda_batch &b, uint32_t rows, step_smem &sm)
{
    int i = threadIdx.x;
    if (i >= b.pieces)
        return;
    const uni_cuda_piece piece = v.piece[b.piece + i];
    uint32_t end = piece.before + piece.n;
    sm.row[i] = piece.row;
    sm.before[i] = piece.before;
    sm.end[i] = end;
    sm.first[i] = (int)((max(piece.before, b.from) - b.from) / rows);
    sm.last[i] = (int)((min(end, b.to) - 1 - b.from) / rows);
    sm.previous[i] = piece.previous;
    sm.theta[i] = piece.theta;
    sm.share[i] = piece.share;
}

/* ---- penalties ----------------------------------------------------------------------------------------------------------- */

/* X and the parts of a piece i with j before it, and where j's dead parts are, to be cleared for the next sweep. */
struct chain {
    const long long *X, *M, *M_old;
    long long *X_out, *dead;
    bool alone;
};

__device__ __forceinline__ chain chain_of(const uni_cuda_view &v, int i, int j, int parity)
{
    int64_t at = (int64_t)i * v.Kp, from = (int64_t)j * v.Kp;
    long long *now = v.M[parity ^ 1], *old = v.M[parity];
    chain c;
    c.alone = i == j;
    c.X = v.X + from;
    c.M = (j < i ? now : old) + from;
    c.M_old = old + at;
    c.X_out = v.X + at;
    c.dead = c.alone ? old + at : (j < i ? old : now) + from;
    return c;
}

/* Where the piece is alone, j is i, and the two parts are one and the same. */
__device__ __forceinline__ long long without(const chain &c, int k)
{
    return c.X[k] + c.M[k] - c.M_old[k];
}

__device__ __forceinline__ void keep(const chain &c, int k, long long X)
{
    if (!c.alone)
        c.X_out[k] = X;
    c.dead[k] = 0;
}

/* pen = ((2E + 1) / (O + E + 1))^theta of two of the batch's pieces, over the largest entry of each: a warp's work. The owner of a piece,
   whose batch has its first row, keeps X; block's first batch keeps r's. */
__device__ void make_penalties(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm, int block, int parity, float *pen, float *weighted)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32, r_piece = v.P + block;
    chain r_chain = chain_of(v, r_piece, block == 0 ? v.P + v.Q - 1 : r_piece - 1, parity), o_chain[2];
    bool there[2], r_owner = b.from == 0 && warp == 0;
    float most[2] = {-HUGE_VALF, -HUGE_VALF};
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int l = min(warp + h * STEP_WARPS, b.pieces - 1);
        there[h] = warp + h * STEP_WARPS < b.pieces;
        o_chain[h] = chain_of(v, b.piece + l, sm.previous[l], parity);
    }
    if (!there[0])
        return;
    for (int from = lane; from < v.Kp; from += 128) { /* all loads before the first store: one trip to L2 */
        long long o[2][4], r[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int k = min(from + 32 * j, v.Kp - 1);
            r[j] = without(r_chain, k);
            o[0][j] = without(o_chain[0], k);
            o[1][j] = there[1] ? without(o_chain[1], k) : 0;
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int l = warp + h * STEP_WARPS;
            if (!there[h])
                continue;
            bool owner = sm.before[l] >= b.from;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int k = from + 32 * j;
                double O = (double)o[h][j] * (1 / MASS_SCALE), E = sm.share[l] * ((double)r[j] * (1 / MASS_SCALE));
                float x = __log2f(__fdividef((float)UNI_PENALTY_TOP(E), (float)UNI_PENALTY_BOTTOM(O, E))) * sm.theta[l];
                most[h] = k < v.K ? fmaxf(most[h], x) : most[h];
                if (k < v.Kp)
                    pen[l * v.Kp + k] = x;
                if (k < v.Kp && owner)
                    keep(o_chain[h], k, o[h][j]);
                if (k < v.Kp && h == 0 && r_owner)
                    keep(r_chain, k, r[j]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int l = warp + h * STEP_WARPS;
        if (!there[h])
            continue;
        most[h] = warp_most(most[h]);
        bool owner = sm.before[l] >= b.from;
        for (int k = lane; k < v.Kp; k += 32) {
            float x = pen[l * v.Kp + k] - most[h], P = k < v.K && x >= -125 ? exp2f(x) : 0;
            pen[l * v.Kp + k] = P;
            if (weighted)
                weighted[l * v.Kp + k] = v.sigma[k] * P;
            if (owner)
                v.pen[(int64_t)(b.piece + l) * v.Kp + k] = P;
        }
    }
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

/* Rows of base, 8 * CH columns a lane; as they come from memory, and as numbers. */
template <int CH, int SINGLE> struct raw_row {
    uint4 part[CH * (SINGLE ? 2 : 1)];
};

template <int LANES, int CH, int SINGLE>
__device__ __forceinline__ void load_row(raw_row<CH, SINGLE> &raw, const uni_cuda_view &v, uint32_t row, bool valid, int lane)
{
#pragma unroll
    for (int c = 0; c < CH; c++) {
        int k = 8 * (c * LANES + lane);
        const char *at = (const char *)v.base + ((int64_t)row * v.Kp + k) * (SINGLE ? 4 : 2);
        bool inside = valid && k < v.Kp;
#pragma unroll
        for (int h = 0; h < (SINGLE ? 2 : 1); h++)
            raw.part[c * (SINGLE ? 2 : 1) + h] = inside ? load_stream(at + 16 * h) : make_uint4(0, 0, 0, 0);
    }
}

template <int CH, int SINGLE> __device__ __forceinline__ void numbers(float *f, const raw_row<CH, SINGLE> &raw)
{
#pragma unroll
    for (int c = 0; c < CH * (SINGLE ? 2 : 1); c++) {
        const uint32_t word[4] = {raw.part[c].x, raw.part[c].y, raw.part[c].z, raw.part[c].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (SINGLE) {
                f[4 * c + i] = __uint_as_float(word[i]);
            } else {
                float2 two = half_pair(word[i]);
                f[8 * c + 2 * i] = two.x;
                f[8 * c + 2 * i + 1] = two.y;
            }
        }
    }
}

/* LANES lanes are a worker: they take consecutive rows of the batch, in sets of at most SUB rows of one piece, of which SETS are on
   their way at a time. */
template <int LANES, int CH, int SINGLE, int FIT> struct worker {
    static constexpr int SETS = 2, SUB = (SINGLE ? 2 : 4) / CH ? (SINGLE ? 2 : 4) / CH : 1, COLS = 8 * CH, WORKERS = STEP_WARPS * 32 / LANES;
    raw_row<CH, SINGLE> raw[SETS][SUB];
    float L[SETS][SUB];
    int piece[SETS], l, now; /* piece of each set, -1: no row; of the next to be loaded; of G and P */
    uint32_t next, end;      /* rows of the block */
    float G[COLS], P[COLS], sP[FIT == 2 ? COLS : 1], logs;

    template <int set> __device__ __forceinline__ void load(const uni_cuda_view &v, const step_smem &sm, int lane)
    {
        uint32_t n = 0, row = 0;
        piece[set] = -1;
        if (next < end) {
            l += next >= sm.end[l];
            n = min((uint32_t)SUB, min(end, sm.end[l]) - next);
            row = sm.row[l] + (next - sm.before[l]);
            piece[set] = l;
            next += n;
        }
#pragma unroll
        for (int u = 0; u < SUB; u++) {
            load_row<LANES, CH, SINGLE>(raw[set][u], v, row + u, u < n, lane);
            if (FIT)
                L[set][u] = u < n ? v.L[row + u] : 0;
        }
    }

    __device__ __forceinline__ void begin(const uni_cuda_view &v, const step_smem &sm, const uni_cuda_batch &b, uint32_t rows, int lane)
    {
        next = min(b.from + rows * (threadIdx.x / LANES), b.to);
        end = min(next + rows, b.to);
        logs = 0;
        now = -1;
        l = 0;
        while (l + 1 < b.pieces && sm.end[l] <= next)
            l++;
        load<0>(v, sm, lane);
        load<1>(v, sm, lane);
    }

    /* G of the piece so far to its slot */
    __device__ __forceinline__ void give(float *slots, int Kp, int lane)
    {
        float *slot = slots + (int)(threadIdx.x / LANES + now) * Kp;
#pragma unroll
        for (int c = 0; c < CH; c++)
            if (now >= 0 && 8 * (c * LANES + lane) < Kp) {
                *(float4 *)(slot + 8 * (c * LANES + lane)) = make_float4(G[8 * c], G[8 * c + 1], G[8 * c + 2], G[8 * c + 3]);
                *(float4 *)(slot + 8 * (c * LANES + lane) + 4) = make_float4(G[8 * c + 4], G[8 * c + 5], G[8 * c + 6], G[8 * c + 7]);
            }
    }

    __device__ __forceinline__ void change_piece(int to, const float *pen, const float *weighted, float *slots, int Kp, int lane)
    {
        give(slots, Kp, lane);
        now = to;
#pragma unroll
        for (int c = 0; c < CH; c++)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int k = 8 * (c * LANES + lane) + i;
                P[8 * c + i] = k < Kp ? pen[now * Kp + k] : 0;
                G[8 * c + i] = 0;
                if (FIT == 2)
                    sP[8 * c + i] = k < Kp ? weighted[now * Kp + k] : 0;
            }
    }

    /* s = base . P, G += base / s; with fit the logarithms, weighted by sum_k sigma R, too */
    template <int set> __device__ __forceinline__ void add_set(const uni_cuda_view &v, const step_smem &sm, int lane)
    {
        float f[SUB][COLS], s[SUB], t[SUB], at[SUB];
#pragma unroll
        for (int u = 0; u < SUB; u++) {
            numbers<CH, SINGLE>(f[u], raw[set][u]);
            at[u] = L[set][u];
            s[u] = t[u] = 0;
#pragma unroll
            for (int i = 0; i < COLS; i++) {
                s[u] += f[u][i] * P[i];
                if (FIT == 2)
                    t[u] += f[u][i] * sP[i];
            }
        }
        load<set>(v, sm, lane);
#pragma unroll
        for (int m = LANES / 2; m; m /= 2)
#pragma unroll
            for (int u = 0; u < SUB; u++) {
                s[u] += __shfl_xor_sync(~0u, s[u], m);
                if (FIT == 2)
                    t[u] += __shfl_xor_sync(~0u, t[u], m);
            }
#pragma unroll
        for (int u = 0; u < SUB; u++) {
            float inverse = s[u] > 0 ? __fdividef(1.0f, s[u]) : 0; /* 0: its weights all vanish, or no row */
            if (FIT && s[u] > 0)
                logs += (FIT == 2 ? t[u] * inverse : 1.0f) * (__logf(s[u]) - LN_BASE_SCALE + at[u]);
#pragma unroll
            for (int i = 0; i < COLS; i++)
                G[i] += f[u][i] * inverse;
        }
    }

    template <int set>
    __device__ __forceinline__ void turn(const uni_cuda_view &v, const step_smem &sm, const float *pen, const float *weighted, float *slots, int lane)
    {
        if (piece[set] >= 0 && piece[set] != now)
            change_piece(piece[set], pen, weighted, slots, v.Kp, lane);
        __syncwarp();
        add_set<set>(v, sm, lane);
    }

    __device__ __forceinline__ void run(const uni_cuda_view &v, const step_smem &sm, const float *pen, const float *weighted, float *slots, int lane)
    {
        while (__any_sync(~0u, piece[0] >= 0)) {
            turn<0>(v, sm, pen, weighted, slots, lane);
            turn<1>(v, sm, pen, weighted, slots, lane);
        }
        give(slots, v.Kp, lane);
    }
};

/* The batch's parts of O and r: P times the slots of the workers that had rows of the piece. */
template <int FIT>
__device__ double add_parts(const uni_cuda_view &v, const uni_cuda_batch &b, int block, int parity, const float *pen, const float *slots,
                            const step_smem &sm)
{
    long long *M = v.M[parity ^ 1];
    double fit = 0;
    int shares = (int)blockDim.x / v.Kp > 0 ? (int)blockDim.x / v.Kp : 1, share = shares > 1 ? (int)threadIdx.x / v.Kp : 0;
    if (share >= shares)
        return 0;
    for (int k = (int)threadIdx.x - share * v.Kp; k < v.Kp; k += shares > 1 ? v.Kp : (int)blockDim.x) {
        long long r = 0;
        for (int l = share; l < b.pieces; l += shares) {
            float G = 0, P = pen[l * v.Kp + k];
#pragma unroll 4
            for (int w = sm.first[l]; w <= sm.last[l]; w++)
                G += slots[(w + l) * v.Kp + k];
            float mass = P * G;
            long long fixed = __double2ll_rn((double)mass * MASS_SCALE);
            r += fixed;
            if (fixed)
                add_exact(M + (int64_t)(b.piece + l) * v.Kp + k, fixed);
            if (FIT && mass > 0)
                fit += (double)(v.sigma[k] * mass) * (double)__logf(P);
        }
        if (r)
            add_exact(M + (int64_t)(v.P + block) * v.Kp + k, r);
    }
    return fit;
}

template <int LANES, int CH, int SINGLE, int FIT>
__global__ void __launch_bounds__(STEP_WARPS * 32, CH > 1 || FIT == 2 ? 1 : 2) sweep_step(uni_cuda_view v, int block, int parity)
{
    typedef worker<LANES, CH, SINGLE, FIT> rows_of;
    extern __shared__ __align__(16) float dynamic[];
    __shared__ step_smem sm;
    float *pen = dynamic, *slots = pen + BATCH_PIECES * v.Kp, *weighted = FIT == 2 ? slots + (rows_of::WORKERS + BATCH_PIECES) * v.Kp : nullptr;
    int lane = threadIdx.x % LANES, at = block * v.grid + (int)blockIdx.x;
    double fit = 0;
    bool first = true;
    rows_of work;
    launch_dependents();
    while (at >= 0) {
        const uni_cuda_batch b = v.batch[at];
        if (b.pieces == 0)
            break;
        uint32_t rows = rows_of_worker(b, rows_of::WORKERS, rows_of::SUB);
        take_pieces(v, b, rows, sm);
        __syncthreads();
        work.begin(v, sm, b, rows, lane);
        if (first)
            wait_for_previous();
        first = false;
        make_penalties(v, b, sm, block, parity, pen, weighted);
        __syncthreads();
        work.run(v, sm, pen, weighted, slots, lane);
        if (FIT && lane == 0)
            fit -= (FIT == 1 ? (double)v.sigma[0] : 1.0) * (double)work.logs;
        __syncthreads();
        fit += add_parts<FIT>(v, b, block, parity, pen, slots, sm);
        at = b.next;
        if (at >= 0)
            __syncthreads();
    }
    if (FIT) {
        fit = block_sum(fit, sm.part);
        if (threadIdx.x == 0)
            v.part[block * v.grid + blockIdx.x] = fit;
    }
}

typedef void (*step_kernel)(uni_cuda_view, int, int);

template <int LANES, int CH> static step_kernel choose_fit(int single, int fit)
{
    if (single)
        return fit == 2 ? sweep_step<LANES, CH, 1, 2> : fit ? sweep_step<LANES, CH, 1, 1> : sweep_step<LANES, CH, 1, 0>;
    return fit == 2 ? sweep_step<LANES, CH, 0, 2> : fit ? sweep_step<LANES, CH, 0, 1> : sweep_step<LANES, CH, 0, 0>;
}

static step_kernel choose(const struct uni_cuda_view *v, int fit)
{
    return v->Kp <= 64    ? choose_fit<8, 1>(v->single, fit)
           : v->Kp <= 128 ? choose_fit<16, 1>(v->single, fit)
           : v->Kp <= 256 ? choose_fit<32, 1>(v->single, fit)
           : v->Kp <= 512 ? choose_fit<32, 2>(v->single, fit)
                          : choose_fit<32, 4>(v->single, fit);
}

static int launch_step(const struct uni_cuda *c, int block, int parity, int fit)
{
    step_kernel kernel = choose(&c->v, fit);
    int workers = STEP_WARPS * (c->v.Kp <= 64 ? 4 : c->v.Kp <= 128 ? 2 : 1);
    size_t bytes = (size_t)(BATCH_PIECES * (fit == 2 ? 2 : 1) + workers + BATCH_PIECES) * (size_t)c->v.Kp * sizeof(float);
    int err = bytes > 48000 ? CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes)) : UNI_OK;
    if (err)
        return err;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3((unsigned)c->v.grid);
    how.blockDim = dim3(STEP_WARPS * 32);
    how.dynamicSmemBytes = bytes;
    how.stream = c->stream;
    how.attrs = &early;
    how.numAttrs = c->early ? 1 : 0;
    return CUDA(cudaLaunchKernelEx(&how, kernel, c->v, block, parity));
}

static int capture(struct uni_cuda *c, int64_t sweeps, int fit, cudaGraphExec_t *exec)
{
    int err = 0;
    cudaGraph_t graph = NULL;
    TRY(CUDA(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal)));
    for (int64_t s = 0; s < sweeps && !err; s++)
        for (int q = 0; q < c->v.Q && !err; q++)
            err = launch_step(c, q, c->parity ^ (int)(s & 1), s + 1 == sweeps ? fit : 0);
    {
        int ended = CUDA(cudaStreamEndCapture(c->stream, &graph));
        TRY(err ? err : ended);
    }
    TRY(CUDA(cudaGraphInstantiate(exec, graph, 0)));
done:
    if (graph)
        cudaGraphDestroy(graph);
    return err;
}

enum { MOST_SWEEPS = 64 }; /* of one graph */

/* fit: 0 none, 1 one sigma, 2 a sigma for every cluster */
int uni_cuda_sweeps(struct uni_cuda *c, int64_t sweeps, int fit)
{
    int err = 0;
    while (sweeps > 0) {
        int64_t now = sweeps < MOST_SWEEPS ? sweeps : MOST_SWEEPS;
        int with = now == sweeps ? fit : 0;
        struct uni_cuda_graph *g = &c->graph[c->parity][with];
        if (g->exec && g->sweeps != now) {
            TRY(CUDA(cudaGraphExecDestroy(g->exec)));
            g->exec = NULL;
        }
        if (!g->exec) {
            TRY(capture(c, now, with, &g->exec));
            g->sweeps = now;
        }
        TRY(CUDA(cudaGraphLaunch(g->exec, c->stream)));
        c->parity ^= (int)(now & 1);
        sweeps -= now;
    }
done:
    return err;
}
