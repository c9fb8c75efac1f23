/* SPDX-License-Identifier: BSD-3-Clause */
/* The result in place: corrected where the cells lie, then moved to the caller's order along the cycles of that permutation. */
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

/* Row i of Z belongs at row[i]. Every cycle is walked once, one row in hand. */
static void reorder(const struct uni_cpu *c)
{
    const int64_t N = c->p->N_all, D = c->shape.D;
    const size_t bytes = (size_t)D * sizeof(float);
    unsigned char *placed = c->placed;
    float *hand = uni_cpu_scratch(c, 0), *other = hand + D;
    memset(placed, 0, (size_t)(N + 7) / 8);
    for (int64_t start = 0; start < N; start++) {
        if (placed[start / 8] >> (start % 8) & 1)
            continue;
        int64_t at = c->p->row[start];
        memcpy(hand, c->Z + start * D, bytes);
        while (at != start) {
            memcpy(other, c->Z + at * D, bytes);
            memcpy(c->Z + at * D, hand, bytes);
            memcpy(hand, other, bytes);
            placed[at / 8] |= (unsigned char)(1 << (at % 8));
            at = c->p->row[at];
        }
        memcpy(c->Z + start * D, hand, bytes);
    }
}

int uni_cpu_take(struct uni_backend *b, const struct uni_shift *shift, const float **rows)
{
    struct uni_cpu *c = b->state;
    c->shift = shift ? *shift : (struct uni_shift){0};
    uni_cpu_pack_slopes(c);
    int err = shift ? uni_pool_run(c->pool, correct_task, c, c->layout.n_tasks) : UNI_OK;
    if (!err) {
        reorder(c);
        *rows = c->Z;
    }
    return err;
}
