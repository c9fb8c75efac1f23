/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of the cell types: how far they moved, how much of their own spread went, which other type came closer. */
#include <math.h>
#include <string.h>

#include "../pool.h"
#include "../error.h"
#include "diagnose.h"

enum { WORK_MOST = 4 }; /* thousand million differences of centres' dimensions: a few seconds */

/* ---- presence: a forest over levels and types, one for each variable ------------------------------------------------------- */

int64_t uni_diagnose_tree(const struct uni_diagnose_work *w, int64_t node)
{
    while (w->linked[node] != node)
        node = w->linked[node];
    return node;
}

void uni_diagnose_present(struct uni_diagnose_work *w, int64_t v, int64_t level, int64_t type, int64_t cells)
{
    int64_t B = w->answer.n_levels, T = w->answer.n_types;
    if (cells < UNI_FEWEST)
        return;
    w->types_out[type].levels[v]++;
    w->has_type[level] = 1;
    w->type_level[v * T + type] = level;
    w->type_level_cells[v * T + type] = cells;
    int64_t a = uni_diagnose_tree(w, level), b = uni_diagnose_tree(w, B + v * T + type);
    w->linked[a > b ? a : b] = a > b ? b : a;              /* so a tree's root is its first level */
    for (int64_t node = level; w->linked[node] != node;) { /* short ways for the next */
        int64_t up = w->linked[node];
        w->linked[node] = a > b ? b : a;
        node = up;
    }
}

/* ---- the rows of the types --------------------------------------------------------------------------------------------------
 */

static void type_lengths(struct uni_diagnose_work *w, struct uni_diagnose_cells *c)
{
    int64_t *place = c->counter; /* [t + 1]: where the next cells of type t go; in the end the borders of the types */
    place[0] = place[1] = 0;
    for (int64_t t = 0; t < c->T; t++)
        place[t + 2] = place[t + 1] + w->types_out[t].cells;
    for (int64_t g = 0; g < c->n_groups; g++)
        for (int64_t at = c->group[g].first, end = at + c->group[g].cells, next; at < end; at = next) {
            int32_t type = c->types->level[c->order[at]];
            next = uni_diagnose_type_end(c, at, end);
            if (type < 0)
                continue;
            memcpy(c->scratch + place[type + 1], c->length + at, (size_t)(next - at) * sizeof *c->length);
            place[type + 1] += next - at;
        }
    uni_lengths_of_runs(c->lengths, c, place, c->T);
    for (int64_t t = 0; t < c->T; t++) {
        w->types_out[t].length_median = c->lengths[t].median;
        w->types_out[t].length_999 = c->lengths[t].p999;
    }
}

static void type_spreads(struct uni_diagnose_work *w, struct uni_diagnose_cells *c)
{
    const int64_t D = c->D;
    double left[2];
    for (int64_t p = 0; p < c->n_pieces; p++) {
        const struct uni_piece *piece = &c->piece[p];
        double *centre = c->centre + p * 2 * D, *moved = w->type_moved + piece->type * D;
        double *squares = w->type_squares + 3 * piece->type;
        uni_diagnose_squares(left, c, piece->first_slice, piece->n_slices, centre);
        squares[0] += left[0];
        squares[1] += left[1];
        squares[2] += (double)(piece->cells - 1);
        for (int64_t j = 0; j < D; j++)
            moved[j] += (double)piece->cells * (centre[D + j] - centre[j]);
    }
    for (int64_t p = 0, *cells = memset(c->counter, 0, (size_t)c->T * sizeof *c->counter); p < c->n_pieces; p++)
        cells[c->piece[p].type] += c->piece[p].cells;
    for (int64_t t = 0; t < c->T; t++) {
        const double *squares = w->type_squares + 3 * t, *moved = w->type_moved + t * D;
        struct uni_type_diagnosis *type = &w->types_out[t];
        double length = 0;
        for (int64_t j = 0; j < D; j++)
            length += moved[j] * moved[j];
        type->moved = c->counter[t] ? sqrt(length) / (double)c->counter[t] : NAN;
        type->spread = squares[2] > 0 ? sqrt(squares[0] / squares[2]) : NAN;
        type->removed = squares[0] > 0 ? 1 - squares[1] / squares[0] : NAN;
    }
}

/* ---- types against each other ---------------------------------------------------------------------------------------------- */

struct comparison {
    struct uni_diagnose_work *w;
    struct uni_diagnose_cells *c;
};

static double square_between(const double *a, const double *b, int64_t D)
{
    double sum = 0;
    for (int64_t j = 0; j < D; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* Variance of a type's cells before (side 0) or after, as its spread has it. */
static double variance_of(const struct uni_diagnose_work *w, int64_t t, int side)
{
    const double *squares = w->type_squares + 3 * t;
    return squares[2] > 0 ? squares[side] / squares[2] : 0;
}

/* near (T,3): weight, and weighted squared distances before and after, of every type in the piece's group. */
static void add_neighbours(double *near, const struct comparison *m, const struct uni_piece *piece, const double *centre)
{
    const struct uni_diagnose_cells *c = m->c;
    const struct uni_diagnose_group *group = &c->group[piece->group];
    const int64_t D = c->D;
    for (int64_t q = group->first_piece; q < group->first_piece + group->n_pieces; q++) {
        const struct uni_piece *other = &c->piece[q];
        double *sums = near + 3 * other->type, n = (double)piece->cells, o = (double)other->cells, weight = n * o / (n + o);
        if (other->type == piece->type)
            continue;
        sums[0] += weight;
        for (int side = 0; side < 2; side++) {
            double chance = variance_of(m->w, piece->type, side) / n + variance_of(m->w, other->type, side) / o;
            sums[1 + side] += weight * (square_between(centre + side * D, c->centre + q * 2 * D + side * D, D) - chance);
        }
    }
}

static void compare_task(void *context, int64_t t, int thread)
{
    const struct comparison *m = context;
    struct uni_diagnose_cells *c = m->c;
    struct uni_type_diagnosis *type = &m->w->types_out[t];
    double *near = c->near + thread * 3 * c->T, least = INFINITY;
    memset(near, 0, (size_t)(3 * c->T) * sizeof *near);
    for (int64_t i = c->type_first[t]; i < c->type_first[t + 1]; i++)
        add_neighbours(near, m, &c->piece[c->type_piece[i]], c->centre + c->type_piece[i] * 2 * c->D);
    for (int64_t u = 0; u < c->T; u++) {
        const double *sums = near + 3 * u;
        double after = sums[2] > 0 ? sums[2] : 0;
        if (sums[0] > 0 && sums[1] > 0 && after / sums[1] < least) {
            least = after / sums[1];
            type->nearest = u;
            type->nearest_before = sqrt(sums[1] / sums[0]);
            type->nearest_after = sqrt(after / sums[0]);
        }
    }
}

static int affordable(const struct uni_diagnose_cells *c)
{
    double work = 0;
    for (int64_t g = 0; g < c->n_groups; g++)
        work += (double)c->group[g].n_pieces * (double)c->group[g].n_pieces * (double)(2 * c->D);
    return c->T <= UNI_TYPES_COMPARED && work <= WORK_MOST * 1e9;
}

/* Pieces in the order of their types. */
static void index_pieces(struct uni_diagnose_cells *c)
{
    memset(c->type_first, 0, (size_t)(c->T + 1) * sizeof *c->type_first);
    for (int64_t p = 0; p < c->n_pieces; p++)
        c->type_first[c->piece[p].type + 1]++;
    for (int64_t t = 0; t < c->T; t++)
        c->type_first[t + 1] += c->type_first[t];
    memcpy(c->counter, c->type_first, (size_t)c->T * sizeof *c->counter);
    for (int64_t p = 0; p < c->n_pieces; p++)
        c->type_piece[c->counter[c->piece[p].type]++] = p;
}

int uni_diagnose_types(struct uni_diagnose_work *w, struct uni_diagnose_cells *c)
{
    struct comparison m = {w, c};
    if (!c->types)
        return UNI_OK;
    type_lengths(w, c);
    type_spreads(w, c);
    if (!affordable(c))
        return UNI_OK;
    index_pieces(c);
    return uni_pool_run(c->pool, compare_task, &m, c->T);
}
