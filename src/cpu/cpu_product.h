/* SPDX-License-Identifier: BSD-3-Clause */
/* The skinny products: C (M,N) += A (M,P) B (P,N) with N a few vectors. A register block of rows x vectors is kept while p runs;
   A's entries are broadcast, B's rows are loaded, nothing is packed. Included by cpu_kernels.c after a vec_....h. */
#ifndef UNI_CPU_PRODUCT_H
#define UNI_CPU_PRODUCT_H

enum { MOST_ROWS = 12 };

struct factor { /* A: entry (m,p) at at[m * row + p * column] */
    const float *at;
    int64_t row, column;
};

/* Memory to ask for while a product runs, a few lines before each of its blocks: the next tile's rows, which lie behind one
 * another. */
struct ahead {
    const char *at;
    int64_t lines; /* before each block */
};

INLINE void fetch(struct ahead *a)
{
    for (int64_t i = 0; i < a->lines; i++, a->at += 64)
        __builtin_prefetch(a->at, 0, 2);
}

/* One block of ROWS x VECTORS, both known when this is inlined. */
INLINE void product_block(const int ROWS, const int VECTORS, float *C, int64_t c_row, const float *A, int64_t a_row,
                          int64_t a_column, const float *B, int64_t b_row, int64_t P, int add)
{
    vf sum[MOST_ROWS][PANEL];
#pragma GCC unroll 12
    for (int m = 0; m < ROWS; m++)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++)
            sum[m][v] = add ? load(C + m * c_row + v * WIDTH) : splat(0);
    for (int64_t p = 0; p < P; p++) {
        vf b[PANEL];
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) {
            b[v] = load(B + p * b_row + v * WIDTH);
            IN_REGISTER(b[v]);
        }
#pragma GCC unroll 12
        for (int m = 0; m < ROWS; m++) {
            vf a = splat(A[m * a_row + p * a_column]);
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; v++)
                sum[m][v] += a * b[v];
        }
    }
#pragma GCC unroll 12
    for (int m = 0; m < ROWS; m++)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++)
            store(C + m * c_row + v * WIDTH, sum[m][v]);
}

#define PRODUCT_COLUMNS(n)                                                                                                       \
    static __attribute__((noinline)) void columns_##n(float *C, int64_t c_row, int64_t M, struct factor a, const float *B,       \
                                                      int64_t b_row, int64_t P, int add, struct ahead *ahead)                    \
    {                                                                                                                            \
        for (int64_t m = 0; m < M; m += PANEL_ROWS(n)) {                                                                         \
            fetch(&ahead[0]);                                                                                                    \
            fetch(&ahead[1]);                                                                                                    \
            product_block(PANEL_ROWS(n), n, C + m * c_row, c_row, a.at + m * a.row, a.row, a.column, B, b_row, P, add);          \
        }                                                                                                                        \
    }
PRODUCT_COLUMNS(1)
PRODUCT_COLUMNS(2)
PRODUCT_COLUMNS(3)
#if PANEL > 3
PRODUCT_COLUMNS(4)
#endif
#if PANEL > 4
PRODUCT_COLUMNS(5)
PRODUCT_COLUMNS(6)
PRODUCT_COLUMNS(7)
#endif

/* What the caller works on next, to be fetched meanwhile. */
struct next {
    const void *at[2];
    int64_t bytes[2];
};

/* M is rounded up to whole blocks: C has room for those rows, and A may be read there. columns: a multiple of WIDTH. */
static void product(float *C, int64_t c_row, int64_t M, int64_t columns, struct factor a, const float *B, int64_t b_row,
                    int64_t P, int add, struct next next)
{
    int64_t vectors = columns / WIDTH, panels = (vectors + PANEL - 1) / PANEL, blocks = 0;
    struct ahead ahead[2];
    for (int64_t panel = 0; panel < panels; panel++)
        blocks += M / PANEL_ROWS(vectors / panels) + 1;
    for (int i = 0; i < 2; i++)
        ahead[i] = (struct ahead){next.at[i], (next.bytes[i] / 64 + blocks - 1) / blocks};
    for (int64_t panel = 0, v = 0; panel < panels; panel++) {
        int64_t n = (vectors - v + (panels - panel) - 1) / (panels - panel); /* panels of equal width, not full ones and a rest */
        float *c = C + v * WIDTH;
        const float *b = B + v * WIDTH;
        switch (n) {
        case 1:
            columns_1(c, c_row, M, a, b, b_row, P, add, ahead);
            break;
        case 2:
            columns_2(c, c_row, M, a, b, b_row, P, add, ahead);
            break;
#if PANEL > 4
        case 5:
            columns_5(c, c_row, M, a, b, b_row, P, add, ahead);
            break;
        case 6:
            columns_6(c, c_row, M, a, b, b_row, P, add, ahead);
            break;
        case 7:
            columns_7(c, c_row, M, a, b, b_row, P, add, ahead);
            break;
#endif
#if PANEL > 3
        case 4:
            columns_4(c, c_row, M, a, b, b_row, P, add, ahead);
            break;
#endif
        default:
            columns_3(c, c_row, M, a, b, b_row, P, add, ahead);
        }
        v += n;
    }
}

#endif
