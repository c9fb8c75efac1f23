/* SPDX-License-Identifier: BSD-3-Clause */
/* The pass before the sweeps, on tensor cores: D <= 64, K <= 128. A warp takes a tile of 16 cells of one piece from memory to
   memory in registers: R from base and P, z = normalise(Z - R W), base = softmax(-2 (1 - z.Y) / sigma). Products are of halves,
   each factor split in two (hi hi + hi lo + lo hi): some 22 bits. With `out` the pass stops at Z - R W: what is read in the end.
 */
#include "cuda_assign.cuh"

enum { WARPS = 12 };

/* A bulk copy of a tile's rows into shared memory, and the barrier that tells when they are there. */
struct stage {
    uint32_t barrier, Z, base, phase;
};

__device__ __forceinline__ void fetch(const stage &s, const uni_cuda_view &v, uni_cuda_tile tile, bool with_base)
{
    uint32_t rows = tile.packed & 31, z_bytes = rows * (uint32_t)v.Dz * 4, row_bytes = (uint32_t)v.Kp * (v.single ? 4 : 2);
    uint32_t base_bytes = with_base ? rows * row_bytes : 0;
    fence_async();
    barrier_bytes(s.barrier, z_bytes + base_bytes);
    bulk_copy(s.Z, v.Z + (int64_t)tile.row * v.Dz, z_bytes, s.barrier);
    if (with_base)
        bulk_copy(s.base, (const char *)v.base + (int64_t)tile.row * row_bytes, base_bytes, s.barrier);
}

__device__ __forceinline__ void arrive(stage &s)
{
    barrier_wait(s.barrier, s.phase);
    s.phase ^= 1;
}

/* acc (16 x 8 NT) += a (16 x 8 MT) b, b in fragments: hi 0, hi 1, lo 0, lo 1 a lane. The last step of an odd MT is a short one.
 */
template <bool SHORT> __device__ __forceinline__ void step(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    if (SHORT)
        multiply_add_short(d, a[0], a[1], b0);
    else
        multiply_add(d, a, b0, b1);
}

template <int NT, bool SHORT>
__device__ __forceinline__ void product_step(float (&acc)[NT][4], const uint32_t (&hi)[4], const uint32_t (&lo)[4],
                                             const uint4 *fragments)
{
#pragma unroll
    for (int first = 0; first < NT; first += 4) { /* four sums at a time: none waits for its last product */
        uint4 b[4];
#pragma unroll
        for (int n = 0; n < 4 && first + n < NT; n++)
            b[n] = fragments[(first + n) * 32];
#pragma unroll
        for (int n = 0; n < 4 && first + n < NT; n++)
            step<SHORT>(acc[first + n], lo, b[n].x, b[n].y);
#pragma unroll
        for (int n = 0; n < 4 && first + n < NT; n++)
            step<SHORT>(acc[first + n], hi, b[n].z, b[n].w);
#pragma unroll
        for (int n = 0; n < 4 && first + n < NT; n++)
            step<SHORT>(acc[first + n], hi, b[n].x, b[n].y);
    }
}

template <int MT, int NT>
__device__ __forceinline__ void product(float (&acc)[NT][4], const float (&a)[MT][4], const uint4 *fragments, int lane)
{
#pragma unroll
    for (int s = 0; s < (MT + 1) / 2; s++) {
        uint32_t hi[4] = {0, 0, 0, 0}, lo[4] = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < 2 && 2 * s + i < MT; i++) {
            split_pair(a[2 * s + i][0], a[2 * s + i][1], hi[2 * i], lo[2 * i]);
            split_pair(a[2 * s + i][2], a[2 * s + i][3], hi[2 * i + 1], lo[2 * i + 1]);
        }
        if (2 * s + 1 < MT)
            product_step<NT, false>(acc, hi, lo, fragments + s * NT * 32 + lane);
        else
            product_step<NT, true>(acc, hi, lo, fragments + s * NT * 32 + lane);
    }
}

/* z = Z - acc scale: the tile's rows, zero where there is no row */
template <int DT>
__device__ __forceinline__ void subtract(float (&z)[DT][4], const float *Z, const uni_cuda_view &v, int g, int t, bool low,
                                         bool high, float scale)
{
#pragma unroll
    for (int j = 0; j < DT; j++) {
        int d = 8 * j + 2 * t;
        float2 zero = make_float2(0, 0);
        float2 a = low && d < v.Dz ? *(const float2 *)(Z + g * v.Dz + d) : zero;
        float2 b = high && d < v.Dz ? *(const float2 *)(Z + (g + 8) * v.Dz + d) : zero;
        z[j][0] = a.x - z[j][0] * scale, z[j][1] = a.y - z[j][1] * scale;
        z[j][2] = b.x - z[j][2] * scale, z[j][3] = b.y - z[j][3] * scale;
    }
}

struct pass {
    uint32_t from, to;
    int corrected, fit;
    float scale; /* of the product R W */
    float *out;
    int64_t row_from;
};

template <int DT>
__device__ __forceinline__ void put_out(const float (&z)[DT][4], const pass &p, uint32_t row, int D, int g, int t, bool low,
                                        bool high)
{
    float *first = p.out + ((int64_t)row + g - p.row_from) * D, *second = first + 8 * D;
#pragma unroll
    for (int j = 0; j < DT; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int d = 8 * j + 2 * t + i;
            if (low && d < D)
                first[d] = z[j][i];
            if (high && d < D)
                second[d] = z[j][2 + i];
        }
}

/* A warp's tiles of one group, one after another; the next one's rows come while this one is worked on. */
template <int KT, int DT, int SINGLE, int DAMPED>
__device__ __forceinline__ void warp_tiles(const uni_cuda_view &v, const pass &p, uint32_t from, uint32_t to, stage &st,
                                           const char *smem, const uint4 *W, const uint4 *Y, const float2 *logit,
                                           const float *tables, float (&sum)[KT][2], int &piece, double *fit)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uni_cuda_tile tile = {0, 0}, next = from < to ? v.tile[from] : tile;
    if (from < to && lane == 0)
        fetch(st, v, next, p.corrected);
    for (uint32_t at = from; at < to; at++) {
        tile = next;
        if (at + 1 < to)
            next = v.tile[at + 1];
        int rows = tile.packed & 31, now = tile.packed >> 5;
        bool low = g < rows, high = g + 8 < rows;
        if (now != piece && !p.out) {
            if (piece >= 0)
                flush<KT>(v, piece, sum, g, t);
            piece = now;
        }
        float z[DT][4];
#pragma unroll
        for (int j = 0; j < DT; j++)
            z[j][0] = z[j][1] = z[j][2] = z[j][3] = 0;
        arrive(st);
        if (p.corrected) {
            float r[KT][4];
            take_rows<KT, SINGLE>(r, smem + WARPS * TILE * v.Dz * 4 + (int)(threadIdx.x / 32) * TILE * v.Kp * (SINGLE ? 4 : 2),
                                  v.Kp, g, t, low, high);
            if (DAMPED)
                mix<KT>(r, v, tables, tile.row + g, tile.row + rows - 1, t);
            else
                penalise<KT>(r, v.pen + (int64_t)now * v.Kp, v.Kp, t);
            product<KT, DT>(z, r, W, lane);
        }
        subtract<DT>(z, (const float *)smem + (int)(threadIdx.x / 32) * TILE * v.Dz, v, g, t, low, high, p.scale);
        __syncwarp();
        if (at + 1 < to && lane == 0)
            fetch(st, v, next, p.corrected);
        if (p.out) {
            put_out<DT>(z, p, tile.row, v.D, g, t, low, high);
            continue;
        }
        normalise<DT>(z);
        float e[KT][4];
#pragma unroll
        for (int j = 0; j < KT; j++)
            e[j][0] = e[j][1] = e[j][2] = e[j][3] = 0;
        product<DT, KT>(e, z, Y, lane);
        make_base<KT, SINGLE>(v, p.fit, true, tile.row, e, logit, sum, fit, lane, low, high);
    }
}

template <int KT, int DT, int SINGLE, int DAMPED>
__global__ void __launch_bounds__(WARPS * 32, 1) assign_kernel(uni_cuda_view v, pass p)
{
    extern __shared__ __align__(128) char smem[];
    __shared__ __align__(8) uint64_t barriers[WARPS];
    __shared__ double room[WARPS];
    constexpr int W_WORDS = (KT + 1) / 2 * DT * 32, Y_WORDS = (DT + 1) / 2 * KT * 32;
    uint4 *W = (uint4 *)smem, *Y = W + W_WORDS;
    float2 *logit = (float2 *)(Y + Y_WORDS);
    char *rows = (char *)(logit + 8 * KT);
    float *tables = (float *)(rows + WARPS * TILE * (v.Dz * 4 + v.Kp * (SINGLE ? 4 : 2)));
    int warp = threadIdx.x / 32, piece = -1;
    float sum[KT][2];
    double fit[2] = {0, 0};
    stage st = {shared_address(&barriers[warp]), shared_address(rows + warp * TILE * v.Dz * 4),
                shared_address(rows + WARPS * TILE * v.Dz * 4 + warp * TILE * v.Kp * (SINGLE ? 4 : 2)), 0};
    if (threadIdx.x % 32 == 0)
        barrier_open(st.barrier);
    for (int i = threadIdx.x; i < Y_WORDS && !p.out; i += WARPS * 32)
        Y[i] = v.Y_fragments[i];
    for (int i = threadIdx.x; i < 8 * KT && !p.out; i += WARPS * 32)
        logit[i] = v.logit[i];
#pragma unroll
    for (int j = 0; j < KT; j++)
        sum[j][0] = sum[j][1] = 0;
    uint32_t share = p.to - p.from, at = p.from + (uint32_t)((uint64_t)share * blockIdx.x / gridDim.x);
    uint32_t end = p.from + (uint32_t)((uint64_t)share * (blockIdx.x + 1) / gridDim.x);
    __syncthreads();
    while (at < end) {
        int g = v.piece[v.tile[at].packed >> 5].group;
        uint32_t stop = min(end, v.group_tile[g + 1]);
        if (p.corrected) {
            __syncthreads();
            for (int i = threadIdx.x; i < W_WORDS; i += WARPS * 32)
                W[i] = v.W_fragments[(int64_t)g * W_WORDS + i];
            if (DAMPED)
                take_tables<KT>(tables, v, v.tile[at].packed >> 5);
            __syncthreads();
        }
        warp_tiles<KT, DT, SINGLE, DAMPED>(v, p, at + (stop - at) * warp / WARPS, at + (stop - at) * (warp + 1) / WARPS, st, rows,
                                           W, Y, logit, tables, sum, piece, fit);
        at = stop;
    }
    if (piece >= 0)
        flush<KT>(v, piece, sum, (threadIdx.x % 32) / 4, threadIdx.x % 4);
    for (int i = 0; i < 2 && p.fit; i++) {
        double total = block_sum(fit[i], room);
        if (threadIdx.x == 0)
            v.part[2 * blockIdx.x + i] = total;
    }
}

template <int KT, int DT, int SINGLE> static int launch(const struct uni_cuda *c, const pass &p, int blocks, cudaStream_t stream)
{
    auto kernel = c->v.damped ? assign_kernel<KT, DT, SINGLE, 1> : assign_kernel<KT, DT, SINGLE, 0>;
    size_t bytes = ((size_t)((KT + 1) / 2 * DT + (DT + 1) / 2 * KT) * 32) * 16 + 64 * KT +
                   (size_t)(WARPS * TILE) * (size_t)(c->v.Dz * 4 + c->v.Kp * (SINGLE ? 4 : 2)) +
                   (c->v.damped ? sizeof(float) * (size_t)table_floats<KT>(c->v.recipe) : 0);
    int err = CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    if (err)
        return err;
    kernel<<<blocks, WARPS * 32, bytes, stream>>>(c->v, p);
    return CUDA(cudaGetLastError());
}

template <int KT, int DT> static int launch_single(const struct uni_cuda *c, const pass &p, int blocks, cudaStream_t stream)
{
    return c->v.single ? launch<KT, DT, 1>(c, p, blocks, stream) : launch<KT, DT, 0>(c, p, blocks, stream);
}

int uni_cuda_assign_fast(const struct uni_cuda *c, const struct uni_cuda_pass *how, int blocks, cudaStream_t stream)
{
    pass p = {how->from, how->to, how->corrected, how->fit, (float)(c->step / (R_SCALE * c->W_scale)), how->out, how->row_from};
    switch (c->fast.kt * 10 + c->fast.dt) {
    case 84:
        return launch_single<8, 4>(c, p, blocks, stream);
    case 88:
        return launch_single<8, 8>(c, p, blocks, stream);
    case 134:
        return launch_single<13, 4>(c, p, blocks, stream);
    case 137:
        return launch_single<13, 7>(c, p, blocks, stream);
    case 164:
        return launch_single<16, 4>(c, p, blocks, stream);
    default:
        return launch_single<16, 8>(c, p, blocks, stream);
    }
}
