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

struct step_smem {
    uint32_t row[BATCH_PIECES], before[BATCH_PIECES], end[BATCH_PIECES];
    uint32_t cut[STEP_WARPS + 1]; /* rows of the batch at which warps begin */
    double part[STEP_WARPS];
};

/* The old parts and X of a piece, and where its dead parts are, to be cleared for the next sweep. */
struct chain {
    const long long *X, *M, *M_old;
    long long *X_out, *dead;
    bool alone;
};

__device__ __forceinline__ chain chain_of(const uni_cuda_view &v, int i, int parity)
{
    int j = v.piece[i].previous;
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

/* pen = ((2E + 1) / (O + E + 1))^theta of one piece, over its largest entry: a warp's work. The piece's owner keeps it, and X. */
__device__ void make_penalties(const uni_cuda_view &v, int i, int block, int parity, bool owner, bool r_owner, float *pen, float *weighted)
{
    int lane = threadIdx.x & 31;
    const uni_cuda_piece piece = v.piece[i];
    chain o_chain = chain_of(v, i, parity), r_chain = chain_of(v, v.P + block, parity);
    float most = -HUGE_VALF;
    for (int from = lane; from < v.Kp; from += 128) { /* all loads before the first store: one trip to L2 */
        long long o_fixed[4], r_fixed[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int k = min(from + 32 * j, v.Kp - 1);
            o_fixed[j] = without(o_chain, k);
            r_fixed[j] = without(r_chain, k);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int k = from + 32 * j;
            double O = (double)o_fixed[j] * (1 / MASS_SCALE), E = piece.share * ((double)r_fixed[j] * (1 / MASS_SCALE));
            float ratio = (float)UNI_PENALTY_TOP(E) / (float)UNI_PENALTY_BOTTOM(O, E), x = log2f(ratio) * piece.theta;
            most = k < v.K ? fmaxf(most, x) : most;
            if (k >= v.Kp)
                continue;
            pen[k] = x;
            if (owner && !o_chain.alone)
                o_chain.X_out[k] = o_fixed[j];
            if (owner)
                o_chain.dead[k] = 0;
            if (r_owner && !r_chain.alone)
                r_chain.X_out[k] = r_fixed[j];
            if (r_owner)
                r_chain.dead[k] = 0;
        }
    }
    most = warp_most(most);
    for (int k = lane; k < v.Kp; k += 32) {
        float x = pen[k] - most, P = k < v.K && x >= -125 ? exp2f(x) : 0;
        pen[k] = P;
        if (weighted)
            weighted[k] = v.sigma[k] * P;
        if (owner)
            v.pen[(int64_t)i * v.Kp + k] = P;
    }
}

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

/* A warp's rows. Lanes in groups of LANES take every (32 / LANES)th row; SETS sets of SUB rows each are on their way at a time. */
template <int LANES, int CH, int SINGLE, int FIT> struct warp_rows {
    static constexpr int GROUPS = 32 / LANES, SETS = 2, SUB = (SINGLE ? 2 : 4) / CH ? (SINGLE ? 2 : 4) / CH : 1, COLS = 8 * CH;
    raw_row<CH, SINGLE> raw[SETS][SUB];
    float L[SETS][SUB];
    float G[COLS], P[COLS], sP[FIT == 2 ? COLS : 1], logs;
    uint32_t at, end; /* this group of lanes' next row; the end of the segment */

    __device__ __forceinline__ void load(const uni_cuda_view &v, int set, int lane)
    {
#pragma unroll
        for (int u = 0; u < SUB; u++) {
            uint32_t row = at + (uint32_t)(set * SUB + u) * GROUPS;
            load_row<LANES, CH, SINGLE>(raw[set][u], v, row, row < end, lane);
            if (FIT)
                L[set][u] = row < end ? v.L[row] : 0;
        }
    }

    __device__ __forceinline__ void begin(const uni_cuda_view &v, uint32_t row, uint32_t rows, int lane)
    {
        at = row + (threadIdx.x & 31) / LANES;
        end = row + rows;
#pragma unroll
        for (int s = 0; s < SETS; s++)
            load(v, s, lane);
    }

    __device__ __forceinline__ void take_penalties(const float *pen, const float *weighted, int Kp, int lane)
    {
#pragma unroll
        for (int c = 0; c < CH; c++)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int k = 8 * (c * LANES + lane) + i;
                P[8 * c + i] = k < Kp ? pen[k] : 0;
                G[8 * c + i] = 0;
                if (FIT == 2)
                    sP[8 * c + i] = k < Kp ? weighted[k] : 0;
            }
    }

    /* s = base . P, G += base / s; with fit the logarithms, weighted by sum_k sigma R, too */
    __device__ __forceinline__ void add_set(const uni_cuda_view &v, int set, int lane)
    {
        float f[SUB][COLS], s[SUB], t[SUB], l[SUB];
#pragma unroll
        for (int u = 0; u < SUB; u++) {
            numbers<CH, SINGLE>(f[u], raw[set][u]);
            l[u] = L[set][u];
            s[u] = t[u] = 0;
#pragma unroll
            for (int i = 0; i < COLS; i++) {
                s[u] += f[u][i] * P[i];
                if (FIT == 2)
                    t[u] += f[u][i] * sP[i];
            }
        }
        uint32_t now = at;
        at += SETS * SUB * GROUPS;
        load(v, set, lane);
        at = now;
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
                logs += (FIT == 2 ? t[u] * inverse : 1.0f) * (__logf(s[u]) - LN_BASE_SCALE + l[u]);
#pragma unroll
            for (int i = 0; i < COLS; i++)
                G[i] += f[u][i] * inverse;
        }
    }

    __device__ __forceinline__ void run(const uni_cuda_view &v, int lane)
    {
        uint32_t first = at - (threadIdx.x & 31) / LANES; /* the same for all lanes */
        for (uint32_t i = first; i < end; i += SETS * SUB * GROUPS) {
#pragma unroll
            for (int s = 0; s < SETS; s++)
                add_set(v, s, lane);
            at += SETS * SUB * GROUPS;
        }
    }

    __device__ __forceinline__ void give(float *slot, int Kp, int lane)
    {
#pragma unroll
        for (int i = 0; i < COLS; i++)
#pragma unroll
            for (int m = LANES; m < 32; m *= 2)
                G[i] += __shfl_xor_sync(~0u, G[i], m);
        if ((threadIdx.x & 31) < LANES)
#pragma unroll
            for (int c = 0; c < CH; c++)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (8 * (c * LANES + lane) + i < Kp)
                        slot[8 * (c * LANES + lane) + i] = G[8 * c + i];
    }
};

/* The batch's parts of O and r: P times the slots of the warps that had rows of the piece. */
template <int FIT>
__device__ double add_parts(const uni_cuda_view &v, const uni_cuda_batch &b, int block, int parity, const float *pen, const float *slots,
                            const step_smem &sm)
{
    long long *M = v.M[parity ^ 1];
    double fit = 0;
    int shares = (int)blockDim.x / v.Kp > 0 ? (int)blockDim.x / v.Kp : 1, share = (int)threadIdx.x / v.Kp;
    if (share >= shares && shares > 1)
        return 0;
    for (int k = (int)threadIdx.x - (shares > 1 ? share * v.Kp : 0); k < v.Kp; k += shares > 1 ? v.Kp : (int)blockDim.x) {
        long long r = 0;
        for (int l = shares > 1 ? share : 0; l < b.pieces; l += shares) {
            float G = 0, P = pen[l * v.Kp + k];
            for (int w = 0; w < STEP_WARPS; w++)
                if (sm.cut[w] < sm.end[l] && sm.cut[w + 1] > sm.before[l] && sm.cut[w] < sm.cut[w + 1])
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
__global__ void __launch_bounds__(STEP_WARPS * 32) sweep_step(uni_cuda_view v, int block, int parity)
{
    extern __shared__ float dynamic[];
    __shared__ step_smem sm;
    float *pen = dynamic, *slots = pen + BATCH_PIECES * v.Kp, *weighted = FIT == 2 ? slots + (STEP_WARPS + BATCH_PIECES) * v.Kp : nullptr;
    int warp = threadIdx.x / 32, lane = threadIdx.x % LANES;
    int first = v.batch_of_block[block * v.grid + blockIdx.x], last = v.batch_of_block[block * v.grid + blockIdx.x + 1];
    double fit = 0;
    warp_rows<LANES, CH, SINGLE, FIT> rows;
    launch_dependents();
    for (int at = first; at < last; at++) {
        const uni_cuda_batch b = v.batch[at];
        if (threadIdx.x < b.pieces) {
            const uni_cuda_piece piece = v.piece[b.piece + threadIdx.x];
            sm.row[threadIdx.x] = piece.row;
            sm.before[threadIdx.x] = piece.before;
            sm.end[threadIdx.x] = piece.before + piece.n;
        }
        if (threadIdx.x <= STEP_WARPS)
            sm.cut[threadIdx.x] = b.from + (uint32_t)((uint64_t)(b.to - b.from) * threadIdx.x / STEP_WARPS);
        __syncthreads();
        uint32_t now = sm.cut[warp], end = sm.cut[warp + 1];
        int l = 0;
        while (l + 1 < b.pieces && sm.end[l] <= now)
            l++;
        rows.logs = 0;
        rows.begin(v, sm.row[l] + (now - sm.before[l]), min(end, sm.end[l]) - now, lane);
        if (at == first)
            wait_for_previous();
        for (int i = warp; i < b.pieces; i += STEP_WARPS)
            make_penalties(v, b.piece + i, block, parity, sm.before[i] >= b.from, b.from == 0 && i == 0, pen + i * v.Kp,
                           weighted ? weighted + i * v.Kp : nullptr);
        __syncthreads();
        while (now < end) {
            uint32_t stop = min(end, sm.end[l]);
            rows.take_penalties(pen + l * v.Kp, weighted ? weighted + l * v.Kp : nullptr, v.Kp, lane);
            rows.run(v, lane);
            now = stop;
            if (now < end)
                rows.begin(v, sm.row[l + 1], min(end, sm.end[l + 1]) - now, lane);
            rows.give(slots + (warp + l) * v.Kp, v.Kp, lane);
            l++;
        }
        if (FIT && lane == 0)
            fit -= (FIT == 1 ? (double)v.sigma[0] : 1.0) * (double)rows.logs;
        __syncthreads();
        fit += add_parts<FIT>(v, b, block, parity, pen, slots, sm);
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
    size_t bytes = (size_t)(BATCH_PIECES * (fit == 2 ? 2 : 1) + STEP_WARPS + BATCH_PIECES) * (size_t)c->v.Kp * sizeof(float);
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
