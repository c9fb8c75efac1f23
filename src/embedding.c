/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's matrix: checked once, read row by row in any layout. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "error.h"
#include "method.h"

static double value_at(const struct uni_matrix *m, int64_t i, int64_t j)
{
    const char *at = (const char *)m->data + i * m->row_stride + j * m->col_stride;
    if (m->dtype == UNI_FLOAT64) {
        double value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

void uni_matrix_row(float *dst, const struct uni_matrix *m, int64_t row)
{
    if (m->dtype == UNI_FLOAT32 && m->col_stride == 4) {
        memcpy(dst, (const char *)m->data + row * m->row_stride, (size_t)m->n_dims * 4);
        return;
    }
    for (int64_t j = 0; j < m->n_dims; j++)
        dst[j] = (float)value_at(m, row, j);
}

void uni_matrix_fetch(const struct uni_matrix *m, int64_t row)
{
    const char *at = (const char *)m->data + row * m->row_stride;
    if (m->col_stride <= 8 && m->col_stride > 0)
        for (int64_t byte = 0; byte < m->n_dims * m->col_stride; byte += 64)
            __builtin_prefetch(at + byte);
}

/* Eight sums side by side: one would wait for each addition. */
double uni_dot(const float *x, const float *y, int64_t D)
{
    double part[8] = {0};
    int64_t whole = D / 8 * 8;
    for (int64_t d = 0; d < whole; d += 8)
        for (int i = 0; i < 8; i++)
            part[i] += (double)x[d + i] * y[d + i];
    for (int64_t d = whole; d < D; d++)
        part[d - whole] += (double)x[d] * y[d];
    return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

int uni_normalise(float *row, int64_t D)
{
    double squares = uni_dot(row, row, D); /* in double no float's square over- or underflows */
    if (!(squares > 0))
        return 0;
    double scale = 1 / sqrt(squares);
    for (int64_t j = 0; j < D; j++)
        row[j] = (float)(row[j] * scale);
    return 1;
}

enum { LARGEST_EXPONENT = 243 << 23 };

/* Neither NaN nor infinite nor too large. An exponent of all ones is a NaN or an infinity. */
static int row_is_usable(const struct uni_matrix *m, int64_t i)
{
    if (m->dtype == UNI_FLOAT32 && m->col_stride == 4 && (uintptr_t)m->data % 4 == 0 && m->row_stride % 4 == 0) {
        const uint32_t *row = (const uint32_t *)(const void *)((const char *)m->data + i * m->row_stride);
        uint32_t most = 0;
        for (int64_t j = 0; j < m->n_dims; j++) {
            uint32_t bits = row[j] & 0x7f800000u;
            most = bits > most ? bits : most;
        }
        return most < LARGEST_EXPONENT;
    }
    for (int64_t j = 0; j < m->n_dims; j++)
        if (!(fabs(value_at(m, i, j)) < UNI_LARGEST))
            return 0;
    return 1;
}

/* What was found among some rows; -1: nothing. */
struct found {
    int64_t count, first_row, first_column, large_row, large_column;
};

enum { PARTS = 256, PART_ROWS = 4096 }; /* at most, at least */

struct check {
    const struct uni_matrix *m;
    int64_t rows; /* of a part */
    struct found *found;
};

/* A float64 beyond float32's range counts as infinite: it would become so. */
static void check_part(void *context, int64_t part, int thread)
{
    const struct check *c = context;
    const struct uni_matrix *m = c->m;
    const int64_t end = (part + 1) * c->rows < m->n_cells ? (part + 1) * c->rows : m->n_cells;
    struct found f = {.first_row = -1, .large_row = -1};
    (void)thread;
    for (int64_t i = part * c->rows; i < end; i++) {
        if (row_is_usable(m, i))
            continue;
        for (int64_t j = 0; j < m->n_dims; j++) {
            double value = value_at(m, i, j);
            if (isfinite((float)value)) {
                if (f.large_row < 0 && fabs(value) >= UNI_LARGEST)
                    f.large_row = i, f.large_column = j;
                continue;
            }
            if (f.count++ == 0)
                f.first_row = i, f.first_column = j;
        }
    }
    c->found[part] = f;
}

static int find_unusable(struct found *all, const struct uni_matrix *m, struct uni_pool *pool)
{
    struct check c = {.m = m, .rows = m->n_cells / PARTS + 1};
    c.rows = c.rows < PART_ROWS ? PART_ROWS : c.rows;
    int64_t parts = (m->n_cells + c.rows - 1) / c.rows;
    *all = (struct found){.first_row = -1, .large_row = -1};
    c.found = calloc((size_t)parts + 1, sizeof *c.found);
    if (!c.found)
        return uni_fail(UNI_MEMORY, "no memory for checking the embedding: %zu bytes asked for", (size_t)parts * sizeof *c.found);
    int err = uni_pool_run(pool, check_part, &c, parts);
    for (int64_t part = 0; part < parts && !err; part++) {
        const struct found *f = &c.found[part];
        all->count += f->count;
        if (all->first_row < 0)
            all->first_row = f->first_row, all->first_column = f->first_column;
        if (all->large_row < 0)
            all->large_row = f->large_row, all->large_column = f->large_column;
    }
    free(c.found);
    return err;
}

int uni_matrix_refuse(const struct uni_unusable *u)
{
    if (u->count)
        return uni_fail(UNI_INPUT,
                        "the embedding has %lld non-finite value%s (NaN or infinite), %sat row %lld, column %lld (from 1); "
                        "remove these cells first",
                        (long long)u->count, u->count == 1 ? "" : "s", u->count == 1 ? "" : "the first ", (long long)u->row + 1,
                        (long long)u->column + 1);
    if (u->large_row >= 0)
        return uni_fail(UNI_INPUT,
                        "the embedding holds %g at row %lld, column %lld (from 1), and values must be below %.1g; scale it",
                        u->large, (long long)u->large_row + 1, (long long)u->large_column + 1, UNI_LARGEST);
    return UNI_OK;
}

static int check_values(const struct uni_matrix *m, int any_size, struct uni_pool *pool)
{
    struct found f;
    int err = find_unusable(&f, m, pool);
    struct uni_unusable u = {f.count, f.first_row, f.first_column, any_size ? -1 : f.large_row, f.large_column, 0};
    if (!err && u.large_row >= 0)
        u.large = value_at(m, u.large_row, u.large_column);
    return err ? err : uni_matrix_refuse(&u);
}

/* Harmony compares directions from the origin: a column far from zero makes all cells look alike. Principal components are
 * centred. */
static void warn_uncentred(const struct uni_matrix *m, int64_t step, struct uni_warnings *warnings)
{
    enum { COLUMNS = 64 };
    for (int64_t first = 0; first < m->n_dims; first += COLUMNS) {
        int64_t n = m->n_dims - first < COLUMNS ? m->n_dims - first : COLUMNS;
        double origin[COLUMNS], sum[COLUMNS] = {0}, squares[COLUMNS] = {0}, rows = 0;
        for (int64_t j = 0; j < n; j++)
            origin[j] = value_at(m, 0, first + j);
        for (int64_t i = 0; i < m->n_cells; i += step, rows++)
            for (int64_t j = 0; j < n; j++) {
                double x = value_at(m, i, first + j) - origin[j];
                sum[j] += x;
                squares[j] += x * x;
            }
        for (int64_t j = 0; j < n; j++) {
            double shift = sum[j] / rows, mean = origin[j] + shift, spread = sqrt(fmax(squares[j] / rows - shift * shift, 0));
            if (fabs(mean) > 50 * spread && spread > 0) {
                uni_warn(warnings,
                         "column %lld of the embedding has mean %.4g and a spread of only %.4g: the embedding is not centred, so "
                         "all cells look "
                         "alike to Harmony; subtract the column means first",
                         (long long)(first + j) + 1, mean, spread);
                return;
            }
        }
    }
}

/* Some thousand rows are looked at, this far apart. */
static int64_t step_of(const struct uni_matrix *m)
{
    return m->n_cells / 1000 + 1;
}

int uni_matrix_torn(int64_t device)
{
    return uni_fail(
        UNI_INPUT,
        "the embedding's data begins in the memory of a card (device %lld) and does not end there; its sizes or strides "
        "are wrong",
        (long long)device);
}

int uni_matrix_warn(const struct uni_problem *p, const struct uni_matrix *plain, struct uni_warnings *warnings)
{
    const int64_t step = step_of(plain), n = (plain->n_cells - 1) / step + 1;
    int64_t *row = calloc((size_t)n, sizeof *row);
    float *values = calloc((size_t)(n * plain->n_dims), sizeof *values);
    int err = row && values ? UNI_OK : uni_fail(UNI_MEMORY, "no memory for a look at %lld rows of the embedding", (long long)n);
    for (int64_t i = 0; i < n && !err; i++)
        row[i] = i * step;
    if (!err)
        err = uni_cuda_rows(values, plain, row, n, p);
    const struct uni_matrix looked_at = {values, UNI_FLOAT32, n, plain->n_dims, 4 * plain->n_dims, 4};
    if (!err)
        warn_uncentred(&looked_at, 1, warnings);
    free(row);
    free(values);
    return err;
}

/* The first byte, and how many to the last; 0: there are no such sizes. */
static int find_extent(const struct uni_matrix *m, const char **first, int64_t *bytes)
{
    int64_t down, along, low;
    if (__builtin_mul_overflow(m->n_cells - 1, m->row_stride, &down) ||
        __builtin_mul_overflow(m->n_dims - 1, m->col_stride, &along) || down == INT64_MIN || along == INT64_MIN ||
        __builtin_add_overflow(down < 0 ? down : 0, along < 0 ? along : 0, &low) ||
        __builtin_add_overflow(down < 0 ? -down : down, along < 0 ? -along : along, bytes) ||
        __builtin_add_overflow(*bytes, (int64_t)(m->dtype == UNI_FLOAT64 ? 8 : 4), bytes))
        return 0;
    *first = (const char *)((uintptr_t)m->data + (uintptr_t)low); /* wrong strides lead anywhere */
    return 1;
}

enum uni_where uni_matrix_where(const struct uni_matrix *m, int64_t *device)
{
    int64_t bytes, other;
    const char *first;
    const enum uni_where begins = uni_where_is(m->data, 1, device);
    if (begins == UNI_PAGEABLE || begins == UNI_UNSAID)
        return begins;
    const int sized = m->n_cells > 0 && m->n_dims > 0 && find_extent(m, &first, &bytes);
    const enum uni_where all = sized ? uni_where_is(first, bytes, &other) : UNI_TORN;
    if (all == begins || all == UNI_UNSAID)
        return all;
    return begins == UNI_PINNED ? UNI_PAGEABLE : UNI_TORN; /* what is pinned in part is this machine's all the same */
}

int uni_matrix_plain(const struct uni_matrix *given, struct uni_matrix *plain)
{
    if (!given->data)
        return uni_fail(UNI_INPUT, "the embedding's data is NULL");
    if (given->dtype != UNI_FLOAT32 && given->dtype != UNI_FLOAT64)
        return uni_fail(UNI_INPUT, "the embedding's dtype is %d; it must be UNI_FLOAT32 or UNI_FLOAT64", (int)given->dtype);
    *plain = *given;
    if (!given->row_stride && !given->col_stride) {
        plain->col_stride = given->dtype == UNI_FLOAT64 ? 8 : 4;
        plain->row_stride = plain->col_stride * given->n_dims;
    }
    return UNI_OK;
}

int uni_matrix_check_on(struct uni_pool *pool, const struct uni_matrix *given, struct uni_matrix *plain,
                        struct uni_warnings *warnings)
{
    int64_t device;
    int err = uni_matrix_plain(given, plain);
    enum uni_where where = err ? UNI_PAGEABLE : uni_matrix_where(plain, &device);
    if (where == UNI_TORN)
        err = uni_matrix_torn(device);
    if (where == UNI_ON_CARD)
        err = uni_fail(UNI_INPUT,
                       "the embedding lies in the memory of a card (device %lld), which the processors cannot read; use backend "
                       "cuda where there is a choice, or copy it to this machine's memory first",
                       (long long)device);
    if (!err)
        err = check_values(plain, !warnings, pool); /* who asks for no warnings calculates in float64 */
    if (!err && warnings)
        warn_uncentred(plain, step_of(plain), warnings);
    return err;
}

int uni_matrix_check(const struct uni_matrix *given, struct uni_matrix *plain, struct uni_warnings *warnings)
{
    return uni_matrix_check_on(NULL, given, plain, warnings);
}
