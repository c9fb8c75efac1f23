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
    SHARED_BYTES = 224000, /* that a block may have */
    HALF_BYTES = 110000    /* and two of them, so that the next step's lies beside this one's */
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
    int block, slot, buffers;
    long long *now, *old, *dead; /* masses: of this sweep; of the one before; damped: of the one before that */
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

/* A part with the one before and the one after it; itself where it is alone. */
struct chain {
    int before, part, after;
};

__device__ __forceinline__ chain chain_of(const uni_cuda_place &p)
{
    return {p.previous, p.part, p.next};
}

__device__ __forceinline__ chain chain_of_r(const uni_cuda_view &v, int block)
{
    const int first = v.r_part;
    return {first + (block == 0 ? v.Q : block) - 1, first + block, first + (block + 1 == v.Q ? 0 : block + 1)};
}

__device__ __forceinline__ uint32_t entry(const uni_cuda_view &v, int part, int k)
{
    return (uint32_t)part * (uint32_t)v.Kp + (uint32_t)k;
}

/* A table entry that other multiprocessors add to: asked for here, not where it is needed. */
__device__ __forceinline__ long long load_entry(const long long *at)
{
    long long x;
    asm volatile("ld.relaxed.gpu.global.s64 %0, [%1];" : "=l"(x) : "l"(at) : "memory");
    return x;
}

/* What the penalties are made from: all without this part and the one before it, plus the new mass of that; where the part is
   alone, nothing. Damped: all that is there. */
template <bool DAMPED> __device__ __forceinline__ long long seen(const uni_cuda_view &v, const step_call &call, chain c, int k)
{
    if (DAMPED)
        return load_entry(call.old + entry(v, c.part, k));
    const long long x = load_entry(v.X + entry(v, c.part, k)),
                    before = load_entry((c.before < c.part ? call.now : call.old) + entry(v, c.before, k));
    return c.before == c.part ? 0 : x + before;
}

/* The mass of the part after, as it is until its own update. */
__device__ __forceinline__ long long following(const uni_cuda_view &v, const step_call &call, chain c, int k)
{
    return load_entry((c.after > c.part ? call.old : call.now) + entry(v, c.after, k));
}

/* Leaves X of the part after, and clears what the part's old mass was for the next sweep. Damped: half of it stays, and what is
   left of the sweep before last is cleared. */
template <bool DAMPED>
__device__ __forceinline__ void keep(const uni_cuda_view &v, const step_call &call, chain c, int k, long long x, long long after)
{
    const uint32_t at = entry(v, c.part, k);
    if (DAMPED && x)
        add_exact(call.now + at, x / 2);
    if (!DAMPED && c.after != c.part)
        v.X[entry(v, c.after, k)] = x - after;
    (DAMPED ? call.dead : call.old)[at] = 0;
}

/* (a E + b) / (O + E + b) */
__device__ __forceinline__ float ratio_of(const uni_cuda_view &v, long long o, long long r, float share)
{
    float O = __ll2float_rn(o) * (float)(1 / MASS_SCALE), E = share * (__ll2float_rn(r) * (float)(1 / MASS_SCALE));
    return __fdividef(UNI_PENALTY_TOP(v.scale, v.add, E), UNI_PENALTY_BOTTOM(v.add, O, E));
}

/* Penalties of a piece from their base-2 logarithms, over the largest: a warp's work. */
__device__ __noinline__ void raise(const uni_cuda_view &v, float *pen, float *weighted, float *out, int lane)
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

/* Tables of a batch in shared memory have rows of COLUMNS, padded with zeros; a warp works on 32 columns of some pieces, every so
   manieth from one on. */
template <int COLUMNS> struct share_of_warp {
    static constexpr int CHUNKS = COLUMNS / 32, SIDE_BY_SIDE = CHUNKS < STEP_WARPS ? CHUNKS : (int)STEP_WARPS,
                         PIECES = STEP_WARPS / SIDE_BY_SIDE;

    static __device__ __forceinline__ int column()
    {
        return (int)threadIdx.x / 32 % SIDE_BY_SIDE * 32 + (int)threadIdx.x % 32;
    }

    static __device__ __forceinline__ int piece()
    {
        return (int)threadIdx.x / 32 / SIDE_BY_SIDE;
    }
};

/* The penalties that are logarithms so far: all, but of one variable with theta 2. out: of the batch's first piece. */
template <int COLUMNS>
__device__ __forceinline__ void raise_all(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm, float *pen,
                                          float *weighted, float *out, bool joint)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    if (!joint && __all_sync(~0u, lane >= b.pieces || sm.place[lane].theta == 2))
        return;
    asm volatile("bar.sync 1, %0;" ::"r"((int)STEP_THREADS) : "memory");
    for (int l = warp; l < b.pieces; l += STEP_WARPS)
        if (joint || sm.place[l].theta != 2)
            raise(v, pen + l * COLUMNS, weighted ? weighted + l * COLUMNS : nullptr,
                  sm.before[l] >= b.from ? out + (int64_t)l * v.Kp : nullptr, lane);
}

/* One column of the penalties of the pieces l0, l0 + PIECES, ... of a batch, so many of them: logarithms where a power is still
   to be taken. All loads of a variable come before their first use: one trip to L2. */
template <bool DAMPED, int COLUMNS, int AT_ONCE>
__device__ __forceinline__ void make_pieces(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm,
                                            const step_call &call, float *pen, float *weighted, int at, int l0)
{
    enum { STEP = share_of_warp<COLUMNS>::PIECES };
    const bool joint = v.V > 1, inside = at < v.K, keeps_r = b.from == 0 && l0 == 0 && at < v.Kp;
    const int k = min(at, v.Kp - 1);
    const chain r_chain = chain_of_r(v, call.block);
    const long long r = seen<DAMPED>(v, call, r_chain, k), after_r = DAMPED ? 0 : following(v, call, r_chain, k);
    long long o[AT_ONCE], after[AT_ONCE];
    float x[AT_ONCE] = {};
#pragma unroll 1
    for (int u = 0; u < v.V; u++) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const chain c = chain_of(sm.place[min(l0 + i * STEP, b.pieces - 1) * v.V + u]);
            o[i] = seen<DAMPED>(v, call, c, k);
            after[i] = DAMPED ? 0 : following(v, call, c, k);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int l = min(l0 + i * STEP, b.pieces - 1);
            const uni_cuda_place &place = sm.place[l * v.V + u];
            const float ratio = ratio_of(v, o[i], r, place.share);
            x[i] = !joint && place.theta == 2 ? ratio * ratio : x[i] + __log2f(ratio) * place.theta;
            if (l0 + i * STEP < b.pieces && at < v.Kp && place.first && sm.before[l] >= b.from)
                keep<DAMPED>(v, call, chain_of(place), k, o[i], after[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        const int l = l0 + i * STEP;
        if (l >= b.pieces)
            break;
        const bool usual = !joint && sm.place[l].theta == 2, /* no power is needed, and nothing can underflow */
            owner = at < v.Kp && sm.before[l] >= b.from;
        const float P = inside ? x[i] : 0;
        pen[l * COLUMNS + at] = P;
        if (weighted)
            weighted[l * COLUMNS + at] = inside ? v.sigma[k] * P : 0;
        if (usual && owner)
            v.pen[((int64_t)call.slot * v.P + b.piece + l) * v.Kp + at] = P;
        if (joint && owner) { /* the piece's own mass: nothing depends on it */
            const chain own = {b.piece + l, b.piece + l, b.piece + l};
            keep<DAMPED>(v, call, own, k, DAMPED ? call.old[entry(v, own.part, k)] : 0, 0);
        }
    }
    if (keeps_r)
        keep<DAMPED>(v, call, r_chain, k, r, after_r);
}

/* pen = ((a E + b) / (O + E + b))^theta, its product over the variables, of the batch's pieces, over the largest entry of each
   unless there is one theta and it is 2. The owner of a part, whose batch has the first row of its first piece, keeps what is to
   be kept of it; block's first batch keeps r's. All threads of the warps that compute call it. */
template <bool DAMPED, int COLUMNS>
__device__ __forceinline__ void make_penalties(const uni_cuda_view &v, const uni_cuda_batch &b, const step_smem &sm,
                                               const step_call &call, float *pen, float *weighted)
{
    enum { MANY = 3 };
    typedef share_of_warp<COLUMNS> mine;
#pragma unroll 1
    for (int at = mine::column(); at < COLUMNS; at += 32 * mine::SIDE_BY_SIDE) {
        if (b.pieces <= mine::PIECES) { /* few levels: nothing is done twice */
            if (mine::piece() < b.pieces)
                make_pieces<DAMPED, COLUMNS, 1>(v, b, sm, call, pen, weighted, at, mine::piece());
        } else {
#pragma unroll 1
            for (int l = mine::piece(); l < b.pieces; l += MANY * mine::PIECES)
                make_pieces<DAMPED, COLUMNS, MANY>(v, b, sm, call, pen, weighted, at, l);
        }
    }
    raise_all<COLUMNS>(v, b, sm, pen, weighted, v.pen + ((int64_t)call.slot * v.P + b.piece) * v.Kp, v.V > 1);
}

/* The batch's parts of O and r: P times the slots of the warps that had rows of the piece; damped, half of it. */
template <int GROUPS, int MODE, int COLUMNS>
__device__ __forceinline__ double add_parts(const uni_cuda_view &v, const uni_cuda_batch &b, const step_call &call,
                                            const float *pen, const float *slots, const step_smem &sm)
{
    constexpr bool FIT = MODE == STEP_FIT || MODE == STEP_FIT_SIGMAS;
    typedef share_of_warp<COLUMNS> mine;
    double fit = 0;
    if (threadIdx.x >= STEP_THREADS)
        return 0;
    for (int k = mine::column(); k < v.Kp; k += 32 * mine::SIDE_BY_SIDE) {
        long long r = 0;
#pragma unroll 1
        for (int l = mine::piece(); l < b.pieces; l += mine::PIECES) {
            float G = 0, P = pen[l * COLUMNS + k];
#pragma unroll 4
            for (int w = (sm.first[l] + l) * GROUPS; w < (sm.last[l] + l + 1) * GROUPS; w++)
                G += slots[w * COLUMNS + k];
            float mass = P * G;
            long long fixed = __float2ll_rn(mass * (float)(MODE == STEP_DAMPED ? MASS_SCALE / 2 : MASS_SCALE));
            r += fixed;
            for (int u = 0; u < v.V && fixed; u++)
                add_exact(call.now + entry(v, sm.place[l * v.V + u].part, k), fixed);
            if (v.V > 1 && fixed)
                add_exact(call.now + entry(v, b.piece + l, k), fixed);
            if (FIT && mass > 0)
                fit += (double)(v.sigma[k] * mass) * (double)__logf(P);
        }
        if (r)
            add_exact(call.now + entry(v, v.r_part + call.block, k), r);
    }
    return fit;
}

#endif
