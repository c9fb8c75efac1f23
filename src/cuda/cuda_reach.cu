/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the caller's that the card reaches itself: its own, managed, or pinned. Rows are gathered from it and scattered into
   it, a thread a word, neighbours in a row side by side; of pinned memory that is what crosses the bus, once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_lanes.h"

enum { THREADS = 256, MOST_BLOCKS = 4096 };

/* ---- in ------------------------------------------------------------------------------------------------------------------ */

struct uni_cuda_source uni_cuda_source_of(const struct uni_matrix *plain)
{
    struct uni_cuda_source s = {(const char *)plain->data, plain->row_stride,           plain->col_stride,
                                (int)plain->n_dims,        plain->dtype == UNI_FLOAT64, 0};
    const uint64_t ends = (uint64_t)(uintptr_t)s.data | (uint64_t)s.row_stride;
    if (!s.wide && s.col_stride == 4)
        for (int word = 16; word >= 4 && !s.word; word /= 2)
            s.word = ends % (unsigned)word == 0 ? word : 0;
    return s;
}

/* As row_is_usable of embedding.c: an exponent of all ones is a NaN or an infinity. */
static __device__ void look(struct uni_cuda_found *found, float value, uint64_t place)
{
    const unsigned exponent = __float_as_uint(value) & 0x7f800000u;
    if (exponent < 243u << 23)
        return;
    if (exponent == 0x7f800000u) {
        atomicAdd(&found->count, 1ull);
        atomicMin(&found->first, (unsigned long long)place);
    } else {
        atomicMin(&found->large, (unsigned long long)place);
    }
}

static __device__ int64_t source_row(const uni_cuda_order &order, uint32_t i)
{
    return order.row ? (int64_t)order.row[i] : order.first + i;
}

static __device__ int64_t its_place(const uni_cuda_order &order, uint32_t i)
{
    return order.place ? (int64_t)order.place[order.first + i] : (int64_t)i;
}

/* Rows of float32, in words that both ends are aligned to; the last word of a row may be part-filled. */
template <typename WORD>
__global__ void gather_words(float *to, int width, uni_cuda_source from, uni_cuda_order order, uint32_t n, uni_cuda_found *found)
{
    enum { FLOATS = sizeof(WORD) / 4 };
    const uint32_t words = (uint32_t)width / FLOATS, whole = (uint32_t)from.D / FLOATS;
    for (uint32_t at = blockIdx.x * blockDim.x + threadIdx.x; at < n * words; at += gridDim.x * blockDim.x) {
        const uint32_t i = at / words, w = at - i * words;
        const int64_t row = source_row(order, i);
        const char *source = from.data + row * from.row_stride + w * sizeof(WORD);
        union {
            WORD word;
            float value[FLOATS];
        } got = {};
        if (w < whole)
            got.word = *(const WORD *)source;
        else
            for (uint32_t j = 0; j < FLOATS && w * FLOATS + j < (uint32_t)from.D; j++)
                got.value[j] = ((const float *)source)[j];
        *(WORD *)(to + its_place(order, i) * width + w * FLOATS) = got.word;
        for (uint32_t j = 0; found && j < FLOATS; j++)
            look(found, got.value[j], (uint64_t)row * (uint64_t)from.D + w * FLOATS + j);
    }
}

/* Any strides, and addresses that are aligned to nothing. */
template <typename T> static __device__ T value_at(const char *at)
{
    T value;
    if ((uintptr_t)at % sizeof(T) == 0)
        return *(const T *)at;
    for (size_t b = 0; b < sizeof(T); b++)
        ((char *)&value)[b] = at[b];
    return value;
}

__global__ void gather_values(float *to, int width, uni_cuda_source from, uni_cuda_order order, uint32_t n, uni_cuda_found *found)
{
    for (uint32_t at = blockIdx.x * blockDim.x + threadIdx.x; at < n * (uint32_t)width; at += gridDim.x * blockDim.x) {
        const uint32_t i = at / (uint32_t)width, d = at - i * (uint32_t)width;
        const int64_t row = source_row(order, i);
        const char *source = from.data + row * from.row_stride + (int64_t)d * from.col_stride;
        float value = 0;
        if (d < (uint32_t)from.D)
            value = from.wide ? (float)value_at<double>(source) : value_at<float>(source);
        to[its_place(order, i) * width + d] = value;
        if (found)
            look(found, value, (uint64_t)row * (uint64_t)from.D + d);
    }
}

static unsigned blocks_for(int64_t words)
{
    const int64_t blocks = (words + THREADS - 1) / THREADS;
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

/* to (.,width) floats: rows of the source, then zeros; width a multiple of the source's words, n * width below 2^31. */
static int gather(float *to, int width, const struct uni_cuda_source *from, struct uni_cuda_order order, int64_t n,
                  struct uni_cuda_found *found, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(n * width / (from->word ? from->word / 4 : 1));
    if (from->word == 16)
        gather_words<float4><<<blocks, THREADS, 0, stream>>>(to, width, *from, order, (uint32_t)n, found);
    else if (from->word == 8)
        gather_words<float2><<<blocks, THREADS, 0, stream>>>(to, width, *from, order, (uint32_t)n, found);
    else if (from->word == 4)
        gather_words<float><<<blocks, THREADS, 0, stream>>>(to, width, *from, order, (uint32_t)n, found);
    else
        gather_values<<<blocks, THREADS, 0, stream>>>(to, width, *from, order, (uint32_t)n, found);
    return CUDA(cudaGetLastError());
}

int uni_cuda_gather(float *to, int width, const struct uni_cuda_source *from, const uint32_t *row, int64_t n,
                    struct uni_cuda_found *found, cudaStream_t stream)
{
    return gather(to, width, from, uni_cuda_order{row, NULL, 0}, n, found, stream);
}

__global__ void invert(uint32_t *place, const uint32_t *row, uint32_t first, uint32_t n)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        place[row[i]] = first + i;
}

/* ---- out ----------------------------------------------------------------------------------------------------------------- */

template <typename WORD>
__global__ void scatter_words(float *to, int width, const float *from, int stride, const uint32_t *row, uint32_t n)
{
    enum { FLOATS = sizeof(WORD) / 4 };
    const uint32_t words = (uint32_t)width / FLOATS;
    for (uint32_t at = blockIdx.x * blockDim.x + threadIdx.x; at < n * words; at += gridDim.x * blockDim.x) {
        const uint32_t i = at / words, w = at - i * words;
        WORD word = {};
        if (from)
            word = *(const WORD *)(from + (int64_t)i * stride + w * FLOATS);
        *(WORD *)(to + (int64_t)row[i] * width + w * FLOATS) = word;
    }
}

/* Rows of `width` floats, `stride` apart, into those of to; NULL: zeros. */
int uni_cuda_scatter(float *to, int width, const float *from, int stride, const uint32_t *row, int64_t n, cudaStream_t stream)
{
    const uintptr_t ends = (uintptr_t)to | (uintptr_t)from | (uintptr_t)(4 * width) | (uintptr_t)(4 * stride);
    const int word = ends % 16 == 0 ? 16 : ends % 8 == 0 ? 8 : 4;
    const unsigned blocks = blocks_for(n * width / (word / 4));
    if (word == 16)
        scatter_words<float4><<<blocks, THREADS, 0, stream>>>(to, width, from, stride, row, (uint32_t)n);
    else if (word == 8)
        scatter_words<float2><<<blocks, THREADS, 0, stream>>>(to, width, from, stride, row, (uint32_t)n);
    else
        scatter_words<float><<<blocks, THREADS, 0, stream>>>(to, width, from, stride, row, (uint32_t)n);
    return CUDA(cudaGetLastError());
}

/* ---- without a backend ------------------------------------------------------------------------------------------------------
 */

/* A stream that goes on where the caller's is. */
struct turn {
    cudaStream_t stream;
    cudaEvent_t before;
    char *room; /* pinned */
};

static int turn_open(struct turn *t, const struct uni_problem *p, size_t bytes)
{
    int err = 0;
    TRY(CUDA(cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking)));
    TRY(CUDA(cudaEventCreateWithFlags(&t->before, cudaEventDisableTiming)));
    TRY(CUDA(cudaEventRecord(t->before, (cudaStream_t)p->stream)));
    TRY(CUDA(cudaStreamWaitEvent(t->stream, t->before, 0)));
    if (bytes)
        TRY(CUDA(cudaHostAlloc((void **)&t->room, bytes, cudaHostAllocDefault)));
done:
    return err;
}

/* However it went, nothing is under way afterwards. */
static int turn_close(struct turn *t, int err)
{
    if (t->stream) {
        cudaError_t status = cudaStreamSynchronize(t->stream);
        err = err ? err : uni_cuda_checked(status, "cudaStreamSynchronize(t->stream)");
        cudaStreamDestroy(t->stream);
    }
    cudaFreeHost(t->room);
    if (t->before)
        cudaEventDestroy(t->before);
    return err;
}

int uni_cuda_rows_to(float *dst, const struct uni_matrix *plain, const int64_t *row, int64_t n, const struct uni_problem *p)
{
    enum { ROOM = 4 << 20 };
    int err = 0;
    struct turn t = {};
    struct uni_cuda_visit visit;
    struct uni_cuda_source from = uni_cuda_source_of(plain);
    const int64_t D = plain->n_dims, fit = ROOM / (4 * D + 4) + 1, most = n < fit ? n : fit;
    TRY(uni_cuda_enter(&visit, p->device));
    while (from.word > 4 && 4 * D % from.word != 0)
        from.word /= 2;
    TRY(turn_open(&t, p, (size_t)(most * (4 * D + 4))));
    for (int64_t first = 0; first < n; first += most) {
        const int64_t rows = n - first < most ? n - first : most;
        float *values = (float *)t.room;
        uint32_t *index = (uint32_t *)(t.room + most * 4 * D);
        for (int64_t i = 0; i < rows; i++)
            index[i] = (uint32_t)row[first + i];
        TRY(uni_cuda_gather(values, (int)D, &from, index, rows, NULL, t.stream));
        TRY(CUDA(cudaStreamSynchronize(t.stream)));
        memcpy(dst + first * D, values, (size_t)(rows * D) * 4);
    }
done:
    return turn_close(&t, err);
}

int uni_cuda_put_to(void *dst, const void *src, int64_t bytes, const struct uni_problem *p)
{
    int err = 0;
    struct turn t = {};
    struct uni_cuda_visit visit;
    TRY(uni_cuda_enter(&visit, p->device));
    TRY(turn_open(&t, p, 0));
    if (src)
        TRY(CUDA(cudaMemcpyAsync(dst, src, (size_t)bytes, cudaMemcpyDefault, t.stream)));
    else
        TRY(CUDA(cudaMemsetAsync(dst, 0xff, (size_t)bytes, t.stream)));
done:
    return turn_close(&t, err);
}

/* ---- all rows ------------------------------------------------------------------------------------------------------------ */

/* Which rows, to the card: in the order of l->stream, which waits for the caller's. */
static int send_rows(struct lane *l, int turn, uint32_t *to, int64_t row, int64_t n)
{
    int err = 0;
    const int b = turn & 1;
    if (turn < 2)
        TRY(CUDA(cudaStreamWaitEvent(l->stream, l->all->c->before, 0)));
    else
        TRY(CUDA(cudaEventSynchronize(l->ready[b])));
    memcpy(l->pinned[b], l->all->c->p->row + row, (size_t)n * sizeof *to);
    TRY(CUDA(cudaMemcpyAsync(to, l->pinned[b], (size_t)n * sizeof *to, cudaMemcpyHostToDevice, l->stream)));
    TRY(CUDA(cudaEventRecord(l->ready[b], l->stream)));
done:
    return err;
}

/* For every chunk of sorted rows, which of the caller's they are: to gather them, or (in_order) to know where each of his goes,
   in the memory of base, which has nothing in it yet. */
static int follow_rows(struct lane *l, int in_order)
{
    int err = 0, turn = 0;
    const struct mover *m = l->all;
    const struct uni_cuda_view *v = &m->c->v;
    for (int64_t i = l->index; i < m->chunks; i += m->lanes, turn++) {
        int64_t from = i * m->tiles, n = v->N_all - from < m->tiles ? v->N_all - from : m->tiles;
        uint32_t *row = (uint32_t *)l->device[turn & 1];
        TRY(uni_cuda_cancelled(m));
        TRY(send_rows(l, turn, row, from, n));
        if (in_order) {
            invert<<<blocks_for(n), THREADS, 0, l->stream>>>((uint32_t *)v->base, row, (uint32_t)from, (uint32_t)n);
            TRY(CUDA(cudaGetLastError()));
        } else {
            TRY(uni_cuda_gather(v->Z + from * v->Dz, v->Dz, &m->from, row, n, m->found, l->stream));
        }
    }
done:
    return uni_cuda_settled(l, err);
}

static int take(struct lane *l)
{
    return follow_rows(l, 0);
}

static int know_places(struct lane *l)
{
    return follow_rows(l, 1);
}

/* In the caller's order: what crosses the bus is read from one end to the other. */
static int take_in_order(struct lane *l)
{
    int err = 0, turn = 0;
    const struct mover *m = l->all;
    const struct uni_cuda_view *v = &m->c->v;
    for (int64_t i = l->index; i < m->chunks; i += m->lanes, turn++) {
        int64_t from = i * m->tiles, n = v->N_all - from < m->tiles ? v->N_all - from : m->tiles;
        struct uni_cuda_order order = {NULL, (const uint32_t *)v->base, from};
        TRY(uni_cuda_cancelled(m));
        if (turn >= 2) /* so that it can be cancelled */
            TRY(CUDA(cudaEventSynchronize(l->ready[turn & 1])));
        TRY(gather(v->Z, v->Dz, &m->from, order, n, m->found, l->stream));
        TRY(CUDA(cudaEventRecord(l->ready[turn & 1], l->stream)));
    }
done:
    return uni_cuda_settled(l, err);
}

/* Memory across the bus; and there is room for the places. */
static int wants_order(const struct uni_cuda *c)
{
    return c->p->reached != UNI_ON_CARD && !c->host_Z.at && !c->host_base.at &&
           c->v.N * c->v.Kp * (c->v.single ? 4 : 2) >= 4 * c->v.N_all;
}

/* After the rows are there: the sentence of uni_open, if any of their values cannot be used. */
static int check_found(const struct mover *m, const struct uni_cuda_found *f)
{
    const int64_t D = m->c->p->D;
    struct uni_unusable u = {(int64_t)f->count, (int64_t)f->first / D, (int64_t)f->first % D, -1, -1, 0};
    if (f->large != ~0ull) {
        float *row = (float *)malloc((size_t)D * sizeof *row);
        u.large_row = (int64_t)f->large / D;
        u.large_column = (int64_t)f->large % D;
        int err = row ? uni_cuda_rows_to(row, m->source, &u.large_row, 1, m->c->p)
                      : uni_cuda_lib->fail(UNI_MEMORY, "no memory for a row: %lld bytes asked for", (long long)D * 4);
        u.large = err ? 0 : (double)row[u.large_column];
        free(row);
        if (err)
            return err;
    }
    return uni_cuda_lib->refuse(&u);
}

/* The card's own memory has nothing yet in its results. */
int uni_cuda_take_rows(struct mover *m)
{
    int err = 0;
    struct uni_cuda_found found = {0, ~0ull, ~0ull};
    m->found = (struct uni_cuda_found *)m->c->v.result;
    m->from = uni_cuda_source_of(m->source);
    m->work = wants_order(m->c) ? know_places : take;
    m->lanes = m->c->lanes->n < REACH_LANES ? m->c->lanes->n : REACH_LANES;
    m->tiles = BUFFER / 4;
    m->chunks = (m->c->v.N_all + m->tiles - 1) / m->tiles;
    TRY(CUDA(cudaMemcpy(m->found, &found, sizeof found, cudaMemcpyHostToDevice)));
    TRY(CUDA(cudaEventRecord(m->c->before, (cudaStream_t)m->c->p->stream)));
    TRY(uni_cuda_move(m));
    if (m->work == know_places) {
        m->work = take_in_order;
        TRY(uni_cuda_move(m));
    }
    TRY(CUDA(cudaMemcpy(&found, m->found, sizeof found, cudaMemcpyDeviceToHost)));
    TRY(check_found(m, &found));
done:
    return err;
}

/* The lanes share the whole room on the card out, by turns of two: bytes of each. */
static int64_t share_of(const struct mover *m)
{
    return m->c->lanes->room / (2 * m->lanes) / 256 * 256;
}

/* Of a share: rows, and behind them which they are. */
static int put(struct lane *l)
{
    int err = 0, turn = 0;
    const struct mover *m = l->all;
    for (int64_t i = l->index; i < m->chunks; i += m->lanes, turn++) {
        float *values = (float *)(m->c->lanes->device + (2 * l->index + (turn & 1)) * share_of(m));
        uint32_t *index = (uint32_t *)(values + m->tiles * TILE * m->width);
        int64_t row, rows;
        TRY(uni_cuda_cancelled(m));
        TRY(uni_cuda_make_rows(l, i, values, &row, &rows));
        TRY(send_rows(l, turn, index, row, rows));
        TRY(uni_cuda_scatter(m->dst, (int)m->width, values, (int)m->width, index, rows, l->stream));
    }
done:
    return uni_cuda_settled(l, err);
}

/* Tiles of a chunk: their rows fit a share, and the numbers of these a buffer. */
static int64_t tiles_that_fit(const struct mover *m)
{
    const int64_t tiles = share_of(m) / (4 * TILE * (m->width + 1));
    return tiles < BUFFER / 4 / TILE ? tiles : BUFFER / 4 / TILE;
}

/* Sorted rows `first` .. `end` - 1 are as they lie at values, `stride` floats apart; NULL: zeros. */
static int put_rows(struct uni_cuda *c, float *dst, int width, const float *values, int stride, int64_t first, int64_t end)
{
    int err = 0;
    struct lane *l = &c->lanes->lane[0];
    for (int64_t at = first; at < end; at += BUFFER / 4) {
        const int64_t n = end - at < BUFFER / 4 ? end - at : BUFFER / 4;
        memcpy(l->pinned[0], c->p->row + at, (size_t)n * 4);
        TRY(CUDA(cudaMemcpyAsync(l->device[0], l->pinned[0], (size_t)n * 4, cudaMemcpyHostToDevice, c->stream)));
        TRY(uni_cuda_scatter(dst, width, values ? values + (at - first) * stride : NULL, stride, (uint32_t *)l->device[0], n,
                             c->stream));
        TRY(CUDA(cudaStreamSynchronize(c->stream)));
    }
done:
    return err;
}

/* The block of each row, made here and put where it belongs by the card. */
static int put_blocks(struct uni_cuda *c, float *dst)
{
    int err = 0;
    const struct uni_problem *p = c->p;
    struct lane *l = &c->lanes->lane[0];
    int32_t *block = (int32_t *)l->pinned[1];
    int64_t piece = 0;
    for (int64_t first = 0; first < p->N_all; first += BUFFER / 4) {
        const int64_t n = p->N_all - first < BUFFER / 4 ? p->N_all - first : BUFFER / 4;
        for (int64_t i = 0; i < n; i++) {
            while (piece < p->G * p->Q && first + i >= p->piece[piece + 1])
                piece++;
            block[i] = piece < p->G * p->Q ? (int32_t)(piece % p->Q) : -1;
        }
        TRY(CUDA(cudaMemcpyAsync(l->device[1], block, (size_t)n * 4, cudaMemcpyHostToDevice, c->stream)));
        TRY(put_rows(c, dst, 1, (const float *)l->device[1], 1, first, first + n));
    }
done:
    return err;
}

int uni_cuda_put_all(struct mover *m)
{
    int err = 0;
    struct uni_cuda *c = m->c;
    const int is_R = m->what == UNI_CELLS_R;
    TRY(CUDA(cudaEventRecord(c->before, (cudaStream_t)c->p->stream)));
    TRY(CUDA(cudaStreamWaitEvent(c->stream, c->before, 0)));
    if (m->what == UNI_CELLS_BLOCK) {
        TRY(put_blocks(c, m->dst));
        return UNI_OK;
    }
    TRY(put_rows(c, m->dst, (int)m->width, is_R ? NULL : c->v.Z + c->p->N * c->v.Dz, c->v.Dz, c->p->N, c->p->N_all));
    m->work = put;
    m->lanes = c->lanes->n < REACH_LANES ? c->lanes->n : REACH_LANES;
    m->tiles = tiles_that_fit(m);
    m->chunks = (c->v.tiles + m->tiles - 1) / m->tiles;
    TRY(uni_cuda_move(m));
done:
    if (err) /* dst is the caller's own again: nothing may still be on its way there */
        (void)cudaStreamSynchronize(c->stream);
    return err;
}
