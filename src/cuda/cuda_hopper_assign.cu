/* SPDX-License-Identifier: BSD-3-Clause */
/* The pass before the sweeps by warpgroups: compute capability 9.0, base in half precision, D <= 64, K <= 128. A warpgroup takes
   64 cells of a piece from memory to memory, 16 a warp: z = normalise(Z - R W), base = softmax(-2 (1 - z.Y) / sigma).

   Of the block update R W = (1 / s) base (P W), with the 1 / s that the last sweep kept: base is the first factor as it lies in
   memory, exact, and P W, split in two halves, is made for every piece. For small pieces, and of the damped update, R is made in
   registers and split too. Products of two factors that are split are hi hi + hi lo + lo hi: some 22 bits. */
#include "cuda_assign.cuh"
#include "cuda_hopper_rows.cuh"

/* ---- second factors ------------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void team_barrier(int team)
{
    asm volatile("bar.sync %0, 128;" ::"r"(team + 1) : "memory");
}

/* W of a group, of PIECES times the penalties of a piece, in two halves: 16 bytes are eight dimensions of a cluster. */
template <typename T>
__device__ __forceinline__ void make_factor(char *own, const uni_cuda_view &v, const assign_room &room, const rows &r)
{
    constexpr int ROWS = T::KS * 16, DT = T::DT;
    const float *W = (const float *)v.W_fragments + (int64_t)r.group * ROWS * DT * 8, *pen = v.pen + (int64_t)r.piece * v.Kp;
    for (int i = threadIdx.x % 128; i < ROWS * DT; i += 128) {
        const int k = i % ROWS, n = i / ROWS, at = ((k / 8 * DT + n) * 8 + k % 8) * 16;
        const float P = T::MODE != PIECES ? 1.0f : k < v.Kp ? pen[k] * W_MORE : 0.0f;
        const float4 a = *(const float4 *)(W + (k * DT + n) * 8), b = *(const float4 *)(W + (k * DT + n) * 8 + 4);
        uint4 hi, lo;
        split_eight(a, b, P, hi, lo);
        *(uint4 *)(own + room.factor + at) = hi;
        *(uint4 *)(own + room.lo + at) = lo;
    }
}

/* The penalties of a group's tables times their shares and R_SCALE, in two halves: 16 bytes are the tables of a cluster. */
template <typename T>
__device__ __forceinline__ void take_group(char *own, const uni_cuda_view &v, const assign_room &room, int piece)
{
    static_assert(KEPT_TABLES == 4, "a product takes four tables");
    char *to = own + room.tables;
    for (int k = threadIdx.x % 128; k < 8 * T::KT; k += 128) {
        uint32_t hi[KEPT_TABLES], lo[KEPT_TABLES];
#pragma unroll
        for (int t = 0; t < KEPT_TABLES; t++)
            split_long(shared_penalty(v, t + 1, piece, k), hi[t], lo[t]);
        *(uint4 *)(to + 16 * k) = make_uint4(hi[0], hi[1], hi[2], hi[3]);
        *(uint4 *)(to + HALF_TABLES<T> + 16 * k) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
    }
}

/* ---- R W ------------------------------------------------------------------------------------------------------------------- */

/* base of a warp's rows as a first factor, zeros behind the row's end. */
template <typename T> __device__ __forceinline__ void take_base(uint32_t (&a)[T::KS][4], uint32_t base, int pitch, int Kp)
{
    const int lane = threadIdx.x % 32;
    const uint32_t at = base + (uint32_t)((lane % 8 + lane / 8 % 2 * 8) * pitch);
#pragma unroll
    for (int s = 0; s < T::KS; s++) {
        const int column = 32 * s + lane / 16 * 16; /* in bytes */
        load_matrices(a[s], at + (16 * s + 16 > T::LEAST_K ? min(column, 2 * Kp - 16) : column));
        if (16 * s > T::LEAST_K && 16 * s >= Kp)
            a[s][0] = a[s][1] = 0;
        if (16 * s + 8 > T::LEAST_K && 16 * s + 8 >= Kp)
            a[s][2] = a[s][3] = 0;
    }
}

/* q = R R_SCALE / base of a thread's two rows, from their 1 / s, which begin at scale. Rows that are not there: 0. */
template <typename T>
__device__ __forceinline__ void make_q(float (&q)[T::KT][4], const uni_cuda_view &v, const float *scale, uint32_t tables,
                                       const float *pen, int n, int g, int t)
{
    float start[2];
    uint32_t a[4] = {};
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const bool there = g + 8 * h < n;
        start[h] = there ? scale[8 * h] * R_SCALE : 0;
        if constexpr (T::MODE == DAMPED) {
            start[h] *= v.recipe.share[0];
            split_long(there && t + 1 < v.recipe.n ? scale[(t + 1) * SCALES + 8 * h] : 0, a[h], a[2 + h]);
        }
    }
#pragma unroll
    for (int j = 0; j < T::KT; j++) {
        float2 P = {1, 1};
        if (T::MODE == GROUPS)
            P = *(const float2 *)(pen + 8 * j + 2 * t);
        q[j][0] = P.x * start[0], q[j][1] = P.y * start[0], q[j][2] = P.x * start[1], q[j][3] = P.y * start[1];
    }
    if constexpr (T::MODE == DAMPED) {
        multiply_tables<T::KT>(q, a, tables, HALF_TABLES<T>);
        products_wait<T::KT>(q);
    }
}

/* base -> R R_SCALE, in two halves */
template <typename T>
__device__ __forceinline__ void mix(uint32_t (&a)[T::KS][4], uint32_t (&lo)[T::KS][4], const float (&q)[T::KT][4])
{
#pragma unroll
    for (int i = 0; i < T::KS; i++)
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int h = 0; h < 2; h++) { /* columns 16 i + 8 e + 2 t and + 1 */
                const int j = 2 * i + e;
                lo[i][2 * e + h] = 0;
                if (j >= T::KT)
                    continue;
                const float2 b = half_pair(a[i][2 * e + h]);
                split_pair(b.x * q[j < T::KT ? j : 0][2 * h], b.y * q[j < T::KT ? j : 0][2 * h + 1], a[i][2 * e + h],
                           lo[i][2 * e + h]);
            }
}

/* acc = R W of a team's rows, times what the caller knows. hi, lo: addresses of the second factor. */
template <typename T>
__device__ __forceinline__ void multiply_W(float (&acc)[T::DT][4], const uni_cuda_view &v, const assign_room &room,
                                           const char *own, const char *stage, uint32_t hi, uint32_t lo, const rows &r,
                                           uint32_t base_free)
{
    constexpr int DT = T::DT;
    uint32_t a[T::KS][4], rest[T::SPLITS ? T::KS : 1][4];
    take_base<T>(a, shared_address(stage + room.base), room.pitch, v.Kp);
    __syncwarp();
    if (r.n > 0 && threadIdx.x % 32 == 0)
        barrier_arrive(base_free);
    if constexpr (T::SPLITS) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        float q[T::KT][4];
        make_q<T>(q, v, (const float *)(stage + room.scale) + (r.row & 3) + g, shared_address(own + room.tables),
                  (const float *)(stage + room.pen), r.n, g, t);
        mix<T>(a, rest, q);
    }
#pragma unroll
    for (int j = 0; j < DT; j++)
        acc[j][0] = acc[j][1] = acc[j][2] = acc[j][3] = 0;
    products_begin();
#pragma unroll
    for (int s = 0; s < T::KS; s++) {
        const uint64_t b = factor_at(hi + s * DT * 256, DT * 128, 128), b_rest = factor_at(lo + s * DT * 256, DT * 128, 128);
        multiply_wide<DT, true>(acc, a[s], b_rest);
        if constexpr (T::SPLITS)
            multiply_wide<DT, true>(acc, rest[s], b);
        multiply_wide<DT, true>(acc, a[s], b);
    }
    products_end<DT>(acc);
}

/* z = Z - acc scale. What is made of rows that are not there does not count; behind the row's end there must be zeros. scale: of
   the thread's two rows. */
template <typename T>
__device__ __forceinline__ void subtract(float (&z)[T::DT][4], const float *Z, int Dz, int g, int t, float scale0, float scale1)
{
#pragma unroll
    for (int j = 0; j < T::DT; j++) {
        const bool inside = 8 * j + 8 <= T::LEAST_D || 8 * j + 2 * t < Dz;
        const float *at = Z + g * Dz + (inside ? 8 * j + 2 * t : 0);
        const float2 a = *(const float2 *)at, b = *(const float2 *)(at + 8 * Dz);
        z[j][0] = inside ? a.x - z[j][0] * scale0 : 0, z[j][1] = inside ? a.y - z[j][1] * scale0 : 0;
        z[j][2] = inside ? b.x - z[j][2] * scale1 : 0, z[j][3] = inside ? b.y - z[j][3] * scale1 : 0;
    }
}

/* e = z Y'. */
template <typename T>
__device__ __forceinline__ void multiply_Y(float (&e)[T::KT][4], const float (&z)[T::DT][4], uint32_t Y, uint32_t Y_lo)
{
    constexpr int KT = T::KT;
    uint32_t hi[T::DS][4], lo[T::DS][4];
#pragma unroll
    for (int s = 0; s < T::DS; s++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int j = 2 * s + i / 2, h = 2 * (i % 2);
            hi[s][i] = lo[s][i] = 0;
            if (j < T::DT)
                split_pair(z[j < T::DT ? j : 0][h], z[j < T::DT ? j : 0][h + 1], hi[s][i], lo[s][i]);
        }
#pragma unroll
    for (int j = 0; j < KT; j++)
        e[j][0] = e[j][1] = e[j][2] = e[j][3] = 0;
    products_begin();
#pragma unroll
    for (int s = 0; s < T::DS; s++) {
        const uint64_t b = factor_at(Y + s * KT * 256, KT * 128, 128), b_rest = factor_at(Y_lo + s * KT * 256, KT * 128, 128);
        multiply_wide<KT, false>(e, lo[s], b);
        multiply_wide<KT, false>(e, hi[s], b_rest);
        multiply_wide<KT, false>(e, hi[s], b);
    }
    products_end<KT>(e);
}

/* ---- the pass ----------------------------------------------------------------------------------------------------------------
 */

struct assign_call {
    float step;       /* of the product R W */
    bool fit, shifts; /* shifts: exponents may be so small that the largest of a row is taken off first */
};

/* The sums of all threads that compute, in a fixed order. */
template <typename T> __device__ __forceinline__ void give_fit(const uni_cuda_view &v, const double (&fit)[2])
{
    __shared__ double parts[2][T::WARPS];
    for (int i = 0; i < 2; i++) {
        const double sum = warp_sum(fit[i]);
        if (threadIdx.x % 32 == 0)
            parts[i][threadIdx.x / 32] = sum;
    }
    asm volatile("bar.sync 15, %0;" ::"n"(32 * T::WARPS) : "memory");
    if (threadIdx.x >= 2)
        return;
    double total = 0;
    for (int w = 0; w < T::WARPS; w++)
        total += parts[threadIdx.x][w];
    v.part[2 * blockIdx.x + threadIdx.x] = total;
}

template <typename T>
__device__ __forceinline__ void work(const uni_cuda_view &v, const assign_room &room, const assign_call &call, char *smem,
                                     uint64_t *barriers)
{
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), team = warp / 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    char *own = smem + team * room.team, *stage = own + warp % 4 * room.stage;
    const uint32_t full = shared_address(barriers + warp), base_free = full + 8 * T::WARPS, rest_free = full + 16 * T::WARPS,
                   hi = shared_address(smem) + team * room.team + room.factor, Y = shared_address(smem) + room.Y;
    uint32_t phase = 0;
    int piece = -1, made = -1;
    float sum[T::KT][2];
    double fit[2] = {0, 0};
    way<T> way;
    way.start(v, warp);
#pragma unroll
    for (int j = 0; j < T::KT; j++)
        sum[j][0] = sum[j][1] = 0;
    while (way.there()) {
        const rows now = way.step(v);
        const int key = T::MODE == PIECES ? now.piece : now.group;
        if (now.piece != piece) {
            if (piece >= 0)
                flush<T::KT>(v, piece, sum, g, t);
            piece = now.piece;
        }
        if (T::CORRECTS && key != made) { /* the products with the one before are done, in all four warps, after the barrier */
            team_barrier(team);
            make_factor<T>(own, v, room, now);
            if (T::MODE == DAMPED)
                take_group<T>(own, v, room, now.piece);
            fence_async();
            team_barrier(team);
            made = key;
        }
        if (now.n > 0)
            barrier_wait(full, phase);
        float z[T::DT][4], e[T::KT][4], scale0 = call.step, scale1 = call.step;
#pragma unroll
        for (int j = 0; j < T::DT && !T::CORRECTS; j++)
            z[j][0] = z[j][1] = z[j][2] = z[j][3] = 0;
        if constexpr (T::CORRECTS)
            multiply_W<T>(z, v, room, own, stage, hi, hi + (room.lo - room.factor), now, base_free);
        if (T::MODE == PIECES) {
            const float *scale = (const float *)(stage + room.scale) + (now.row & 3) + g;
            scale0 *= scale[0], scale1 *= scale[8];
        }
        subtract<T>(z, (const float *)(stage + room.Z), v.Dz, g, t, scale0, scale1);
        __syncwarp();
        if (now.n > 0) {
            phase ^= 1;
            if (lane == 0)
                barrier_arrive(rest_free);
        }
        normalise<T::DT>(z);
        multiply_Y<T>(e, z, Y, Y + (room.Y_lo - room.Y));
        make_base<T::KT, 0>(v, call.fit, call.shifts, now.row, e, (const float2 *)(smem + room.logit), sum, fit, lane, g < now.n,
                            g + 8 < now.n);
    }
    if (piece >= 0)
        flush<T::KT>(v, piece, sum, g, t);
    if (call.fit)
        give_fit<T>(v, fit);
}

template <typename T>
__global__ void __launch_bounds__(T::THREADS, 1) hopper_assign(const __grid_constant__ uni_cuda_view v, const assign_call call)
{
    extern __shared__ __align__(128) char smem[];
    __shared__ __align__(8) uint64_t barriers[3 * T::WARPS]; /* full; base is free, the rest is */
    const assign_room room = room_of<T>(v);
    for (int i = threadIdx.x; i < room.Y / 16; i += T::THREADS) /* rows that are not there hold numbers */
        ((uint4 *)smem)[i] = make_uint4(0, 0, 0, 0);
    for (int i = threadIdx.x; i < (room.logit - room.Y) / 16; i += T::THREADS)
        ((uint4 *)(smem + room.Y))[i] = v.Y_fragments[i];
    for (int i = threadIdx.x; i < 8 * T::KT; i += T::THREADS)
        ((float2 *)(smem + room.logit))[i] = v.logit[i];
    if (threadIdx.x < 3 * T::WARPS)
        barrier_open(shared_address(barriers + threadIdx.x));
    fence_async();
    __syncthreads();
    if (threadIdx.x >= 32 * T::WARPS) {
        registers_down<24>();
        copy_all<T>(v, room, smem, barriers);
    } else {
        registers_up<T::REGISTERS>();
        work<T>(v, room, call, smem, barriers);
    }
}

template <int KT, int DT, int MODE> static int launch(const struct uni_cuda *c, int fit, cudaStream_t stream)
{
    typedef shape<KT, DT, MODE> T;
    auto kernel = hopper_assign<T>;
    const int bytes = room_of<T>(c->v).all;
    const float more = MODE == PIECES ? W_MORE : R_SCALE;
    int err = CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (err)
        return err;
    kernel<<<c->cores, T::THREADS, (size_t)bytes, stream>>>(c->v,
                                                            {(float)(c->step / (more * c->W_scale)), fit != 0, c->shifts != 0});
    return CUDA(cudaGetLastError());
}

enum { SMALL_PIECE = 256 /* rows, on average: to make P W for it costs more than to split R */ };

template <int KT, int DT> static int launch_for(const struct uni_cuda *c, const struct uni_cuda_pass *how, cudaStream_t stream)
{
    return !how->corrected                      ? launch<KT, DT, FIRST>(c, how->fit, stream)
           : c->v.damped                        ? launch<KT, DT, DAMPED>(c, how->fit, stream)
           : c->v.N / c->v.P < (int)SMALL_PIECE ? launch<KT, DT, GROUPS>(c, how->fit, stream)
                                                : launch<KT, DT, PIECES>(c, how->fit, stream);
}

/* Of all rows; two parts of the fit a multiprocessor. */
int uni_cuda_hopper_assign(const struct uni_cuda *c, const struct uni_cuda_pass *how, cudaStream_t stream)
{
    switch (c->fast.kt * 10 + c->fast.dt) {
    case 84:
        return launch_for<8, 4>(c, how, stream);
    case 88:
        return launch_for<8, 8>(c, how, stream);
    case 134:
        return launch_for<13, 4>(c, how, stream);
    case 137:
        return launch_for<13, 7>(c, how, stream);
    case 164:
        return launch_for<16, 4>(c, how, stream);
    default:
        return launch_for<16, 8>(c, how, stream);
    }
}
