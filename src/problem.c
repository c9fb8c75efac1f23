/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's labels, checked; levels -> groups; the order of the rows: by group, then by block. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "formula.h"
#include "method.h"

static const char *variable_name(const struct uni_batch *batch)
{
    return batch->name ? batch->name : "batch";
}

static int check_sizes(int64_t n_cells, int64_t n_dims, const struct uni_batch *batches, int n_batches)
{
    if (n_batches < 1 || n_batches > UNI_MAX_VARIABLES)
        return uni_fail(UNI_INPUT, "%d batch variables; give 1 to %d", n_batches, UNI_MAX_VARIABLES);
    if (n_batches > 1)
        return uni_fail(
            UNI_INPUT,
            "%d batch variables (\"%s\", \"%s\"%s): this version corrects for one; combine them into one column of joint labels",
            n_batches, variable_name(&batches[0]), variable_name(&batches[1]), n_batches > 2 ? ", ..." : "");
    if (n_cells < 2)
        return uni_fail(UNI_INPUT, "the embedding has %lld cells; at least 2 are needed", (long long)n_cells);
    if (n_dims < 1)
        return uni_fail(UNI_INPUT, "the embedding has %lld dimensions; at least 1 is needed", (long long)n_dims);
    for (int v = 0; v < n_batches; v++) {
        const struct uni_batch *b = &batches[v];
        if (b->n_cells != n_cells)
            return uni_fail(UNI_INPUT, "\"%s\" has %lld labels for an embedding of %lldx%lld (cells x dimensions)%s",
                            variable_name(b), (long long)b->n_cells, (long long)n_cells, (long long)n_dims,
                            b->n_cells == n_dims ? ": cells must be rows, transpose the embedding" : "; give one label per cell");
        if (b->n_levels < 1 || b->n_levels >= INT32_MAX)
            return uni_fail(UNI_INPUT, "\"%s\" says that it has %lld levels; it must be 1 to 2147483646", variable_name(b),
                            (long long)b->n_levels);
    }
    return UNI_OK;
}

/* Cells of every level, and the levels that have any in the order of their first cells: how levels are numbered changes nothing.
   The level past the last holds the cells without a label. */
static int count_levels(int64_t *cells, int32_t *seen, const struct uni_batch *b)
{
    for (int64_t i = 0; i < b->n_cells; i++) {
        int32_t level = b->level[i];
        if (level < -1 || level >= b->n_levels)
            return uni_fail(
                UNI_INPUT,
                "\"%s\" has level %d at cell %lld (from 1); it has %lld levels, so a level is 0 to %lld, or -1 if missing",
                variable_name(b), level, (long long)i + 1, (long long)b->n_levels, (long long)b->n_levels - 1);
        level = level < 0 ? (int32_t)b->n_levels : level;
        if (cells[level]++ == 0)
            *seen++ = level;
    }
    return UNI_OK;
}

static int refuse_missing(const struct uni_batch *b, int64_t missing)
{
    int64_t first = 0;
    while (b->level[first] >= 0)
        first++;
    return uni_fail(UNI_INPUT,
                    "\"%s\" has %lld missing label%s, %sat cell %lld (from 1); fill them in, or set missing to skip (leave "
                    "these cells uncorrected) or "
                    "level (a level of their own)",
                    variable_name(b), (long long)missing, missing == 1 ? "" : "s", missing == 1 ? "" : "the first ",
                    (long long)first + 1);
}

/* Labels that look like a mistake: cell names or a measurement given as batches. Two levels are always fine. */
static int check_levels(const struct uni_batch *b, const int64_t *cells, int64_t n_levels, int64_t n_cells, int force,
                        struct uni_warnings *warnings)
{
    int64_t used = 0, single = 0, first = -1;
    for (int64_t l = 0; l < n_levels; l++) {
        used += cells[l] > 0;
        single += cells[l] == 1;
        if (cells[l] == 1 && first < 0)
            first = l;
    }
    if (!force && used > 2 && used > n_cells / 2)
        return uni_fail(UNI_INPUT,
                        "\"%s\" has %lld levels for %lld cells: it looks like cell names or a measurement, not batches; choose "
                        "another column, or "
                        "force it",
                        variable_name(b), (long long)used, (long long)n_cells);
    if (!force && used > 2 && single > used / 2)
        return uni_fail(UNI_INPUT,
                        "\"%s\" has %lld levels for %lld cells, and %lld of them hold a single cell: it does not look like "
                        "batches; choose another "
                        "column, or force it",
                        variable_name(b), (long long)used, (long long)n_cells, (long long)single);
    if (single > 0) {
        char number[32];
        const char *name = first == b->n_levels ? "the cells without a label" : b->level_names ? b->level_names[first] : number;
        snprintf(number, sizeof number, "number %lld", (long long)first);
        uni_warn(warnings, "%lld level%s of \"%s\" %s a single cell (%s%s): there is little to learn %s batch effect from",
                 (long long)single, single == 1 ? "" : "s", variable_name(b), single == 1 ? "has" : "have",
                 single == 1 ? "" : "the first is ", name, single == 1 ? "its" : "their");
    }
    return UNI_OK;
}

/* The R package's default: cells / 30, halves to even, 1 to 100. */
static int64_t default_clusters(int64_t N)
{
    int64_t K = N / 30, rest = N % 30;
    K += rest > 15 || (rest == 15 && K % 2 == 1);
    return K < 1 ? 1 : K > 100 ? 100 : K;
}

static int choose_clusters(int64_t *K, int64_t N, const struct uni_options *o)
{
    int64_t given = o->centroids ? o->n_centroids : 0;
    if (o->centroids && (given < 1 || given > 100000))
        return uni_fail(UNI_OPTION, "%lld starting centroids; give 1 to 100000", (long long)given);
    if (given && o->n_clusters && o->n_clusters != given)
        return uni_fail(UNI_OPTION, "clusters is %lld, but %lld starting centroids are given; leave clusters out",
                        (long long)o->n_clusters, (long long)given);
    *K = given ? given : o->n_clusters ? o->n_clusters : default_clusters(N);
    return UNI_OK;
}

static int make_groups(struct uni_cells_sorted *c, const struct uni_batch *b, const struct uni_options *o)
{
    struct uni_problem *p = &c->problem;
    int32_t *group_level = (int32_t *)(uintptr_t)p->group_level;
    double *share = (double *)(uintptr_t)p->level_share;
    int64_t missing = c->level_cells[b->n_levels];
    if (missing > 0 && o->missing == UNI_MISSING_ERROR)
        return refuse_missing(b, missing);
    p->N = p->N_all - (o->missing == UNI_MISSING_SKIP ? missing : 0);
    if (p->N < 2)
        return uni_fail(UNI_INPUT, "only %lld of %lld cells have a label in \"%s\"; at least 2 are needed", (long long)p->N,
                        (long long)p->N_all, variable_name(b));
    p->B = b->n_levels + (o->missing == UNI_MISSING_LEVEL && missing > 0);
    for (int64_t l = 0; l < p->B; l++) {
        share[l] = (double)c->level_cells[l] / (double)p->N;
        c->lambda[l] = o->lambda.n ? uni_value_of(&o->lambda, 0) : 0;
    }
    int64_t seen = 0; /* group_level holds the levels by first cell: those that take part stay */
    for (int64_t i = 0; i <= b->n_levels && seen < p->N_all; i++) {
        int32_t l = group_level[i];
        seen += c->level_cells[l];
        if (l < p->B) {
            group_level[p->G] = l;
            c->group_cells[p->G++] = c->level_cells[l];
        }
    }
    c->n_levels = p->G;
    int64_t largest = 1;
    for (int64_t g = 0; g < p->G; g++)
        largest = c->group_cells[g] > largest ? c->group_cells[g] : largest;
    p->Q = (int64_t)ceil(1 / o->block_size - 1e-9);
    p->Q = p->Q > largest ? largest : p->Q; /* more blocks than a level has cells are empty ones */
    return UNI_OK;
}

int uni_problem_open(struct uni_cells_sorted *c, struct uni_warnings *warnings, int64_t n_cells, int64_t n_dims,
                     const struct uni_batch *batches, int n_batches, const struct uni_options *o)
{
    int err = 0;
    struct uni_problem *p = &c->problem;
    memset(c, 0, sizeof *c);
    TRY(check_sizes(n_cells, n_dims, batches, n_batches));
    TRY(uni_options_check(o, n_batches));
    if (o->update == UNI_UPDATE_JACOBI)
        TRY(uni_fail(UNI_OPTION, "update is jacobi, which this version does not have; use blocks"));
    p->N_all = n_cells;
    p->D = n_dims;
    p->V = n_batches;
    p->single = o->precision == UNI_SINGLE;
    p->threads = o->threads;
    p->cancel = o->cancel;

    int64_t B = batches->n_levels + 1;
    TRY(choose_clusters(&p->K, n_cells, o)); /* an upper bound: the room for sigma */
    const struct uni_array_row list[] = {UNI_ARRAY(c->level_cells, B), UNI_ARRAY(c->group_cells, B), UNI_ARRAY(c->lambda, B),
                                         UNI_ARRAY(p->group_level, B), UNI_ARRAY(p->level_share, B), UNI_ARRAY(p->level_theta, B),
                                         UNI_ARRAY(p->sigma, p->K)};
    TRY(uni_arena_open(&c->tables, list, sizeof list / sizeof *list, "the tables of levels"));
    TRY(count_levels(c->level_cells, (int32_t *)(uintptr_t)p->group_level, batches));
    TRY(make_groups(c, batches, o));
    TRY(check_levels(batches, c->level_cells, p->B, p->N, o->force, warnings));
    TRY(choose_clusters(&p->K, p->N, o));
    if (n_dims > 500 || (n_dims > 100 && n_dims > n_cells / 10))
        uni_warn(warnings,
                 "the embedding has %lld dimensions for %lld cells: this looks like expression data; give principal components, "
                 "usually 20 to 50",
                 (long long)n_dims, (long long)n_cells);
done:
    if (err)
        uni_problem_close(c);
    return err;
}

int uni_problem_settle(struct uni_cells_sorted *c, const struct uni_options *o, int64_t K)
{
    struct uni_problem *p = &c->problem;
    double *sigma = (double *)(uintptr_t)p->sigma, *theta = (double *)(uintptr_t)p->level_theta;
    if (o->cluster_sigma && o->n_cluster_sigma != K)
        return uni_fail(UNI_OPTION, "sigma has %lld values for %lld clusters; give one, or one per cluster",
                        (long long)o->n_cluster_sigma, (long long)K);
    p->K = K;
    for (int64_t k = 0; k < K; k++) {
        sigma[k] = o->cluster_sigma ? o->cluster_sigma[k] : o->sigma;
        if (!(sigma[k] > 0 && sigma[k] <= 1e6))
            return uni_fail(UNI_OPTION, "sigma is %g for cluster %lld; it must be > 0, at most 1e6", sigma[k], (long long)k + 1);
    }
    for (int64_t l = 0; l < p->B; l++)
        theta[l] = uni_theta_of_level(uni_value_of(&o->theta, 0), uni_value_of(&o->tau, 0), (double)c->level_cells[l], (double)K);
    return UNI_OK;
}

int64_t uni_problem_bytes(const struct uni_cells_sorted *c)
{
    const struct uni_problem *p = &c->problem;
    return c->tables.bytes + 8 * (p->G * p->Q + 1) + 8 * p->N_all;
}

/* A fresh order of the blocks for every Q cells of a group: each block gets one of them, so blocks are equally large and a fair
   sample of the group however its cells are sorted, and neighbours in a block stay in the caller's order. */
static void draw_blocks(uint16_t *block, int64_t Q, uint64_t seed, int64_t group, int64_t chunk)
{
    uint64_t state = seed + 0x632BE59BD9B4E019u * (uint64_t)(group + 1);
    state = uni_random(&state) + (uint64_t)chunk;
    (void)uni_random(&state);
    for (int64_t q = 0; q < Q; q++) {
        int64_t other = uni_random_below(&state, q + 1);
        block[q] = block[other];
        block[other] = (uint16_t)q;
    }
}

static void cut_pieces(int64_t *piece, const struct uni_cells_sorted *c, uint16_t *block, uint64_t seed)
{
    const struct uni_problem *p = &c->problem;
    int64_t at = 0;
    for (int64_t g = 0; g < p->G; g++) {
        int64_t whole = c->group_cells[g] / p->Q, rest = c->group_cells[g] % p->Q;
        for (int64_t q = 0; q < p->Q; q++)
            piece[g * p->Q + q] = whole;
        draw_blocks(block, p->Q, seed, g, whole);
        for (int64_t j = 0; j < rest; j++)
            piece[g * p->Q + block[j]]++;
        for (int64_t q = 0; q < p->Q; q++) {
            int64_t cells = piece[g * p->Q + q];
            piece[g * p->Q + q] = at;
            at += cells;
        }
    }
    piece[p->G * p->Q] = at;
}

/* Where a group's next cell goes: its place in the present order of blocks, and how many orders went before. */
struct place {
    int64_t slot, chunk;
};

static void place_rows(int64_t *row, const struct uni_cells_sorted *c, const struct uni_batch *b, const int32_t *group_of_level,
                       struct place *places, uint16_t *blocks, uint64_t seed)
{
    const struct uni_problem *p = &c->problem;
    int64_t skipped = p->N;
    for (int64_t i = 0; i < p->N_all; i++) {
        int64_t level = b->level[i] < 0 ? b->n_levels : b->level[i];
        if (level >= p->B) {
            row[skipped++] = i;
            continue;
        }
        int64_t g = group_of_level[level];
        struct place *at = &places[g];
        if (at->slot == 0)
            draw_blocks(blocks + g * p->Q, p->Q, seed, g, at->chunk);
        row[p->piece[g * p->Q + blocks[g * p->Q + at->slot]] + at->chunk] = i;
        if (++at->slot == p->Q) {
            at->slot = 0;
            at->chunk++;
        }
    }
}

int uni_problem_sort(struct uni_cells_sorted *c, const struct uni_batch *batches, const struct uni_options *o)
{
    int err = 0;
    struct uni_problem *p = &c->problem;
    struct uni_arena work = {0};
    int32_t *group_of_level;
    struct place *places;
    uint16_t *blocks;
    uint64_t seed = (uint64_t)o->seed;
    const struct uni_array_row list[] = {UNI_ARRAY(p->piece, p->G * p->Q + 1), UNI_ARRAY(p->row, p->N_all)};
    const struct uni_array_row temporary[] = {UNI_ARRAY(group_of_level, p->B), UNI_ARRAY(places, p->G),
                                              UNI_ARRAY(blocks, p->G * p->Q)};
    TRY(uni_arena_open(&c->rows, list, 2, "the order of the cells"));
    TRY(uni_arena_open(&work, temporary, 3, "sorting the cells"));
    for (int64_t g = 0; g < p->G; g++)
        group_of_level[p->group_level[g]] = (int32_t)g;
    cut_pieces((int64_t *)(uintptr_t)p->piece, c, blocks, seed);
    place_rows((int64_t *)(uintptr_t)p->row, c, batches, group_of_level, places, blocks, seed);
done:
    uni_arena_close(&work);
    return err;
}

void uni_problem_close(struct uni_cells_sorted *c)
{
    uni_arena_close(&c->tables);
    uni_arena_close(&c->rows);
}
