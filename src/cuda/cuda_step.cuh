/* SPDX-License-Identifier: BSD-3-Clause */
/* The table work of a step of a sweep: penalties before the rows, parts of O and r after them. See cuda_sweep.cu. */
#ifndef UNI_CUDA_STEP_CUH
#define UNI_CUDA_STEP_CUH

#include "../formula.h"
#include "cuda_backend.h"
#include "cuda_device.cuh"

enum {
    STEP_THREADS = STEP_WARPS * 32,
    STEP_BUFFERS = 8 /* most of a warp's ring */,
    RING_BYTES = 80 << 10 /* of all rings: two kernels' fit a multiprocessor */,
    SHARED_BYTES = 224000 /* that a block may have */
};

struct step_smem { /* of the batch's pieces; first, last: the warps that have rows of it */
    uint32_t row[BATCH_PIECES], before[BATCH_PIECES], end[BATCH_PIECES];
    int first[BATCH_PIECES], last[BATCH_PIECES];
    uni_cuda_place place[BATCH_PIECES * UNI_MAX_VARIABLES];
    double part[STEP_WARPS + 1];
};

/* What a step does beside the update: nothing; the objective, with one sigma or with one a cluster. Or it is a whole damped
 * sweep. */
enum { STEP_PLAIN, STEP_FIT, STEP_FIT_SIGMAS, STEP_DAMPED };

struct step_call {
    int block, parity, slot, buffers;
};

/* Rows of a batch that a warp gets: whole sets. */
__device__ __forceinline__ uint32_t rows_of_warp(const uni_cuda_batch &b, uint32_t set)
{
    return (b.to - b.from + STEP_WARPS * set - 1) / (STEP_WARPS * set) * set;
}

__device__ __forceinline__ void take_pieces(const uni_cuda_view &v, const uni_cuda_batch &b, uint32_t rows, step_smem &sm)
{
    int i = threadIdx.x;
    if (i < b.pieces * v.V)
        sm.place[i] = v.place[(int64_t)b.piece * v.V + i];
    if (i >= b.pieces)
        return;
    const uni_cuda_piece piece = v.piece[b.piece + i];
    uint32_t end = piece.before + piece.n;
    sm.row[i] = piece.row;
    sm.before[i] = piece.before;
    sm.end[i] = end;
    sm.first[i] = (int)((max(piece.before, b.from) - b.from) / rows);
    sm.last[i] = (int)((min(end, b.to) - 1 - b.from) / rows);
}

/* ---- penalties ----------------------------------------------------------------------------------------------------------- */

/* A part i with j before it; itself where it is alone. */
struct chain {
    int i, j;
};

__device__ __forceinline__ chain chain_of_r(const uni_cuda_view &v, int block)
{
    return {v.r_part + block, v.r_part + (block == 0 ? v.Q : block) - 1};
}

/* What the penalties are made from: what was there without j, plus j's new mass, minus i's old one; where i is alone, nothing.
   Damped: all that is there. */
template <bool DAMPED> __device__ __forceinline__ long long seen(const uni_cuda_view &v, chain c, int parity, int k)
{
    const uint32_t at = (uint32_t)c.i * (uint32_t)v.Kp + (uint32_t)k, from = (uint32_t)c.j * (uint32_t)v.Kp + (uint32_t)k;
    if (DAMPED)
        return masses(v, parity)[at];
    long long x = v.X[from] + v.M[parity ^ (c.j < c.i)][from] - v.M[parity][at];
    return c.i == c.j ? 0 : x;
}

/* Keeps what was seen as X, and clears j's dead mass for the next sweep. Damped: half of it stays, and what the sweep before last
   left is cleared. */
template <bool DAMPED> __device__ __forceinline__ void keep(const uni_cuda_view &v, chain c, int parity, int k, long long x)
{
    const uint32_t at = (uint32_t)c.i * (uint32_t)v.Kp + (uint32_t)k, from = (uint32_t)c.j * (uint32_t)v.Kp + (uint32_t)k;
    if (DAMPED) {
        if (x)
            add_exact(masses(v, parity + 1) + at, x / 2);
        masses(v, parity + 2)[at] = 0;
        return;
    }
    if (c.i != c.j)
        v.X[at] = x;
    v.M[parity ^ (c.j > c.i)][from] = 0;
}

/* (a E + b) / (O + E + b) */
__device__ __forceinline__ float ratio_of(const uni_cuda_view &v, long long o, long long r, float share)
{
    float O = __ll2float_rn(o) * (float)(1 / MASS_SCALE), E = share * (__ll2float_rn(r) * (float)(1 / MASS_SCALE));
    return __fdividef(UNI_PENALTY_TOP(v.scale, v.add, E), UNI_PENALTY_BOTTOM(v.add, O, E));
}

/* Penalties of a piece from their base-2 logarithms, over the largest: a warp's work. */
__device__ __forceinline__ void raise(const uni_cuda_view &v, float *pen, float *weighted, float *out, int lane)
{
    float most = -HUGE_VALF;
    for (int k = lane; k < v.K; k += 32)
        most = fmaxf(most, pen[k]);
    most = warp_most(most);
    for (int k = lane; k < v.Kp; k += 32) {
        float x = pen[k] - most, P = k < v.K && x >= -125 ? exp2f(x) : 0;
        pen[k] = P;
        if (weighted)
            weighted[k] = v.sigma[k] * P;
        if (out)
            out[k] = P;
    }
}

/* pen = ((a E + b) / (O + E + b))^theta, its product over the variables, of the batch's pieces, over the largest entry of each
   unless there is one theta and it is 2. A warp takes 32 clusters of a piece at a time, some of these at once. The owner of a
   part, whose batch has the first row of its first piece, keeps what is to be kept of it; block's first batch keeps r's. All
   threads of the warps that compute call it. */
template <bool DAMPED>
__device__ __forceinline__ void make_penalties(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm,
                                               const step_call &call, float *pen, float *weighted)
{
    enum { AT_ONCE = 4 };
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, chunks = (v.Kp + 31) / 32, units = b.pieces * chunks;
    const int inverse = 65536 / chunks + 1; /* u / chunks = u inverse / 65536: there are at most 512 */
    const chain r_chain = chain_of_r(v, call.block);
    float *out = v.pen + ((int64_t)call.slot * v.P + b.piece) * v.Kp;
#pragma unroll 1
    for (int first = warp; first < units; first += AT_ONCE * STEP_WARPS) {
        long long o[AT_ONCE], r[AT_ONCE];
        float x[AT_ONCE] = {};
#pragma unroll 1
        for (int u = 0; u < v.V; u++) { /* all loads of a variable before the first store: one trip to L2 */
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const int unit = min(first + i * STEP_WARPS, units - 1), l = unit * inverse >> 16,
                          k = min((unit - l * chunks) * 32 + lane, v.Kp - 1);
                const uni_cuda_place &place = sm.place[l * v.V + u];
                o[i] = seen<DAMPED>(v, {place.part, place.previous}, call.parity, k);
                r[i] = seen<DAMPED>(v, r_chain, call.parity, k);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const int unit = min(first + i * STEP_WARPS, units - 1), l = unit * inverse >> 16,
                          k = (unit - l * chunks) * 32 + lane;
                const uni_cuda_place &place = sm.place[l * v.V + u];
                const float ratio = ratio_of(v, o[i], r[i], place.share);
                x[i] = v.V == 1 && place.theta == 2 ? ratio * ratio : x[i] + __log2f(ratio) * place.theta;
                if (first + i * STEP_WARPS < units && k < v.Kp && place.first && sm.before[l] >= b.from)
                    keep<DAMPED>(v, {place.part, place.previous}, call.parity, k, o[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int unit = min(first + i * STEP_WARPS, units - 1), l = unit * inverse >> 16,
                      k = (unit - l * chunks) * 32 + lane;
            const bool usual = v.V == 1 && sm.place[l].theta == 2, owner = sm.before[l] >= b.from;
            const chain own = {b.piece + l, b.piece + l};
            if (first + i * STEP_WARPS >= units || k >= v.Kp)
                continue;
            const float P = k < v.K ? x[i] : 0;
            pen[l * v.Kp + k] = P;
            if (usual && weighted) /* no power is needed, and nothing can underflow */
                weighted[l * v.Kp + k] = v.sigma[k] * P;
            if (usual && owner)
                out[(int64_t)l * v.Kp + k] = P;
            if (v.V > 1 && owner) /* the piece's own mass: nothing depends on it */
                keep<DAMPED>(v, own, call.parity, k, seen<DAMPED>(v, own, call.parity, k));
            if (l == 0 && b.from == 0)
                keep<DAMPED>(v, r_chain, call.parity, k, r[i]);
        }
    }
    if (v.V == 1 && __all_sync(~0u, lane >= b.pieces || sm.place[lane].theta == 2))
        return;
    asm volatile("bar.sync 1, %0;" ::"r"((int)STEP_THREADS) : "memory");
    for (int l = warp; l < b.pieces; l += STEP_WARPS)
        if (v.V > 1 || sm.place[l].theta != 2)
            raise(v, pen + l * v.Kp, weighted ? weighted + l * v.Kp : nullptr,
                  sm.before[l] >= b.from ? out + (int64_t)l * v.Kp : nullptr, lane);
}

/* The batch's parts of O and r: P times the slots of the warps that had rows of the piece; damped, half of it. */
template <int GROUPS, int MODE>
__device__ double add_parts(const uni_cuda_view &v, const uni_cuda_batch &b, const step_call &call, const float *pen,
                            const float *slots, const step_smem &sm)
{
    constexpr bool DAMPED = MODE == STEP_DAMPED, FIT = MODE == STEP_FIT || MODE == STEP_FIT_SIGMAS;
    long long *M = DAMPED ? masses(v, call.parity + 1) : v.M[call.parity ^ 1];
    double fit = 0;
    int shares = STEP_THREADS / v.Kp > 0 ? STEP_THREADS / v.Kp : 1, share = shares > 1 ? (int)threadIdx.x / v.Kp : 0;
    if (share >= shares || threadIdx.x >= STEP_THREADS)
        return 0;
    for (int k = (int)threadIdx.x - share * v.Kp; k<v.Kp; k += shares> 1 ? v.Kp : STEP_THREADS) {
        long long r = 0;
        for (int l = share; l < b.pieces; l += shares) {
            float G = 0, P = pen[l * v.Kp + k];
#pragma unroll 4
            for (int w = (sm.first[l] + l) * GROUPS; w < (sm.last[l] + l + 1) * GROUPS; w++)
                G += slots[w * v.Kp + k];
            float mass = P * G;
            long long fixed = __double2ll_rn((double)mass * (DAMPED ? MASS_SCALE / 2 : MASS_SCALE));
            r += fixed;
            for (int u = 0; u < v.V && fixed; u++)
                add_exact(M + (int64_t)sm.place[l * v.V + u].part * v.Kp + k, fixed);
            if (v.V > 1 && fixed)
                add_exact(M + (int64_t)(b.piece + l) * v.Kp + k, fixed);
            if (FIT && mass > 0)
                fit += (double)(v.sigma[k] * mass) * (double)__logf(P);
        }
        if (r)
            add_exact(M + (int64_t)(v.r_part + call.block) * v.Kp + k, r);
    }
    return fit;
}

#endif
