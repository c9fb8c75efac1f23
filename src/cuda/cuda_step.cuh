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
    const int64_t at = (int64_t)c.i * v.Kp + k, from = (int64_t)c.j * v.Kp + k;
    if (DAMPED)
        return masses(v, parity)[at];
    return c.i == c.j ? 0 : v.X[from] + v.M[parity ^ (c.j < c.i)][from] - v.M[parity][at];
}

/* Keeps what was seen as X, and clears j's dead mass for the next sweep. Damped: half of it stays, and what the sweep before last
   left is cleared. */
template <bool DAMPED> __device__ __forceinline__ void keep(const uni_cuda_view &v, chain c, int parity, int k, long long x)
{
    const int64_t at = (int64_t)c.i * v.Kp + k, from = (int64_t)c.j * v.Kp + k;
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
__device__ __forceinline__ float ratio_of(const uni_cuda_view &v, long long o, long long r, double share)
{
    double O = (double)o * (1 / MASS_SCALE), E = share * ((double)r * (1 / MASS_SCALE)), a = (double)v.scale, b = (double)v.add;
    return __fdividef((float)UNI_PENALTY_TOP(a, b, E), (float)UNI_PENALTY_BOTTOM(b, O, E));
}

/* Penalties of a piece from their base-2 logarithms, over the largest: a warp's work. */
__device__ __forceinline__ void raise(const uni_cuda_view &v, float *pen, float *weighted, float *out, float most, int lane)
{
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

/* pen = ((a E + b) / (O + E + b))^theta of two of the batch's pieces, of one variable, over the largest entry of each unless
   theta is 2: a warp's work. The owner of a piece, whose batch has its first row, keeps what is to be kept; block's first batch
   keeps r's. */
template <bool DAMPED>
__device__ __forceinline__ void make_penalties(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm,
                                               const step_call &call, float *pen, float *weighted)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const chain r_chain = chain_of_r(v, call.block);
    bool there[2], r_owner = b.from == 0 && warp == 0;
    float most[2] = {-HUGE_VALF, -HUGE_VALF}, *out = v.pen + ((int64_t)call.slot * v.P + b.piece) * v.Kp;
    chain o_chain[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int l = min(warp + h * STEP_WARPS, b.pieces - 1);
        there[h] = warp + h * STEP_WARPS < b.pieces;
        o_chain[h] = {sm.place[l].part, sm.place[l].previous};
    }
    if (!there[0])
        return;
    for (int from = lane; from < v.Kp; from += 128) { /* all loads before the first store: one trip to L2 */
        long long o[2][4], r[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int k = min(from + 32 * j, v.Kp - 1);
            r[j] = seen<DAMPED>(v, r_chain, call.parity, k);
            o[0][j] = seen<DAMPED>(v, o_chain[0], call.parity, k);
            o[1][j] = there[1] ? seen<DAMPED>(v, o_chain[1], call.parity, k) : 0;
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int l = warp + h * STEP_WARPS;
            if (!there[h])
                continue;
            bool owner = sm.before[l] >= b.from;
            const uni_cuda_place &place = sm.place[l];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int k = from + 32 * j;
                float ratio = ratio_of(v, o[h][j], r[j], place.share), x;
                if (place.theta == 2) { /* the usual one: no power is needed, and nothing can underflow */
                    x = k < v.K ? ratio * ratio : 0;
                    if (k < v.Kp && weighted)
                        weighted[l * v.Kp + k] = v.sigma[k] * x;
                    if (k < v.Kp && owner)
                        out[(int64_t)l * v.Kp + k] = x;
                } else {
                    x = __log2f(ratio) * place.theta;
                    most[h] = k < v.K ? fmaxf(most[h], x) : most[h];
                }
                if (k < v.Kp)
                    pen[l * v.Kp + k] = x;
                if (k < v.Kp && owner)
                    keep<DAMPED>(v, o_chain[h], call.parity, k, o[h][j]);
                if (k < v.Kp && h == 0 && r_owner)
                    keep<DAMPED>(v, r_chain, call.parity, k, r[j]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int l = warp + h * STEP_WARPS;
        if (there[h] && sm.place[l].theta != 2)
            raise(v, pen + l * v.Kp, weighted ? weighted + l * v.Kp : nullptr,
                  sm.before[l] >= b.from ? out + (int64_t)l * v.Kp : nullptr, most[h], lane);
    }
}

/* The same of several variables: the product. A part's owner is the batch with the first row of its first piece. */
template <bool DAMPED>
__device__ __noinline__ void make_joint_penalties(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm,
                                                  const step_call &call, float *pen, float *weighted)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const chain r_chain = chain_of_r(v, call.block);
    for (int l = warp; l < b.pieces; l += STEP_WARPS) {
        const uni_cuda_place *place = sm.place + l * v.V;
        const chain own = {b.piece + l, b.piece + l};
        bool owner = sm.before[l] >= b.from, r_owner = b.from == 0 && l == 0;
        float most = -HUGE_VALF, *out = owner ? v.pen + ((int64_t)call.slot * v.P + b.piece + l) * v.Kp : nullptr;
        for (int from = lane; from < v.Kp; from += 128) { /* a variable's loads before its first store: a trip to L2 each */
            long long r[4], o[4];
            float x[4] = {0, 0, 0, 0};
#pragma unroll
            for (int j = 0; j < 4; j++)
                r[j] = seen<DAMPED>(v, r_chain, call.parity, min(from + 32 * j, v.Kp - 1));
            for (int u = 0; u < v.V; u++) {
                const chain o_chain = {place[u].part, place[u].previous};
                bool keeps = owner && place[u].first;
#pragma unroll
                for (int j = 0; j < 4; j++)
                    o[j] = seen<DAMPED>(v, o_chain, call.parity, min(from + 32 * j, v.Kp - 1));
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    x[j] += __log2f(ratio_of(v, o[j], r[j], place[u].share)) * place[u].theta;
                    if (keeps && from + 32 * j < v.Kp)
                        keep<DAMPED>(v, o_chain, call.parity, from + 32 * j, o[j]);
                }
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int k = from + 32 * j;
                if (k >= v.Kp)
                    continue;
                most = k < v.K ? fmaxf(most, x[j]) : most;
                pen[l * v.Kp + k] = x[j];
                if (owner) /* the piece's own mass: nothing depends on it */
                    keep<DAMPED>(v, own, call.parity, k, seen<DAMPED>(v, own, call.parity, k));
                if (r_owner)
                    keep<DAMPED>(v, r_chain, call.parity, k, r[j]);
            }
        }
        raise(v, pen + l * v.Kp, weighted ? weighted + l * v.Kp : nullptr, out, most, lane);
    }
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
