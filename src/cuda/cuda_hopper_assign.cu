/* SPDX-License-Identifier: BSD-3-Clause */
/* The pass before the sweeps by warpgroups: compute capability 9.0, base in half precision, D <= 64, K <= 128. A warpgroup takes
   64 cells of a piece from memory to memory, 16 a warp: z = normalise(Z - R W), base = softmax(-2 (1 - z.Y) / sigma).

   Of the block update R W = (1 / s) base (P W), with the 1 / s that the last sweep kept: base is the first factor as it lies in
   memory, exact, and P W, split in two halves, is made for every piece. For small pieces, and of the damped update, R is made in
   registers and split too. Products of two factors that are split are hi hi + hi lo + lo hi: some 22 bits. */
#include "cuda_assign.cuh"
#include "cuda_hopper.cuh"

/* FIRST: nothing is taken off. PIECES: the second factor is P W, made for every piece. GROUPS: it is W of the group, for small
   pieces. DAMPED: likewise. */
enum { FIRST, PIECES, GROUPS, DAMPED };
enum { SCALES = TILE + 8 /* of a window of 1 / s that begins on a border of 16 bytes */ };
#define W_MORE 8.0f /* P W may be so many times larger than R_SCALE leaves room for: P <= 4 */

/* What of the shape and the mode is known when compiled. Teams are the warpgroups of a block that compute; one more copies, and
   leaves them its registers. */
template <int KT_, int DT_, int MODE_> struct shape {
    static constexpr int KT = KT_, DT = DT_, MODE = MODE_, KS = (KT + 1) / 2, DS = (DT + 1) / 2, TEAMS = KT > 13 ? 2 : 3,
                         WARPS = 4 * TEAMS, THREADS = 32 * WARPS + 128, REGISTERS = TEAMS == 2 ? 240 : 160,
                         LEAST_D = DT == 7 || DT == 8 ? 32 : 0,
                         LEAST_K = KT == 16   ? 104
                                   : KT == 13 ? 64
                                              : 0, /* D and K are larger: see fast_of */
        TABLES = MODE == DAMPED   ? (int)KEPT_TABLES
                 : MODE == GROUPS ? 1
                                  : 0,
                         WINDOWS = MODE == DAMPED  ? TABLES + 1
                                   : MODE == FIRST ? 0
                                                   : 1;
    static constexpr bool CORRECTS = MODE != FIRST, SPLITS = MODE == GROUPS || MODE == DAMPED, BY_TILE = MODE == GROUPS;
};

/* Where things lie in shared memory, in bytes: a warp's stage, a team's second factor and tables, and what all share. */
struct assign_room {
    int pitch, Z, scale, pen, base, stage; /* within a stage; its size */
    int factor, lo, tables, team;          /* within a team's; its size */
    int Y, Y_lo, logit, all;
};

template <typename T> static __host__ __device__ assign_room room_of(const uni_cuda_view &v)
{
    constexpr int W_BYTES = T::CORRECTS ? T::KS * T::DT * 256 : 0, Y_BYTES = T::DS * T::KT * 256;
    assign_room r;
    r.pitch = uni_cuda_pitch(v.Kp);
    r.Z = 0;
    r.scale = TILE * v.Dz * 4;
    r.pen = r.scale + T::WINDOWS * SCALES * 4;
    r.base = r.pen + (T::MODE == GROUPS ? 32 * T::KT : 0);
    r.stage = (r.base + (T::CORRECTS ? TILE * r.pitch : 0) + 127) / 128 * 128;
    r.factor = 4 * r.stage;
    r.lo = r.factor + W_BYTES;
    r.tables = r.lo + W_BYTES;
    r.team = (r.tables + (T::MODE == DAMPED ? T::TABLES * 32 * T::KT : 0) + 127) / 128 * 128;
    r.Y = T::TEAMS * r.team;
    r.Y_lo = r.Y + Y_BYTES;
    r.logit = r.Y_lo + Y_BYTES;
    r.all = r.logit + 64 * T::KT;
    return r;
}

/* ---- a team's way through its rows: both its warps and those who copy for them go it ----------------------------------------
 */

struct rows {
    uint32_t row;
    int n, piece, group;
};

/* Chunks of 64 rows of a piece; by tile, four tiles of a group. What comes next is asked for in time, and not looked at before
 * its turn. */
template <typename T> struct way {
    uint32_t at, end, next_at;
    int warp; /* within the team */
    uni_cuda_chunk chunk;
    uni_cuda_tile tile;
    int group;

    __device__ __forceinline__ void start(const uni_cuda_view &v, int which)
    {
        const uint32_t teams = gridDim.x * T::TEAMS, nth = blockIdx.x * T::TEAMS + which / 4;
        const uint64_t all = T::BY_TILE ? v.tiles : v.chunks;
        warp = which % 4;
        at = (uint32_t)(all * nth / teams);
        end = (uint32_t)(all * (nth + 1) / teams);
        group = T::BY_TILE && at < end ? v.piece[v.tile[at].packed >> 5].group : 0;
        look(v);
    }

    __device__ __forceinline__ void look(const uni_cuda_view &v)
    {
        if (at >= end)
            return;
        if (T::BY_TILE) {
            while (at >= v.group_tile[group + 1])
                group++;
            next_at = min(min(at + 4, end), v.group_tile[group + 1]);
            tile = v.tile[min(at + warp, next_at - 1)];
        } else {
            chunk = v.chunk[at];
            next_at = at + 1;
        }
    }

    __device__ __forceinline__ rows here() const
    {
        if (T::BY_TILE)
            return {tile.row, at + warp < next_at ? (int)(tile.packed & 31) : 0, (int)(tile.packed >> 5), group};
        return {chunk.row + warp * TILE, min(max((int)chunk.n - warp * TILE, 0), (int)TILE), chunk.piece, chunk.group};
    }

    __device__ __forceinline__ bool there() const
    {
        return at < end;
    }

    __device__ __forceinline__ rows step(const uni_cuda_view &v)
    {
        const rows now = here();
        at = next_at;
        look(v);
        return now;
    }
};

/* ---- the warpgroup that copies: a warp for every team, a lane for every warp of it
 * ---------------------------------------------------------------------- */

template <typename T>
__device__ __forceinline__ void copy_rows(const uni_cuda_view &v, const assign_room &room, const rows &r, uint32_t stage,
                                          uint32_t full)
{
    const int row_bytes = v.Kp * 2, window = (int)(r.row & 3), windows = T::MODE == DAMPED ? v.recipe.n : T::WINDOWS;
    const uint32_t z_bytes = r.n * v.Dz * 4, window_bytes = (window + r.n + 3) / 4 * 16,
                   pen_bytes = T::MODE == GROUPS ? 4 * v.Kp : 0;
    const char *base = (const char *)v.base + (int64_t)r.row * row_bytes;
    fence_async();
    barrier_bytes(full, z_bytes + pen_bytes + windows * window_bytes + (T::CORRECTS ? r.n * row_bytes : 0));
    bulk_copy(stage + room.Z, v.Z + (int64_t)r.row * v.Dz, z_bytes, full);
    for (int t = 0; t < windows; t++)
        bulk_copy(stage + room.scale + t * SCALES * 4,
                  (T::MODE != DAMPED ? v.row_scale
                   : t == 0          ? v.base_scale
                                     : v.row_scale + v.recipe.slot[t] * uni_cuda_scales(v)) +
                      (r.row - window),
                  window_bytes, full);
    if (T::MODE == GROUPS)
        bulk_copy(stage + room.pen, v.pen + (int64_t)r.piece * v.Kp, pen_bytes, full);
    if (T::CORRECTS && room.pitch == row_bytes)
        bulk_copy(stage + room.base, base, r.n * row_bytes, full);
    for (int i = 0; T::CORRECTS && room.pitch != row_bytes && i < r.n; i++)
        bulk_copy(stage + room.base + i * room.pitch, base + i * row_bytes, row_bytes, full);
}

/* A stage is filled again as soon as its warp has what it needs of it in registers. */
template <typename T>
__device__ __forceinline__ void copy_all(const uni_cuda_view &v, const assign_room &room, char *smem, uint64_t *barriers)
{
    const int team = threadIdx.x / 32 - T::WARPS, which = 4 * team + (int)threadIdx.x % 32;
    if (team >= T::TEAMS || threadIdx.x % 32 >= 4)
        return;
    const uint32_t full = shared_address(barriers + which), empty = shared_address(barriers + T::WARPS + which),
                   stage = shared_address(smem + team * room.team + which % 4 * room.stage);
    uint32_t phase = 1;
    way<T> way;
    way.start(v, which);
    while (way.there()) {
        const rows now = way.step(v);
        if (now.n == 0)
            continue;
        barrier_wait(empty, phase); /* a barrier that was never used has passed the phase before its first */
        phase ^= 1;
        copy_rows<T>(v, room, now, stage, full);
    }
}

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
        split_pair(a.x * P, a.y * P, hi.x, lo.x), split_pair(a.z * P, a.w * P, hi.y, lo.y);
        split_pair(b.x * P, b.y * P, hi.z, lo.z), split_pair(b.z * P, b.w * P, hi.w, lo.w);
        *(uint4 *)(own + room.factor + at) = hi;
        *(uint4 *)(own + room.lo + at) = lo;
    }
}

/* The penalties of a group's tables times their shares and R_SCALE. */
template <typename T>
__device__ __forceinline__ void take_group(char *own, const uni_cuda_view &v, const assign_room &room, int piece)
{
    constexpr int COLUMNS = 8 * T::KT;
    float *tables = (float *)(own + room.tables);
    for (int i = threadIdx.x % 128; i < T::TABLES * COLUMNS; i += 128) {
        const int t = i / COLUMNS + 1, k = i % COLUMNS;
        const bool there = t < v.recipe.n && k < v.Kp;
        tables[i] = there ? v.recipe.share[t] * R_SCALE * v.pen[((int64_t)v.recipe.slot[t] * v.P + piece) * v.Kp + k] : 0;
    }
}

/* ---- R W ------------------------------------------------------------------------------------------------------------------- */

/* base of a warp's rows as a first factor; behind the row's end lies anything, and it must not count. */
template <typename T> __device__ __forceinline__ void take_base(uint32_t (&a)[T::KS][4], uint32_t base, int pitch, int Kp)
{
    const int lane = threadIdx.x % 32;
    const uint32_t at = base + (uint32_t)((lane % 8 + lane / 8 % 2 * 8) * pitch + lane / 16 * 16);
#pragma unroll
    for (int s = 0; s < T::KS; s++) {
        load_matrices(a[s], at + 32 * s);
        if (16 * s > T::LEAST_K && 16 * s >= Kp)
            a[s][0] = a[s][1] = 0;
        if (16 * s + 8 > T::LEAST_K && 16 * s + 8 >= Kp)
            a[s][2] = a[s][3] = 0;
    }
}

/* What R R_SCALE of a thread's two rows is made of: of base its part, and of each table. */
template <typename T> struct weights {
    float base[2], table[T::TABLES ? T::TABLES : 1][2];

    __device__ __forceinline__ void take(const uni_cuda_view &v, const assign_room &room, const char *stage, const rows &r, int g)
    {
        const float *scale = (const float *)(stage + room.scale) + (r.row & 3) + g;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const bool there = g + 8 * h < r.n; /* else R = 0: of what lies there it might not be a number */
            if constexpr (T::MODE == GROUPS) {
                table[0][h] = there ? scale[8 * h] * R_SCALE : 0;
            } else {
                base[h] = there ? v.recipe.share[0] * R_SCALE * scale[8 * h] : 0;
#pragma unroll
                for (int t = 0; t < T::TABLES; t++)
                    table[t][h] = there && t + 1 < v.recipe.n ? scale[(t + 1) * SCALES + 8 * h] : 0;
            }
        }
    }
};

/* base -> R R_SCALE, in two halves */
template <typename T>
__device__ __forceinline__ void mix(uint32_t (&a)[T::KS][4], uint32_t (&lo)[T::KS][4], const float *tables, const weights<T> &w,
                                    int t)
{
    constexpr int COLUMNS = 8 * T::KT;
#pragma unroll
    for (int i = 0; i < T::KS; i++)
#pragma unroll
        for (int e = 0; e < 2; e++) { /* columns 16 i + 8 e + 2 t and + 1 */
            if (16 * i + 8 * e >= COLUMNS) {
                lo[i][2 * e] = lo[i][2 * e + 1] = 0;
                continue;
            }
            const float *P = tables + 16 * i + 8 * e + 2 * t;
            float2 q[2];
#pragma unroll
            for (int h = 0; h < 2; h++)
                q[h] = T::MODE == DAMPED ? make_float2(w.base[h], w.base[h]) : make_float2(0, 0);
#pragma unroll
            for (int j = 0; j < T::TABLES; j++) {
                const float2 p = *(const float2 *)(P + j * COLUMNS);
#pragma unroll
                for (int h = 0; h < 2; h++)
                    q[h].x += p.x * w.table[j][h], q[h].y += p.y * w.table[j][h];
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float2 b = half_pair(a[i][2 * e + h]);
                split_pair(b.x * q[h].x, b.y * q[h].y, a[i][2 * e + h], lo[i][2 * e + h]);
            }
        }
}

/* acc = R W of a team's rows, times what the caller knows. hi, lo: addresses of the second factor. */
template <typename T>
__device__ __forceinline__ void multiply_W(float (&acc)[T::DT][4], const uni_cuda_view &v, const assign_room &room,
                                           const char *own, const char *stage, uint32_t hi, uint32_t lo, const rows &r)
{
    constexpr int DT = T::DT;
    uint32_t a[T::KS][4], rest[T::SPLITS ? T::KS : 1][4];
    take_base<T>(a, shared_address(stage + room.base), room.pitch, v.Kp);
    if constexpr (T::SPLITS) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        weights<T> w;
        w.take(v, room, stage, r, g);
        mix<T>(a, rest, (const float *)(T::MODE == DAMPED ? own + room.tables : stage + room.pen), w, t);
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
        const float2 a = *(const float2 *)(Z + g * Dz + 8 * j + 2 * t), b = *(const float2 *)(Z + (g + 8) * Dz + 8 * j + 2 * t);
        const bool inside = 8 * j + 8 <= T::LEAST_D || 8 * j + 2 * t < Dz;
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
    const uint32_t full = shared_address(barriers + warp), empty = shared_address(barriers + T::WARPS + warp),
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
            multiply_W<T>(z, v, room, own, stage, hi, hi + (room.lo - room.factor), now);
        if (T::MODE == PIECES) {
            const float *scale = (const float *)(stage + room.scale) + (now.row & 3) + g;
            scale0 *= scale[0], scale1 *= scale[8];
        }
        subtract<T>(z, (const float *)(stage + room.Z), v.Dz, g, t, scale0, scale1);
        __syncwarp();
        if (now.n > 0) {
            phase ^= 1;
            if (lane == 0)
                barrier_arrive(empty);
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
    __shared__ __align__(8) uint64_t barriers[2 * T::WARPS]; /* full, empty */
    const assign_room room = room_of<T>(v);
    for (int i = threadIdx.x; i < room.Y / 16; i += T::THREADS) /* rows that are not there hold numbers */
        ((uint4 *)smem)[i] = make_uint4(0, 0, 0, 0);
    for (int i = threadIdx.x; i < (room.logit - room.Y) / 16; i += T::THREADS)
        ((uint4 *)(smem + room.Y))[i] = v.Y_fragments[i];
    for (int i = threadIdx.x; i < 8 * T::KT; i += T::THREADS)
        ((float2 *)(smem + room.logit))[i] = v.logit[i];
    if (threadIdx.x < 2 * T::WARPS)
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

/* ---- what the factors are made from, in device memory
 * --------------------------------------------------------------------------- */

/* W of every group, the sum of its rows, times a power of two, in rows of 8 DT. */
__global__ void pack_rows(uni_cuda_view v, const float *W, int rows, int columns, float scale)
{
    float *to = (float *)v.W_fragments + (int64_t)blockIdx.x * rows * columns;
    for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < rows * columns; i += gridDim.y * blockDim.x) {
        const int k = i / columns, d = i % columns;
        float w = 0;
        for (int u = 0; u < v.V && k < v.K && d < v.D; u++)
            w += W[((int64_t)v.group_row[(int)blockIdx.x * v.V + u] * v.K + k) * v.D + d];
        to[i] = w * scale;
    }
}

int uni_cuda_hopper_pack_W(const struct uni_cuda *c, const float *W, cudaStream_t stream)
{
    pack_rows<<<dim3((unsigned)c->v.G, c->v.G < 2 * c->cores ? 7 : 2), 256, 0, stream>>>(c->v, W, (c->fast.kt + 1) / 2 * 16,
                                                                                         8 * c->fast.dt, (float)c->W_scale);
    return CUDA(cudaGetLastError());
}

/* Y in two halves: 16 bytes are eight dimensions of a column. */
__global__ void pack_columns(uni_cuda_view v, int KT, int DT)
{
    const int dims = (DT + 1) / 2 * 16;
    __half *hi = (__half *)v.Y_fragments, *lo = hi + dims * 8 * KT;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < dims * 8 * KT; i += gridDim.x * blockDim.x) {
        const int column = i / dims, d = i % dims, k = assign_column(KT, column / 8, column % 8);
        const float y = k < v.K && d < v.D ? v.Y[(int64_t)k * v.D + d] * Z_SCALE : 0;
        const int at = ((d / 8 * KT + column / 8) * 8 + column % 8) * 8 + d % 8;
        hi[at] = __float2half_rn(y);
        lo[at] = __float2half_rn(y - __half2float(hi[at]));
    }
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 8 * KT; i += gridDim.x * blockDim.x) {
        const int k = assign_column(KT, i / 8, i % 8);
        const float scale = k < v.K ? 2 * 1.44269504f / v.sigma[k] : 0;
        v.logit[i] = k < v.K ? make_float2(scale / (Z_SCALE * Z_SCALE), -scale) : make_float2(0, -1e30f);
    }
}

int uni_cuda_hopper_pack_Y(const struct uni_cuda *c, cudaStream_t stream)
{
    pack_columns<<<16, 256, 0, stream>>>(c->v, c->fast.kt, c->fast.dt);
    return CUDA(cudaGetLastError());
}
