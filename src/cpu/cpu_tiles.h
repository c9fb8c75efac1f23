/* SPDX-License-Identifier: BSD-3-Clause */
/* The products on a processor with a matrix unit (AMX): 16 x 16 sums of 32 products of bfloat16 an instruction, some ten times
   the vector units' rate. A float is split into two bfloat16, high and low; high high + high low + low high are added in float32,
   so that a product is right to about 2^-17. That is enough beside a base in half precision with exponents of moderate size;
   uni_shape.tiles says where. Included by cpu_kernels.c after a vec_....h with HAS_TILES.

   A row of A is vectors of 16 floats, taken in pairs: lane i of a pair's first vector and lane i of its second lie side by side
   as one 32-bit word, 16 words are a chunk. Chunks of high halves come first, then, if the number of vectors is odd, the last
   vector's high and low halves as a chunk, then chunks of low halves. B is packed to match, 16 rows of words a chunk: high
   halves, [the last vector's rows twice,] low halves[, the last's low halves and zero].

   A tile is 16 rows of 64 bytes behind one another, in A a chunk of 16 cells, in B a chunk of 16 columns: rows that lie apart are
   loaded from the second cache at half the speed. A's tiles are ordered by cells, then chunks, B's by chunks, then columns. */
#ifndef UNI_CPU_TILES_H
#define UNI_CPU_TILES_H

/* ---- the unit ------------------------------------------------------------------------------------------------------------ */

/* Every tile is 16 rows of 64 bytes. Until release a change of thread costs more: kernels set and release it. */
INLINE void tiles_begin(void)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
}

INLINE void tiles_end(void)
{
    _tile_release();
}

/* The unit falls asleep when it has had nothing to do for half a microsecond, and takes a quarter of one to wake. This is
   something to do, once in every 200 ns or so of other work; it takes 15 itself. */
INLINE void tiles_awake(void)
{
    _tile_dpbf16ps(5, 6, 7);
}

#define SEEN __asm__ volatile("" ::: "memory") /* the compiler does not know that tiles are loaded from memory */

typedef uint32_t vu __attribute__((vector_size(WIDTH * 4)));

/* Two vectors -> words of their high halves, rounded, and of what that leaves. */
INLINE void split(vf a, vf b, vu *high, vu *low)
{
    const uint32_t half = 0x8000, top = 0xffff0000;
    vu ah = ((vu)a + half) & top, bh = ((vu)b + half) & top;
    vu al = (vu)(a - (vf)ah) + half, bl = (vu)(b - (vf)bh) + half;
    *high = ah >> 16 | bh;
    *low = al >> 16 | (bl & top);
}

INLINE void store_words(void *at, vu words)
{
    store((float *)at, (vf)words);
}

INLINE int64_t vectors_of(int64_t floats)
{
    return (floats + WIDTH - 1) / WIDTH;
}

enum { TILE_ROW = 64, TILE_BYTES = 1024 };

/* Where row i of A lies, in its first chunk; others are TILE_BYTES apart. */
INLINE char *row_of_tiles(const float *halves, int64_t i, int64_t vectors)
{
    return (char *)halves + i / 16 * vectors * TILE_BYTES + i % 16 * TILE_ROW;
}

/* One row of `vectors` vectors, split, to `at`. */
INLINE void split_row(char *at, const float *row, int64_t vectors)
{
    const int64_t pairs = vectors / 2, odd = vectors % 2;
    vu high, low;
    for (int64_t c = 0; c < pairs; c++) {
        split(load(row + 2 * c * WIDTH), load(row + (2 * c + 1) * WIDTH), &high, &low);
        store_words(at + TILE_BYTES * c, high);
        store_words(at + TILE_BYTES * (pairs + odd + c), low);
    }
    if (odd) {
        split(load(row + (vectors - 1) * WIDTH), splat(0), &high, &low);
        store_words(at + TILE_BYTES * pairs, high | low << 16);
    }
}

/* Four cells: their rows of base, and of penalties. */
struct four {
    const char *base[4];
    const float *P[4];
};

/* Cells i .. i + 3 of a tile of n. Those that are missing have no penalties, and so no weight. */
INLINE struct four next_four(const struct uni_shape *s, const char *base, int64_t i, int64_t n, struct place *place)
{
    static const float none[MOST_TABLE_ROW];
    const int64_t row_bytes = s->Kb * 2, end = i + 4 < n ? i + 4 : n;
    struct four f;
    for (int c = 0; c < 4; c++) {
        f.base[c] = base + (i + c < n ? i + c : n - 1) * row_bytes;
        f.P[c] = none;
    }
    for (int64_t at = i, rows; at < end; at += rows) {
        const float *P = next_part(place, end - at, &rows)->P;
        for (int64_t c = at - i; c < at - i + rows; c++)
            f.P[c] = P;
    }
    return f;
}

/* 1 / s of four rows, s their sums */
INLINE void put_inverse(float *inverse, const vf *sum)
{
    *(v4_at *)inverse = reciprocal4(add_across4(sum[0], sum[1], sum[2], sum[3]));
}

/* base P of four cells, split, behind one another in a tile, and inverse = 1 / s */
INLINE void weighted_split_rows(const struct uni_shape *s, struct four f, char *at, float *inverse)
{
    const int64_t Kv = s->Kv, vectors = Kv / WIDTH, pairs = vectors / 2, odd = vectors % 2;
    vf sum[4] = {{0}, {0}, {0}, {0}};
    for (int64_t c = 0; c < pairs; c++) {
        const int64_t k = 2 * c * WIDTH;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vf a = base_whole(f.base[i], k, 0) * load(f.P[i] + k);
            vf b = base_vector(s, f.base[i], k + WIDTH, 0) * load(f.P[i] + k + WIDTH);
            vu high, low;
            sum[i] += a + b;
            split(a, b, &high, &low);
            store_words(at + i * TILE_ROW + TILE_BYTES * c, high);
            store_words(at + i * TILE_ROW + TILE_BYTES * (pairs + odd + c), low);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; odd && i < 4; i++) {
        vf a = base_vector(s, f.base[i], Kv - WIDTH, 0) * load(f.P[i] + Kv - WIDTH);
        vu high, low;
        sum[i] += a;
        split(a, splat(0), &high, &low);
        store_words(at + i * TILE_ROW + TILE_BYTES * pairs, high | low << 16);
    }
    put_inverse(inverse, sum);
}

/* base P of n cells, split for a product by W, and 1 / s (n, room for 3 more). T (n,Kv) is scratch. */
static void weighted_split(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, struct place *place,
                           float *T, float *halves, float *inverse)
{
    const char *base = tile_base(s, run, first);
    const int64_t vectors = s->Kv / WIDTH;
    if (run->recipe || run->block) {
        weighted_parts(s, run, first, n, place, T, inverse);
        for (int64_t i = 0; i < n; i++)
            split_row(row_of_tiles(halves, i, vectors), T + i * s->Kv, vectors);
        return;
    }
    for (int64_t i = 0; i < n; i += 4)
        weighted_split_rows(s, next_four(s, base, i, n, place), row_of_tiles(halves, i, vectors), inverse + i);
}

/* A chunk of B from 16 rows at row_a and 16 at row_b: words of their high halves, and of their low ones. */
static void pack_chunk(char *high_at, char *low_at, const float *B, int64_t row_a, int64_t row_b, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < 16; i++)
        for (int64_t n = 0; n < columns; n += WIDTH) {
            const int64_t at = n / 16 * TILE_BYTES + i * TILE_ROW;
            vu high, low;
            split(row_a + i < rows ? load(B + (row_a + i) * columns + n) : splat(0),
                  row_b + i < rows ? load(B + (row_b + i) * columns + n) : splat(0), &high, &low);
            store_words(high_at + at, high);
            store_words(low_at + at, row_a == row_b ? low & 0xffff : low);
        }
}

/* B (rows,columns), columns whole vectors, into packed, of uni_packed_floats. */
static void pack(float *packed, const float *B, int64_t rows, int64_t columns)
{
    const int64_t vectors = vectors_of(rows), pairs = vectors / 2, odd = vectors % 2, chunk = 64 * columns;
    char *high = (char *)packed, *low = high + (pairs + odd) * chunk;
    for (int64_t c = 0; c < pairs; c++)
        pack_chunk(high + c * chunk, low + c * chunk, B, 2 * c * WIDTH, (2 * c + 1) * WIDTH, rows, columns);
    if (odd) {
        const int64_t last = (vectors - 1) * WIDTH;
        pack_chunk(high + pairs * chunk, low + pairs * chunk, B, last, last, rows, columns);
    }
}

/* ---- the products -------------------------------------------------------------------------------------------------------- */

struct tiled { /* C (rows of c_row floats) += A B */
    float *C;
    int64_t c_row;
    const char *A, *B;
    int64_t chunks;  /* of A: bytes of 16 cells are chunks TILE_BYTES */
    int64_t columns; /* of B, in tiles */
    int64_t pairs;
    int odd, add;
};

#define LOAD_A(R, at)                                                                                                            \
    do {                                                                                                                         \
        _tile_loadd(4, (at), TILE_ROW);                                                                                          \
        if (R > 1)                                                                                                               \
            _tile_loadd(5, (at) + t->chunks * TILE_BYTES, TILE_ROW);                                                             \
    } while (0)
#define LOAD_B(N, at)                                                                                                            \
    do {                                                                                                                         \
        _tile_stream_loadd(6, (at), TILE_ROW);                                                                                   \
        if (N > 1)                                                                                                               \
            _tile_stream_loadd(7, (at) + TILE_BYTES, TILE_ROW);                                                                  \
    } while (0)
#define MULTIPLY(R, N)                                                                                                           \
    do {                                                                                                                         \
        _tile_dpbf16ps(0, 4, 6);                                                                                                 \
        if (N > 1)                                                                                                               \
            _tile_dpbf16ps(1, 4, 7);                                                                                             \
        if (R > 1)                                                                                                               \
            _tile_dpbf16ps(2, 5, 6);                                                                                             \
        if (R > 1 && N > 1)                                                                                                      \
            _tile_dpbf16ps(3, 5, 7);                                                                                             \
    } while (0)
#define EACH_TILE(R, N, what)                                                                                                    \
    do {                                                                                                                         \
        what(0, C);                                                                                                              \
        if (N > 1)                                                                                                               \
            what(1, C + 16);                                                                                                     \
        if (R > 1)                                                                                                               \
            what(2, C + 16 * t->c_row);                                                                                          \
        if (R > 1 && N > 1)                                                                                                      \
            what(3, C + 16 * t->c_row + 16);                                                                                     \
    } while (0)
#define GET(tile, at) _tile_loadd(tile, at, 4 * t->c_row)
#define PUT(tile, at) _tile_stored(tile, at, 4 * t->c_row)
#define CLEAR(tile, at) _tile_zero(tile)

/* R x N tiles of C, from row 16 r and column 16 n on. */
#define TILED_BLOCK(R, N)                                                                                                        \
    static __attribute__((noinline)) void tiled_##R##x##N(const struct tiled *t, int64_t r, int64_t n, struct ahead *ahead)      \
    {                                                                                                                            \
        const int64_t chunk = t->columns * TILE_BYTES;                                                                           \
        const char *A = t->A + r * t->chunks * TILE_BYTES, *B = t->B + n * TILE_BYTES, *low = B + (t->pairs + t->odd) * chunk;   \
        float *C = t->C + 16 * r * t->c_row + 16 * n;                                                                            \
        SEEN;                                                                                                                    \
        if (t->add)                                                                                                              \
            EACH_TILE(R, N, GET);                                                                                                \
        else                                                                                                                     \
            EACH_TILE(R, N, CLEAR);                                                                                              \
        for (int64_t c = 0; c < t->pairs; c++) {                                                                                 \
            fetch(&ahead[0]);                                                                                                    \
            fetch(&ahead[1]);                                                                                                    \
            LOAD_A(R, A + TILE_BYTES * c);                                                                                       \
            LOAD_B(N, B + c * chunk);                                                                                            \
            MULTIPLY(R, N);                                                                                                      \
            LOAD_B(N, low + c * chunk);                                                                                          \
            MULTIPLY(R, N);                                                                                                      \
            LOAD_A(R, A + TILE_BYTES * (t->pairs + t->odd + c));                                                                 \
            LOAD_B(N, B + c * chunk);                                                                                            \
            MULTIPLY(R, N);                                                                                                      \
        }                                                                                                                        \
        if (t->odd) {                                                                                                            \
            LOAD_A(R, A + TILE_BYTES * t->pairs);                                                                                \
            LOAD_B(N, B + t->pairs * chunk);                                                                                     \
            MULTIPLY(R, N);                                                                                                      \
            LOAD_B(N, low + t->pairs * chunk);                                                                                   \
            MULTIPLY(R, N);                                                                                                      \
        }                                                                                                                        \
        EACH_TILE(R, N, PUT);                                                                                                    \
        SEEN;                                                                                                                    \
    }
TILED_BLOCK(2, 2)
TILED_BLOCK(2, 1)
TILED_BLOCK(1, 2)
TILED_BLOCK(1, 1)

static void tiled_product(const struct tiled *t, int64_t rows, int64_t columns, struct next next)
{
    const int64_t R = (rows + 15) / 16, N = columns / 16, steps = (R + 1) / 2 * ((N + 1) / 2) * t->pairs;
    struct ahead ahead[2];
    for (int i = 0; i < 2; i++)
        ahead[i] = (struct ahead){next.at[i], steps ? (next.bytes[i] / 64 + steps - 1) / steps : 0};
    for (int64_t n = 0; n < N; n += 2)
        for (int64_t r = 0; r < R; r += 2) {
            if (r + 1 < R && n + 1 < N)
                tiled_2x2(t, r, n, ahead);
            else if (r + 1 < R)
                tiled_2x1(t, r, n, ahead);
            else if (n + 1 < N)
                tiled_1x2(t, r, n, ahead);
            else
                tiled_1x1(t, r, n, ahead);
        }
}

/* C (n,columns) = A B, A (n,P) split: C has room for n rounded up to 16 rows. */
static void tiled_rows(float *C, int64_t n, int64_t columns, const float *halves, int64_t P, const float *packed,
                       struct next next)
{
    const int64_t vectors = vectors_of(P);
    struct tiled t = {.C = C,
                      .c_row = columns,
                      .A = (const char *)halves,
                      .B = (const char *)packed,
                      .chunks = vectors,
                      .columns = columns / 16,
                      .pairs = vectors / 2,
                      .odd = vectors % 2};
    tiled_product(&t, n, columns, next);
}

/* z (n,Dv) = s times R times minus_W, and 1 / s. halves: scratch of (n,Kv) */
INLINE void weighted_times(const struct uni_shape *s, const struct uni_run *run, int64_t first, int64_t n, struct place *place,
                           const float *minus_W, float *T, float *z, float *inverse)
{
    float *halves = z + (MOST_TILE + 12) * s->Dv;
    weighted_split(s, run, first, n, place, T, halves, inverse);
    tiled_rows(z, n, s->Dv, halves, s->K, minus_W + s->Kv * s->Dv, (struct next){{NULL, NULL}, {0, 0}});
}

/* T (n,Kv) = z Yt */
INLINE void times_centroids(const struct uni_shape *s, float *T, const float *z, int64_t n, const struct uni_centroids *c,
                            struct next next)
{
    float *halves = (float *)z + (MOST_TILE + 12) * s->Dv;
    for (int64_t i = 0; i < n; i++)
        split_row(row_of_tiles(halves, i, s->Dv / WIDTH), z + i * s->Dv, s->Dv / WIDTH);
    tiled_rows(T, n, s->Kv, halves, s->D, c->packed, next);
}

#endif
