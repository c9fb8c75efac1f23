/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's labels, checked; levels -> groups, the joint levels that occur, numbered by their first cell: how levels are
   numbered changes nothing. */
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

int uni_labels_check(const struct uni_batch *b, const char *name, int64_t n_cells, int64_t n_dims)
{
    if (b->n_cells != n_cells)
        return uni_fail(UNI_INPUT, "\"%s\" has %lld labels for an embedding of %lldx%lld (cells x dimensions)%s", name,
                        (long long)b->n_cells, (long long)n_cells, (long long)n_dims,
                        b->n_cells == n_dims ? ": cells must be rows, transpose the embedding" : "; give one label per cell");
    if (b->n_levels < 1 || b->n_levels >= INT32_MAX)
        return uni_fail(UNI_INPUT, "\"%s\" says that it has %lld levels; it must be 1 to 2147483646", name,
                        (long long)b->n_levels);
    return UNI_OK;
}

int uni_level_refused(const struct uni_batch *b, const char *name, int64_t cell)
{
    return uni_fail(UNI_INPUT,
                    "\"%s\" has level %d at cell %lld (from 1); it has %lld levels, so a level is 0 to %lld, or -1 if missing",
                    name, b->level[cell], (long long)cell + 1, (long long)b->n_levels, (long long)b->n_levels - 1);
}

int uni_groups_check(int64_t n_cells, int64_t n_dims, const struct uni_batch *batches, int n_batches)
{
    if (n_batches < 1 || n_batches > UNI_MAX_VARIABLES)
        return uni_fail(UNI_INPUT, "%d batch variables; give 1 to %d", n_batches, UNI_MAX_VARIABLES);
    if (n_cells < 2)
        return uni_fail(UNI_INPUT, "the embedding has %lld cells; at least 2 are needed", (long long)n_cells);
    if (n_dims < 1)
        return uni_fail(UNI_INPUT, "the embedding has %lld dimensions; at least 1 is needed", (long long)n_dims);
    for (int v = 0; v < n_batches; v++) {
        int err = uni_labels_check(&batches[v], variable_name(&batches[v]), n_cells, n_dims);
        if (err)
            return err;
    }
    return UNI_OK;
}

/* Cells of every level; the level past the last holds those without a label. */
static int count_levels(int64_t *cells, const struct uni_batch *b)
{
    for (int64_t i = 0; i < b->n_cells; i++) {
        int32_t level = b->level[i];
        if (level < -1 || level >= b->n_levels)
            return uni_level_refused(b, variable_name(b), i);
        cells[level < 0 ? b->n_levels : level]++;
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

/* ---- groups ---------------------------------------------------------------------------------------------------------------- */

/* Groups while they are found: an open hash table over the levels that make them. */
struct finder {
    int V;
    int64_t n, room, slots;
    int32_t *levels; /* (room,V) */
    int64_t *cells;  /* (room) */
    int32_t *slot;   /* (slots) group + 1; 0 empty */
};

static uint64_t hash_levels(const int32_t *levels, int V)
{
    uint64_t state = 0;
    for (int v = 0; v < V; v++) {
        state = state * 31 + (uint32_t)levels[v];
        state = uni_random(&state);
    }
    return state;
}

static int64_t find_slot(const struct finder *f, const int32_t *levels)
{
    int64_t at = (int64_t)(hash_levels(levels, f->V) & (uint64_t)(f->slots - 1));
    while (f->slot[at] && memcmp(f->levels + (int64_t)(f->slot[at] - 1) * f->V, levels, (size_t)f->V * sizeof *levels) != 0)
        at = (at + 1) & (f->slots - 1);
    return at;
}

static int grow(struct finder *f)
{
    int64_t room = f->room ? 2 * f->room : 64;
    int32_t *levels = realloc(f->levels, (size_t)(room * f->V) * sizeof *levels);
    f->levels = levels ? levels : f->levels;
    int64_t *cells = realloc(f->cells, (size_t)room * sizeof *cells);
    f->cells = cells ? cells : f->cells;
    int32_t *slot = calloc((size_t)(4 * room), sizeof *slot);
    if (!levels || !cells || !slot) {
        free(slot);
        return uni_fail(UNI_MEMORY, "no memory for %lld groups of cells", (long long)room);
    }
    free(f->slot);
    f->slot = slot;
    f->room = room;
    f->slots = 4 * room;
    for (int64_t g = 0; g < f->n; g++)
        f->slot[find_slot(f, f->levels + g * f->V)] = (int32_t)g + 1;
    return UNI_OK;
}

/* The group of a cell with these levels; a new one where there is none yet. */
static int find_group(struct finder *f, const int32_t *levels, int32_t *group)
{
    int err = UNI_OK;
    int64_t at = f->slots ? find_slot(f, levels) : 0;
    if (!f->slots || !f->slot[at]) {
        if (f->n == f->room && (err = grow(f)) != UNI_OK)
            return err;
        memcpy(f->levels + f->n * f->V, levels, (size_t)f->V * sizeof *levels);
        f->cells[f->n++] = 0;
        at = find_slot(f, levels);
        f->slot[at] = (int32_t)f->n;
    }
    *group = f->slot[at] - 1;
    f->cells[*group]++;
    return UNI_OK;
}

/* Every cell's group, -1 for skipped ones; level_cells of those that take part, and their mass. Cells often have the group of the
   cell before. */
static int group_cells(struct uni_cells_sorted *c, struct finder *f, const struct uni_batch *batches, const struct uni_options *o)
{
    struct uni_problem *p = &c->problem;
    int32_t levels[UNI_MAX_VARIABLES], last[UNI_MAX_VARIABLES], group = -1;
    double *level_mass = (double *)(uintptr_t)p->level_mass;
    memset(c->level_cells, 0, (size_t)p->B * sizeof *c->level_cells);
    memset(level_mass, 0, (size_t)p->B * sizeof *level_mass);
    for (int64_t i = 0; i < p->N_all; i++) {
        int missing = 0;
        for (int v = 0; v < p->V; v++) {
            missing |= batches[v].level[i] < 0;
            levels[v] = (int32_t)(p->level_first[v] + (batches[v].level[i] < 0 ? batches[v].n_levels : batches[v].level[i]));
        }
        c->cell_group[i] = -1;
        if (missing && o->missing == UNI_MISSING_SKIP)
            continue;
        if (group >= 0 && memcmp(levels, last, (size_t)p->V * sizeof *levels) == 0) {
            f->cells[group]++;
        } else {
            int err = find_group(f, levels, &group);
            if (err)
                return err;
            memcpy(last, levels, sizeof last);
        }
        double weight = o->weights ? o->weights[i] : 1;
        c->cell_group[i] = group;
        for (int v = 0; v < p->V; v++) {
            c->level_cells[levels[v]]++;
            level_mass[levels[v]] += weight;
        }
        p->mass += weight;
        p->N++;
    }
    return UNI_OK;
}

/* Levels of every variable, with one more for cells without a label where these are to be a level. */
static int lay_out_levels(struct uni_cells_sorted *c, const struct uni_batch *batches, const struct uni_options *o)
{
    struct uni_problem *p = &c->problem;
    int64_t *cells = c->level_cells; /* room for all levels and one more per variable */
    for (int v = 0; v < p->V; v++) {
        const struct uni_batch *b = &batches[v];
        memset(cells, 0, (size_t)(b->n_levels + 1) * sizeof *cells);
        int err = count_levels(cells, b);
        if (!err && cells[b->n_levels] > 0 && o->missing == UNI_MISSING_ERROR)
            err = refuse_missing(b, cells[b->n_levels]);
        if (err)
            return err;
        p->level_first[v] = p->B;
        p->B += b->n_levels + (o->missing == UNI_MISSING_LEVEL && cells[b->n_levels] > 0);
    }
    p->level_first[p->V] = p->B;
    return UNI_OK;
}

static const double LAMBDA_2019 = 1;

static int check_variables(struct uni_cells_sorted *c, struct uni_warnings *warnings, const struct uni_batch *batches,
                           const struct uni_options *o)
{
    const struct uni_problem *p = &c->problem;
    double *share = (double *)(uintptr_t)p->level_share;
    for (int v = 0; v < p->V; v++) {
        int64_t used = 0;
        for (int64_t l = p->level_first[v]; l < p->level_first[v + 1]; l++) {
            used += c->level_cells[l] > 0;
            share[l] = p->level_mass[l] / p->mass;
            c->lambda[l] = o->lambda.n ? uni_value_of(&o->lambda, v) : o->flavor == UNI_HARMONY1 ? LAMBDA_2019 : 0;
        }
        c->n_levels += used;
        int err = check_levels(&batches[v], c->level_cells + p->level_first[v], p->level_first[v + 1] - p->level_first[v], p->N,
                               o->force, warnings);
        if (err)
            return err;
        if (used == 1 && p->V > 1)
            uni_warn(warnings, "\"%s\" has only one level with cells: it is ignored", variable_name(&batches[v]));
    }
    return UNI_OK;
}

static int open_levels(struct uni_cells_sorted *c, int64_t B)
{
    struct uni_problem *p = &c->problem;
    const struct uni_array_row list[] = {UNI_ARRAY(c->level_cells, B), UNI_ARRAY(c->lambda, B),      UNI_ARRAY(p->level_share, B),
                                         UNI_ARRAY(p->level_mass, B),  UNI_ARRAY(p->level_theta, B), UNI_ARRAY(p->sigma, p->K)};
    return uni_arena_open(&c->tables, list, sizeof list / sizeof *list, "the tables of levels");
}

/* Several variables become one, whose levels are the groups. */
static int combine_levels(struct uni_cells_sorted *c, struct finder *f, const struct uni_options *o)
{
    struct uni_problem *p = &c->problem;
    uni_arena_close(&c->tables);
    int err = open_levels(c, f->n);
    if (err)
        return err;
    double *level_mass = (double *)(uintptr_t)p->level_mass;
    p->V = 1;
    p->B = p->level_first[1] = f->n;
    for (int64_t g = 0; g < f->n; g++) {
        f->levels[g] = (int32_t)g;
        c->level_cells[g] = f->cells[g];
    }
    for (int64_t i = 0; i < p->N_all; i++)
        if (c->cell_group[i] >= 0)
            level_mass[c->cell_group[i]] += o->weights ? o->weights[i] : 1;
    return UNI_OK;
}

int uni_groups_open(struct uni_cells_sorted *c, struct uni_warnings *warnings, const struct uni_batch *batches,
                    const struct uni_options *o)
{
    int err = 0;
    struct uni_problem *p = &c->problem;
    struct finder f = {.V = p->V};
    struct uni_batch joint = {.name = "the combination of the batch variables", .n_cells = p->N_all};
    int64_t B = 0, largest = 1;
    for (int v = 0; v < p->V; v++)
        B += batches[v].n_levels + 1;
    TRY(open_levels(c, B));
    const struct uni_array_row cells[] = {UNI_ARRAY(c->cell_group, p->N_all)};
    TRY(uni_arena_open(&c->groups, cells, 1, "the groups of the cells"));
    TRY(lay_out_levels(c, batches, o));
    TRY(group_cells(c, &f, batches, o));
    if (p->N < 2)
        TRY(uni_fail(UNI_INPUT, "only %lld of %lld cells have a label in \"%s\"%s; at least 2 are needed", (long long)p->N,
                     (long long)p->N_all, variable_name(batches), p->V > 1 ? " and the others" : ""));
    if (o->combine && p->V > 1) {
        TRY(combine_levels(c, &f, o));
        joint.n_levels = f.n;
        batches = &joint;
    }
    TRY(check_variables(c, warnings, batches, o));
    p->G = f.n;
    for (int64_t g = 0; g < p->G; g++)
        largest = f.cells[g] > largest ? f.cells[g] : largest;
    p->Q = (int64_t)ceil(1 / o->block_size - 1e-9);
    p->blocks = p->Q;
    p->Q = p->jacobi || p->redraw ? 1 : p->Q > largest ? largest : p->Q; /* more blocks than a group has cells are empty ones */
    p->group_level = f.levels;
    c->group_cells = f.cells;
    f.levels = NULL, f.cells = NULL;
done:
    free(f.levels), free(f.cells), free(f.slot);
    return err;
}

void uni_groups_close(struct uni_cells_sorted *c)
{
    free((void *)(uintptr_t)c->problem.group_level);
    free(c->group_cells);
    c->problem.group_level = NULL;
    c->group_cells = NULL;
    uni_arena_close(&c->groups);
}
