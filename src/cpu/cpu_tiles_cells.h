/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over cells on a matrix unit: both factors have a cell's values behind one another and are turned first, Z to rows of
   cells, R to words of two cells. Included by cpu_kernels.c after cpu_tiles.h. */
#ifndef UNI_CPU_TILES_CELLS_H
#define UNI_CPU_TILES_CELLS_H

/* Words (16,16), lanes of the i-th vector -> the i-th word of every row. */
INLINE void turn_words(vu w[16])
{
    vu x[16];
    static const int32_t index[8][16] = {{0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
                                         {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31},
                                         {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
                                         {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31},
                                         {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
                                         {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31},
                                         {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
                                         {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31}};
#pragma GCC unroll 4
    for (int level = 0; level < 4; level++) {
        const int step = 1 << level;
        const vu low = (vu)load((const float *)index[2 * level]), high = (vu)load((const float *)index[2 * level + 1]);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            if (!(i & step)) {
                x[i] = (vu)_mm512_permutex2var_epi32((__m512i)w[i], (__m512i)low, (__m512i)w[i + step]);
                x[i + step] = (vu)_mm512_permutex2var_epi32((__m512i)w[i], (__m512i)high, (__m512i)w[i + step]);
            }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            w[i] = x[i];
    }
}

/* Z scaled by a factor a cell, turned: dimension d's row holds the cells, pairs of neighbours as words, `chunks` of 32 cells of
   high halves, then as many of low ones. */
static void turn_cells(const struct uni_shape *s, char *turned, const float *Z, const float *factor, int64_t n, int64_t chunks,
                       struct ahead *ahead)
{
    const vi keep = last_lanes(s);
    for (int64_t c = 0; c < chunks; c++)
        for (int64_t d = 0; d < s->Dv; d += WIDTH) {
            fetch(ahead);
            vu high[16], low[16];
            char *tile = turned + d / 16 * 2 * chunks * TILE_BYTES;
            const int last = d + WIDTH >= s->Dv;
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) {
                const int64_t cell = 32 * c + 2 * i;
                vf a = cell < n ? load(Z + cell * s->D + d) * factor[cell] : splat(0);
                vf b = cell + 1 < n ? load(Z + (cell + 1) * s->D + d) * factor[cell + 1] : splat(0);
                if (last) {
                    a = (vf)((vi)a & keep);
                    b = (vf)((vi)b & keep);
                }
                split(a, b, &high[i], &low[i]);
            }
            if (d == 0)
                tiles_awake();
            turn_words(high);
            turn_words(low);
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) {
                store_words(tile + c * TILE_BYTES + i * TILE_ROW, high[i]);
                store_words(tile + (chunks + c) * TILE_BYTES + i * TILE_ROW, low[i]);
            }
        }
}

/* base P of four cells, neighbours as words: two rows of high halves at high, of low ones at low; inverse = 1 / s */
INLINE void weighted_pairs_rows(const struct uni_shape *s, struct four f, char *high, char *low, float *inverse)
{
    vf sum[4] = {{0}, {0}, {0}, {0}};
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf r[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            r[i] = base_vector(s, f.base[i], k, 0) * load(f.P[i] + k);
            sum[i] += r[i];
        }
#pragma GCC unroll 2
        for (int i = 0; i < 4; i += 2) {
            vu h, l;
            split(r[i], r[i + 1], &h, &l);
            store_words(high + k / 16 * TILE_BYTES + i / 2 * TILE_ROW, h);
            store_words(low + k / 16 * TILE_BYTES + i / 2 * TILE_ROW, l);
        }
    }
    put_inverse(inverse, sum);
}

/* T (n,Kv) to words of neighbours: n / 2 rows of high halves, rounded up to 16 `chunks`, then of low ones. */
static void pair_cells(const struct uni_shape *s, char *paired, const float *T, int64_t n, int64_t chunks)
{
    const int64_t Kv = s->Kv, low_at = chunks * 64 * Kv;
    for (int64_t i = 0; i < n; i += 2)
        for (int64_t k = 0; k < Kv; k += WIDTH) {
            vu high, low;
            split(load(T + i * Kv + k), i + 1 < n ? load(T + (i + 1) * Kv + k) : splat(0), &high, &low);
            char *at = row_of_tiles((float *)paired, i / 2, Kv / WIDTH) + k / 16 * TILE_BYTES;
            store_words(at, high);
            store_words(at + low_at, low);
        }
}

/* base P of n cells in words of neighbours, whole chunks of 32 cells, the missing ones zero, and 1 / s (n, room for 3 more) */
static void weighted_pairs(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, struct place *place,
                           float *T, float *paired, float *inverse, struct ahead *ahead)
{
    const char *base = tile_base(s, run, first);
    const int64_t chunks = (n + 31) / 32, low_at = chunks * 64 * s->Kv, vectors = s->Kv / WIDTH;
    if (n < 32 * chunks)
        memset(paired, 0, (size_t)(2 * low_at));
    if (run->recipe || run->block) {
        weighted_parts(s, run, first, n, place, T, inverse);
        pair_cells(s, (char *)paired, T, n, chunks);
        return;
    }
    for (int64_t i = 0; i < n; i += 4) {
        char *at = row_of_tiles(paired, i / 2, vectors);
        fetch(ahead);
        if (i % 16 == 12)
            tiles_awake();
        weighted_pairs_rows(s, next_four(s, base, i, n, place), at, at + low_at, inverse + i);
    }
}

/* S (D rounded up to 16 rows, Kv) += (factor Z)^T base P, of cells already turned and paired; without add, what was there goes.
 */
static void turned_by_paired(const struct uni_shape *s, float *S, int add, const char *turned, const char *paired, int64_t chunks,
                             struct next next)
{
    struct tiled t = {.C = S,
                      .c_row = s->Kv,
                      .A = turned,
                      .B = paired,
                      .chunks = 2 * chunks,
                      .columns = s->Kv / 16,
                      .pairs = chunks,
                      .odd = 0,
                      .add = add};
    tiled_product(&t, s->Dv, s->Kv, next);
}

enum { LEAST_TURNED = 12 }; /* cells of a run: fewer are not worth turning */

/* The kernels' moments. What a later part will read is asked for in all stages alike: requests share their places with what a
   product loads from the second cache. */
static void tiled_moments(const struct uni_shape *s, const struct uni_run *run, const struct uni_part *part, float *S, int add,
                          const float *x, float *scratch)
{
    enum { CELLS = 64 };
    struct place place = {part, 0};
    float inverse[CELLS], *turned = scratch + MOST_TILE * s->Kv, *paired = turned + (MOST_TILE + 12) * s->Dv;
    const int64_t base_lines = (4 * s->Kb * 2 + 63) / 64, Z_lines = CELLS * s->D * 4 / 64;
    tiles_begin();
    for (int64_t first = 0; first < run->n; first += CELLS) {
        int64_t n = run->n - first < CELLS ? run->n - first : CELLS, chunks = (n + 31) / 32;
        const char *Z = (const char *)(run->Z + (first + CELLS) * s->D);
        struct ahead base = {tile_base(s, run, first + CELLS), base_lines};
        struct ahead third = {Z, Z_lines / 3 / (chunks * (s->Dv / WIDTH))};
        weighted_pairs(s, run, first, n, &place, scratch, paired, inverse, &base);
        count_cells(run, first, n, x, NULL, inverse);
        turn_cells(s, (char *)turned, run->Z + first * s->D, inverse, n, chunks, &third);
        turned_by_paired(s, S, add || first > 0, (const char *)turned, (const char *)paired, chunks,
                         (struct next){{third.at, NULL}, {Z + Z_lines * 64 - third.at, 0}});
    }
    tiles_end();
}

#endif
