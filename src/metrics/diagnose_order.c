/* SPDX-License-Identifier: BSD-3-Clause */
/* Cells sorted by their labels, and the runs that this makes: groups, in them pieces of one type, and slices to sum over. */
#include <string.h>

#include "../error.h"
#include "../pool.h"
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

static int takes_part(const struct uni_diagnose_cells *c, int64_t cell)
{
    for (int64_t v = 0; v < c->V; v++)
        if (uni_diagnose_level(c, v, cell) < 0)
            return 0;
    return 1;
}

/* One stable pass of a radix sort, by key v. Its cells are cut into shares, each with counters of its own: where a cell goes does
 * not depend on how many there are. */
struct sort {
    struct uni_diagnose_cells *c;
    int64_t v, keys, shares, cells;
    int anew; /* from the caller's order, in which cells of one type and group stay */
};

enum { SHARES = 64, FEWEST_OF_SHARE = 4096, CELLS_OF_COUNTER = 16 };

/* Counters take half a byte a cell at most, unless one share takes more. */
static int64_t shares_of(int64_t cells, int64_t keys)
{
    int64_t most = cells / FEWEST_OF_SHARE < SHARES ? cells / FEWEST_OF_SHARE : SHARES, n = cells / CELLS_OF_COUNTER / keys;
    n = n < most ? n : most;
    return n > 1 ? n : 1;
}

static void count_share(void *context, int64_t share, int thread)
{
    const struct sort *s = context;
    const struct uni_diagnose_cells *c = s->c;
    int64_t *count = c->counter + share * s->keys;
    (void)thread;
    memset(count, 0, (size_t)s->keys * sizeof *count);
    for (int64_t i = s->cells * share / s->shares; i < s->cells * (share + 1) / s->shares; i++)
        if (!s->anew || takes_part(c, i))
            count[key_of(c, s->v, s->anew ? i : c->order[i])]++;
}

static void place_share(void *context, int64_t share, int thread)
{
    const struct sort *s = context;
    const struct uni_diagnose_cells *c = s->c;
    int64_t *place = c->counter + share * s->keys;
    (void)thread;
    for (int64_t i = s->cells * share / s->shares; i < s->cells * (share + 1) / s->shares; i++) {
        int64_t cell = s->anew ? i : c->order[i];
        if (!s->anew || takes_part(c, i))
            c->other[place[key_of(c, s->v, cell)]++] = cell;
    }
}

static void sort_by(struct uni_diagnose_cells *c, int64_t v, int anew)
{
    struct sort s = {.c = c, .v = v, .keys = keys_of(c, v), .cells = anew ? c->N_all : c->N, .anew = anew};
    int64_t at = 0;
    s.shares = shares_of(s.cells, s.keys);
    (void)uni_pool_run(c->pool, count_share, &s, s.shares);
    for (int64_t k = 0; k < s.keys; k++)
        for (int64_t share = 0; share < s.shares; share++) {
            int64_t *count = &c->counter[share * s.keys + k], n = *count;
            *count = at;
            at += n;
        }
    (void)uni_pool_run(c->pool, place_share, &s, s.shares);
    c->N = at;
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

/* Of the sorted cells from at on, up to end, whose keys are those of the first: they lie together, so few of them are looked at.
 */
static int64_t run_end(const struct uni_diagnose_cells *c, int64_t first_key, int64_t last_key, int64_t at, int64_t end)
{
    int64_t same = at, other = at + 1;
    for (int64_t step = 1; other < end && same_keys(c, first_key, last_key, at, other); step *= 2) {
        same = other;
        other = end - same > 2 * step ? same + 2 * step : end;
    }
    while (other - same > 1) {
        int64_t middle = same + (other - same) / 2;
        if (same_keys(c, first_key, last_key, at, middle))
            same = middle;
        else
            other = middle;
    }
    return other;
}

int64_t uni_diagnose_type_end(const struct uni_diagnose_cells *c, int64_t at, int64_t end)
{
    return run_end(c, c->V, c->V, at, end);
}

/* Which levels of variable v have which types, in whatever order both lie together; types_major: the cells are sorted by type,
 * and by level in each. */
static void note_presence(struct uni_diagnose_cells *c, struct uni_diagnose_work *w, int64_t v, int types_major)
{
    const int64_t major = types_major ? c->V : v, minor = types_major ? v : c->V;
    for (int64_t at = 0, next; at < c->N; at = next) {
        int64_t cell = c->order[at], type = c->types->level[cell];
        next = run_end(c, minor, minor, at, run_end(c, major, major, at, c->N));
        if (type >= 0)
            uni_diagnose_present(w, v, uni_diagnose_level(c, v, cell), type, next - at);
    }
}

static void sort_cells(struct uni_diagnose_cells *c, struct uni_diagnose_work *w)
{
    for (int64_t v = 0; c->types && c->V > 1 && v < c->V; v++) {
        sort_by(c, v, 1);
        sort_by(c, c->V, 0);
        note_presence(c, w, v, 1);
    }
    const int64_t least = c->types ? c->V : c->V - 1;
    for (int64_t v = least; v >= 0; v--)
        sort_by(c, v, v == least);
    if (c->types && c->V == 1)
        note_presence(c, w, 0, 0);
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
        next = uni_diagnose_type_end(c, at, end);
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
        next = run_end(c, 0, c->V - 1, at, c->N);
        add_group(c, fill, at, next);
    }
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

enum { CELL_ROWS = 3, TABLE_ROWS = 15 };

static int64_t most_keys(const struct uni_diagnose_cells *c)
{
    int64_t most = c->T + 1;
    for (int64_t v = 0; v < c->V; v++)
        most = most > keys_of(c, v) ? most : keys_of(c, v);
    return most;
}

static void list_cells(struct uni_array_row list[CELL_ROWS], struct uni_diagnose_cells *c)
{
    int64_t counters = most_keys(c) + 2;
    for (int64_t v = 0; v <= c->V; v++) {
        int64_t n = keys_of(c, v) * shares_of(c->N_all, keys_of(c, v));
        counters = counters > n ? counters : n;
    }
    const struct uni_array_row rows[CELL_ROWS] = {UNI_ARRAY(c->order, c->N_all), UNI_ARRAY(c->other, c->N_all),
                                                  UNI_ARRAY(c->counter, counters)};
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
                                                   UNI_ARRAY(c->type_piece, c->n_pieces),
                                                   UNI_ARRAY(c->lengths, most_keys(c)),
                                                   UNI_ARRAY(c->partial, c->N_all / UNI_SLICE + 1),
                                                   UNI_ARRAY(c->counts, c->threads * UNI_LENGTH_BINS),
                                                   UNI_ARRAY(c->most, c->threads)};
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

static void count_group(const struct uni_diagnose_cells *c, struct uni_diagnose_work *w, const struct uni_diagnose_group *group)
{
    for (int64_t v = 0; v < c->V; v++)
        w->levels[uni_diagnose_level(c, v, c->order[group->first])].cells += group->cells;
    for (int64_t at = group->first, end = at + group->cells, next; c->types && at < end; at = next) {
        int32_t type = c->types->level[c->order[at]];
        next = uni_diagnose_type_end(c, at, end);
        if (type >= 0)
            w->types_out[type].cells += next - at;
    }
}

int uni_diagnose_order_open(struct uni_diagnose_cells *c, struct uni_diagnose_work *w)
{
    int err = 0;
    struct uni_array_row list[CELL_ROWS > TABLE_ROWS ? CELL_ROWS : TABLE_ROWS];
    list_cells(list, c);
    TRY(uni_arena_open(&c->cells, list, CELL_ROWS, "the order of the cells by their labels"));
    sort_cells(c, w);
    c->length = (float *)(void *)c->other; /* half of it each */
    c->scratch = c->length + c->N_all;
    walk(c, 0);
    list_tables(list, c);
    TRY(uni_arena_open(&c->tables, list, TABLE_ROWS, "the sums over batches and cell types"));
    walk(c, 1);
    for (int64_t g = 0; g < c->n_groups; g++)
        count_group(c, w, &c->group[g]);
done:
    return err;
}

void uni_diagnose_order_close(struct uni_diagnose_cells *c)
{
    uni_arena_close(&c->cells);
    uni_arena_close(&c->tables);
}
