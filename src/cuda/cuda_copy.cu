/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows in, sorted on the way, and out, back in the caller's order. Some host threads gather or scatter, each through two small
   pinned buffers of its own and on a stream of its own: the caller's array is neither pinned nor copied whole. Where the card
   reaches the caller's array, it gathers and scatters itself (cuda_reach.cu), and all that a thread sends is which rows. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_lanes.h"

int uni_cuda_cancelled(const struct mover *m)
{
    return m->c->p->cancel && *m->c->p->cancel ? uni_cuda_lib->fail(UNI_STOPPED, "cancelled by the caller") : UNI_OK;
}

int uni_cuda_settled(const struct lane *l, int err)
{
    cudaError_t status = cudaStreamSynchronize(l->stream);
    return err ? err : uni_cuda_checked(status, "cudaStreamSynchronize(l->stream)");
}

static void *run_lane(void *context)
{
    struct lane *l = (struct lane *)context;
    l->err = CUDA(cudaSetDevice(l->all->c->device));
    l->err = l->err ? l->err : l->all->work(l);
    if (l->err) /* the sentence is this thread's: keep it for the caller's */
        uni_cuda_lib->last_error(l->sentence, sizeof l->sentence);
    return NULL;
}

int uni_cuda_lanes_open(struct uni_cuda *c)
{
    int err = 0;
    struct uni_cuda_lanes *all = (struct uni_cuda_lanes *)calloc(1, sizeof *all);
    c->lanes = all;
    if (!all)
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory for the copies' threads: %zu bytes asked for", sizeof *all);
    all->n = (int)(c->threads < MOST_LANES ? c->threads : MOST_LANES);
    size_t bytes = (size_t)all->n * 2 * BUFFER;
    TRY(CUDA(cudaHostAlloc((void **)&all->pinned, bytes, cudaHostAllocDefault)));
    all->room = bytes > REACH_ROOM ? (int64_t)bytes : REACH_ROOM;
    TRY(CUDA(cudaMalloc((void **)&all->device, (size_t)all->room)));
    for (int i = 0; i < all->n; i++) {
        struct lane *l = &all->lane[i];
        l->index = i;
        TRY(CUDA(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking)));
        for (int b = 0; b < 2; b++) {
            l->pinned[b] = all->pinned + (2 * i + b) * (size_t)BUFFER;
            l->device[b] = all->device + (2 * i + b) * (size_t)BUFFER;
            TRY(CUDA(cudaEventCreateWithFlags(&l->ready[b], cudaEventDisableTiming)));
        }
    }
done:
    return err;
}

void uni_cuda_lanes_close(struct uni_cuda *c)
{
    struct uni_cuda_lanes *all = c->lanes;
    if (!all)
        return;
    for (int i = 0; i < all->n; i++) {
        if (all->lane[i].stream)
            cudaStreamDestroy(all->lane[i].stream);
        for (int b = 0; b < 2; b++)
            if (all->lane[i].ready[b])
                cudaEventDestroy(all->lane[i].ready[b]);
    }
    cudaFree(all->device); /* waits for all copies */
    cudaFreeHost(all->pinned);
    free(all);
    c->lanes = NULL;
}

int uni_cuda_move(struct mover *m)
{
    struct lane *lane = m->c->lanes->lane;
    m->lanes = m->lanes ? m->lanes : m->c->lanes->n;
    m->lanes = m->chunks < m->lanes ? (int)m->chunks : m->lanes;
    for (int i = 0; i < m->lanes; i++) {
        lane[i].all = m;
        lane[i].err = 0;
        lane[i].started = i > 0 && pthread_create(&lane[i].thread, NULL, run_lane, &lane[i]) == 0;
    }
    for (int i = 0; i < m->lanes; i++)
        if (!lane[i].started)
            run_lane(&lane[i]);
    for (int i = 0; i < m->lanes; i++)
        if (lane[i].started)
            pthread_join(lane[i].thread, NULL);
    for (int i = 0; i < m->lanes; i++)
        if (lane[i].err)
            return uni_cuda_lib->fail(lane[i].err, "%s", lane[i].sentence);
    return UNI_OK;
}

/* ---- tasks on host threads ------------------------------------------------------------------------------------------------ */

struct tasks {
    int64_t n, next;
    void (*task)(void *, int64_t);
    void *context;
};

static void *run_tasks(void *context)
{
    struct tasks *t = (struct tasks *)context;
    for (int64_t i; (i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->n;)
        t->task(t->context, i);
    return NULL;
}

int uni_cuda_each(struct uni_backend *b, int64_t n, void (*task)(void *, int64_t), void *context)
{
    struct tasks t = {n, 0, task, context};
    pthread_t thread[MOST_LANES];
    int threads = 0;
    while (threads < MOST_LANES - 1 && threads + 1 < n && threads + 1 < b->threads &&
           pthread_create(&thread[threads], NULL, run_tasks, &t) == 0)
        threads++;
    run_tasks(&t);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return UNI_OK;
}

/* ---- in ------------------------------------------------------------------------------------------------------------------ */

static void gather(const struct mover *m, float *to, int64_t from, int64_t n)
{
    const struct uni_cuda_view *v = &m->c->v;
    const uint32_t *row = m->c->p->row + from;
    const struct uni_matrix *s = m->source;
    int plain = s->dtype == UNI_FLOAT32 && s->col_stride == 4;
    for (int64_t i = 0; i < n; i++, to += v->Dz) {
        if (plain && i + 8 < n) /* the rows of a level may lie anywhere */
            for (int64_t b = 0; b < 4 * v->D; b += 64)
                __builtin_prefetch((const char *)s->data + row[i + 8] * s->row_stride + b);
        if (plain)
            memcpy(to, (const char *)s->data + row[i] * s->row_stride, (size_t)v->D * sizeof *to);
        else
            uni_cuda_lib->matrix_row(to, s, row[i]);
        for (int d = v->D; d < v->Dz; d++)
            to[d] = 0;
    }
}

static int send(struct lane *l)
{
    int err = 0, b = 0, turn = 0;
    const struct mover *m = l->all;
    struct uni_cuda_view *v = &m->c->v;
    for (int64_t i = l->index; i < m->chunks; i += m->lanes, turn++) {
        int64_t from = i * m->tiles, n = v->N_all - from < m->tiles ? v->N_all - from : m->tiles;
        b = turn & 1;
        TRY(uni_cuda_cancelled(m));
        if (m->c->host_Z.at) { /* they do not fit the card: their place is here */
            gather(m, (float *)m->c->host_Z.at + from * v->Dz, from, n);
            continue;
        }
        if (turn >= 2)
            TRY(CUDA(cudaEventSynchronize(l->ready[b])));
        gather(m, (float *)l->pinned[b], from, n);
        TRY(CUDA(cudaMemcpyAsync(v->Z + from * v->Dz, l->pinned[b], (size_t)(n * v->Dz) * sizeof(float), cudaMemcpyHostToDevice,
                                 l->stream)));
        TRY(CUDA(cudaEventRecord(l->ready[b], l->stream)));
    }
done:
    return uni_cuda_settled(l, err);
}

int uni_cuda_rows_in(struct uni_cuda *c, const struct uni_matrix *source)
{
    struct mover m = {};
    m.c = c;
    m.source = source;
    if (c->p->reached)
        return uni_cuda_take_rows(&m);
    m.work = send;
    m.tiles = BUFFER / 4 / c->v.Dz;
    m.chunks = (c->v.N_all + m.tiles - 1) / m.tiles;
    return uni_cuda_move(&m);
}

/* ---- out ----------------------------------------------------------------------------------------------------------------- */

static void chunk_rows(const struct mover *m, int64_t chunk, uint32_t *from, uint32_t *to, int64_t *row, int64_t *rows)
{
    const struct uni_cuda_tile *tile = m->c->lists.tile;
    *from = (uint32_t)(chunk * m->tiles);
    *to = *from + (uint32_t)m->tiles < (uint32_t)m->c->v.tiles ? *from + (uint32_t)m->tiles : (uint32_t)m->c->v.tiles;
    *row = tile[*from].row;
    *rows = tile[*to - 1].row + (tile[*to - 1].packed & 31) - *row;
}

static void scatter(const struct mover *m, const float *from, int64_t chunk)
{
    uint32_t first, last;
    int64_t row, rows;
    chunk_rows(m, chunk, &first, &last, &row, &rows);
    for (int64_t i = 0; i < rows; i++)
        memcpy(m->dst + m->c->p->row[row + i] * m->width, from + i * m->width, (size_t)m->width * sizeof *from);
}

int uni_cuda_make_rows(const struct lane *l, int64_t chunk, float *to, int64_t *row, int64_t *rows)
{
    const struct mover *m = l->all;
    struct uni_cuda_pass pass = {};
    chunk_rows(m, chunk, &pass.from, &pass.to, &pass.row_from, rows);
    *row = pass.row_from;
    pass.corrected = m->corrected;
    pass.out = to;
    const int tiles = (int)(pass.to - pass.from);
    if (m->what == UNI_CELLS_R)
        return uni_cuda_assignments(m->c, &pass, l->stream);
    return m->c->fast.kt ? uni_cuda_assign_fast(m->c, &pass, 1 + tiles / 32, l->stream)
                         : uni_cuda_assign_plain(m->c, &pass, 1 + tiles / 4, l->stream);
}

static int make_chunk(struct lane *l, int64_t chunk, int b)
{
    int err = 0;
    const struct mover *m = l->all;
    int64_t row, rows;
    TRY(uni_cuda_make_rows(l, chunk, (float *)l->device[b], &row, &rows));
    TRY(CUDA(cudaMemcpyAsync(l->pinned[b], l->device[b], (size_t)(rows * m->width) * sizeof(float), cudaMemcpyDeviceToHost,
                             l->stream)));
    TRY(CUDA(cudaEventRecord(l->ready[b], l->stream)));
done:
    return err;
}

static int fetch(struct lane *l)
{
    int err = 0, turn = 0;
    const struct mover *m = l->all;
    int64_t last = -1;
    for (int64_t i = l->index; i < m->chunks; i += m->lanes, turn++) {
        TRY(uni_cuda_cancelled(m));
        TRY(make_chunk(l, i, turn & 1));
        if (last >= 0) {
            TRY(CUDA(cudaEventSynchronize(l->ready[(turn + 1) & 1])));
            scatter(m, (const float *)l->pinned[(turn + 1) & 1], last);
        }
        last = i;
    }
    if (last >= 0) {
        TRY(CUDA(cudaEventSynchronize(l->ready[(turn + 1) & 1])));
        scatter(m, (const float *)l->pinned[(turn + 1) & 1], last);
    }
done:
    return uni_cuda_settled(l, err);
}

/* Cells that take no part: as they came, or nothing. */
static int skipped_out(struct uni_cuda *c, enum uni_cells what, float *dst)
{
    int err = 0;
    const struct uni_problem *p = c->p;
    for (int64_t i = p->N; i < p->N_all; i++) {
        if (what == UNI_CELLS_R)
            memset(dst + p->row[i] * p->K, 0, (size_t)p->K * sizeof *dst);
        else
            TRY(CUDA(cudaMemcpyAsync(dst + p->row[i] * p->D, c->v.Z + i * c->v.Dz, (size_t)p->D * sizeof *dst, cudaMemcpyDefault,
                                     c->stream))); /* Z may lie on the host */
    }
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
done:
    return err;
}

static void blocks_out(const struct uni_problem *p, int32_t *dst)
{
    for (int64_t i = p->N; i < p->N_all; i++)
        dst[p->row[i]] = -1;
    for (int64_t i = 0; i < p->G * p->Q; i++)
        for (int64_t j = p->piece[i]; j < p->piece[i + 1]; j++)
            dst[p->row[j]] = (int32_t)(i % p->Q);
}

/* *reached: the card writes to the caller's array itself. Pinned memory that is aligned to nothing is the threads'. */
static int find_dst(const struct mover *m, int *reached)
{
    int64_t device;
    enum uni_where where = uni_cuda_lib->where(m->dst, m->c->v.N_all * m->width * 4, &device);
    const int aligned = (uintptr_t)m->dst % 4 == 0;
    *reached = aligned && (where == UNI_PINNED || where == UNI_MANAGED || where == UNI_ON_CARD);
    if (where == UNI_UNSAID)
        return uni_cuda_lib->fail(UNI_DEVICE, "the card failed: its driver cannot say where dst lies");
    if (where == UNI_ON_CARD && !aligned)
        return uni_cuda_lib->fail(UNI_INPUT, "dst lies on the card at an address that is no multiple of 4");
    return UNI_OK;
}

int uni_cuda_rows_out(struct uni_cuda *c, enum uni_cells what, int corrected, void *dst)
{
    int err = 0, reached = 0;
    struct mover m = {};
    m.c = c;
    m.what = what;
    m.corrected = corrected;
    m.dst = (float *)dst;
    m.width = what == UNI_CELLS_R ? c->v.K : what == UNI_CELLS_BLOCK ? 1 : c->v.D;
    TRY(find_dst(&m, &reached));
    if (reached)
        return uni_cuda_put_all(&m);
    if (what == UNI_CELLS_BLOCK) {
        blocks_out(c->p, (int32_t *)dst);
        return UNI_OK;
    }
    m.tiles = BUFFER / 4 / (TILE * m.width);
    m.chunks = (c->v.tiles + m.tiles - 1) / m.tiles;
    m.work = fetch;
    TRY(skipped_out(c, what, m.dst));
    TRY(uni_cuda_move(&m));
done:
    return err;
}
