/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's labels, checked; levels -> groups, the joint levels that occur, numbered by their first cell: how levels are
   numbered changes nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
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

int uni_levels_check(int64_t *missing, const struct uni_batch *b, const char *name)
{
    enum { COUNTED = 1 << 20 }; /* at once, in 32 bits */
    int64_t none = 0, device;
    uint32_t wrong = 0;
    const int32_t end = (int32_t)b->n_levels;
    if (!b->level)
        return uni_fail(UNI_INPUT, "\"%s\" has no levels: level is NULL", name);
    if (uni_where_is(b->level, b->n_cells * (int64_t)sizeof *b->level, &device) == UNI_ON_CARD)
        return uni_fail(UNI_INPUT, "the levels of \"%s\" lie in the memory of a card; copy them to this machine's memory", name);
    for (int64_t first = 0; first < b->n_cells; first += COUNTED) {
        const int32_t *level = b->level + first, n = (int32_t)(b->n_cells - first < COUNTED ? b->n_cells - first : COUNTED);
        int32_t missed = 0;
        for (int32_t i = 0; i < n; i++) {
            missed += level[i] < 0;
            wrong |= (uint32_t)level[i] + 1 > (uint32_t)end; /* -1 .. end - 1 are not */
        }
        none += missed;
    }
    for (int64_t i = 0; wrong && i < b->n_cells; i++)
        if (b->level[i] < -1 || b->level[i] >= end)
            return uni_fail(
                UNI_INPUT,
                "\"%s\" has level %d at cell %lld (from 1); it has %lld levels, so a level is 0 to %lld, or -1 if missing", name,
                b->level[i], (long long)i + 1, (long long)b->n_levels, (long long)b->n_levels - 1);
    *missing = none;
    return UNI_OK;
}

int uni_groups_check(int64_t n_cells, int64_t n_dims, const struct uni_batch *batches, int n_batches)
{
    if (n_batches < 1 || n_batches > UNI_MAX_VARIABLES)
        return uni_fail(UNI_INPUT, "%d batch variables; give 1 to %d", n_batches, UNI_MAX_VARIABLES);
    if (n_cells < 2)
        return uni_fail(UNI_INPUT, "the embedding has %lld cells; at least 2 are needed", (long long)n_cells);
    if (n_dims < 1)
        return uni_fail(UNI_INPUT, "the embedding has %lld dimensions; at least 1 is needed", (long long)n_dims);
    if (n_cells > UINT32_MAX) /* a sorted row keeps the caller's in 4 bytes */
        return uni_fail(UNI_INPUT, "the embedding has %lld cells; %lld at most can be integrated at once", (long long)n_cells,
                        (long long)UINT32_MAX);
    if (uni_product(n_cells, n_dims) > INT64_MAX / 1024) /* so that what is made of it later fits, too */
        return uni_fail(UNI_MEMORY, "an embedding of %lld cells x %lld dimensions is more than any machine can hold; use fewer",
                        (long long)n_cells, (long long)n_dims);
    for (int v = 0; v < n_batches; v++) {
        int err = uni_labels_check(&batches[v], variable_name(&batches[v]), n_cells, n_dims);
        if (err)
            return err;
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

enum { MOST_PLACES = 1 << 20, CELLS_AT_ONCE = 256 };

/* Groups while they are found: a table with a place for every combination of levels, or where those are too many an open hash
   table. */
struct finder {
    int V, hashed;
    int64_t n, room, slots;
    int64_t step[UNI_MAX_VARIABLES]; /* by place: of a level of each variable */
    int32_t *levels;                 /* (room,V) counted over all variables */
    int64_t *cells;                  /* (room) */
    double *mass;                    /* (room) sum of the cells' weights, where they have some */
    int32_t *slot;                   /* (slots) group + 1; 0 empty */
};

/* The level of a cell of variable v, counted over all; past its levels are the cells without a label. */
static int32_t level_of(const struct uni_problem *p, const struct uni_batch *batches, int v, int64_t cell)
{
    int32_t level = batches[v].level[cell];
    return (int32_t)(p->level_first[v] + (level < 0 ? batches[v].n_levels : level));
}

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

static int no_room(int64_t groups)
{
    return uni_fail(UNI_MEMORY, "no memory for %lld groups of cells", (long long)groups);
}

static int finder_open(struct finder *f, const struct uni_batch *batches)
{
    int64_t places = 1;
    for (int v = 0; v < f->V; v++) {
        f->step[v] = places;
        f->hashed |= __builtin_mul_overflow(places, batches[v].n_levels + 1, &places) || places > MOST_PLACES;
        places = f->hashed ? 1 : places;
    }
    if (f->hashed)
        return UNI_OK;
    f->slots = places;
    f->slot = calloc((size_t)places, sizeof *f->slot);
    return f->slot ? UNI_OK : no_room(places);
}

static int rehash(struct finder *f)
{
    int32_t *slot = calloc((size_t)(4 * f->room), sizeof *slot);
    if (!slot)
        return no_room(f->room);
    free(f->slot);
    f->slot = slot;
    f->slots = 4 * f->room;
    for (int64_t g = 0; g < f->n; g++)
        f->slot[find_slot(f, f->levels + g * f->V)] = (int32_t)g + 1;
    return UNI_OK;
}

static int grow(struct finder *f)
{
    int64_t room = f->room ? 2 * f->room : 64;
    int32_t *levels = realloc(f->levels, (size_t)(room * f->V) * sizeof *levels);
    f->levels = levels ? levels : f->levels;
    int64_t *cells = realloc(f->cells, (size_t)room * sizeof *cells);
    f->cells = cells ? cells : f->cells;
    double *mass = realloc(f->mass, (size_t)room * sizeof *mass);
    f->mass = mass ? mass : f->mass;
    if (!levels || !cells || !mass)
        return no_room(room);
    f->room = room;
    return f->hashed ? rehash(f) : UNI_OK;
}

/* A group of its own for this cell's levels. */
static int add_group(struct finder *f, const struct uni_problem *p, const struct uni_batch *batches, int64_t cell)
{
    int err = f->n == f->room ? grow(f) : UNI_OK;
    if (err)
        return err;
    for (int v = 0; v < f->V; v++)
        f->levels[f->n * f->V + v] = level_of(p, batches, v, cell);
    f->cells[f->n] = 0;
    f->mass[f->n++] = 0;
    return UNI_OK;
}

/* The group whose slot this is; a new one where there is none yet. */
static inline int take_slot(int32_t *group, struct finder *f, int64_t slot, const struct uni_problem *p,
                            const struct uni_batch *batches, int64_t cell)
{
    if (!f->slot[slot]) {
        int err = add_group(f, p, batches, cell);
        if (err)
            return err;
        f->slot[slot] = (int32_t)f->n;
    }
    *group = f->slot[slot] - 1;
    f->cells[*group]++;
    return UNI_OK;
}

/* Where the slots of a few cells are, variable by variable; -1: skipped. */
static void find_places(int32_t *place, const struct finder *f, const struct uni_batch *batches, int64_t first, int64_t n,
                        int skip)
{
    memset(place, 0, (size_t)n * sizeof *place);
    for (int v = 0; v < f->V; v++) {
        const int32_t *level = batches[v].level + first, step = (int32_t)f->step[v], none = (int32_t)batches[v].n_levels;
        for (int64_t i = 0; i < n && step == 1; i++)
            place[i] += level[i] < 0 ? none : level[i];
        for (int64_t i = 0; i < n && step != 1; i++)
            place[i] += step * (level[i] < 0 ? none : level[i]);
    }
    for (int v = 0; v < f->V && skip; v++)
        for (int64_t i = 0; i < n; i++)
            place[i] = batches[v].level[first + i] < 0 ? -1 : place[i];
}

static int group_by_place(int32_t *group, struct finder *f, const struct uni_problem *p, const struct uni_batch *batches,
                          int skip)
{
    int32_t place[CELLS_AT_ONCE];
    for (int64_t first = 0; first < p->N_all; first += CELLS_AT_ONCE) {
        const int64_t n = p->N_all - first < CELLS_AT_ONCE ? p->N_all - first : CELLS_AT_ONCE;
        find_places(place, f, batches, first, n, skip);
        for (int64_t i = 0; i < n; i++) {
            int err = UNI_OK;
            group[first + i] = -1;
            if (place[i] >= 0)
                err = take_slot(&group[first + i], f, place[i], p, batches, first + i);
            if (err)
                return err;
        }
    }
    return UNI_OK;
}

/* Cells often have the levels of the cell before. */
static int group_by_hash(int32_t *group, struct finder *f, const struct uni_problem *p, const struct uni_batch *batches, int skip)
{
    int32_t levels[UNI_MAX_VARIABLES], last[UNI_MAX_VARIABLES];
    int64_t slot = -1;
    for (int64_t i = 0; i < p->N_all; i++) {
        int missing = 0, err = UNI_OK;
        for (int v = 0; v < f->V; v++) {
            missing |= batches[v].level[i] < 0;
            levels[v] = level_of(p, batches, v, i);
        }
        group[i] = -1;
        if (missing && skip)
            continue;
        if (slot < 0 || memcmp(levels, last, (size_t)f->V * sizeof *levels) != 0) {
            if (f->n == f->room) /* now: growing moves the slots */
                err = grow(f);
            slot = err ? -1 : find_slot(f, levels);
            memcpy(last, levels, sizeof last);
        }
        err = err ? err : take_slot(&group[i], f, slot, p, batches, i);
        if (err)
            return err;
    }
    return UNI_OK;
}

/* Every cell's group, -1 for skipped ones; each group's cells and mass. */
static int group_cells(struct uni_cells_sorted *c, struct finder *f, const struct uni_batch *batches, const struct uni_options *o)
{
    const struct uni_problem *p = &c->problem;
    const int skip = o->missing == UNI_MISSING_SKIP;
    int err = finder_open(f, batches);
    if (!err)
        err = (f->hashed ? group_by_hash : group_by_place)(c->cell_group, f, p, batches, skip);
    for (int64_t i = 0; o->weights && i < p->N_all && !err; i++)
        if (c->cell_group[i] >= 0)
            f->mass[c->cell_group[i]] += o->weights[i];
    return err;
}

/* level_cells of those that take part, and their mass. */
static void count_levels(struct uni_cells_sorted *c, struct finder *f, int weighted)
{
    struct uni_problem *p = &c->problem;
    double *level_mass = (double *)(uintptr_t)p->level_mass;
    memset(c->level_cells, 0, (size_t)p->B * sizeof *c->level_cells);
    memset(level_mass, 0, (size_t)p->B * sizeof *level_mass);
    for (int64_t g = 0; g < f->n; g++) {
        f->mass[g] = weighted ? f->mass[g] : (double)f->cells[g];
        for (int v = 0; v < p->V; v++) {
            c->level_cells[f->levels[g * p->V + v]] += f->cells[g];
            level_mass[f->levels[g * p->V + v]] += f->mass[g];
        }
        p->mass += f->mass[g];
        p->N += f->cells[g];
    }
}

/* Levels of every variable, with one more for cells without a label where these are to be a level. */
static int lay_out_levels(struct uni_cells_sorted *c, const struct uni_batch *batches, const struct uni_options *o)
{
    struct uni_problem *p = &c->problem;
    for (int v = 0; v < p->V; v++) {
        const struct uni_batch *b = &batches[v];
        int64_t missing = 0;
        int err = uni_levels_check(&missing, b, variable_name(b));
        if (!err && missing > 0 && o->missing == UNI_MISSING_ERROR)
            err = refuse_missing(b, missing);
        if (err)
            return err;
        p->level_first[v] = p->B;
        p->B += b->n_levels + (o->missing == UNI_MISSING_LEVEL && missing > 0);
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
static int combine_levels(struct uni_cells_sorted *c, struct finder *f)
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
        level_mass[g] = f->mass[g];
    }
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
    count_levels(c, &f, o->weights != NULL);
    if (p->N < 2)
        TRY(uni_fail(UNI_INPUT, "only %lld of %lld cells have a label in \"%s\"%s; at least 2 are needed", (long long)p->N,
                     (long long)p->N_all, variable_name(batches), p->V > 1 ? " and the others" : ""));
    if (o->combine && p->V > 1) {
        TRY(combine_levels(c, &f));
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
    free(f.levels), free(f.cells), free(f.mass), free(f.slot);
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
