/* SPDX-License-Identifier: BSD-3-Clause */
/* A run's sizes, and the order of its rows: by group, then by block. */
#include <math.h>
#include <string.h>

#include "pool.h"
#include "error.h"
#include "formula.h"
#include "method.h"

/* Entries of S (G,K,D), a GiB of them: with more, several variables have one for every level instead. */
static const int64_t MOST_MOMENTS = (int64_t)1 << 27;

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

/* Weights and covariates. */
static int check_per_cell(int64_t n_cells, const struct uni_options *o)
{
    if (o->weights && o->n_weights != n_cells)
        return uni_fail(UNI_INPUT, "%lld weights for %lld cells; give one per cell", (long long)o->n_weights, (long long)n_cells);
    for (int64_t i = 0; o->weights && i < n_cells; i++)
        if (!(o->weights[i] >= 1e-12 && o->weights[i] <= 1e12)) /* far within float32 */
            return uni_fail(UNI_INPUT, "the weight of cell %lld (from 1) is %g; it must be 1e-12 to 1e12", (long long)i + 1,
                            o->weights[i]);
    if (o->n_covariates < 0 || o->n_covariates > UNI_MAX_VARIABLES || (o->n_covariates && !o->covariates))
        return uni_fail(UNI_INPUT, "%d covariates; give 0 to %d", o->n_covariates, UNI_MAX_VARIABLES);
    for (int x = 0; x < o->n_covariates; x++) {
        const struct uni_covariate *v = &o->covariates[x];
        const char *name = v->name ? v->name : "covariate";
        if (v->n_cells != n_cells)
            return uni_fail(UNI_INPUT, "\"%s\" has %lld values for %lld cells; give one per cell", name, (long long)v->n_cells,
                            (long long)n_cells);
        for (int64_t i = 0; i < n_cells; i++)
            if (!isfinite(v->value[i]))
                return uni_fail(UNI_INPUT, "\"%s\" is %g at cell %lld (from 1); every cell needs a finite value", name,
                                v->value[i], (long long)i + 1);
    }
    return UNI_OK;
}

/* What the options say of the method itself. */
static void settle_method(struct uni_cells_sorted *c, const struct uni_options *o)
{
    struct uni_problem *p = &c->problem;
    int first = o->flavor == UNI_HARMONY1;
    p->jacobi = o->update == UNI_UPDATE_JACOBI;
    p->redraw = o->compat == UNI_COMPAT_R204 && !p->jacobi;
    p->add_penalties = o->compat == UNI_COMPAT_R204;
    p->penalty_scale = first ? UNI_PENALTY_SCALE_2019 : 2;
    p->penalty_add = first ? UNI_PENALTY_ADD_2019 : 1;
    p->seed = (uint64_t)o->seed;
    p->sweeps = o->sweeps;
    p->X = o->n_covariates;
    c->cutoff = first ? -1 : o->cutoff;
}

int uni_problem_open(struct uni_cells_sorted *c, struct uni_warnings *warnings, int64_t n_cells, int64_t n_dims,
                     const struct uni_batch *batches, int n_batches, const struct uni_options *o)
{
    int err = 0;
    struct uni_problem *p = &c->problem;
    memset(c, 0, sizeof *c);
    TRY(uni_groups_check(n_cells, n_dims, batches, n_batches));
    TRY(uni_options_check(o, o->combine ? 1 : n_batches));
    TRY(check_per_cell(n_cells, o));
    settle_method(c, o);
    p->N_all = n_cells;
    p->D = n_dims;
    p->V = n_batches;
    p->single = o->precision == UNI_SINGLE;
    p->device = o->device;
    p->threads = o->threads;
    p->cancel = o->cancel;
    p->stream = o->stream;

    c->weighted = o->weights != NULL;
    TRY(choose_clusters(&p->K, n_cells, o)); /* an upper bound: the room for sigma */
    TRY(uni_groups_open(c, warnings, batches, o));
    TRY(choose_clusters(&p->K, p->N, o));
    p->by_level = p->V > 1 && p->G > MOST_MOMENTS / (p->K * p->D);
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
    for (int v = 0; v < p->V; v++)
        for (int64_t l = p->level_first[v]; l < p->level_first[v + 1]; l++)
            theta[l] = uni_theta_of_level(uni_value_of(&o->theta, v), uni_value_of(&o->tau, v), p->level_mass[l], (double)K);
    return UNI_OK;
}

int64_t uni_problem_bytes(const struct uni_cells_sorted *c)
{
    const struct uni_problem *p = &c->problem;
    return c->tables.bytes + 8 * (p->G * p->Q + 1) + 4 * p->N_all + p->G * (8 + 4 * p->V) + 4 * p->N * (p->X + c->weighted);
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

/* The caller's cells in equal parts, each of which is put in its place by a task: what it must know is how many cells of every
   group come before it. */
enum { MOST_PARTS = 64, PART_CELLS = 65536, PART_CELLS_A_GROUP = 75 }; /* at least; a part draws an order for every group */

struct sorting {
    const struct uni_cells_sorted *c;
    uint32_t *row;
    int64_t parts;
    int64_t *before;      /* (parts,G + 1) cells of every group, and skipped ones: of the part, then of those before it */
    struct place *places; /* (parts,G) */
    uint16_t *blocks;     /* (parts,G,Q) */
    uint64_t seed;
};

static int64_t count_parts(const struct uni_problem *p)
{
    int64_t cells = p->G > PART_CELLS / PART_CELLS_A_GROUP ? PART_CELLS_A_GROUP * p->G : PART_CELLS, parts = p->N_all / cells;
    return parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
}

static void count_part(void *context, int64_t part, int thread)
{
    const struct sorting *s = context;
    const struct uni_problem *p = &s->c->problem;
    int64_t *cells = s->before + part * (p->G + 1);
    (void)thread;
    for (int64_t i = p->N_all * part / s->parts; i < p->N_all * (part + 1) / s->parts; i++)
        cells[s->c->cell_group[i] < 0 ? p->G : s->c->cell_group[i]]++;
}

static void add_parts(struct sorting *s)
{
    const int64_t G = s->c->problem.G;
    for (int64_t g = 0; g <= G; g++)
        for (int64_t part = 0, sum = 0; part < s->parts; part++) {
            int64_t *before = &s->before[part * (G + 1) + g], cells = *before;
            *before = sum;
            sum += cells;
        }
}

static void place_part(void *context, int64_t part, int thread)
{
    const struct sorting *s = context;
    const struct uni_problem *p = &s->c->problem;
    const int64_t *before = s->before + part * (p->G + 1);
    struct place *places = s->places + part * p->G;
    uint16_t *blocks = s->blocks + part * p->G * p->Q;
    int64_t skipped = p->N + before[p->G];
    (void)thread;
    for (int64_t g = 0; g < p->G; g++) {
        places[g] = (struct place){before[g] % p->Q, before[g] / p->Q};
        if (places[g].slot > 0)
            draw_blocks(blocks + g * p->Q, p->Q, s->seed, g, places[g].chunk);
    }
    for (int64_t i = p->N_all * part / s->parts; i < p->N_all * (part + 1) / s->parts; i++) {
        int64_t g = s->c->cell_group[i];
        if (g < 0) {
            s->row[skipped++] = (uint32_t)i;
            continue;
        }
        struct place *at = &places[g];
        if (at->slot == 0)
            draw_blocks(blocks + g * p->Q, p->Q, s->seed, g, at->chunk);
        s->row[p->piece[g * p->Q + blocks[g * p->Q + at->slot]] + at->chunk] = (uint32_t)i;
        if (++at->slot == p->Q) {
            at->slot = 0;
            at->chunk++;
        }
    }
}

static int place_rows(struct sorting *s)
{
    struct uni_pool *pool = s->c->problem.pool;
    int err = uni_pool_run(pool, count_part, s, s->parts);
    add_parts(s);
    return err ? err : uni_pool_run(pool, place_part, s, s->parts);
}

/* Weights as they are; covariates centred and scaled to unit spread, each cell at its weight. */
static int sort_per_cell(struct uni_cells_sorted *c, const struct uni_options *o)
{
    struct uni_problem *p = &c->problem;
    float *weight = c->weighted ? (float *)(uintptr_t)p->weight : NULL, *x = (float *)(uintptr_t)p->x;
    p->weight = weight;
    for (int64_t i = 0; weight && i < p->N; i++)
        weight[i] = (float)o->weights[p->row[i]];
    for (int j = 0; j < p->X; j++, x += p->N) {
        const double *value = o->covariates[j].value;
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < p->N; i++)
            mean += (weight ? (double)weight[i] : 1) * (value[p->row[i]] / p->mass);
        for (int64_t i = 0; i < p->N; i++)
            squares += (weight ? (double)weight[i] : 1) * ((value[p->row[i]] - mean) * ((value[p->row[i]] - mean) / p->mass));
        double spread = sqrt(squares);
        if (!(spread > 1e-10 * fabs(mean)) || !isfinite(spread))
            return uni_fail(UNI_INPUT, "\"%s\" has mean %g and spread %g: there is nothing to regress out; leave it out",
                            o->covariates[j].name ? o->covariates[j].name : "covariate", mean, spread);
        for (int64_t i = 0; i < p->N; i++)
            x[i] = (float)((value[p->row[i]] - mean) / spread);
    }
    return UNI_OK;
}

int uni_problem_sort(struct uni_cells_sorted *c, const struct uni_options *o)
{
    int err = 0;
    struct uni_problem *p = &c->problem;
    struct uni_arena work = {0};
    struct sorting s = {.c = c, .parts = count_parts(p), .seed = (uint64_t)o->seed};
    const struct uni_array_row list[] = {UNI_ARRAY(p->piece, p->G * p->Q + 1), UNI_ARRAY(p->row, p->N_all),
                                         UNI_ARRAY(p->weight, p->N * c->weighted), UNI_ARRAY(p->x, p->N * p->X)};
    const struct uni_array_row temporary[] = {UNI_ARRAY(s.before, s.parts * (p->G + 1)), UNI_ARRAY(s.places, s.parts * p->G),
                                              UNI_ARRAY(s.blocks, s.parts * p->G * p->Q)};
    TRY(uni_arena_open(&c->rows, list, 4, "the order of the cells"));
    TRY(uni_arena_open(&work, temporary, 3, "sorting the cells"));
    cut_pieces((int64_t *)(uintptr_t)p->piece, c, s.blocks, s.seed);
    s.row = (uint32_t *)(uintptr_t)p->row;
    TRY(place_rows(&s));
    uni_arena_close(&c->groups); /* the rows say it now */
    TRY(sort_per_cell(c, o));
done:
    uni_arena_close(&work);
    return err;
}

void uni_problem_close(struct uni_cells_sorted *c)
{
    uni_groups_close(c);
    uni_arena_close(&c->tables);
    uni_arena_close(&c->rows);
}
