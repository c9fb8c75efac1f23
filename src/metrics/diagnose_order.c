/* SPDX-License-Identifier: BSD-3-Clause */
/* Cells sorted by their labels, and the runs that this makes: groups, in them pieces of one type, and slices to sum over. */
#include <string.h>

#include "../error.h"
#include "diagnose.h"

/* Key v of a cell: its level of variable v; with v = V its type, the unknown first. */
static int64_t key_of(const struct uni_diagnose_cells *c, int64_t v, int64_t cell)
{
    return v < c->V ? uni_diagnose_level(c, v, cell) - c->level_first[v] : c->types ? c->types->level[cell] + 1 : 0;
}

static int64_t keys_of(const struct uni_diagnose_cells *c, int64_t v)
{
    return v < c->V ? c->level_first[v + 1] - c->level_first[v] : c->T + 1;
}

static void take_part(struct uni_diagnose_cells *c)
{
    c->N = 0;
    for (int64_t i = 0; i < c->N_all; i++) {
        int known = 1;
        for (int64_t v = 0; v < c->V; v++)
            known &= uni_diagnose_level(c, v, i) >= 0;
        if (known)
            c->order[c->N++] = i;
    }
}

/* One stable pass of a radix sort. */
static void sort_by(struct uni_diagnose_cells *c, int64_t v)
{
    int64_t *place = c->counter, n = keys_of(c, v);
    memset(place, 0, (size_t)(n + 1) * sizeof *place);
    for (int64_t i = 0; i < c->N; i++)
        place[key_of(c, v, c->order[i]) + 1]++;
    for (int64_t k = 0; k < n; k++)
        place[k + 1] += place[k];
    for (int64_t i = 0; i < c->N; i++)
        c->other[place[key_of(c, v, c->order[i])]++] = c->order[i];
    int64_t *sorted = c->other;
    c->other = c->order;
    c->order = sorted;
}

static int same_keys(const struct uni_diagnose_cells *c, int64_t first_key, int64_t last_key, int64_t a, int64_t b)
{
    for (int64_t v = first_key; v <= last_key; v++)
        if (key_of(c, v, c->order[a]) != key_of(c, v, c->order[b]))
            return 0;
    return 1;
}

/* Which levels of variable v have which types, in whatever order both lie together. */
static void note_presence(struct uni_diagnose_cells *c, struct uni_diagnose_work *w, int64_t v)
{
    for (int64_t at = 0, next; at < c->N; at = next) {
        int64_t cell = c->order[at], type = c->types->level[cell];
        for (next = at + 1; next < c->N && same_keys(c, v, v, at, next) && same_keys(c, c->V, c->V, at, next);)
            next++;
        if (type >= 0)
            uni_diagnose_present(w, v, uni_diagnose_level(c, v, cell), type, next - at);
    }
}

static void sort_cells(struct uni_diagnose_cells *c, struct uni_diagnose_work *w)
{
    for (int64_t v = 0; c->types && c->V > 1 && v < c->V; v++) {
        sort_by(c, v);
        sort_by(c, c->V);
        note_presence(c, w, v);
    }
    take_part(c); /* the caller's order again, in which cells of one type and group stay */
    for (int64_t v = c->types ? c->V : c->V - 1; v >= 0; v--)
        sort_by(c, v);
    if (c->types && c->V == 1)
        note_presence(c, w, 0);
}

/* ---- runs: walked once to count them, once more to write them down --------------------------------------------------------- */

static void add_slices(struct uni_diagnose_cells *c, int fill, int64_t first, int64_t end)
{
    for (; first < end; first += UNI_SLICE) {
        if (fill)
            c->slice[c->n_slices] = (struct uni_slice){first, end - first < UNI_SLICE ? end - first : UNI_SLICE};
        c->n_slices++;
    }
}

static void add_piece(struct uni_diagnose_cells *c, int fill, int64_t first, int64_t end)
{
    int64_t before = c->n_slices;
    add_slices(c, fill, first, end);
    if (fill)
        c->piece[c->n_pieces] =
            (struct uni_piece){end - first, before, c->n_slices - before, c->n_groups, c->types->level[c->order[first]]};
    c->n_pieces++;
}

/* Cells that are in no piece are summed together, between the pieces. */
static void add_group(struct uni_diagnose_cells *c, int fill, int64_t first, int64_t end)
{
    struct uni_diagnose_group group = {
        .first = first, .cells = end - first, .first_slice = c->n_slices, .first_piece = c->n_pieces};
    int64_t rest = first;
    for (int64_t at = first, next; c->types && at < end; at = next) {
        for (next = at + 1; next < end && same_keys(c, c->V, c->V, at, next);)
            next++;
        if (next - at < UNI_FEWEST || c->types->level[c->order[at]] < 0)
            continue;
        add_slices(c, fill, rest, at);
        add_piece(c, fill, at, next);
        rest = next;
    }
    add_slices(c, fill, rest, end);
    group.n_slices = c->n_slices - group.first_slice;
    group.n_pieces = c->n_pieces - group.first_piece;
    if (fill)
        c->group[c->n_groups] = group;
    c->n_groups++;
}

static void walk(struct uni_diagnose_cells *c, int fill)
{
    c->n_groups = c->n_pieces = c->n_slices = 0;
    for (int64_t at = 0, next; at < c->N; at = next) {
        for (next = at + 1; next < c->N && same_keys(c, 0, c->V - 1, at, next);)
            next++;
        add_group(c, fill, at, next);
    }
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

enum { CELL_ROWS = 3, TABLE_ROWS = 11 };

static void list_cells(struct uni_array_row list[CELL_ROWS], struct uni_diagnose_cells *c)
{
    int64_t most = c->T;
    for (int64_t v = 0; v < c->V; v++)
        most = most > keys_of(c, v) ? most : keys_of(c, v);
    const struct uni_array_row rows[CELL_ROWS] = {UNI_ARRAY(c->order, c->N_all), UNI_ARRAY(c->other, c->N_all),
                                                  UNI_ARRAY(c->counter, most + 2)};
    memcpy(list, rows, sizeof rows);
}

static void list_tables(struct uni_array_row list[TABLE_ROWS], struct uni_diagnose_cells *c)
{
    int64_t compared = c->T <= UNI_TYPES_COMPARED ? c->T : 0;
    const struct uni_array_row rows[TABLE_ROWS] = {UNI_ARRAY(c->group, c->n_groups),
                                                   UNI_ARRAY(c->piece, c->n_pieces),
                                                   UNI_ARRAY(c->slice, c->n_slices),
                                                   UNI_ARRAY(c->sum, c->n_slices * 2 * c->D),
                                                   UNI_ARRAY(c->square, c->n_slices * 2),
                                                   UNI_ARRAY(c->centre, c->n_pieces * 2 * c->D),
                                                   UNI_ARRAY(c->row, c->threads * 2 * c->D),
                                                   UNI_ARRAY(c->near, c->threads * 3 * compared),
                                                   UNI_ARRAY(c->mean, 2 * c->D),
                                                   UNI_ARRAY(c->type_first, c->T + 1),
                                                   UNI_ARRAY(c->type_piece, c->n_pieces)};
    memcpy(list, rows, sizeof rows);
}

int64_t uni_diagnose_order_bytes(const struct uni_diagnose_cells *sizes)
{
    struct uni_diagnose_cells c = *sizes;
    struct uni_array_row cells[CELL_ROWS], tables[TABLE_ROWS];
    c.n_groups = 1;
    for (int64_t v = 0; v < c.V; v++)
        if (__builtin_mul_overflow(c.n_groups, keys_of(&c, v), &c.n_groups) || c.n_groups > c.N_all)
            c.n_groups = c.N_all;
    c.n_pieces = c.N_all / UNI_FEWEST;
    if (c.T < c.n_pieces / c.n_groups)
        c.n_pieces = c.n_groups * c.T;
    c.n_slices = c.N_all / UNI_SLICE + c.n_groups + 2 * c.n_pieces;
    list_cells(cells, &c);
    list_tables(tables, &c);
    int64_t a = uni_arena_bytes(cells, CELL_ROWS), b = uni_arena_bytes(tables, TABLE_ROWS);
    return a < 0 || b < 0 || a > INT64_MAX - b ? -1 : a + b;
}

int uni_diagnose_same_group(const struct uni_diagnose_cells *c, int64_t a, int64_t b)
{
    return same_keys(c, 0, c->V - 1, a, b);
}

int uni_diagnose_sort_open(struct uni_diagnose_cells *c)
{
    struct uni_array_row list[CELL_ROWS];
    list_cells(list, c);
    int err = uni_arena_open(&c->cells, list, CELL_ROWS, "the order of the cells by their labels");
    if (err)
        return err;
    sort_cells(c, NULL);
    walk(c, 0);
    return UNI_OK;
}

int uni_diagnose_order_open(struct uni_diagnose_cells *c, struct uni_diagnose_work *w)
{
    int err = 0;
    struct uni_array_row list[CELL_ROWS > TABLE_ROWS ? CELL_ROWS : TABLE_ROWS];
    list_cells(list, c);
    TRY(uni_arena_open(&c->cells, list, CELL_ROWS, "the order of the cells by their labels"));
    take_part(c);
    sort_cells(c, w);
    c->length = (float *)(void *)c->other; /* half of it each */
    c->scratch = c->length + c->N_all;
    walk(c, 0);
    list_tables(list, c);
    TRY(uni_arena_open(&c->tables, list, TABLE_ROWS, "the sums over batches and cell types"));
    walk(c, 1);
    for (int64_t g = 0; g < c->n_groups; g++)
        for (int64_t v = 0; v < c->V; v++)
            w->levels[uni_diagnose_level(c, v, c->order[c->group[g].first])].cells += c->group[g].cells;
    for (int64_t i = 0; c->types && i < c->N; i++)
        if (c->types->level[c->order[i]] >= 0)
            w->types_out[c->types->level[c->order[i]]].cells++;
done:
    return err;
}

void uni_diagnose_order_close(struct uni_diagnose_cells *c)
{
    uni_arena_close(&c->cells);
    uni_arena_close(&c->tables);
}
