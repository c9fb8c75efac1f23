/* SPDX-License-Identifier: BSD-3-Clause */
/* The block update. R is never stored: for a cell of a piece with penalties P, R = base P / s, s = sum_k base P, so with G = sum
   of base / s over the piece's cells its part of O is P G. One kernel is one block's update, tables included: every block of
   threads makes the penalties of the pieces that it has rows of. All steps of some sweeps are one graph; each step's kernel
   starts, and loads its first rows, while the one before it ends.

   O is not kept but X: O without the part and the one of its level that is updated before it. A part's step knows O without the
   part: X plus that one's new mass; less the old mass of the part after, this is the next X. Nothing is subtracted that was not
   added, and a step reads two tables.

   A damped sweep is the same kernel on all cells at once: O <- O/2 + P G/2, and each cell's 1 / s is kept. */
#include "cuda_backend.h"
#include "cuda_launch.cuh"
#include "cuda_step.cuh"

/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

/* A warp's way through its rows of the batch, in chunks of rows of one piece. */
struct cursor {
    uint32_t next, end, stop, shift; /* rows of the block; the piece's end; from a row of the block to a row of base */
    int l;

    __device__ __forceinline__ void enter(const step_smem &sm, int piece)
    {
        l = piece;
        stop = min(end, sm.end[l]);
        shift = sm.row[l] - sm.before[l];
    }

    __device__ __forceinline__ uint32_t step(const step_smem &sm, uint32_t chunk, uint32_t &row)
    {
        if (next >= end)
            return 0;
        if (next >= stop)
            enter(sm, l + 1);
        uint32_t n = min(chunk, stop - next);
        row = next + shift;
        next += n;
        return n;
    }
};

/* The sums of SUB numbers over LANES lanes, each in some of the lanes: halving the numbers with the lanes takes a third of the
 * moves. */
template <int LANES, int SUB> __device__ __forceinline__ float sum_rows(const float (&x)[SUB], int lane)
{
    float y[SUB];
#pragma unroll
    for (int u = 0; u < SUB; u++)
        y[u] = x[u];
    int m = LANES / 2;
#pragma unroll
    for (int n = SUB / 2; n; n /= 2, m /= 2)
#pragma unroll
        for (int u = 0; u < n; u++) {
            float mine = lane & m ? y[u + n] : y[u], other = lane & m ? y[u] : y[u + n];
            y[u] = mine + __shfl_xor_sync(~0u, other, m);
        }
#pragma unroll
    for (; m; m /= 2)
        y[0] += __shfl_xor_sync(~0u, y[0], m);
    return y[0];
}

/* Which of them a lane has; a lane that has it; is this the one? */
template <int LANES, int SUB> __device__ __forceinline__ int row_of_lane(int lane)
{
    return lane / (LANES / SUB);
}

template <int LANES, int SUB> __device__ constexpr int lane_of_row(int u)
{
    return u * (LANES / SUB);
}

template <int LANES, int SUB> __device__ __forceinline__ bool counts(int lane)
{
    return lane % (LANES / SUB) == 0;
}

/* A warp's rows: bulk copies bring them to a ring of buffers in shared memory, LANES lanes work on a row, 8 * CH columns each. */
template <int LANES, int CH, int SINGLE, int MODE> struct warp_rows {
    static constexpr bool FIT = MODE == STEP_FIT || MODE == STEP_FIT_SIGMAS, SIGMAS = MODE == STEP_FIT_SIGMAS;
    static constexpr int GROUPS = 32 / LANES, SUB = (SINGLE ? 2 : 4) / CH ? (SINGLE ? 2 : 4) / CH : 1, COLS = 8 * CH,
                         SET = SUB * GROUPS, CHUNK = 2 * SET, COLUMNS = LANES * 8 * CH;
    cursor take;
    uint32_t ring,
        full; /* this warp's, in shared memory; full: barriers of its buffers, STEP_BUFFERS further on those of the emptied */
    uint32_t row_bytes, buffers, next, phase; /* the buffer that is next, over all batches */
    int now;                                  /* the piece of G and P */
    float G[COLS], P[COLS], sP[SIGMAS ? COLS : 1], logs;
    float *scale; /* damped: (N) 1 / s */

    /* For a warp, or for the lane of the copying warp that serves it. */
    __device__ __forceinline__ void start(const uni_cuda_view &v, const char *rings, const uint64_t *barriers, int warp, int n)
    {
        row_bytes = (uint32_t)v.Kp * (SINGLE ? 4 : 2);
        buffers = (uint32_t)n;
        ring = shared_address(rings) + (uint32_t)warp * buffers * CHUNK * row_bytes;
        full = shared_address(barriers + warp * 2 * STEP_BUFFERS);
        next = phase = 0;
    }

    __device__ __forceinline__ void advance()
    {
        next++;
        if (next == buffers)
            next = 0, phase ^= 1;
    }

    __device__ __forceinline__ void find(const step_smem &sm, const uni_cuda_batch &b, uint32_t rows, int warp)
    {
        take.next = min(b.from + rows * (uint32_t)warp, b.to);
        take.end = min(take.next + rows, b.to);
        int l = 0;
        while (l + 1 < b.pieces && sm.end[l] <= take.next)
            l++;
        take.enter(sm, l);
    }

    /* A lane of the copying warp: the next chunk, if any, once its buffer is empty. Returns 0 when there is no more. (A barrier
       that was never used has passed the phase before its first.) */
    __device__ __forceinline__ bool copy_chunk(const uni_cuda_view &v, const step_smem &sm)
    {
        uint32_t row = 0;
        if (take.next >= take.end)
            return false;
        if (!barrier_passed(full + 8 * (STEP_BUFFERS + next), phase ^ 1))
            return true;
        uint32_t n = take.step(sm, CHUNK, row);
        barrier_bytes(full + 8 * next, n * row_bytes);
        bulk_copy(ring + next * CHUNK * row_bytes, (const char *)v.base + (int64_t)row * row_bytes, n * row_bytes,
                  full + 8 * next);
        advance();
        return true;
    }

    /* L: room for the log-sum-exps of the warp's rows */
    __device__ __forceinline__ void begin(const uni_cuda_view &v, const step_smem &sm, float *L)
    {
        logs = 0;
        now = -1;
        int l = take.l;
        for (uint32_t i = take.next + threadIdx.x % 32; FIT && i < take.end; i += 32) {
            while (sm.end[l] <= i)
                l++;
            L[i - take.next] = v.L[sm.row[l] + (i - sm.before[l])];
        }
        __syncwarp();
    }

    /* G of the piece so far to its slot */
    __device__ __forceinline__ void give(float *slots, int lane)
    {
        float *slot = slots + ((int)(threadIdx.x / 32 + now) * GROUPS + (int)(threadIdx.x % 32) / LANES) * COLUMNS;
        if (now < 0)
            return;
#pragma unroll
        for (int c = 0; c < CH; c++) {
            *(float4 *)(slot + 8 * (c * LANES + lane)) = make_float4(G[8 * c], G[8 * c + 1], G[8 * c + 2], G[8 * c + 3]);
            *(float4 *)(slot + 8 * (c * LANES + lane) + 4) = make_float4(G[8 * c + 4], G[8 * c + 5], G[8 * c + 6], G[8 * c + 7]);
        }
    }

    __device__ __forceinline__ void change_piece(int to, const float *pen, const float *weighted, float *slots, int lane)
    {
        give(slots, lane);
        now = to;
#pragma unroll
        for (int c = 0; c < CH; c++) {
            const int at = now * COLUMNS + 8 * (c * LANES + lane);
            put(P + 8 * c, pen + at);
            if (SIGMAS)
                put(sP + 8 * c, weighted + at);
#pragma unroll
            for (int i = 0; i < 8; i++)
                G[8 * c + i] = 0;
        }
    }

    static __device__ __forceinline__ void put(float *to, const float *from)
    {
        const float4 a = *(const float4 *)from, b = *(const float4 *)(from + 4);
        to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
    }

    /* One row of the ring as numbers. Lanes past the row's end take its last columns: they count for nothing, as P is 0 there. */
    __device__ __forceinline__ void numbers(float (&f)[COLS], uint32_t at, int Kp, int lane)
    {
#pragma unroll
        for (int c = 0; c < CH; c++) {
            int k = min(8 * (c * LANES + lane), Kp - 8);
            if (SINGLE) {
                uint4 a = load_shared(at + 4 * k), b = load_shared(at + 4 * k + 16);
                f[8 * c] = __uint_as_float(a.x), f[8 * c + 1] = __uint_as_float(a.y), f[8 * c + 2] = __uint_as_float(a.z);
                f[8 * c + 3] = __uint_as_float(a.w), f[8 * c + 4] = __uint_as_float(b.x), f[8 * c + 5] = __uint_as_float(b.y);
                f[8 * c + 6] = __uint_as_float(b.z), f[8 * c + 7] = __uint_as_float(b.w);
            } else {
                uint4 a = load_shared(at + 2 * k);
                float2 w[4] = {half_pair(a.x), half_pair(a.y), half_pair(a.z), half_pair(a.w)};
#pragma unroll
                for (int i = 0; i < 4; i++)
                    f[8 * c + 2 * i] = w[i].x, f[8 * c + 2 * i + 1] = w[i].y;
            }
        }
    }

    /* Of n rows of a set: s = base . P, G += base / s; with fit the logarithms, weighted by sum_k sigma R, too. Rows past the n
       are the first again, and count for nothing. */
    __device__ __forceinline__ void add_set(uint32_t first, const uni_cuda_view &v, uint32_t row, uint32_t n, const float *L,
                                            int lane)
    {
        float f[SUB][COLS], s[SUB], t[SUB];
        const uint32_t group = threadIdx.x % 32 / LANES, at = ring + (next * CHUNK + first + group) * row_bytes,
                       mine = row_of_lane<LANES, SUB>(lane) * GROUPS + group;
#pragma unroll
        for (int u = 0; u < SUB; u++) {
            numbers(f[u], at + (u * GROUPS + group < n ? u * GROUPS : -group) * row_bytes, v.Kp, lane);
            s[u] = t[u] = 0;
#pragma unroll
            for (int i = 0; i < COLS; i++) {
                s[u] += f[u][i] * P[i];
                if (SIGMAS)
                    t[u] += f[u][i] * sP[i];
            }
        }
        float sum = sum_rows<LANES, SUB>(s, lane), weight = SIGMAS ? sum_rows<LANES, SUB>(t, lane) : 1;
        const bool there = mine < n && sum > 0; /* else its weights all vanish, or it is no row */
        const float inverse = there ? __fdividef(1.0f, sum) : 0;
        if (FIT && there)
            logs += (SIGMAS ? weight * inverse : 1.0f) * (__logf(sum) - LN_BASE_SCALE + L[mine]);
        if ((MODE == STEP_DAMPED || FIT) && counts<LANES, SUB>(lane) && mine < n)
            scale[row + first + mine] = inverse;
#pragma unroll
        for (int u = 0; u < SUB; u++) {
            float factor = __shfl_sync(~0u, inverse, lane_of_row<LANES, SUB>(u), LANES);
#pragma unroll
            for (int i = 0; i < COLS; i++)
                G[i] += f[u][i] * factor;
        }
    }

    __device__ __forceinline__ void run(const uni_cuda_view &v, const step_smem &sm, const float *pen, const float *weighted,
                                        float *slots, const float *L, int lane)
    {
        uint32_t first = take.next, row = 0, n;
        while ((n = take.step(sm, CHUNK, row)) > 0) {
            const float *at = L + (take.next - n - first);
            if (take.l != now)
                change_piece(take.l, pen, weighted, slots, lane);
            barrier_wait(full + 8 * next, phase);
            if (n == CHUNK) { /* the second's loads fill the first's waits */
                add_set(0, v, row, SET, at, lane);
                add_set(SET, v, row, SET, at + SET, lane);
            } else {
#pragma unroll 1
                for (uint32_t i = 0; i < n; i += SET)
                    add_set(i, v, row, n - i, at + i, lane);
            }
            __syncwarp();
            if (threadIdx.x % 32 == 0)
                barrier_arrive(full + 8 * (STEP_BUFFERS + next));
            advance();
        }
        give(slots, lane);
    }
};

/* The last warp only copies: its first lanes serve a warp each. */
template <int LANES, int CH, int SINGLE, int MODE>
__global__ void __launch_bounds__(STEP_THREADS + 32, CH > 1 || MODE == STEP_FIT_SIGMAS ? 1 : 2)
    sweep_step(const __grid_constant__ uni_cuda_view v, const __grid_constant__ step_call call)
{
    typedef warp_rows<LANES, CH, SINGLE, MODE> rows_of;
    constexpr bool FIT = rows_of::FIT;
    extern __shared__ __align__(128) char dynamic[];
    __shared__ step_smem sm;
    __shared__ __align__(8) uint64_t barriers[STEP_WARPS * 2 * STEP_BUFFERS];
    float *pen = (float *)(dynamic + (int64_t)STEP_WARPS * call.buffers * rows_of::CHUNK * v.Kp * (SINGLE ? 4 : 2)),
          *slots = pen + v.batch_pieces * rows_of::COLUMNS;
    int lane = threadIdx.x % LANES, at = call.block * v.grid + (int)blockIdx.x, warp = threadIdx.x / 32;
    bool copies = warp == STEP_WARPS, first = true;
    float *L = slots + (STEP_WARPS + v.batch_pieces) * rows_of::GROUPS * rows_of::COLUMNS,
          *weighted = rows_of::SIGMAS ? L + STEP_WARPS * v.step_rows : nullptr;
    double fit = 0;
    rows_of work;
    launch_dependents();
    if (copies)
        warp = threadIdx.x % 32;
    L += warp * v.step_rows;
    work.start(v, dynamic, barriers, warp, call.buffers);
    work.scale = v.row_scale + call.slot * uni_cuda_scales(v);
    if (threadIdx.x < STEP_WARPS * 2 * STEP_BUFFERS)
        barrier_open(shared_address(barriers + threadIdx.x));
    fence_async();
    while (at >= 0) {
        const uni_cuda_batch b = v.batch[at];
        if (b.pieces == 0)
            break;
        uint32_t rows = rows_of_warp(b, rows_of::SET);
        take_pieces(v, b, rows, sm);
        __syncthreads();
        work.find(sm, b, rows, warp);
        if (copies) {
            for (int i = 0; i < call.buffers && warp < STEP_WARPS; i++)
                work.copy_chunk(v, sm);
        } else {
            work.begin(v, sm, L);
            if (first)
                wait_for_previous();
            make_penalties<MODE == STEP_DAMPED, rows_of::COLUMNS>(v, b, sm, call, pen, weighted);
        }
        __syncthreads();
        if (copies)
            while (warp < STEP_WARPS && work.copy_chunk(v, sm)) {
            }
        else
            work.run(v, sm, pen, weighted, slots, L, lane);
        if (FIT && !copies && counts<LANES, rows_of::SUB>(lane))
            fit -= (rows_of::SIGMAS ? 1.0 : (double)v.sigma[0]) * (double)work.logs;
        __syncthreads();
        fit += add_parts<rows_of::GROUPS, MODE, rows_of::COLUMNS>(v, b, call, pen, slots, sm);
        first = false;
        at = b.next;
        if (at >= 0)
            __syncthreads();
    }
    if (FIT) {
        fit = block_sum(fit, sm.part);
        if (threadIdx.x == 0)
            v.part[call.block * v.grid + blockIdx.x] = fit;
    }
}

typedef void (*step_kernel)(uni_cuda_view, step_call);

struct step_shape {
    step_kernel kernel;
    int groups, chunk, columns;
};

template <int LANES, int CH, int SINGLE> static step_shape shape_of(int mode)
{
    typedef warp_rows<LANES, CH, SINGLE, STEP_PLAIN> rows;
    step_kernel kernel = mode == STEP_DAMPED       ? sweep_step<LANES, CH, SINGLE, STEP_DAMPED>
                         : mode == STEP_FIT_SIGMAS ? sweep_step<LANES, CH, SINGLE, STEP_FIT_SIGMAS>
                         : mode == STEP_FIT        ? sweep_step<LANES, CH, SINGLE, STEP_FIT>
                                                   : sweep_step<LANES, CH, SINGLE, STEP_PLAIN>;
    return {kernel, rows::GROUPS, rows::CHUNK, rows::COLUMNS};
}

template <int LANES, int CH> static step_shape shape_for(int single, int mode)
{
    return single ? shape_of<LANES, CH, 1>(mode) : shape_of<LANES, CH, 0>(mode);
}

static step_shape choose(const struct uni_cuda_view *v, int mode)
{
    return v->Kp <= 64    ? shape_for<8, 1>(v->single, mode)
           : v->Kp <= 128 ? shape_for<16, 1>(v->single, mode)
           : v->Kp <= 256 ? shape_for<32, 1>(v->single, mode)
           : v->Kp <= 512 ? shape_for<32, 2>(v->single, mode)
                          : shape_for<32, 4>(v->single, mode);
}

static int launch_step(const struct uni_cuda *c, int mode, struct step_call call)
{
    step_shape shape = choose(&c->v, mode);
    int fit = mode == STEP_FIT || mode == STEP_FIT_SIGMAS, penalties = mode == STEP_FIT_SIGMAS ? 2 : 1;
    int tables = 4 * ((c->v.batch_pieces * penalties + (STEP_WARPS + c->v.batch_pieces) * shape.groups) * shape.columns +
                      (fit ? STEP_WARPS * c->v.step_rows : 0));
    int stage_bytes = STEP_WARPS * shape.chunk * c->v.Kp * (c->v.single ? 4 : 2), buffers = (HALF_BYTES - tables) / stage_bytes;
    buffers = buffers >= 2 ? buffers : (SHARED_BYTES - tables) / stage_bytes;
    buffers = buffers < STEP_BUFFERS ? buffers : (int)STEP_BUFFERS;
    size_t bytes = (size_t)(buffers * stage_bytes + tables);
    call.buffers = buffers;
    int err = CUDA(cudaFuncSetAttribute(shape.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    if (!err) /* room for the next step's block beside this one's */
        err = CUDA(cudaFuncSetAttribute(shape.kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    if (err)
        return err;
    const struct uni_cuda_grid grid = {dim3((unsigned)c->v.grid), STEP_THREADS + 32, bytes};
    return launch_early(c, c->stream, shape.kernel, grid, c->v, call);
}

/* Damped sweeps, each into the next table of the recipe. */
static int launch_damped(const struct uni_cuda *c, int64_t sweeps)
{
    int err = 0;
    struct uni_cuda_recipe recipe = c->v.recipe;
    for (int64_t s = 0; s < sweeps && !err; s++) {
        int turn = (int)(c->parity + s), slot = uni_cuda_next_table(&recipe, c->slots);
        err = launch_step(c, STEP_DAMPED, {0, slot, 0, masses(c->v, turn + 1), masses(c->v, turn), masses(c->v, turn + 2)});
    }
    return err;
}

static int capture(struct uni_cuda *c, int64_t sweeps, int fit, cudaGraphExec_t *exec)
{
    int err = 0;
    cudaGraph_t graph = NULL;
    TRY(CUDA(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal)));
    for (int64_t s = 0; s < sweeps && !err && !c->v.damped; s++)
        for (int q = 0; q < c->v.Q && !err; q++) {
            int old = c->parity ^ (int)(s & 1);
            err = launch_step(c, s + 1 == sweeps ? fit : STEP_PLAIN, {q, 0, 0, c->v.M[old ^ 1], c->v.M[old], NULL});
        }
    if (c->v.damped)
        err = launch_damped(c, sweeps);
    {
        int ended = CUDA(cudaStreamEndCapture(c->stream, &graph));
        TRY(err ? err : ended);
    }
    err = CUDA(cudaGraphInstantiate(exec, graph, 0));
    if (err)
        *exec = NULL;
done:
    if (graph)
        cudaGraphDestroy(graph);
    return err;
}

/* The graph of so many sweeps from here; made anew where it was of another number. */
static int launch_graph(struct uni_cuda *c, int64_t sweeps, int fit)
{
    int err = 0;
    struct uni_cuda_graph *g = &c->graph[c->parity][fit];
    if (g->exec && g->sweeps != sweeps) {
        cudaGraphExec_t old = g->exec;
        g->exec = NULL;
        TRY(CUDA(cudaGraphExecDestroy(old)));
    }
    if (!g->exec) {
        TRY(capture(c, sweeps, fit, &g->exec));
        g->sweeps = sweeps;
    }
    TRY(CUDA(cudaGraphLaunch(g->exec, c->stream)));
done:
    return err;
}

enum { MOST_SWEEPS = 64 }; /* of one graph */

int uni_cuda_damped_sweeps(struct uni_cuda *c, int64_t sweeps)
{
    int err = 0;
    while (sweeps > 0) {
        int64_t now = sweeps < MOST_SWEEPS ? sweeps : (int64_t)MOST_SWEEPS;
        TRY(c->v.recipe.n == 1 && now > 1 ? launch_graph(c, now, 0) : launch_damped(c, now));
        for (int64_t s = 0; s < now; s++)
            (void)uni_cuda_next_table(&c->v.recipe, c->slots);
        c->parity = (int)(c->parity + now) % 3;
        sweeps -= now;
    }
done:
    return err;
}

/* fit: STEP_PLAIN, STEP_FIT or STEP_FIT_SIGMAS, which are 0, 1 and 2 */
int uni_cuda_sweeps(struct uni_cuda *c, int64_t sweeps, int fit)
{
    int err = 0;
    while (sweeps > 0) {
        int64_t now = sweeps < MOST_SWEEPS ? sweeps : (int64_t)MOST_SWEEPS;
        TRY(launch_graph(c, now, now == sweeps ? fit : 0));
        c->parity ^= (int)(now & 1);
        sweeps -= now;
    }
done:
    return err;
}
