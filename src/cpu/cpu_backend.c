/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU backend: what it holds, opened and closed. Its operations are in cpu_passes.c, cpu_sweep.c and cpu_nearest.c. */
#include "cpu_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"

static int64_t up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Fewer clusters or dimensions do not fill a matrix unit's tiles. */
enum { LEAST_TILED = 8 };

static struct uni_shape shape_of(const struct uni_problem *p, const struct uni_cpu_kernels *k)
{
    struct uni_shape s = {.D = p->D,
                          .K = p->K,
                          .Dv = up(p->D, k->width),
                          .Kv = up(p->K, k->width),
                          .Dr = most(up(p->D, k->block_rows), up(p->D, k->width))};
    s.X = p->X;
    s.a = (float)p->penalty_scale;
    s.b = (float)p->penalty_add;
    s.add = p->add_penalties;
    s.Kb = up(p->K, 4);
    s.single = p->single;
    s.shift = p->single;
    for (int64_t i = 0; p->sigma && i < p->K; i++)
        s.shift |= p->sigma[i] < 0.06;
    s.tile_room = k->pack && !s.X && s.K >= LEAST_TILED && s.D >= LEAST_TILED && s.Kv <= MOST_TABLE_ROW;
    s.tiles = s.tile_room && !s.shift; /* a plan does not know sigma, and must know sizes */
    return s;
}

enum { ARRAYS = 33, GATHER_ROWS = 4096 };
static void list_arrays(struct uni_array_row list[ARRAYS], struct uni_cpu *c)
{
    const struct uni_problem *p = c->p;
    const struct uni_shape *s = &c->shape;
    const struct uni_layout *l = &c->layout;
    const struct uni_array_row rows[ARRAYS] = {UNI_ARRAY(c->Z, p->N_all * s->D),
                                               UNI_ARRAY(c->base, p->N * s->Kb * (s->single ? 4 : 2)),
                                               UNI_ARRAY(c->L, most(p->N, p->N_all / 4 + 1)),
                                               UNI_ARRAY(c->hands, uni_cpu_holes(p) * s->D),
                                               UNI_ARRAY(c->P, l->n_pieces * s->Kv),
                                               UNI_ARRAY(c->mass, l->n_pieces * s->Kv),
                                               UNI_ARRAY(c->slots, l->n_slots * s->Kv),
                                               UNI_ARRAY(c->O, p->G * s->Kv),
                                               UNI_ARRAY(c->r, s->Kv),
                                               UNI_ARRAY(c->level_O, p->V > 1 || p->jacobi || p->redraw ? p->B * s->Kv : 0),
                                               UNI_ARRAY(c->block_r, p->Q * s->Kv),
                                               UNI_ARRAY(c->came, l->n_steps * s->Kv),
                                               UNI_ARRAY(c->parts, l->n_parts * s->Dr * s->Kv),
                                               UNI_ARRAY(c->whole, c->threads * s->Dr * s->Kv),
                                               UNI_ARRAY(c->Yt, s->D * s->Kv + 2 * s->Kv),
                                               UNI_ARRAY(c->packed_Y, uni_packed_floats(s, s->D, s->Kv)),
                                               UNI_ARRAY(c->fit, 2 * most(l->n_tasks, l->n_steps + 1)),
                                               UNI_ARRAY(c->scratch, c->threads * c->scratch_floats),
                                               UNI_ARRAY(c->sigma, s->Kv),
                                               UNI_ARRAY(c->nearest_rows, UNI_SAMPLE),
                                               UNI_ARRAY(c->nearest_first, p->K + 1),
                                               UNI_ARRAY(c->minus_slope, p->X * s->Kv * s->Dv),
                                               UNI_ARRAY(c->group_S, p->by_level || p->X ? GROUPS_AT_ONCE * p->K * p->D : 0),
                                               UNI_ARRAY(c->group_mass, p->X ? p->G * s->Kv : 0),
                                               UNI_ARRAY(c->tables, uni_cpu_past(p) * p->G * s->Kv),
                                               UNI_ARRAY(c->row_block, p->redraw ? p->N : 0),
                                               UNI_ARRAY(c->next_block, p->redraw ? p->N : 0),
                                               UNI_ARRAY(c->block_rows, p->redraw ? p->N : 0),
                                               UNI_ARRAY(c->block_at, p->redraw ? p->G * (p->blocks + 1) : 0),
                                               UNI_ARRAY(c->block_P, p->redraw ? p->G * p->blocks * s->Kv : 0),
                                               UNI_ARRAY(c->block_mass, p->redraw ? p->G * p->blocks * s->Kv : 0),
                                               UNI_ARRAY(c->group_fit, p->redraw ? 2 * p->G : 0),
                                               UNI_ARRAY(c->gather, p->redraw ? c->threads * c->gather_floats : 0)};
    memcpy(list, rows, sizeof rows);
}

static int64_t W_floats(const struct uni_shape *s)
{
    return up(s->Kv * s->Dv, 16) + up(uni_packed_floats(s, s->K, s->Dv), 16);
}

static int64_t scratch_floats(const struct uni_shape *s)
{
    return up(uni_scratch_floats(s), 16) + W_floats(s) + up(s->Kv, 16) + up(s->Dr * s->Kv, 16) + 16;
}

float *uni_cpu_scratch(const struct uni_cpu *c, int thread)
{
    return c->scratch + thread * c->scratch_floats;
}

float *uni_cpu_minus_W(const struct uni_cpu *c, int thread)
{
    return uni_cpu_scratch(c, thread) + up(uni_scratch_floats(&c->shape), 16);
}

float *uni_cpu_weighted_P(const struct uni_cpu *c, int thread)
{
    return uni_cpu_minus_W(c, thread) + W_floats(&c->shape);
}

float *uni_cpu_run_S(const struct uni_cpu *c, int thread)
{
    return uni_cpu_weighted_P(c, thread) + up(c->shape.Kv, 16);
}

struct uni_run uni_cpu_run(const struct uni_cpu *c, int64_t i)
{
    const struct uni_cut *cut = &c->layout.run[i];
    const struct uni_problem *p = c->p;
    struct uni_run run = {.Z = c->Z + cut->first * c->shape.D,
                          .base = c->base + cut->first * c->shape.Kb * (c->shape.single ? 4 : 2),
                          .L = c->L + cut->first,
                          .n = cut[1].first - cut->first,
                          .weight = p->weight ? p->weight + cut->first : NULL,
                          .x = p->X ? p->x + cut->first : NULL,
                          .x_row = p->N,
                          .minus_slope = c->minus_slope};
    if (p->jacobi) {
        run.recipe = &c->recipe;
        run.at = c->layout.piece[cut->piece].group * c->shape.Kv;
    }
    if (p->redraw)
        run.block = c->row_block + cut->first;
    return run;
}

const float *uni_cpu_run_P(const struct uni_cpu *c, int64_t i)
{
    const struct uni_cut *cut = &c->layout.run[i];
    return c->p->redraw ? c->block_P + c->layout.piece[cut->piece].group * c->p->blocks * c->shape.Kv
                        : c->P + cut->piece * c->shape.Kv;
}

float *uni_cpu_run_sum(const struct uni_cpu *c, int64_t i)
{
    const struct uni_cut *run = &c->layout.run[i];
    return run->slot < 0 ? c->mass + run->piece * c->shape.Kv : c->slots + run->slot * c->shape.Kv;
}

int64_t uni_cpu_join(const struct uni_cpu *c, int64_t i, int64_t end, struct uni_run *run, struct uni_part part[MOST_JOINED])
{
    const int32_t group = c->layout.piece[c->layout.run[i].piece].group;
    int64_t n = 0, rows = 0;
    *run = uni_cpu_run(c, i);
    for (; n < MOST_JOINED && i + n < end; n++) {
        const struct uni_cut *cut = &c->layout.run[i + n];
        if (c->layout.piece[cut->piece].group != group || rows + cut[1].first - cut->first > RUN_ROWS)
            break;
        part[n] = (struct uni_part){cut[1].first - cut->first, uni_cpu_run_P(c, i + n), uni_cpu_run_sum(c, i + n)};
        rows += part[n].n;
    }
    run->n = rows;
    return n;
}

void uni_cpu_add_runs(const struct uni_cpu *c, int64_t piece)
{
    const struct uni_piece *q = &c->layout.piece[piece];
    float *mass = c->mass + piece * c->shape.Kv;
    if (q->runs == 1)
        return;
    const float *slot = c->slots + c->layout.run[q->run].slot * c->shape.Kv;
    for (int64_t k = 0; k < c->shape.Kv; k++) {
        double sum = 0;
        for (int64_t i = 0; i < q->runs; i++)
            sum += slot[i * c->shape.Kv + k];
        mass[k] = (float)sum;
    }
}

void uni_cpu_give_O(const struct uni_cpu *c, double *O)
{
    for (int64_t g = 0; g < c->p->G; g++)
        memcpy(O + g * c->shape.K, c->O + g * c->shape.Kv, (size_t)c->shape.K * sizeof *O);
}

static void run_each(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    (void)thread;
    c->each(c->each_context, task);
}

static int cpu_each(struct uni_backend *b, int64_t n, void (*task)(void *, int64_t), void *context)
{
    struct uni_cpu *c = b->state;
    c->each = task;
    c->each_context = context;
    return uni_pool_run(c->pool, run_each, c, n);
}

static int64_t threads_of(const struct uni_problem *p)
{
    return uni_pool_size(p->threads);
}

static int cpu_bytes(const struct uni_problem *p, const int64_t *group_cells, struct uni_takes *takes)
{
    struct uni_array_row list[ARRAYS];
    struct uni_cpu c = {.p = p, .kernels = uni_cpu_choose(), .threads = threads_of(p)};
    if (!c.kernels)
        return UNI_BACKEND; /* it has said why */
    c.shape = shape_of(p, c.kernels);
    c.scratch_floats = scratch_floats(&c.shape);
    c.gather_floats = uni_cpu_gather_floats(&c.shape);
    uni_layout_bound(&c.layout, p, group_cells);
    list_arrays(list, &c);
    int64_t layout = uni_layout_bytes(&c.layout, p), arrays = uni_arena_bytes(list, ARRAYS);
    *takes = (struct uni_takes){.host = layout < 0 || arrays < 0 ? -1 : layout + arrays};
    return UNI_OK;
}

/* Rows of the caller lie anywhere: some are asked for before they are needed. */
static void gather_rows(void *context, int64_t task, int thread)
{
    enum { AHEAD = 12 };
    struct uni_cpu *c = context;
    int64_t D = c->shape.D, end = (task + 1) * GATHER_ROWS < c->p->N_all ? (task + 1) * GATHER_ROWS : c->p->N_all;
    (void)thread;
    for (int64_t i = task * GATHER_ROWS; i < end; i++) {
        if (i + AHEAD < end)
            uni_matrix_fetch(c->source, c->p->row[i + AHEAD]);
        uni_matrix_row(c->Z + i * D, c->source, c->p->row[i]);
    }
}

static void cpu_close(struct uni_backend *b)
{
    struct uni_cpu *c = b->state;
    if (!c)
        return;
    uni_pool_close(c->own_pool);
    uni_layout_close(&c->layout);
    uni_arena_close(&c->arena);
    free(c);
    b->state = NULL;
}

static void count_groups(int64_t *cells, const struct uni_problem *p)
{
    for (int64_t g = 0; g < p->G; g++)
        cells[g] = p->piece[(g + 1) * p->Q] - p->piece[g * p->Q];
}

static int cpu_open(struct uni_backend *b, const struct uni_problem *p, const struct uni_matrix *source)
{
    int err = 0;
    struct uni_array_row list[ARRAYS];
    struct uni_cpu *c = calloc(1, sizeof *c);
    int64_t *cells = calloc((size_t)p->G, sizeof *cells);
    b->state = c;
    if (!c || !cells)
        TRY(uni_fail(UNI_MEMORY, "no memory for the cpu backend: %zu bytes asked for", sizeof *c + (size_t)p->G * 8));
    c->p = p;
    c->kernels = uni_cpu_choose();
    if (!c->kernels)
        TRY(UNI_BACKEND);
    c->pool = p->pool ? p->pool : (c->own_pool = uni_pool_open(threads_of(p), p->cancel));
    if (!c->pool)
        TRY(uni_fail(UNI_MEMORY, "no memory for %lld threads", (long long)threads_of(p)));
    c->threads = uni_pool_threads(c->pool);
    c->shape = shape_of(p, c->kernels);
    c->scratch_floats = scratch_floats(&c->shape);
    c->gather_floats = uni_cpu_gather_floats(&c->shape);
    count_groups(cells, p);
    uni_layout_bound(&c->layout, p, cells);
    TRY(uni_layout_open(&c->layout, p));
    list_arrays(list, c);
    TRY(uni_arena_open(&c->arena, list, ARRAYS, "the cells"));
    c->bias = c->Yt + c->shape.D * c->shape.Kv;
    c->past = uni_cpu_past(p);
    for (int64_t k = 0; k < p->K; k++)
        c->sigma[k] = (float)p->sigma[k];
    c->source = source;
    TRY(uni_pool_run(c->pool, gather_rows, c, p->N_all / GATHER_ROWS + 1));
    c->source = NULL;
    b->threads = c->threads;
    snprintf(b->name, sizeof b->name, "cpu (%s)", c->kernels->name);
done:
    free(cells);
    if (err)
        cpu_close(b);
    return err;
}

void uni_cpu_backend(struct uni_backend *b)
{
    *b = (struct uni_backend){.open = cpu_open,
                              .bytes = cpu_bytes,
                              .nearest = uni_cpu_nearest,
                              .assign = uni_cpu_assign,
                              .sweep = uni_cpu_sweep,
                              .moments = uni_cpu_moments,
                              .slopes = uni_cpu_slopes,
                              .read = uni_cpu_read,
                              .take = uni_cpu_take,
                              .each = cpu_each,
                              .close = cpu_close,
                              .name = "cpu",
                              .threads = uni_cpu_count()};
}

void uni_cpu_describe(struct uni_backend_info *info)
{
    const struct uni_cpu_kernels *kernels = uni_cpu_choose();
    info->name = "cpu";
    info->usable = kernels != NULL;
    if (kernels)
        snprintf(info->detail, sizeof info->detail, "%s, %lld CPU%s", kernels->name, (long long)uni_cpu_count(),
                 uni_cpu_count() == 1 ? "" : "s");
    else
        snprintf(info->detail, sizeof info->detail, "%.150s", uni_last_error());
}
