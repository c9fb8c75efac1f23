/* SPDX-License-Identifier: BSD-3-Clause */
/* The result in place: corrected where the cells lie, then moved to the caller's order along the cycles of that permutation. A cycle
   of millions of rows is many walks: at as many places a row is taken into hand before any walk begins, and each walks from there to
   the next such hole. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

static void correct_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *t = &c->layout.task[task];
    float *minus_W = uni_cpu_minus_W(c, thread);
    int64_t group = -1;
    for (int64_t i = t->first; i < t->first + t->n; i++) {
        struct uni_run run = uni_cpu_run(c, i);
        int64_t g = c->layout.piece[c->layout.run[i].piece].group;
        if (g != group)
            uni_cpu_pack_minus_W(c, g, minus_W);
        group = g;
        c->kernels->correct(&c->shape, &run, uni_cpu_run_P(c, i), minus_W, NULL, c->Z + c->layout.run[i].first * c->shape.D,
                            uni_cpu_scratch(c, thread));
    }
}

enum { AT_ONCE = 8, MOST_HOLES = 2048, ROWS_A_HOLE = 64 };

int64_t uni_cpu_holes(const struct uni_problem *p)
{
    return p->N_all / ROWS_A_HOLE < MOST_HOLES ? p->N_all / ROWS_A_HOLE : MOST_HOLES;
}

/* (N_all) 1: a row that is in its place already, or a hole. Where L was, which nothing asks for any more. */
static unsigned char *placed(const struct uni_cpu *c)
{
    return (unsigned char *)c->L;
}

static int64_t hole_at(const struct uni_cpu *c, int64_t i)
{
    return c->p->N_all * i / uni_cpu_holes(c->p);
}

static void fetch_row(const struct uni_cpu *c, int64_t row)
{
    const char *at = (const char *)(c->Z + row * c->shape.D), *end = (const char *)(c->Z + (row + 1) * c->shape.D);
    __builtin_prefetch(&c->p->row[row]);
    __builtin_prefetch(placed(c) + row, 1);
    for (; at < end; at += 64)
        __builtin_prefetch(at, 1);
}

/* The row in hand takes its place, and the one that lay there is in hand. */
static void exchange(float *row, float **hand, float **spare, int64_t D)
{
    float *lifted = *spare;
    memcpy(lifted, row, (size_t)D * sizeof *row);
    memcpy(row, *hand, (size_t)D * sizeof *row);
    *spare = *hand;
    *hand = lifted;
}

/* Some walks side by side, so that each waits for memory while the others go on. Row i of Z belongs at row[i]. */
static void walk_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const uint32_t *row = c->p->row;
    const int64_t D = c->shape.D, first = task * AT_ONCE, holes = uni_cpu_holes(c->p);
    int64_t at[AT_ONCE], n = holes - first < AT_ONCE ? holes - first : AT_ONCE;
    float *hand[AT_ONCE], *spare = uni_cpu_scratch(c, thread);
    for (int64_t i = 0; i < n; i++) {
        hand[i] = c->hands + (first + i) * D;
        at[i] = row[hole_at(c, first + i)];
        fetch_row(c, at[i]);
    }
    while (n > 0)
        for (int64_t i = 0; i < n; i++) {
            if (placed(c)[at[i]]) { /* a hole: the end of this walk */
                memcpy(c->Z + at[i] * D, hand[i], (size_t)D * sizeof(float));
                n--;
                at[i] = at[n];
                hand[i] = hand[n];
                i--;
                continue;
            }
            exchange(c->Z + at[i] * D, &hand[i], &spare, D);
            placed(c)[at[i]] = 1;
            at[i] = row[at[i]];
            fetch_row(c, at[i]);
        }
}

/* The cycles without a hole, one row in hand. */
static void walk_the_rest(const struct uni_cpu *c)
{
    const uint32_t *row = c->p->row;
    const int64_t N = c->p->N_all, D = c->shape.D;
    float *hand = uni_cpu_scratch(c, 0), *spare = hand + D;
    for (int64_t start = 0; start < N; start++) {
        if (placed(c)[start] || row[start] == start)
            continue;
        memcpy(hand, c->Z + start * D, (size_t)D * sizeof *hand);
        for (int64_t at = row[start]; at != start; at = row[at]) {
            exchange(c->Z + at * D, &hand, &spare, D);
            placed(c)[at] = 1;
        }
        memcpy(c->Z + start * D, hand, (size_t)D * sizeof *hand);
    }
}

static int reorder(struct uni_cpu *c)
{
    const int64_t D = c->shape.D, holes = uni_cpu_holes(c->p);
    memset(placed(c), 0, (size_t)c->p->N_all);
    for (int64_t i = 0; i < holes; i++) {
        memcpy(c->hands + i * D, c->Z + hole_at(c, i) * D, (size_t)D * sizeof(float));
        placed(c)[hole_at(c, i)] = 1;
    }
    int err = uni_pool_run(c->pool, walk_task, c, (holes + AT_ONCE - 1) / AT_ONCE);
    if (!err)
        walk_the_rest(c);
    return err;
}

int uni_cpu_take(struct uni_backend *b, const struct uni_shift *shift, const float **rows)
{
    int err = 0;
    struct uni_cpu *c = b->state;
    c->shift = shift ? *shift : (struct uni_shift){0};
    uni_cpu_pack_slopes(c);
    if (shift)
        TRY(uni_pool_run(c->pool, correct_task, c, c->layout.n_tasks));
    uni_arena_give_back(c->base, c->p->N * c->shape.Kb * (c->shape.single ? 4 : 2)); /* a third of all */
    TRY(reorder(c));
    *rows = c->Z;
done:
    return err;
}
