/* SPDX-License-Identifier: BSD-3-Clause */
/* How rows come to the warpgroups of cuda_hopper_assign.cu: its shapes, its shared memory, the order of the rows, and the copies.
 */
#ifndef UNI_CUDA_HOPPER_ROWS_CUH
#define UNI_CUDA_HOPPER_ROWS_CUH

#include "cuda_backend.h"
#include "cuda_hopper.cuh"

/* FIRST: nothing is taken off. PIECES: the second factor is P W, made for every piece. GROUPS: it is W of the group, for small
   pieces. DAMPED: likewise. */
enum { FIRST, PIECES, GROUPS, DAMPED };
enum { SCALES = TILE + 8 /* of a window of 1 / s that begins on a border of 16 bytes */ };
#define W_MORE 8.0f /* P W may be so many times larger than R_SCALE leaves room for: P <= 4 */

/* What of the shape and the mode is known when compiled. Teams are the warpgroups of a block that compute; one more copies, and
   leaves them its registers. */
template <int KT_, int DT_, int MODE_> struct shape {
    static constexpr int KT = KT_, DT = DT_, MODE = MODE_;
    static constexpr int KS = (KT + 1) / 2, DS = (DT + 1) / 2; /* steps of 16 of the products */
    static constexpr int TEAMS = KT > 13 ? 2 : 3, WARPS = 4 * TEAMS, THREADS = 32 * WARPS + 128,
                         REGISTERS = TEAMS == 2 ? 240 : 160;
    /* D and K are larger than these, or a smaller shape would do: see fast_of. */
    static constexpr int LEAST_D = DT > 4 ? 32 : 0, LEAST_K = KT == 16 && DT == 4 ? 104 : KT > 8 ? 64 : 0;
    static constexpr int WINDOWS = MODE == DAMPED ? KEPT_TABLES + 1 : MODE == FIRST ? 0 : 1;
    static constexpr bool CORRECTS = MODE != FIRST, SPLITS = MODE == GROUPS || MODE == DAMPED, BY_TILE = MODE == GROUPS;
};

/* Bytes of one half of a group's tables: four numbers a cluster. */
template <typename T> constexpr int HALF_TABLES = 8 * T::KT * 16;

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
    r.team = (r.tables + (T::MODE == DAMPED ? 2 * HALF_TABLES<T> : 0) + 127) / 128 * 128;
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
                                          uint32_t full, uint32_t base_free, uint32_t rest_free, uint32_t phase)
{
    const int row_bytes = v.Kp * 2, window = (int)(r.row & 3), windows = T::MODE == DAMPED ? v.recipe.n : T::WINDOWS;
    const uint32_t z_bytes = r.n * v.Dz * 4, window_bytes = (window + r.n + 3) / 4 * 16,
                   pen_bytes = T::MODE == GROUPS ? 4 * v.Kp : 0;
    const char *base = (const char *)v.base + (int64_t)r.row * row_bytes;
    /* The last rows are there: only then may `full` be told of more. A barrier that was never used has passed the phase before
       its first. */
    barrier_wait(T::CORRECTS ? base_free : rest_free, phase);
    fence_async();
    barrier_bytes(full, z_bytes + pen_bytes + windows * window_bytes + (T::CORRECTS ? r.n * row_bytes : 0));
    if (T::CORRECTS && room.pitch == row_bytes)
        bulk_copy(stage + room.base, base, r.n * row_bytes, full);
    for (int i = 0; T::CORRECTS && room.pitch != row_bytes && i < r.n; i++)
        bulk_copy(stage + room.base + i * room.pitch, base + i * row_bytes, row_bytes, full);
    if (T::CORRECTS) {
        barrier_wait(rest_free, phase);
        fence_async();
    }
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
}

/* The two parts of a stage, base and the rest, are filled again as soon as the warp has what it needs of them in registers. */
template <typename T>
__device__ __forceinline__ void copy_all(const uni_cuda_view &v, const assign_room &room, char *smem, uint64_t *barriers)
{
    const int team = threadIdx.x / 32 - T::WARPS, which = 4 * team + (int)threadIdx.x % 32;
    if (team >= T::TEAMS || threadIdx.x % 32 >= 4)
        return;
    const uint32_t full = shared_address(barriers + which), base_free = full + 8 * T::WARPS, rest_free = full + 16 * T::WARPS,
                   stage = shared_address(smem + team * room.team + which % 4 * room.stage);
    uint32_t phase = 1;
    way<T> way;
    way.start(v, which);
    while (way.there()) {
        const rows now = way.step(v);
        if (now.n == 0)
            continue;
        copy_rows<T>(v, room, now, stage, full, base_free, rest_free, phase);
        phase ^= 1;
    }
}

#endif
