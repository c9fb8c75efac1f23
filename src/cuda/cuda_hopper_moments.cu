/* SPDX-License-Identifier: BSD-3-Clause */
/* S[g,k,:] = sum of R Z over the cells of g, by warpgroups: compute capability 9.0, base in half precision, D <= 64, K <= 128. A
   block takes 64 cells of a piece at a time; bulk copies bring their rows while those before are worked on.

   Of the block update R = base P / s, with the 1 / s that the last sweep kept, and S = P sum base (z / s): base is the first
   factor as it lies in memory, exact; only z / s is split in two halves. Of the damped update R is made in registers and split
   too. A warpgroup has 64 clusters and all dimensions. Tensor cores truncate when they add: their sums are taken over into
   float32 after 64 cells, and those into 64-bit integers after 16,384. */
#include "cuda_hopper.cuh"
#include "cuda_rows.cuh"

enum { PLAIN = 0, DAMPED = 1, WITH_FIT = 2 };
enum { SCALES = CHUNK + 8 /* of a window of 1 / s that begins on a border of 16 bytes */ };
enum { HALF_TABLES = CHUNK * 16 /* bytes of one half of a chunk's 1 / s: four numbers a cell */ };
#define LOG2_Q_SCALE 5.0f /* of BASE_SCALE / R_SCALE */
#define NOTHING 1e-30f    /* has a logarithm, and counts for nothing */

/* Where things lie in shared memory, in bytes from its start. base of a chunk is needed a turn later than what its factor is made
   from, so each has a ring of its own. */
struct moments_room {
    int pitch;                      /* of a row of base: an odd number of 16 bytes, so that eight rows meet in no bank */
    int base;                       /* size of one; the ring's first is at 0 */
    int rests, Z, scale, pen, rest; /* the ring; within one of it; its size */
    int factors, hi, lo, tables, of_base, factor; /* of two chunks z's halves and what its cells' q is made of, likewise */
    int all;
};

/* How many chunks' rows are there or on their way: so that two blocks fit a multiprocessor. */
template <int NT, int MODE> constexpr int STAGES = MODE == PLAIN &&NT < 8 ? 3 : 2;

template <int NT, int MODE> static __host__ __device__ moments_room room_of(const uni_cuda_view &v)
{
    constexpr int STAGES = ::STAGES<NT, MODE>, WINDOWS = MODE == PLAIN ? 1 : (int)KEPT_TABLES + 1;
    moments_room r;
    r.pitch = uni_cuda_pitch(v.Kp);
    r.base = (CHUNK * r.pitch + 127) / 128 * 128;
    r.rests = STAGES * r.base;
    r.Z = 0;
    r.scale = CHUNK * v.Dz * 4;
    r.pen = r.scale + WINDOWS * SCALES * 4;
    r.rest = (r.pen + (MODE == PLAIN ? v.Kp : (int)SCALES) * 4 + 127) / 128 * 128; /* damped: L */
    r.factors = r.rests + STAGES * r.rest;
    r.hi = 0;
    r.lo = CHUNK * NT * 16;
    r.tables = 2 * CHUNK * NT * 16;
    r.of_base = r.tables + 2 * HALF_TABLES;
    r.factor = MODE == PLAIN ? r.tables : r.of_base + 2 * CHUNK * 4;
    r.all = r.factors + 2 * r.factor;
    return r;
}

/* A thread's two clusters, of eights from `first` on. Rows of a first factor are dealt out so that no quarter of a
   multiprocessor, to which every fourth warp belongs, has much more to do than another: first an eight to every warp, and then
   the rest, from another warp on in the other block of the two that share it. */
struct clusters {
    int first[2], k[2];
};

template <int KB> __device__ __forceinline__ clusters clusters_of(int warp)
{
    constexpr int WARPS = 4 * KB;
    const int turned = blockIdx.x < gridDim.x / 2 ? warp : (warp + WARPS - 2) % WARPS, g = (int)threadIdx.x % 32 / 4;
    clusters own = {{8 * warp, 8 * (WARPS + turned)}, {}};
    own.k[0] = own.first[0] + g, own.k[1] = own.first[1] + g;
    return own;
}

/* What a chunk's factor is made from, into shared memory: a thread's work. */
template <int MODE>
__device__ __forceinline__ void fetch_rest(const uni_cuda_view &v, const moments_room &room, uni_cuda_chunk c, uint32_t to,
                                           uint32_t barrier)
{
    const int window = (int)(c.row & 3), scales = MODE == PLAIN ? 1 : v.recipe.n;
    const uint32_t z_bytes = c.n * (uint32_t)v.Dz * 4, window_bytes = (window + c.n + 3) / 4 * 16;
    fence_async();
    barrier_bytes(barrier, z_bytes + scales * window_bytes + (MODE == PLAIN ? 4 * v.Kp : window_bytes));
    bulk_copy(to + room.Z, v.Z + (int64_t)c.row * v.Dz, z_bytes, barrier);
    for (int t = 0; t < scales; t++) {
        const float *scale = MODE == PLAIN ? v.row_scale
                             : t == 0      ? v.base_scale
                                           : v.row_scale + v.recipe.slot[t] * uni_cuda_scales(v);
        bulk_copy(to + room.scale + t * SCALES * 4, scale + (c.row - window), window_bytes, barrier);
    }
    if (MODE == PLAIN)
        bulk_copy(to + room.pen, v.pen + (int64_t)c.piece * v.Kp, 4 * v.Kp, barrier);
    else
        bulk_copy(to + room.pen, v.L + (c.row - window), window_bytes, barrier);
}

/* The chunk's rows of base: a warp's work. */
__device__ __forceinline__ void fetch_base(const uni_cuda_view &v, const moments_room &room, uni_cuda_chunk c, uint32_t to,
                                           uint32_t barrier)
{
    const int lane = threadIdx.x % 32, row_bytes = v.Kp * 2;
    const char *base = (const char *)v.base + (int64_t)c.row * row_bytes;
    if (lane == 0) {
        fence_async();
        barrier_bytes(barrier, c.n * (uint32_t)row_bytes);
        if (room.pitch == row_bytes)
            bulk_copy(to, base, c.n * row_bytes, barrier);
    }
    __syncwarp();
    for (uint32_t i = lane; i < c.n && room.pitch != row_bytes; i += 32)
        bulk_copy(to + i * room.pitch, base + i * row_bytes, row_bytes, barrier);
}

/* A block's way through its chunks. One warp refills both rings; the barriers are those of base, then those of the rest. */
template <int NT, int MODE> struct way {
    static constexpr int STAGES = ::STAGES<NT, MODE>;
    uint32_t begin, end, smem, full;

    __device__ __forceinline__ void base(const uni_cuda_view &v, const moments_room &room, uint32_t at) const
    {
        const uint32_t slot = (at - begin) % STAGES;
        if (at < end)
            fetch_base(v, room, v.chunk[at], smem + slot * room.base, full + 8 * slot);
    }

    __device__ __forceinline__ void rest(const uni_cuda_view &v, const moments_room &room, uint32_t at) const
    {
        const uint32_t slot = (at - begin) % STAGES;
        if (at < end && threadIdx.x % 32 == 0)
            fetch_rest<MODE>(v, room, v.chunk[at], smem + room.rests + slot * room.rest, full + 8 * (STAGES + slot));
        __syncwarp();
    }

    __device__ __forceinline__ uint32_t base_there(const moments_room &room, uint32_t at) const
    {
        const uint32_t turn = at - begin, slot = turn % STAGES;
        barrier_wait(full + 8 * slot, turn / STAGES & 1);
        return smem + slot * room.base;
    }

    /* As an offset in shared memory. */
    __device__ __forceinline__ uint32_t rest_there(const moments_room &room, uint32_t at) const
    {
        const uint32_t turn = at - begin, slot = turn % STAGES;
        barrier_wait(full + 8 * (STAGES + slot), turn / STAGES & 1);
        return room.rests + slot * room.rest;
    }
};

/* Damped: of every cell what each table is multiplied by, in two halves; what base is; and LOG2_Q_SCALE - L / ln 2. */
__device__ __forceinline__ void weigh_cells(const uni_cuda_view &v, const moments_room &room, const char *rest, char *factor,
                                            uni_cuda_chunk c)
{
    static_assert(KEPT_TABLES == 4, "a product takes four tables");
    const float *scale = (const float *)(rest + room.scale) + (c.row & 3), *L = (const float *)(rest + room.pen) + (c.row & 3);
    uint32_t *tables = (uint32_t *)(factor + room.tables);
    float *of_base = (float *)(factor + room.of_base);
    for (int i = blockDim.x - 1 - threadIdx.x; i < (KEPT_TABLES + 2) * CHUNK;
         i += blockDim.x) { /* the last warps have less else */
        const int t = i / CHUNK, cell = i % CHUNK;
        const bool there = cell < (int)c.n;
        if (t < KEPT_TABLES)
            split_long(there && t + 1 < v.recipe.n ? scale[(t + 1) * SCALES + cell] : 0, tables[4 * cell + t],
                       tables[HALF_TABLES / 4 + 4 * cell + t]);
        else if (t == KEPT_TABLES)
            of_base[cell] = there ? fmaxf(scale[cell] * v.recipe.share[0] * R_SCALE, NOTHING) : NOTHING;
        else
            of_base[CHUNK + cell] = there ? LOG2_Q_SCALE - L[cell] * (1 / LN_2) : 0;
    }
}

/* z times a power of two, over s of the block update, in two halves as the second factor: 16 bytes are 8 dimensions of a cell. */
template <int NT, int MODE>
__device__ __forceinline__ void make_factor(char *factor, const uni_cuda_view &v, const moments_room &room, const char *rest,
                                            uni_cuda_chunk c, float scale)
{
    const int cell = threadIdx.x % CHUNK;
    const bool there = cell < (int)c.n;
    const float f = !there ? 0 : MODE == PLAIN ? scale * ((const float *)(rest + room.scale))[(c.row & 3) + cell] : scale;
    const float *Z = (const float *)(rest + room.Z) + cell * v.Dz;
    char *to = factor + room.hi + (cell / 8 * NT * 8 + cell % 8) * 16;
    for (int n = threadIdx.x / CHUNK; n < NT; n += blockDim.x / CHUNK) {
        const float4 zero = {0, 0, 0, 0}, a = there && 8 * n < v.Dz ? *(const float4 *)(Z + 8 * n) : zero,
                     b = there && 8 * n + 4 < v.Dz ? *(const float4 *)(Z + 8 * n + 4) : zero;
        uint4 hi, lo;
        split_eight(a, b, f, hi, lo);
        *(uint4 *)(to + n * 128) = hi;
        *(uint4 *)(to + n * 128 + (room.lo - room.hi)) = lo;
    }
}

/* q R_SCALE of a warp's clusters and the chunk's cells: two clusters of a thread, cells 8 n + 2 t and + 1. They are on their way.
 */
__device__ __forceinline__ void start_q(float (&q)[CHUNK / 8][4], const uint32_t (&penalties)[4], const char *factor,
                                        const moments_room &room)
{
    const float *of_base = (const float *)(factor + room.of_base) + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < CHUNK / 8; n++) {
        const float2 w = *(const float2 *)(of_base + 8 * n);
        q[n][0] = q[n][2] = w.x, q[n][1] = q[n][3] = w.y;
    }
    multiply_tables<CHUNK / 8>(q, penalties, shared_address(factor + room.tables), HALF_TABLES);
}

/* The damped R R_SCALE of a pair of a first factor, in two halves; with FIT its part of sum R (dist + sigma ln R) = sum sigma R
   (ln q - L), q = R / base, over sigma, in base 2 and times R_SCALE. */
template <bool FIT>
__device__ __forceinline__ void mix(uint32_t &hi, uint32_t &lo, uint32_t base, float qx, float qy, const float2 &L, float &fit)
{
    float2 b = half_pair(base);
    b.x *= qx, b.y *= qy;
    if (FIT) /* q is times R_SCALE / BASE_SCALE */
        fit += b.x * (log2_of(qx) + L.x) + b.y * (log2_of(qy) + L.y);
    split_pair(b.x, b.y, hi, lo);
}

/* The float32 sums of a group's chunks times a power of two into S; `alone`: nobody else adds to this group, and nothing was
 * added before. */
template <int NT>
__device__ void give(const uni_cuda_view &v, int group, const clusters &own, float (&sum)[NT][4], float scale, bool alone)
{
    const int t = threadIdx.x % 4;
    long long *S = v.S + (int64_t)group * v.K * v.D;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int row = own.k[e / 2], d = 8 * n + 2 * t + e % 2;
            const long long x = __float2ll_rn(sum[n][e] * scale);
            if (row < v.K && d < v.D) {
                if (alone)
                    S[(int64_t)row * v.D + d] = x;
                else
                    add_exact(S + (int64_t)row * v.D + d, x);
            }
            sum[n][e] = 0;
        }
}

/* A power of two that takes the quotients 1 / s of a piece, of up to 1 / (its least penalty), to numbers of up to 64. */
__device__ __forceinline__ float quotient_scale(const float *pen, int K)
{
    float least = 1e30f;
    for (int k = threadIdx.x % 32; k < K; k += 32)
        least = fminf(least, pen[k]);
    least = fmaxf(-warp_most(-least), 1e-18f);
    return __uint_as_float(__float_as_uint(least) & 0x7f800000) * 64;
}

/* The penalties of two clusters in a table of a group, times its share and R_SCALE, in two halves: a thread's of a first factor.
 */
__device__ __forceinline__ void take_group(uint32_t (&factor)[4], const uni_cuda_view &v, int piece, const clusters &own)
{
    const int t = threadIdx.x % 4 + 1;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const bool there = t < v.recipe.n && own.k[i] < v.K;
        split_long(there ? v.recipe.share[t] * R_SCALE * v.pen[((int64_t)v.recipe.slot[t] * v.P + piece) * v.Kp + own.k[i]] : 0,
                   factor[i], factor[2 + i]);
    }
}

/* What a thread has of a chunk: its clusters' penalties over C, the power of two that z / s was multiplied by. */
struct quotients {
    int piece;
    float scale, factor[2];
};

__device__ __forceinline__ void take_piece(quotients &q, const float *pen, int K, int Kp, int piece, const clusters &own)
{
    if (q.piece == piece)
        return;
    q.piece = piece;
    q.scale = quotient_scale(pen, K) * BASE_SCALE;
    for (int i = 0; i < 2; i++)
        q.factor[i] = own.k[i] < Kp ? pen[own.k[i]] / q.scale : 0;
}

/* acc = the first factor of the thread's warp, 16 clusters of the chunk, times z's halves; on its way. Damped, q is on its own.
 */
template <int NT, int MODE>
__device__ __forceinline__ void multiply_chunk(float (&acc)[NT][4], float (&q)[CHUNK / 8][4], const char *factor,
                                               const moments_room &room, uint32_t base, const uni_cuda_view &v,
                                               const clusters &own, float (&fit)[2])
{
    const int lane = threadIdx.x % 32;
    const uint32_t at = base + (uint32_t)((lane % 8 + lane / 16 * 8) * room.pitch) +
                        2 * (uint32_t)min(lane / 8 % 2 ? own.first[1] : own.first[0], v.Kp - 8);
    const uint32_t hi = shared_address(factor + room.hi), lo = shared_address(factor + room.lo);
    const float *L = (const float *)(factor + room.of_base) + CHUNK + 2 * (lane % 4);
    uint32_t a[CHUNK / 16][4], rest[MODE == PLAIN ? 1 : CHUNK / 16][4];
#pragma unroll
    for (int s = 0; s < CHUNK / 16; s++)
        load_matrices_turned(a[s], at + 16 * s * room.pitch);
    if constexpr (MODE != PLAIN) {
        products_wait<CHUNK / 8>(q);
#pragma unroll
        for (int i = 0; i < 2; i++) { /* behind the row's end come its last clusters again: they must not count */
            const bool there = own.first[i] < v.Kp;
#pragma unroll
            for (int s = 0; s < CHUNK / 16; s++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    uint32_t &pair = a[s][2 * h + i], &low = rest[s][2 * h + i];
                    if (there)
                        mix<MODE == WITH_FIT>(pair, low, pair, q[2 * s + h][2 * i], q[2 * s + h][2 * i + 1],
                                              *(const float2 *)(L + 16 * s + 8 * h), fit[i]);
                    else
                        pair = low = 0;
                }
        }
    }
#pragma unroll
    for (int n = 0; n < NT; n++)
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
    products_begin();
#pragma unroll
    for (int s = 0; s < CHUNK / 16; s++) {
        const uint64_t b = factor_at(hi + 2 * s * NT * 128, NT * 128, 128),
                       b_rest = factor_at(lo + 2 * s * NT * 128, NT * 128, 128);
        multiply_wide<NT, true>(acc, a[s], b_rest);
        if (MODE != PLAIN)
            multiply_wide<NT, true>(acc, rest[MODE == PLAIN ? 0 : s], b);
        multiply_wide<NT, true>(acc, a[s], b);
    }
    products_commit();
}

/* The second factor of chunk c, number `at`, whose rows are on their way, and what its q are made of. */
template <int NT, int MODE>
__device__ __forceinline__ void prepare(char *smem, const uni_cuda_view &v, const moments_room &room, const way<NT, MODE> &way,
                                        uint32_t at, uni_cuda_chunk c, quotients &q, const clusters &own, float Z_scale)
{
    const char *rest = smem + way.rest_there(room, at);
    char *factor = smem + room.factors + (at - way.begin) % 2 * room.factor;
    if (MODE == PLAIN)
        take_piece(q, (const float *)(rest + room.pen), v.K, v.Kp, c.piece, own);
    else
        weigh_cells(v, room, rest, factor, c);
    make_factor<NT, MODE>(factor, v, room, rest, c, MODE == PLAIN ? Z_scale * q.scale : Z_scale);
    fence_async();
}

/* Rows that are not there count as 0 times what lies in the rings: numbers, from the start. */
template <int BARRIERS, int THREADS> __device__ __forceinline__ void clear_rings(char *smem, int bytes, uint32_t full)
{
    for (int i = threadIdx.x; i < bytes / 16; i += THREADS)
        ((uint4 *)smem)[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x < BARRIERS)
        barrier_open(full + 8 * threadIdx.x);
    fence_async();
    __syncthreads();
}

/* The sums of a chunk, times what its first factor lacks. */
template <int NT>
__device__ __forceinline__ void take_over(float (&sum)[NT][4], const float (&acc)[NT][4], const float (&factor)[2])
{
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[n][e] += acc[n][e] * factor[e / 2];
}

/* A turn begins when the factor of its chunk is there, and nobody needs any more what that was made from, nor base and factor of
   the chunk before. */
template <int KB, int NT, int MODE>
__global__ void __launch_bounds__(128 * KB, 4 / KB)
    hopper_moments(const __grid_constant__ uni_cuda_view v, float Z_scale, float S_scale)
{
    extern __shared__ __align__(128) char smem[];
    typedef way<NT, MODE> way_of;
    constexpr int STAGES = way_of::STAGES;
    __shared__ __align__(8) uint64_t barriers[2 * STAGES];
    __shared__ double parts[4 * KB];
    const moments_room room = room_of<NT, MODE>(v);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    const clusters own = clusters_of<KB>(warp);
    const way_of way = {uni_cuda_moments_begin(v, blockIdx.x, gridDim.x), uni_cuda_moments_begin(v, blockIdx.x + 1, gridDim.x),
                        shared_address(smem), shared_address(barriers)};
    const float sigma[2] = {own.k[0] < v.K ? v.sigma[own.k[0]] * (LN_2 / R_SCALE) : 0,
                            own.k[1] < v.K ? v.sigma[own.k[1]] * (LN_2 / R_SCALE) : 0};
    int group = -1, turn = 0;
    bool alone = false;
    quotients quotients = {-1, Z_scale, {1, 1}};
    uint32_t penalties[4] = {}; /* damped: of the group's tables */
    float sum[NT][4] = {}, acc[NT][4] = {}, factor[2] = {1, 1};
    double fit = 0;
    clear_rings<2 * STAGES, 128 * KB>(smem, room.factors, way.full);
    uni_cuda_chunk next = v.chunk[min(way.begin, v.chunks - 1)];
    for (int s = 0; s < STAGES && warp == 0; s++) {
        way.rest(v, room, way.begin + s);
        if (s + 1 < STAGES)
            way.base(v, room, way.begin + s);
    }
    if (way.begin < way.end)
        prepare<NT, MODE>(smem, v, room, way, way.begin, next, quotients, own, Z_scale);
    for (uint32_t at = way.begin; at < way.end; at++) {
        const uni_cuda_chunk now = next;
        const char *factors = smem + room.factors + (at - way.begin) % 2 * room.factor;
        const bool enters = now.group != group;
        float q[CHUNK / 8][4], of_clusters[2] = {0, 0};
        next = v.chunk[min(at + 1, way.end - 1)];
        products_wait<NT>(acc);
        take_over<NT>(sum, acc, factor);
        if (enters || turn == MOMENT_CHUNKS) {
            if (group >= 0)
                give<NT>(v, group, own, sum, S_scale, alone && enters);
            alone = enters && uni_cuda_stores(v.group_chunk[now.group], v.group_chunk[now.group + 1], way.begin, way.end);
            if (MODE != PLAIN && enters)
                take_group(penalties, v, now.piece, own);
            group = now.group;
            turn = 0;
        }
        turn++;
        __syncthreads();
        if (MODE != PLAIN)
            start_q(q, penalties, factors, room);
        if (warp == 4 * KB - 1) { /* the others need not wait for it before they have a first factor */
            way.base(v, room, at + STAGES - 1);
            way.rest(v, room, at + STAGES);
        }
        factor[0] = quotients.factor[0], factor[1] = quotients.factor[1];
        multiply_chunk<NT, MODE>(acc, q, factors, room, way.base_there(room, at), v, own, of_clusters);
        if (MODE == WITH_FIT)
            fit += (double)(of_clusters[0] * sigma[0] + of_clusters[1] * sigma[1]);
        if (at + 1 < way.end)
            prepare<NT, MODE>(smem, v, room, way, at + 1, next, quotients, own, Z_scale);
    }
    products_wait<NT>(acc);
    take_over<NT>(sum, acc, factor);
    if (group >= 0)
        give<NT>(v, group, own, sum, S_scale, alone);
    if (MODE == WITH_FIT) {
        fit = block_sum(fit, parts);
        if (threadIdx.x == 0)
            v.part[blockIdx.x] = fit;
    }
}

int uni_cuda_hopper_moments_blocks(const struct uni_cuda *c)
{
    return (c->v.Kp > 64 ? 2 : 4) * c->cores;
}

template <int KB, int NT> static int launch(const struct uni_cuda *c, int fit, cudaStream_t stream)
{
    auto kernel = !c->v.damped ? hopper_moments<KB, NT, PLAIN>
                  : fit        ? hopper_moments<KB, NT, WITH_FIT>
                               : hopper_moments<KB, NT, DAMPED>;
    const int bytes = c->v.damped ? room_of<NT, DAMPED>(c->v).all : room_of<NT, PLAIN>(c->v).all;
    int err = CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (err)
        return err;
    kernel<<<uni_cuda_hopper_moments_blocks(c), 128 * KB, (size_t)bytes, stream>>>(
        c->v, (float)c->W_scale, (float)(c->v.S_scale / ((c->v.damped ? R_SCALE : 1.0f) * c->W_scale)));
    return CUDA(cudaGetLastError());
}

int uni_cuda_hopper_moments(const struct uni_cuda *c, int fit, cudaStream_t stream)
{
    const int wide = c->v.Kp > 64;
    if (c->v.D <= 32)
        return wide ? launch<2, 4>(c, fit, stream) : launch<1, 4>(c, fit, stream);
    if (c->v.D <= 56)
        return wide ? launch<2, 7>(c, fit, stream) : launch<1, 7>(c, fit, stream);
    return wide ? launch<2, 8>(c, fit, stream) : launch<1, 8>(c, fit, stream);
}
