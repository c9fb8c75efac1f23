/* SPDX-License-Identifier: BSD-3-Clause */
/* Where t-SNE's time goes: every pair of cells. The lanes are of one number whatever the machine's vectors are,
 * nothing is fused and nothing approximated, so that all processors get the same sums.
 */
#include <string.h>

#include "tsne.h"

typedef float lanes __attribute__((vector_size(sizeof(float) * UNI_TSNE_LANES)));

static inline lanes load(const float *from)
{
    lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void take_from(float *to, lanes v)
{
    v = load(to) - v;
    memcpy(to, &v, sizeof v);
}

static float sum_of(lanes v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* What the cells j .. j + UNI_TSNE_LANES - 1 do to two cells: q, q^2 dx, q^2 dy. */
struct two {
    lanes a_q, a_x, a_y, b_q, b_x, b_y;
};

/* A division takes as long as all the rest, and 1/a and 1/b are had from 1/(a b). */
static inline struct two two_of(const struct uni_tsne_tile *t, int64_t i, int64_t j)
{
    struct two s;
    lanes x = load(t->x + j), y = load(t->y + j);
    lanes a_x = t->x[i] - x, a_y = t->y[i] - y, b_x = t->x[i + 1] - x, b_y = t->y[i + 1] - y;
    lanes a = 1.0f + a_x * a_x + a_y * a_y, b = 1.0f + b_x * b_x + b_y * b_y, both = 1.0f / (a * b);
    s.a_q = both * b;
    s.b_q = both * a;
    lanes a_square = s.a_q * s.a_q, b_square = s.b_q * s.b_q;
    s.a_x = a_square * a_x;
    s.a_y = a_square * a_y;
    s.b_x = b_square * b_x;
    s.b_y = b_square * b_y;
    return s;
}

/* Static, and called by a name of its own below: the choice between the builds would be exported otherwise. */
UNI_CLONES static double repulsion(const struct uni_tsne_tile *t)
{
    lanes once = {0}, twice = {0};
    for (int64_t i = t->i; i < t->i_end; i += 2) {
        int64_t own = i / UNI_TSNE_LANES * UNI_TSNE_LANES, j = t->j;
        struct two sum = {{0}, {0}, {0}, {0}, {0}, {0}};
        if (t->j == t->i) { /* every pair once: what comes before has been here, and each of its own lanes comes here itself */
            sum = two_of(t, i, own);
            sum.a_q[i - own] = sum.b_q[i + 1 - own] = 0;
            once += sum.a_q + sum.b_q;
            sum.a_q = sum.b_q = (lanes){0};
            j = own + UNI_TSNE_LANES;
        }
        lanes q = {0};
        for (; j < t->j_end; j += UNI_TSNE_LANES) {
            struct two s = two_of(t, i, j);
            q += s.a_q + s.b_q;
            sum.a_x += s.a_x;
            sum.a_y += s.a_y;
            sum.b_x += s.b_x;
            sum.b_y += s.b_y;
            take_from(t->j_x + j, s.a_x + s.b_x);
            take_from(t->j_y + j, s.a_y + s.b_y);
        }
        twice += q;
        t->i_x[i] += sum_of(sum.a_x);
        t->i_y[i] += sum_of(sum.a_y);
        t->i_x[i + 1] += sum_of(sum.b_x);
        t->i_y[i + 1] += sum_of(sum.b_y);
    }
    return (double)sum_of(once) + 2 * (double)sum_of(twice);
}

UNI_CLONES static void attraction(float pull[2], const float *x, const float *y, int64_t i, const int32_t *other, const float *p,
                                  int64_t n)
{
    lanes along_x = {0}, along_y = {0};
    for (int64_t e = 0; e < n; e += UNI_TSNE_LANES) {
        const int32_t *o = other + e;
        lanes dx = {x[o[0]], x[o[1]], x[o[2]], x[o[3]], x[o[4]], x[o[5]], x[o[6]], x[o[7]]};
        lanes dy = {y[o[0]], y[o[1]], y[o[2]], y[o[3]], y[o[4]], y[o[5]], y[o[6]], y[o[7]]};
        dx = x[i] - dx;
        dy = y[i] - dy;
        lanes pq = load(p + e) / (1.0f + dx * dx + dy * dy);
        along_x += pq * dx;
        along_y += pq * dy;
    }
    pull[0] = sum_of(along_x);
    pull[1] = sum_of(along_y);
}

UNI_CLONES static void squares(float *square, const float *x, const float *Xt, int64_t D, int64_t padded)
{
    for (int64_t j = 0; j < padded; j += UNI_TSNE_LANES) {
        lanes sum = {0};
        for (int64_t d = 0; d < D; d++) {
            lanes apart = x[d] - load(Xt + d * padded + j);
            sum += apart * apart;
        }
        memcpy(square + j, &sum, sizeof sum);
    }
}

double uni_tsne_repulsion(const struct uni_tsne_tile *t)
{
    return repulsion(t);
}

void uni_tsne_attraction(float pull[2], const float *x, const float *y, int64_t i, const int32_t *other, const float *p,
                         int64_t n)
{
    attraction(pull, x, y, i, other, p, n);
}

void uni_tsne_squares(float *square, const float *x, const float *Xt, int64_t D, int64_t padded)
{
    squares(square, x, Xt, D, padded);
}
