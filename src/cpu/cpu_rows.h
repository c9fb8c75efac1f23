/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of base, and R from them. Included by cpu_kernels.c after a vec_....h. */
#ifndef UNI_CPU_ROWS_H
#define UNI_CPU_ROWS_H

/* ---- rows of base -------------------------------------------------------------------------------------------------------- */

/* A vector of a base row. The row's last may be a part of one, and what lies behind it belongs to the next cell. */
INLINE vf base_whole(const void *row, int64_t k, int single)
{
    return single ? load((const float *)row + k) : half_load((const uint16_t *)row + k);
}

/* The lanes of a row's last vector, 0 where all its vectors are whole. */
INLINE lanes_t lanes_beyond(int64_t Kb)
{
    return (lanes_t)((1u << Kb % WIDTH) - 1);
}

INLINE vf base_part(const void *row, int64_t k, lanes_t lanes, int single)
{
    return single ? load_part((const float *)row + k, lanes) : half_load_part((const uint16_t *)row + k, lanes);
}

INLINE void base_put_whole(void *row, int64_t k, vf v, int single)
{
    if (single)
        store((float *)row + k, v);
    else
        half_store((uint16_t *)row + k, v);
}

INLINE void base_put_part(void *row, int64_t k, vf v, lanes_t lanes, int single)
{
    if (single)
        store_part((float *)row + k, v, lanes);
    else
        half_store_part((uint16_t *)row + k, v, lanes);
}

INLINE vf base_vector(const struct uni_shape *s, const void *row, int64_t k, int single)
{
    return k + WIDTH <= s->Kb ? base_whole(row, k, single) : base_part(row, k, lanes_beyond(s->Kb), single);
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

/* CELLS rows of base P (Kv apart), and inverse = 1 / s: R is their product, which the users of the tile take where it costs
 * least. */
INLINE void weighted_rows(const int CELLS, const struct uni_shape *s, const void *base, int64_t first, const float *P, float *T,
                          float *inverse, const int single)
{
    const void *row[4];
    vf sum[4] = {{0}, {0}, {0}, {0}};
    const int64_t Kv = s->Kv, whole = s->Kb / WIDTH * WIDTH; /* stores may alias the shape */
    const lanes_t rest = lanes_beyond(s->Kb);
#pragma GCC unroll 4
    for (int c = 0; c < CELLS; c++)
        row[c] = base_row(s, base, first + c, single);
    for (int64_t k = 0; k < whole; k += WIDTH) {
        vf p = load(P + k);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf r = base_whole(row[c], k, single) * p;
            store(T + c * Kv + k, r);
            sum[c] += r;
        }
    }
    if (rest) {
        vf p = load(P + whole);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf r = base_part(row[c], whole, rest, single) * p;
            store(T + c * Kv + whole, r);
            sum[c] += r;
        }
    }
    v4 inverse4 = reciprocal4(add_across4(sum[0], sum[1], sum[2], sum[3]));
    for (int c = 0; c < CELLS; c++)
        inverse[c] = inverse4[c];
}

INLINE void weighted_tile_of(const struct uni_shape *s, const void *base, int64_t n, const float *P, float *T, float *inverse,
                             const int single)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        weighted_rows(4, s, base, i, P, T + i * s->Kv, inverse + i, single);
    for (; i < n; i++)
        weighted_rows(1, s, base, i, P, T + i * s->Kv, inverse + i, single);
}

static const void *tile_base(const struct uni_shape *s, const struct uni_run *run, int64_t first)
{
    return base_row(s, run->base, first, s->single);
}

static int64_t tile_base_bytes(const struct uni_shape *s)
{
    return TILE * s->Kb * (s->single ? 4 : 2);
}

/* share / sum_k base P_t of CELLS cells, P_t NULL: of ones, which the padding of base turns to zeros. */
INLINE v4 damped_share(const int CELLS, const struct uni_shape *s, const void *const *row, const float *P, float share,
                       const int single)
{
    const int64_t whole = s->Kb / WIDTH * WIDTH;
    const lanes_t rest = lanes_beyond(s->Kb);
    vf sum[4] = {{0}, {0}, {0}, {0}};
    for (int64_t k = 0; k < whole; k += WIDTH) {
        vf p = P ? load(P + k) : splat(1);
        for (int c = 0; c < CELLS; c++)
            sum[c] += base_whole(row[c], k, single) * p;
    }
    if (rest) {
        vf p = P ? load(P + whole) : splat(1);
        for (int c = 0; c < CELLS; c++)
            sum[c] += base_part(row[c], whole, rest, single) * p;
    }
    return reciprocal4(add_across4(sum[0], sum[1], sum[2], sum[3])) * share;
}

/* CELLS rows of R itself, of the damped update. */
INLINE void damped_rows(const int CELLS, const struct uni_shape *s, const struct uni_run *run, const void *base, int64_t first,
                        float *T, const int single)
{
    const struct uni_recipe *recipe = run->recipe;
    const int64_t Kv = s->Kv, Kb = s->Kb;
    const void *row[4];
    v4 share[MOST_TABLES];
    for (int c = 0; c < CELLS; c++)
        row[c] = base_row(s, base, first + c, single);
    for (int t = 0; t < recipe->n; t++)
        share[t] = damped_share(CELLS, s, row, t ? recipe->table[t] + run->at : NULL, recipe->share[t], single);
    for (int64_t k = 0; k < Kb; k += WIDTH) {
        vf factor[4];
        for (int c = 0; c < CELLS; c++)
            factor[c] = splat(share[0][c]);
        for (int t = 1; t < recipe->n; t++) {
            vf p = load(recipe->table[t] + run->at + k);
            for (int c = 0; c < CELLS; c++)
                factor[c] += p * share[t][c];
        }
        for (int c = 0; c < CELLS; c++)
            store(T + c * Kv + k, base_vector(s, row[c], k, single) * factor[c]);
    }
}

INLINE void damped_tile(const struct uni_shape *s, const struct uni_run *run, const void *base, int64_t n, float *T,
                        float *inverse, const int single)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        damped_rows(4, s, run, base, i, T + i * s->Kv, single);
    for (; i < n; i++)
        damped_rows(1, s, run, base, i, T + i * s->Kv, single);
    for (i = 0; i < n; i++)
        inverse[i] = 1;
}

/* Every cell with its own row of P. */
INLINE void blocked_tile(const struct uni_shape *s, const void *base, int64_t n, const uint16_t *block, const float *P, float *T,
                         float *inverse, const int single)
{
    for (int64_t i = 0; i < n; i++)
        weighted_rows(1, s, base, i, P + block[i] * s->Kv, T + i * s->Kv, inverse + i, single);
}

/* base P (n,Kv) and 1 / s (n) of the tile that begins at row `first` of the run: R is their product. */
static void weighted_tile(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, const float *P,
                          float *T, float *inverse)
{
    const void *base = tile_base(s, run, first);
    if (run->recipe && s->single)
        damped_tile(s, run, base, n, T, inverse, 1);
    else if (run->recipe)
        damped_tile(s, run, base, n, T, inverse, 0);
    else if (run->block && s->single)
        blocked_tile(s, base, n, run->block + first, P, T, inverse, 1);
    else if (run->block)
        blocked_tile(s, base, n, run->block + first, P, T, inverse, 0);
    else if (s->single)
        weighted_tile_of(s, base, n, P, T, inverse, 1);
    else
        weighted_tile_of(s, base, n, P, T, inverse, 0);
}

/* ---- parts --------------------------------------------------------------------------------------------------------------- */

/* Where a kernel is in a run's parts. */
struct place {
    const struct uni_part *part;
    int64_t done; /* rows of it */
};

/* How many of the next n rows are of the part that is returned. */
INLINE const struct uni_part *next_part(struct place *p, int64_t n, int64_t *rows)
{
    if (p->done == p->part->n)
        *p = (struct place){p->part + 1, 0};
    int64_t left = p->part->n - p->done;
    *rows = n < left ? n : left;
    p->done += *rows;
    return p->part;
}

/* weighted_tile of rows of several parts */
static void weighted_parts(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, struct place *place,
                           float *T, float *inverse)
{
    for (int64_t i = 0, rows; i < n; i += rows) {
        const struct uni_part *part = next_part(place, n - i, &rows);
        weighted_tile(s, run, first + i, rows, part->P, T + i * s->Kv, inverse + i);
    }
}

/* The first n lanes of a vector. */
INLINE vi first_lanes(int64_t n)
{
    vi lane;
    for (int i = 0; i < WIDTH; i++)
        lane[i] = i;
    return lane < (int32_t)n;
}

/* Lanes of a row's last vector that hold one of its D entries. Rows of Z are read to the end of that vector: arrays have that
 * slack. */
INLINE vi last_lanes(const struct uni_shape *s)
{
    return first_lanes(s->D - (s->Dv - WIDTH));
}

#endif
