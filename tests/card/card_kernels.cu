/* SPDX-License-Identifier: BSD-3-Clause */
/* What the stand-in for a card does instead of the kernels: every cell belongs to all clusters alike, and nothing is corrected.
 * So tables and moments have numbers that the host can go on with, rows come back as they were sent, and the nearest centroids
 * and the lists of neighbours are right. A kernel that is not listed does nothing. */
#include <cstdio>
#include <cstring>

#include "../../src/cuda/cuda_lanes.h"
#include "../../src/cuda/cuda_near_block.h"
#include "card.h"

extern "C" void card_near(const near_work *, unsigned blocks); /* card_near.c */

template <typename T> static T *real(T *on_card)
{
    return (T *)card_storage(on_card);
}

template <typename T> static T given(const void *const *arguments, int i)
{
    T value;
    memcpy(&value, arguments[i], sizeof value);
    return value;
}

/* Is all of it on the card, or in memory of the host that kernels reach? */
static void reachable(const void *at, int64_t bytes, int bit, const char *what)
{
    if (card_is_mapped(at, (size_t)bytes))
        card_host_rows |= bit;
    else if (card_side_of(at, (size_t)bytes, card_device()) != CARD_DEVICE)
        card_problem("a kernel was given %s, %lld bytes, where it cannot reach it", what, (long long)bytes);
}

static uni_cuda_view view_of(const void *const *arguments)
{
    const uni_cuda_view v = given<uni_cuda_view>(arguments, 0);
    reachable(v.Z, v.N_all * v.Dz * (int64_t)sizeof *v.Z, 1, "Z");
    reachable(v.base, v.N * v.Kp * (v.single ? 4 : 2), 2, "base");
    return v;
}

static void nearest(const void *const *a, unsigned)
{
    int32_t *index = real(given<int32_t *>(a, 0));
    float *score = real(given<float *>(a, 1));
    long long *sum = given<long long *>(a, 2), *count = given<long long *>(a, 3);
    const float *X = real(given<const float *>(a, 4)), *Y = real(given<const float *>(a, 6));
    const int M = given<int>(a, 5), n = given<int>(a, 7), D = given<int>(a, 8);
    long long *sums = sum ? real(sum) : nullptr, *counts = sum ? real(count) : nullptr;
    for (int i = 0; i < M; i++) {
        score[i] = -2;
        for (int k = 0; k < n; k++) {
            float dot = 0;
            for (int d = 0; d < D; d++)
                dot += X[i * D + d] * Y[k * D + d];
            if (dot > score[i])
                score[i] = dot, index[i] = k;
        }
        for (int d = 0; sums && d < D; d++)
            sums[index[i] * D + d] += (long long)((double)X[i * D + d] * 1099511627776.0);
        if (sums)
            counts[index[i]]++;
    }
}

static void rows_out(const uni_cuda_view &v, uint32_t from, uint32_t to, float *out, int64_t row_from)
{
    const uni_cuda_tile *tile = real(v.tile);
    for (uint32_t t = from; out && t < to; t++)
        for (uint32_t i = 0; i < (tile[t].packed & 31); i++)
            memcpy(real(out) + ((int64_t)tile[t].row + i - row_from) * v.D, real(v.Z) + ((int64_t)tile[t].row + i) * v.Dz,
                   sizeof(float) * (size_t)v.D);
}

struct pass { /* that of cuda_assign.cu */
    uint32_t from, to;
    int corrected, fit;
    float scale;
    float *out;
    int64_t row_from;
};

static void assign_kernel(const void *const *a, unsigned)
{
    const pass p = given<pass>(a, 1);
    rows_out(view_of(a), p.from, p.to, p.out, p.row_from);
}

/* Its rows come and go where kernels reach. */
static void hopper_assign(const void *const *a, unsigned)
{
    (void)view_of(a);
}

static void of_warpgroups(const void *const *a, unsigned)
{
    *real(given<unsigned *>(a, 0)) = !card_from_ptx;
}

static void assign_plain(const void *const *a, unsigned)
{
    rows_out(view_of(a), given<uint32_t>(a, 1), given<uint32_t>(a, 2), given<float *>(a, 6), given<int64_t>(a, 7));
}

static void give_R(const void *const *a, unsigned tiles)
{
    const uni_cuda_view v = view_of(a);
    const uni_cuda_tile *tile = real(v.tile) + given<uint32_t>(a, 1);
    float *out = real(given<float *>(a, 2));
    for (unsigned t = 0; t < tiles; t++)
        for (int64_t i = 0; i < (int64_t)(tile[t].packed & 31) * v.K; i++)
            out[((int64_t)tile[t].row - given<int64_t>(a, 3)) * v.K + i] = 1.0f / (float)v.K;
}

static double cells_of(const uni_cuda_view &v, int group)
{
    double cells = 0;
    for (int i = 0; i < v.P; i++)
        cells += real(v.piece)[i].group == group ? real(v.piece)[i].n : 0;
    return cells;
}

static void put_O(const void *const *a, unsigned groups)
{
    const uni_cuda_view v = view_of(a);
    for (int64_t i = 0; i < (int64_t)v.G * v.K; i++)
        real(v.O)[i] = cells_of(v, (int)(i / v.K)) / v.K;
    (void)groups;
}

struct fit_parts { /* that of cuda_tables.cu */
    int n, of_base, terms;
};

static void level_tables(const void *const *a, unsigned levels)
{
    put_O(a, levels);
    if (given<fit_parts>(a, 2).n == 0)
        return;
    double *result = real(view_of(a).result);
    result[RESULT_TOTAL] = 100;
    result[RESULT_ENTROPY] = -10;
    result[RESULT_DIVERSITY] = 1;
}

static void clear_moments(const void *const *a, unsigned)
{
    const uni_cuda_view v = view_of(a);
    memset(real(v.S), 0, (size_t)v.G * v.K * v.D * sizeof *v.S);
}

static void corrections(const void *const *a, unsigned)
{
    double *result = real(view_of(a).result);
    result[RESULT_CHANGE] = 0.5;
    result[RESULT_PRUNED] = result[RESULT_SKIPPED] = 0;
    result[RESULT_DEGENERATE] = card_degenerate;
}

static void moments(const void *const *a, unsigned)
{
    const uni_cuda_view v = view_of(a);
    const float *Z = real(v.Z);
    long long *S = real(v.S);
    for (int i = 0; i < v.P; i++) {
        const uni_cuda_piece piece = real(v.piece)[i];
        for (uint32_t row = piece.row; row < piece.row + piece.n; row++)
            for (int64_t j = 0; j < (int64_t)v.K * v.D; j++)
                S[piece.group * v.K * v.D + j] += (long long)((double)Z[row * (int64_t)v.Dz + j % v.D] / v.K * v.S_scale);
    }
}

static void by_level(const void *const *a, unsigned)
{
    const uni_cuda_view v = view_of(a);
    const int64_t table = (int64_t)v.K * v.D;
    for (int64_t i = 0; i < v.G * table; i++) {
        for (int u = 0; u < v.V; u++)
            real(v.level_S)[real(v.group_row)[i / table * v.V + u] * table + i % table] += real(v.S)[i];
        if (real(v.takes_part)[i / v.D])
            real(v.level_S)[v.levels * table + i % table] += real(v.S)[i];
    }
}

static void to_double(const void *const *a, unsigned)
{
    long long *S = real(given<long long *>(a, 0));
    for (int64_t i = 0; i < given<int64_t>(a, 1); i++) {
        double x = (double)S[i] / given<double>(a, 2);
        memcpy(S + i, &x, sizeof x);
    }
}

static void near_neighbours(const void *const *a, unsigned blocks)
{
    const near_work work = given<near_work>(a, 0);
    card_near(&work, blocks);
}

/* A kernel reaches its card's memory and what is pinned. */
static bool reaches(const void *at, size_t bytes)
{
    const enum card_side side = card_side_of(at, bytes, card_device());
    if (side == CARD_DEVICE || side == CARD_PINNED)
        return true;
    card_problem("a kernel reaches for %zu bytes that are not in its reach", bytes);
    return false;
}

static void look(uni_cuda_found *found, float value, unsigned long long place)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0x7f800000u;
    if (bits == 0x7f800000u) {
        found->count++;
        found->first = place < found->first ? place : found->first;
    } else if (bits >= 243u << 23) {
        found->large = place < found->large ? place : found->large;
    }
}

static float value_of(const uni_cuda_source &s, uint32_t row, int d)
{
    const char *at = s.data + row * s.row_stride + d * s.col_stride;
    const size_t size = s.wide ? 8 : 4;
    double wide = 0;
    float value = 0;
    if (!reaches(at, size))
        return 0;
    if (s.word && (s.wide || s.col_stride != 4 || (uintptr_t)s.data % s.word != 0 || s.row_stride % s.word != 0))
        card_problem("a kernel reads words of %d bytes where there are none", s.word);
    memcpy(s.wide ? (void *)&wide : &value, card_storage(at), size);
    return s.wide ? (float)wide : value;
}

static void gather(const void *const *a, unsigned)
{
    float *to = given<float *>(a, 0);
    const int width = given<int>(a, 1);
    const uni_cuda_source from = given<uni_cuda_source>(a, 2);
    const uni_cuda_order order = given<uni_cuda_order>(a, 3);
    const uint32_t n = given<uint32_t>(a, 4);
    uni_cuda_found *found = given<uni_cuda_found *>(a, 5);
    if ((order.row && !reaches(order.row, (size_t)n * 4)) ||
        (order.place && !reaches(order.place + order.first, (size_t)n * 4)) || (from.word && width * 4 % from.word != 0))
        return card_problem("rows are gathered to where they do not fit");
    for (uint32_t i = 0; i < n; i++)
        for (int d = 0; d < width; d++) {
            const uint32_t r = order.row ? real(order.row)[i] : (uint32_t)order.first + i;
            const float value = d < from.D ? value_of(from, r, d) : 0;
            float *there = to + (order.place ? (int64_t)real(order.place)[order.first + i] : (int64_t)i) * width + d;
            if (!reaches(there, 4))
                return;
            *real(there) = value;
            if (found)
                look(real(found), value, (unsigned long long)r * from.D + d);
        }
}

static void invert(const void *const *a, unsigned)
{
    uint32_t *place = given<uint32_t *>(a, 0);
    const uint32_t *row = given<const uint32_t *>(a, 1), first = given<uint32_t>(a, 2), n = given<uint32_t>(a, 3);
    for (uint32_t i = 0; reaches(row, (size_t)n * 4) && i < n; i++)
        if (reaches(place + real(row)[i], 4))
            real(place)[real(row)[i]] = first + i;
}

static void scatter(const void *const *a, unsigned)
{
    float *to = given<float *>(a, 0);
    const float *from = given<const float *>(a, 2);
    const int width = given<int>(a, 1), stride = given<int>(a, 3);
    const uint32_t *row = given<const uint32_t *>(a, 4), n = given<uint32_t>(a, 5);
    if (!reaches(row, (size_t)n * 4) || (from && !reaches(from, ((size_t)(n - 1) * stride + width) * 4)))
        return;
    for (uint32_t i = 0; i < n; i++) {
        float *there = to + (int64_t)real(row)[i] * width;
        if (!reaches(there, (size_t)width * 4))
            return;
        if (from)
            memcpy(real(there), real(from) + (int64_t)i * stride, (size_t)width * 4);
        else
            memset(real(there), 0, (size_t)width * 4);
    }
}

enum { VIEW = sizeof(uni_cuda_view) };
static const card_kernel card_kernels[] = {
    {"nearest", nearest, {8, 8, 8, 8, 8, 4, 8, 4, 4}},
    {"assign_kernel", assign_kernel, {VIEW, sizeof(pass)}},
    {"hopper_assign", hopper_assign, {VIEW}},
    {"of_warpgroups", of_warpgroups, {8}},
    {"assign_plain", assign_plain, {VIEW, 4, 4, 8, 4, 4, 8, 8}},
    {"give_R", give_R, {VIEW, 4, 8, 8}},
    {"level_tables", level_tables, {VIEW, 4, sizeof(fit_parts)}},
    {"clear_moments", clear_moments, {VIEW}},
    {"corrections", corrections, {VIEW}},
    {"moments_kernel", moments, {VIEW}},
    {"hopper_moments", moments, {VIEW}},
    {"moments_plain", moments, {VIEW}},
    {"by_level", by_level, {VIEW}},
    {"to_double", to_double, {8, 8, 8}},
    {"gather_words", gather, {8, 4, sizeof(uni_cuda_source), sizeof(uni_cuda_order), 4, 8}},
    {"gather_values", gather, {8, 4, sizeof(uni_cuda_source), sizeof(uni_cuda_order), 4, 8}},
    {"invert", invert, {8, 8, 4, 4}},
    {"scatter_words", scatter, {8, 4, 8, 4, 8, 4}},
    {"near_kernel", near_neighbours, {sizeof(near_work)}}};
static_assert(VIEW + sizeof(pass) + 8 * 16 < CARD_MOST_ARGUMENTS, "the arguments of a kernel");

/* In the names that the compiler makes a function's own follows its length. */
const card_kernel *card_kernel_of(const char *mangled)
{
    char name[64];
    for (size_t i = 0; i < sizeof card_kernels / sizeof *card_kernels; i++) {
        snprintf(name, sizeof name, "%zu%s", strlen(card_kernels[i].name), card_kernels[i].name);
        if (strstr(mangled, name))
            return &card_kernels[i];
    }
    return nullptr;
}
