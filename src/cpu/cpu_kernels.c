/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic on runs of cells, in vector extensions. Built once per instruction set, with that set's header as UNI_VEC. */
#include "cpu_kernels.h"

#include <math.h>
#include <string.h>

#include "../formula.h"
#include UNI_VEC
#include "cpu_product.h"
#include "cpu_neighbours.h"
#include "cpu_rows.h"
#include "cpu_tables.h"
#include "cpu_sums.h"
#ifdef HAS_TILES
#include "cpu_tiles.h"
#include "cpu_tiles_cells.h"
#endif
#include "cpu_base.h"

/* ---- assign -------------------------------------------------------------------------------------------------------------- */

/* One row of Z - R W, R W being u times inverse, into u; returns the vector of squares. */
INLINE vf corrected_row(const struct uni_shape *s, const float *Z, float *u, float inverse, vi keep)
{
    vf squares = splat(0);
    int64_t last = s->Dv - WIDTH;
    for (int64_t d = 0; d < last; d += WIDTH) {
        vf z = load(Z + d) + load(u + d) * inverse;
        store(u + d, z);
        squares += z * z;
    }
    vf z = (vf)((vi)load(Z + last) & keep) + load(u + last) * inverse;
    store(u + last, z);
    return squares + z * z;
}

/* z (n,Dv) -= x T slope of one covariate; what follows z in the scratch serves for x T */
static void add_slope(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, int x, const float *T,
                      float *z)
{
    float *scaled = z + (MOST_TILE + 12) * s->Dv;
    const float *value = run->x + x * run->x_row + first;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < s->Kv; k += WIDTH)
            store(scaled + i * s->Kv + k, load(T + i * s->Kv + k) * value[i]);
    product(z, s->Dv, n, s->Dv, (struct factor){scaled, s->Kv, 1}, run->minus_slope + x * s->Kv * s->Dv, s->Dv, s->K, 1,
            (struct next){{NULL, NULL}, {0, 0}});
}

/* z (n,Dv) = s R minus_W, and 1 / s; T (n,Kv) = s R, without tiles */
static void shifts(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, struct place *place,
                   const float *minus_W, float *T, float *z, float *inverse)
{
#ifdef HAS_TILES
    if (s->tiles) {
        weighted_times(s, run, first, n, place, minus_W, T, z, inverse);
        return;
    }
#endif
    weighted_parts(s, run, first, n, place, T, inverse);
    product(z, s->Dv, n, s->Dv, (struct factor){T, s->Kv, 1}, minus_W, s->Dv, s->K, 0, (struct next){{NULL, NULL}, {0, 0}});
}

/* T (n,Kv) = z Yt */
static void likenesses(const struct uni_shape *s, float *T, const float *z, int64_t n, const struct uni_centroids *c,
                       struct next next)
{
#ifdef HAS_TILES
    if (s->tiles) {
        times_centroids(s, T, z, n, c, next);
        return;
    }
#endif
    product(T, s->Kv, n, s->Kv, (struct factor){z, s->Dv, 1}, c->Yt, s->Kv, s->D, 0, next);
}

static void tiles_for(const struct uni_shape *s, int wanted)
{
#ifdef HAS_TILES
    if (s->tiles && wanted)
        tiles_begin();
    else if (s->tiles)
        tiles_end();
#else
    (void)s;
    (void)wanted;
#endif
}

/* z (n,Dv) = Z - R W (minus_W NULL: Z), squares (n) = |z|^2 */
static void corrected_tile(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, struct place *place,
                           const float *minus_W, float *T, float *z, float *squares)
{
    float inverse[TILE] = {0};
    vi keep = last_lanes(s);
    const float *Z = run->Z + first * s->D;
    int64_t i = 0;
    if (minus_W) {
        shifts(s, run, first, n, place, minus_W, T, z, inverse);
        for (int x = 0; x < s->X; x++)
            add_slope(s, run, first, n, x, T, z);
    } else {
        memset(z, 0, (size_t)(n * s->Dv) * sizeof *z);
    }
    for (; i + 4 <= n; i += 4) {
        vf part[4];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            part[c] = corrected_row(s, Z + (i + c) * s->D, z + (i + c) * s->Dv, inverse[i + c], keep);
        *(v4_at *)(squares + i) = add_across4(part[0], part[1], part[2], part[3]);
    }
    for (; i < n; i++)
        squares[i] = add_across(corrected_row(s, Z + i * s->D, z + i * s->Dv, inverse[i], keep));
}

/* 1 / |z| where the squares are out of float32's range: z is scaled by its largest entry first. A row of zeros stays. */
static float rescue_row(float *z, int64_t Dv)
{
    vf most = splat(0), squares = splat(0);
    for (int64_t d = 0; d < Dv; d += WIDTH)
        most = larger(most, larger(load(z + d), -load(z + d)));
    float scale = largest_across(most);
    if (!(scale > 0))
        return 0;
    for (int64_t d = 0; d < Dv; d += WIDTH) {
        vf part = load(z + d) / scale;
        store(z + d, part);
        squares += part * part;
    }
    return 1 / sqrtf(add_across(squares));
}

/* squares (n, whole vectors of them) -> 1 / |z| */
static void inverse_lengths(const struct uni_shape *s, float *squares, float *z, int64_t n)
{
    for (int64_t i = 0; i < n; i += WIDTH) {
        float before[WIDTH];
        vf x = load(squares + i);
        store(before, x);
        for (int c = 0; c < WIDTH; c++)
            squares[i + c] = 1 / sqrtf(squares[i + c]);
        for (int64_t c = 0; c < WIDTH && i + c < n; c++)
            if (!(before[c] > 1e-30f && before[c] < 1e30f))
                squares[i + c] = rescue_row(z + (i + c) * s->Dv, s->Dv);
    }
}

static void clear_sums(const struct uni_shape *s, const struct uni_run *run, const struct uni_part *part)
{
    for (int64_t rows = 0; rows < run->n; rows += part++->n)
        memset(part->sum, 0, (size_t)s->Kv * sizeof *part->sum);
}

/* They are of base as it is stored. */
static void scale_sums(const struct uni_shape *s, const struct uni_run *run, const struct uni_part *part)
{
    for (int64_t rows = 0; rows < run->n; rows += part++->n)
        for (int64_t k = 0; k < s->Kv; k += WIDTH)
            store(part->sum + k, load(part->sum + k) * (1 / BASE_SCALE));
}

static void assign(const struct uni_shape *s, const struct uni_run *run, const struct uni_part *part, const float *minus_W,
                   const struct uni_centroids *c, double *fit, float *scratch)
{
    float *T = scratch, *z = T + MOST_TILE * s->Kv, length[TILE] = {0};
    struct place before = {part, 0}, after = {part, 0};
    clear_sums(s, run, part);
    tiles_for(s, 1);
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        char *base = (char *)run->base + first * s->Kb * (s->single ? 4 : 2);
        const float *weight = run->weight ? run->weight + first : NULL;
        corrected_tile(s, run, first, n, &before, minus_W, T, z, length);
        inverse_lengths(s, length, z, n);
        likenesses(s, T, z, n, c, (struct next){{run->Z + (first + TILE) * s->D, NULL}, {TILE * s->D * 4, 0}});
        if (s->single)
            base_of_tile(s, T, n, &after, length, c->bias, base, weight, run->L + first, 1, 1);
        else if (s->shift)
            base_of_tile(s, T, n, &after, length, c->bias, base, weight, run->L + first, 0, 1);
        else
            base_of_tile(s, T, n, &after, length, c->bias, base, weight, run->L + first, 0, 0);
        if (fit)
            fit_of_base(s, T, n, run->L + first, c->sigma, weight, fit);
    }
    tiles_for(s, 0);
    scale_sums(s, run, part);
}

/* ---- sweep --------------------------------------------------------------------------------------------------------------- */

enum { FETCH_BYTES = 4096 }; /* how far ahead of itself a sweep asks for base */

/* CELLS cells at once: s = base . P, G += weight base / s; t = base . sP too where the objective is asked for. */
INLINE void sweep_rows(const int CELLS, const struct uni_shape *s, const void *base, int64_t first, const float *P,
                       const float *sP, const float *count, float *G, float *s_out, float *t_out, const int single, const int fit)
{
    const void *row[4];
    vf sum[4] = {{0}, {0}, {0}, {0}}, weight[4] = {{0}, {0}, {0}, {0}};
    const int64_t whole = s->Kb / WIDTH * WIDTH; /* stores may alias the shape */
    const lanes_t rest = lanes_beyond(s->Kb);
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
            vf b = base_part(row[c], whole, rest, single);
            sum[c] += b * p;
            if (fit)
                weight[c] += b * sp;
        }
    }
    v4 total = add_across4(sum[0], sum[1], sum[2], sum[3]), inverse = reciprocal4(total);
    for (int c = 0; count && c < CELLS; c++)
        inverse[c] *= count[first + c];
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
            g += base_part(row[c], whole, rest, single) * inverse[c];
        store(G + whole, g);
    }
}

INLINE void sweep_of(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *sP, float *G,
                     float *s_out, float *t_out, const int single, const int fit)
{
    const int64_t four = 4 * s->Kb * (single ? 4 : 2), bytes = run->n * four / 4;
    int64_t i = 0;
    for (; i + 4 <= run->n; i += 4) {
        int64_t at = i / 4 * four + FETCH_BYTES;
        const char *ahead = at < bytes ? (const char *)run->base + at : run->next ? (const char *)run->next + (at - bytes) : NULL;
        for (int64_t line = 0; ahead && line < four; line += 64)
            __builtin_prefetch(ahead + line);
        sweep_rows(4, s, run->base, i, P, sP, run->weight, G, s_out + i, t_out + i, single, fit);
    }
    for (; i < run->n; i++)
        sweep_rows(1, s, run->base, i, P, sP, run->weight, G, s_out + i, t_out + i, single, fit);
}

static void sweep(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *sP, float *G, double *fit,
                  float *scratch)
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
    float inverse[TILE];
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        weighted_tile(s, run, first, n, P, scratch, inverse);
        for (int64_t i = 0; i < n; i++) {
            vf part = splat(0);
            for (int64_t k = 0; k < s->Kv; k += WIDTH) {
                vf r = load(scratch + i * s->Kv + k) * inverse[i];
                part += load(sigma + k) * r * natural_log(larger(r, splat(1e-37f)));
            }
            sum += (run->weight ? (double)run->weight[first + i] : 1) * (double)add_across(part);
        }
    }
    return sum;
}

/* ---- moments, results ---------------------------------------------------------------------------------------------------- */

static void moments(const struct uni_shape *s, const struct uni_run *run, const struct uni_part *part, float *S, int add,
                    const float *x, float *scratch)
{
    float *z = scratch + MOST_TILE * s->Kv, inverse[TILE];
    vi keep = last_lanes(s);
    int64_t last = s->Dv - WIDTH;
    struct place place = {part, 0};
#ifdef HAS_TILES
    if (s->tiles && run->n >= LEAST_TURNED) {
        tiled_moments(s, run, part, S, add, x, scratch);
        return;
    }
#endif
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        weighted_parts(s, run, first, n, &place, scratch, inverse);
        count_cells(run, first, n, x, NULL, inverse);
        for (int64_t i = 0; i < n; i++) { /* Z^T R = (Z / s)^T (base P): D entries a cell to scale, not K */
            const float *Z = run->Z + (first + i) * s->D;
            for (int64_t d = 0; d < last; d += WIDTH)
                store(z + i * s->Dv + d, load(Z + d) * inverse[i]);
            store(z + i * s->Dv + last, (vf)((vi)load(Z + last) & keep) * inverse[i]);
        }
        product(S, s->Kv, s->D, s->Kv, (struct factor){z, 1, s->Dv}, scratch, s->Kv, n, add || first > 0,
                (struct next){{run->Z + (first + TILE) * s->D, tile_base(s, run, first + TILE)},
                              {TILE * s->D * 4, tile_base_bytes(s)}});
    }
}

/* Rows of dst lie far apart: the next tile's are asked for before this one's are made. */
INLINE void fetch_rows(const float *dst, const uint32_t *row, int64_t n, int64_t columns)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns + 15; j += 16)
            __builtin_prefetch(dst + row[i] * columns + (j < columns ? j : columns - 1), 1);
}

static void correct(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *minus_W,
                    const uint32_t *row, float *dst, float *scratch)
{
    float *z = scratch + MOST_TILE * s->Kv, squares[TILE];
    struct uni_shape exact = *s; /* the result is float32's, whatever the way there was */
    struct uni_part all = {run->n, P, NULL};
    struct place place = {&all, 0};
    exact.tiles = 0;
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        if (row)
            fetch_rows(dst, row + first, n, s->D);
        corrected_tile(&exact, run, first, n, &place, minus_W, scratch, z, squares);
        for (int64_t i = 0; i < n; i++)
            copy_row(dst + (row ? row[first + i] : first + i) * s->D, z + i * s->Dv, s->D);
    }
}

static void assignments(const struct uni_shape *s, const struct uni_run *run, const float *P, const uint32_t *row, float *dst,
                        float *scratch)
{
    float inverse[TILE];
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        weighted_tile(s, run, first, n, P, scratch, inverse);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t k = 0; k < s->Kv; k += WIDTH)
                store(scratch + i * s->Kv + k, load(scratch + i * s->Kv + k) * inverse[i]);
            copy_row(dst + row[first + i] * s->K, scratch + i * s->Kv, s->K);
        }
    }
}

/* ---- seeding ------------------------------------------------------------------------------------------------------------- */

/* The largest entry of a row of products and, among equals, its first place; places are whole floats here. */
INLINE float best_of_row(int64_t Kv, const float *row, const float *bias, int32_t *place)
{
    vf top = splat(-HUGE_VALF), at = splat(0), lane;
    for (int i = 0; i < WIDTH; i++)
        lane[i] = (float)i;
    for (int64_t k = 0; k < Kv; k += WIDTH) {
        vf x = load(row + k) + load(bias + k);
        at = choose(x > top, splat((float)k), at);
        top = larger(top, x);
    }
    float best = largest_across(top);
    *place = (int32_t)-largest_across(choose(top == best, -(at + lane), splat(-HUGE_VALF)));
    return best;
}

static void nearest(const struct uni_shape *s, int32_t *index, float *score, const float *X, int64_t n, const float *Yt,
                    const float *bias, float *scratch)
{
    float *z = scratch + MOST_TILE * s->Kv;
    if (n < NEAREST_ROWS) /* whole register blocks of rows are read */
        X = memcpy(z, X, (size_t)(n * s->D) * sizeof *z);
    product(scratch, s->Kv, n, s->Kv, (struct factor){X, s->D, 1}, Yt, s->Kv, s->D, 0, (struct next){{NULL, NULL}, {0, 0}});
    for (int64_t i = 0; i < n; i++)
        score[i] = best_of_row(s->Kv, scratch + i * s->Kv, bias, &index[i]);
}

static void add_rows(const struct uni_shape *s, double *sum, const float *X, const int32_t *rows, int64_t n)
{
    const int64_t D = s->D, whole = D / WIDTH * WIDTH;
    for (int64_t i = 0; i < n; i++) {
        const float *row = X + rows[i] * D;
        for (int64_t d = 0; d < whole; d += WIDTH)
            *(vd_at *)(sum + d) += wide(row + d);
        for (int64_t d = whole; d < D; d++)
            sum[d] += row[d];
    }
}

const struct uni_cpu_kernels KERNELS = {
    .name = ISA_NAME,
    .width = WIDTH,
    .block_rows = MOST_ROWS,
#ifdef HAS_TILES
    .pack = pack,
#endif
    .assign = assign,
    .sweep = sweep,
    .moments = moments,
    .correct = correct,
    .assignments = assignments,
    .entropy = entropy,
    .masses = masses,
    .masses_by_block = masses_by_block,
    .fit = fit_of_any,
    .leave = leave,
    .penalty = penalty,
    .come_back = come_back,
    .move = move,
    .add_moments = add_moments,
    .log_dot = log_dot,
    .nearest = nearest,
    .add_rows = add_rows,
    .find_near = find_near,
};
