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
    int first[BATCH_PIECES], last[BATCH_PIECES], previous[BATCH_PIECES];
    float theta[BATCH_PIECES];
    double share[BATCH_PIECES];
    double part[STEP_WARPS + 1];
};

/* Rows of a batch that a warp gets: whole sets. */
__device__ __forceinline__ uint32_t rows_of_warp(const uni_cuda_batch &b, uint32_t set)
{
    return (b.to - b.from + STEP_WARPS * set - 1) / (STEP_WARPS * set) * set;
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

/* pen = ((2E + 1) / (O + E + 1))^theta of two of the batch's pieces, over the largest entry of each unless theta is 2: a warp's
   work. The owner of a piece, whose batch has its first row, keeps X; block's first batch keeps r's. */
__device__ void make_penalties(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm, int block, int parity,
                               float *pen, float *weighted)
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
                float ratio = __fdividef((float)UNI_PENALTY_TOP(E), (float)UNI_PENALTY_BOTTOM(O, E)), x;
                if (sm.theta[l] == 2) { /* the usual one: no power is needed, and nothing can underflow */
                    x = k < v.K ? ratio * ratio : 0;
                    if (k < v.Kp && weighted)
                        weighted[l * v.Kp + k] = v.sigma[k] * x;
                    if (k < v.Kp && owner)
                        v.pen[(int64_t)(b.piece + l) * v.Kp + k] = x;
                } else {
                    x = __log2f(ratio) * sm.theta[l];
                    most[h] = k < v.K ? fmaxf(most[h], x) : most[h];
                }
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
        if (!there[h] || sm.theta[l] == 2)
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

/* The batch's parts of O and r: P times the slots of the warps that had rows of the piece. */
template <int GROUPS, int FIT>
__device__ double add_parts(const uni_cuda_view &v, const uni_cuda_batch &b, int block, int parity, const float *pen,
                            const float *slots, const step_smem &sm)
{
    long long *M = v.M[parity ^ 1];
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

#endif
