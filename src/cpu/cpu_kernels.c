/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic on runs of cells, in vector extensions. Built once per instruction set, with that set's header as UNI_VEC. */
#include "cpu_kernels.h"

#include <math.h>
#include <string.h>

#include "../formula.h"
#include UNI_VEC
#include "cpu_product.h"

/* ---- rows of base -------------------------------------------------------------------------------------------------------- */

/* A vector of a base row. The row's last may be half a vector, and what lies behind it belongs to the next cell. */
INLINE vf base_whole(const void *row, int64_t k, int single)
{
    return single ? load((const float *)row + k) : half_load((const uint16_t *)row + k);
}

INLINE vf base_part(const void *row, int64_t k, int single)
{
    return single ? load_low((const float *)row + k) : half_load_low((const uint16_t *)row + k);
}

INLINE void base_put(void *row, int64_t k, int64_t left, vf v, int single)
{
    if (single && left >= WIDTH)
        store((float *)row + k, v);
    else if (single)
        store_low((float *)row + k, v);
    else if (left >= WIDTH)
        half_store((uint16_t *)row + k, v);
    else
        half_store_low((uint16_t *)row + k, v);
}

INLINE const void *base_row(const struct uni_shape *s, const void *base, int64_t i, int single)
{
    return (const char *)base + i * s->Kb * (single ? 4 : 2);
}

/* 1 / s, and 0 for a row whose weights all vanish. */
INLINE v4 reciprocal4(v4 s)
{
    v4 inverse = 1.0f / s;
    return (v4)((s > 0.0f) & (typeof(s > 0.0f))inverse);
}

/* ---- R ------------------------------------------------------------------------------------------------------------------- */

/* CELLS rows of R (Kv apart) = base P / s. */
INLINE void r_rows(const int CELLS, const struct uni_shape *s, const void *base, int64_t first, const float *P, float *R, const int single)
{
    const void *row[4];
    vf sum[4] = {{0}, {0}, {0}, {0}};
    int64_t whole = s->Kb / WIDTH * WIDTH, rest = s->Kb - whole;
#pragma GCC unroll 4
    for (int c = 0; c < CELLS; c++)
        row[c] = base_row(s, base, first + c, single);
    for (int64_t k = 0; k < whole; k += WIDTH) {
        vf p = load(P + k);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf r = base_whole(row[c], k, single) * p;
            store(R + c * s->Kv + k, r);
            sum[c] += r;
        }
    }
    if (rest) {
        vf p = load(P + whole);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf r = base_part(row[c], whole, single) * p;
            store(R + c * s->Kv + whole, r);
            sum[c] += r;
        }
    }
    v4 inverse = reciprocal4(add_across4(sum[0], sum[1], sum[2], sum[3]));
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++)
            store(R + c * s->Kv + k, load(R + c * s->Kv + k) * inverse[c]);
    }
}

INLINE void r_tile_of(const struct uni_shape *s, const void *base, int64_t n, const float *P, float *R, const int single)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        r_rows(4, s, base, i, P, R + i * s->Kv, single);
    for (; i < n; i++)
        r_rows(1, s, base, i, P, R + i * s->Kv, single);
}

/* R (n,Kv) of the tile that begins at base. */
static void r_tile(const struct uni_shape *s, const void *base, int64_t n, const float *P, float *R)
{
    if (s->single)
        r_tile_of(s, base, n, P, R, 1);
    else
        r_tile_of(s, base, n, P, R, 0);
}

static const void *tile_base(const struct uni_shape *s, const struct uni_run *run, int64_t first)
{
    return base_row(s, run->base, first, s->single);
}

/* Rows of D floats into rows of Dv, padded with zeros. Reads one vector past the last row at most: every array has that slack. */
static void pad_rows(const struct uni_shape *s, const float *Z, int64_t n, float *z)
{
    vi lane;
    for (int i = 0; i < WIDTH; i++)
        lane[i] = i;
    int64_t last = s->Dv - WIDTH;
    vi keep = lane < (int32_t)(s->D - last);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t d = 0; d < last; d += WIDTH)
            store(z + i * s->Dv + d, load(Z + i * s->D + d));
        store(z + i * s->Dv + last, (vf)((vi)load(Z + i * s->D + last) & keep));
    }
}

/* z (n,Dv) = Z - R W */
static void corrected_tile(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, const float *P, const float *minus_W,
                           float *R, float *z)
{
    r_tile(s, tile_base(s, run, first), n, P, R);
    pad_rows(s, run->Z + first * s->D, n, z);
    product(z, s->Dv, n, s->Dv, (struct factor){R, s->Kv, 1}, minus_W, s->Dv, s->K, 1);
}

/* ---- assign -------------------------------------------------------------------------------------------------------------- */

static void normalise_row(float *z, int64_t Dv)
{
    vf squares = splat(0);
    for (int64_t d = 0; d < Dv; d += WIDTH)
        squares += load(z + d) * load(z + d);
    float sum = add_across(squares);
    if (!(sum > 1e-30f && sum < 1e30f)) { /* squares may have over- or underflowed: scale by the largest entry first */
        vf most = splat(0);
        for (int64_t d = 0; d < Dv; d += WIDTH)
            most = largest(most, largest(load(z + d), -load(z + d)));
        float scale = largest_across(most);
        if (!(scale > 0))
            return;
        squares = splat(0);
        for (int64_t d = 0; d < Dv; d += WIDTH) {
            vf part = load(z + d) / scale;
            store(z + d, part);
            squares += part * part;
        }
        sum = add_across(squares);
    }
    float scale = 1 / sqrtf(sum);
    for (int64_t d = 0; d < Dv; d += WIDTH)
        store(z + d, load(z + d) * scale);
}

/* One row of logits v (base 2, bias not yet in) -> base, stored; added to sum. Returns the sum of 2^(v - most). */
INLINE float base_of_row(const struct uni_shape *s, float *v, const float *bias, void *base, float *sum, float *most, const int single,
                         const int shift)
{
    vf top = splat(-HUGE_VALF), total = splat(0);
    if (shift) {
        for (int64_t k = 0; k < s->Kv; k += WIDTH)
            top = largest(top, load(v + k) + load(bias + k));
        *most = largest_across(top);
    } else {
        *most = 0;
    }
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf e = exp2_below(load(v + k) + load(bias + k) - *most);
        e = choose(load(bias + k) > -1e29f, e, splat(0));
        store(v + k, e);
        total += e;
    }
    float mass = add_across(total), scale = BASE_SCALE / mass;
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf b = load(v + k) * scale;
        if (k < s->Kb)
            base_put(base, k, s->Kb - k, b, single);
        store(sum + k, load(sum + k) + b);
    }
    return mass;
}

INLINE void base_of_tile(const struct uni_shape *s, float *v, int64_t n, const float *bias, void *base, float *sum, float *L, const int single,
                         const int shift)
{
    float most[TILE + WIDTH], mass[TILE + WIDTH];
    for (int64_t i = 0; i < n; i++)
        mass[i] = base_of_row(s, v + i * s->Kv, bias, (char *)base + i * s->Kb * (single ? 4 : 2), sum, &most[i], single, shift);
    for (int64_t i = n; i < n + WIDTH; i++)
        mass[i] = most[i] = 1;
    for (int64_t i = 0; i < n; i += WIDTH) {
        vf l = natural_log(load(mass + i)) + load(most + i) * 0.693147180559945f;
        store(mass + i, l);
    }
    memcpy(L, mass, (size_t)n * sizeof *L);
}

/* Both parts of the objective for R = base: dist = -sigma (ln base + L), and base = 2^(v - most) / mass is in v, scaled. */
static void fit_of_base(const struct uni_shape *s, const float *e, int64_t n, const float *L, const float *sigma, double *fit)
{
    for (int64_t i = 0; i < n; i++) {
        vf weights = splat(0), entropy = splat(0), total = splat(0);
        for (int64_t k = 0; k < s->Kv; k += WIDTH)
            total += load(e + i * s->Kv + k);
        float mass = add_across(total);
        for (int64_t k = 0; k < s->Kv; k += WIDTH) {
            vf b = load(e + i * s->Kv + k) / mass, weight = load(sigma + k) * b;
            weights += weight;
            entropy += weight * choose(b > 1e-37f, natural_log(largest(b, splat(1e-37f))), splat(0));
        }
        double part = add_across(entropy);
        fit[1] += part;
        fit[0] -= part + (double)add_across(weights) * L[i];
    }
}

static void assign(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *minus_W, const struct uni_centroids *c,
                   float *sum, double *fit, float *scratch)
{
    float *R = scratch, *z = R + TILE * s->Kv;
    memset(sum, 0, (size_t)s->Kv * sizeof *sum);
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        void *base = (char *)run->base + first * s->Kb * (s->single ? 4 : 2);
        if (minus_W)
            corrected_tile(s, run, first, n, P, minus_W, R, z);
        else
            pad_rows(s, run->Z + first * s->D, n, z);
        for (int64_t i = 0; i < n; i++)
            normalise_row(z + i * s->Dv, s->Dv);
        product(R, s->Kv, n, s->Kv, (struct factor){z, s->Dv, 1}, c->Yt, s->Kv, s->D, 0);
        if (s->single)
            base_of_tile(s, R, n, c->bias, base, sum, run->L + first, 1, 1);
        else if (s->shift)
            base_of_tile(s, R, n, c->bias, base, sum, run->L + first, 0, 1);
        else
            base_of_tile(s, R, n, c->bias, base, sum, run->L + first, 0, 0);
        if (fit)
            fit_of_base(s, R, n, run->L + first, c->sigma, fit);
    }
    for (int64_t k = 0; k < s->Kv; k += WIDTH)
        store(sum + k, load(sum + k) * (1 / BASE_SCALE));
}

/* ---- sweep --------------------------------------------------------------------------------------------------------------- */

/* CELLS cells at once: s = base . P, G += base / s; t = base . sP too where the objective is asked for. */
INLINE void sweep_rows(const int CELLS, const struct uni_shape *s, const void *base, int64_t first, const float *P, const float *sP, float *G,
                       float *s_out, float *t_out, const int single, const int fit)
{
    const void *row[4];
    vf sum[4] = {{0}, {0}, {0}, {0}}, weight[4] = {{0}, {0}, {0}, {0}};
    int64_t whole = s->Kb / WIDTH * WIDTH, rest = s->Kb - whole;
#pragma GCC unroll 4
    for (int c = 0; c < CELLS; c++)
        row[c] = base_row(s, base, first + c, single);
    for (int64_t k = 0; k < whole; k += WIDTH) {
        vf p = load(P + k), sp = fit ? load(sP + k) : p;
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf b = base_whole(row[c], k, single);
            sum[c] += b * p;
            if (fit)
                weight[c] += b * sp;
        }
    }
    if (rest) {
        vf p = load(P + whole), sp = fit ? load(sP + whole) : p;
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf b = base_part(row[c], whole, single);
            sum[c] += b * p;
            if (fit)
                weight[c] += b * sp;
        }
    }
    v4 total = add_across4(sum[0], sum[1], sum[2], sum[3]), inverse = reciprocal4(total);
    if (fit) {
        v4 weights = add_across4(weight[0], weight[1], weight[2], weight[3]);
        for (int c = 0; c < CELLS; c++) {
            s_out[c] = total[c];
            t_out[c] = weights[c] * inverse[c];
        }
    }
    for (int64_t k = 0; k < whole; k += WIDTH) {
        vf g = load(G + k);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++)
            g += base_whole(row[c], k, single) * inverse[c];
        store(G + k, g);
    }
    if (rest) {
        vf g = load(G + whole);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++)
            g += base_part(row[c], whole, single) * inverse[c];
        store(G + whole, g);
    }
}

INLINE void sweep_of(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *sP, float *G, float *s_out, float *t_out,
                     const int single, const int fit)
{
    int64_t i = 0;
    for (; i + 4 <= run->n; i += 4)
        sweep_rows(4, s, run->base, i, P, sP, G, s_out + i, t_out + i, single, fit);
    for (; i < run->n; i++)
        sweep_rows(1, s, run->base, i, P, sP, G, s_out + i, t_out + i, single, fit);
}

static void sweep(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *sP, float *G, double *fit, float *scratch)
{
    float *s_out = scratch, *t_out = scratch + RUN_ROWS + WIDTH;
    memset(G, 0, (size_t)s->Kv * sizeof *G);
    if (!fit && !s->single)
        sweep_of(s, run, P, sP, G, s_out, t_out, 0, 0);
    else if (!fit)
        sweep_of(s, run, P, sP, G, s_out, t_out, 1, 0);
    else if (!s->single)
        sweep_of(s, run, P, sP, G, s_out, t_out, 0, 1);
    else
        sweep_of(s, run, P, sP, G, s_out, t_out, 1, 1);
    if (!fit)
        return;
    for (int64_t i = run->n; i < run->n + WIDTH; i++)
        s_out[i] = 1;
    for (int64_t i = 0; i < run->n; i += WIDTH)
        store(s_out + i, natural_log(load(s_out + i)));
    double sum = 0;
    for (int64_t i = 0; i < run->n; i++)
        if (t_out[i] > 0) /* else the row vanished */
            sum += (double)t_out[i] * ((double)s_out[i] - 10.397207708399179 /* ln BASE_SCALE */ + run->L[i]);
    *fit -= sum;
}

static double entropy(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *sigma, float *scratch)
{
    double sum = 0;
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        r_tile(s, tile_base(s, run, first), n, P, scratch);
        for (int64_t i = 0; i < n; i++) {
            vf part = splat(0);
            for (int64_t k = 0; k < s->Kv; k += WIDTH) {
                vf r = load(scratch + i * s->Kv + k);
                part += load(sigma + k) * r * natural_log(largest(r, splat(1e-37f)));
            }
            sum += add_across(part);
        }
    }
    return sum;
}

/* ---- moments, results ---------------------------------------------------------------------------------------------------- */

static void moments(const struct uni_shape *s, const struct uni_run *run, const float *P, float *S, float *scratch)
{
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        r_tile(s, tile_base(s, run, first), n, P, scratch);
        product(S, s->Kv, s->Dr, s->Kv, (struct factor){run->Z + first * s->D, 1, s->D}, scratch, s->Kv, n, first > 0);
    }
}

static void correct(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *minus_W, const int64_t *row, float *dst,
                    float *scratch)
{
    float *z = scratch + TILE * s->Kv;
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        corrected_tile(s, run, first, n, P, minus_W, scratch, z);
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + row[first + i] * s->D, z + i * s->Dv, (size_t)s->D * 4);
    }
}

static void assignments(const struct uni_shape *s, const struct uni_run *run, const float *P, const int64_t *row, float *dst, float *scratch)
{
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        r_tile(s, tile_base(s, run, first), n, P, scratch);
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + row[first + i] * s->K, scratch + i * s->Kv, (size_t)s->K * 4);
    }
}

/* ---- tables -------------------------------------------------------------------------------------------------------------- */

/* (2E + 1) / (O + E + 1), E = share r */
INLINE vf penalty_ratio(const double *O, const double *r, double share)
{
    vd E = *(const vd_at *)r * share, top = UNI_PENALTY_TOP(E), bottom = UNI_PENALTY_BOTTOM(*(const vd_at *)O, E);
    return __builtin_convertvector(top, vf) / __builtin_convertvector(bottom, vf);
}

static void penalty(const struct uni_shape *s, float *P, const double *O, const double *r, double share, double theta)
{
    vf most = splat(-HUGE_VALF);
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        store(P + k, natural_log(penalty_ratio(O + k, r + k, share)) * ((float)theta * 1.44269504088896f));
    }
    for (int64_t k = 0; k < s->K; k++)
        most = largest(most, splat(P[k]));
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf x = load(P + k) - most;
        store(P + k, choose(x < -125.0f, splat(0), exp2_below(x)));
    }
    for (int64_t k = s->K; k < s->Kv; k++)
        P[k] = 0;
}

static double log_dot(const struct uni_shape *s, const float *O, const float *P, const float *weight)
{
    double sum = 0;
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf part = load(weight + k) * load(O + k) * natural_log(largest(load(P + k), splat(1e-37f)));
        sum += add_across(choose(load(O + k) > 0.0f, part, splat(0)));
    }
    return sum;
}

static void nearest(const struct uni_shape *s, int32_t *index, float *score, const float *X, int64_t n, const float *Yt, const float *bias,
                    float *scratch)
{
    float *z = scratch + TILE * s->Kv;
    pad_rows(s, X, n, z);
    product(scratch, s->Kv, n, s->Kv, (struct factor){z, s->Dv, 1}, Yt, s->Kv, s->D, 0);
    for (int64_t i = 0; i < n; i++) {
        const float *row = scratch + i * s->Kv;
        vf top = splat(-HUGE_VALF);
        for (int64_t k = 0; k < s->Kv; k += WIDTH)
            top = largest(top, load(row + k) + load(bias + k));
        float best = largest_across(top);
        int32_t k = 0;
        while (row[k] + bias[k] != best)
            k++;
        index[i] = k;
        score[i] = best;
    }
}

const struct uni_cpu_kernels KERNELS = {ISA_NAME, WIDTH,   PANEL_ROWS,  assign,  sweep,   moments, correct,
                                        assignments, entropy, penalty, log_dot, nearest};
