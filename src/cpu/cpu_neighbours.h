/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cells may be near: products of a tile of queries with a panel of cells, held against each query's limit while they are in
   registers, so that no distance is ever stored. Included by cpu_kernels.c after cpu_product.h. */
#ifndef UNI_CPU_NEIGHBOURS_H
#define UNI_CPU_NEIGHBOURS_H

enum { NEAR_VECTORS = PANEL >= 4 ? 4 : 2 }; /* with NEAR_ROWS queries a register block */

/* Notes the columns of one row that reach the limit. */
static __attribute__((noinline)) void note_near(const struct uni_near *t, int64_t row, int64_t column, const vf *score)
{
    const float limit = t->limit[row];
    struct uni_found *found = t->found + row * t->room + t->count[row];
    for (int v = 0; v < NEAR_VECTORS; v++, column += WIDTH) {
        float lane[WIDTH];
        if (!any_at_least(score[v], splat(limit)))
            continue;
        store(lane, score[v]);
        for (int i = 0; i < WIDTH; i++)
            if (lane[i] >= limit)
                *found++ = (struct uni_found){t->first + column + i, lane[i], lane[i] + t->doubt * t->panel[column + i]};
    }
    t->count[row] = found - (t->found + row * t->room);
}

/* NEAR_ROWS queries from row on, NEAR_VECTORS vectors of cells from column on. */
static __attribute__((noinline)) void near_block(const struct uni_near *t, int64_t row, int64_t column)
{
    const float *query = t->query + row * t->D, *cells = t->panel + column;
    const int64_t D = t->D;
    vf sum[NEAR_ROWS][NEAR_VECTORS];
#pragma GCC unroll 8
    for (int m = 0; m < NEAR_ROWS; m++)
#pragma GCC unroll 8
        for (int v = 0; v < NEAR_VECTORS; v++)
            sum[m][v] = load(cells + v * WIDTH);
    for (int64_t d = 0; d < D; d++) {
        vf b[NEAR_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < NEAR_VECTORS; v++) {
            b[v] = load(cells + (d + 1) * NEAR_CELLS + v * WIDTH);
            IN_REGISTER(b[v]);
        }
#pragma GCC unroll 8
        for (int m = 0; m < NEAR_ROWS; m++) {
            vf a = splat(query[m * D + d]);
#pragma GCC unroll 8
            for (int v = 0; v < NEAR_VECTORS; v++)
                sum[m][v] += a * b[v];
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < NEAR_ROWS; m++) {
        vf best = larger(sum[m][0], sum[m][1]);
#pragma GCC unroll 8
        for (int v = 2; v < NEAR_VECTORS; v++)
            best = larger(best, sum[m][v]);
        if (__builtin_expect(any_at_least(best, splat(t->limit[row + m])), 0))
            note_near(t, row + m, column, sum[m]);
    }
}

static void find_near(const struct uni_near *t)
{
    int64_t blocks = t->M / NEAR_ROWS * (NEAR_CELLS / WIDTH / NEAR_VECTORS);
    int64_t lines = ((t->D + 1) * NEAR_CELLS * (int64_t)sizeof(float) / 64 + blocks - 1) / blocks;
    struct ahead ahead = {(const char *)(t->panel + (t->D + 1) * NEAR_CELLS), lines};
    for (int64_t column = 0; column < NEAR_CELLS; column += NEAR_VECTORS * WIDTH)
        for (int64_t row = 0; row < t->M; row += NEAR_ROWS) {
            fetch(&ahead);
            near_block(t, row, column);
        }
}

#endif
