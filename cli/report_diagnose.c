/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's diagnosis of what moved, over all cells of the file, and its tables for the page. */
#include <math.h>
#include <stdlib.h>

#include "json.h"
#include "report.h"

enum { ROWS = 1000 }; /* of a table on the page */

static struct uni_batch batch_of(const struct report_variable *v)
{
    const struct io_labels *l = &v->labels;
    return (struct uni_batch){.name = l->name,
                              .n_cells = l->n_cells,
                              .n_levels = l->n_levels,
                              .level = l->level,
                              .level_names = l->names.count ? (const char *const *)l->names.at : NULL};
}

int report_diagnose(struct report *r)
{
    const struct report_options *o = &r->options;
    struct uni_batch batches[REPORT_VARIABLES], types;
    if (o->n_bases < 2 || r->n_dims[0] != r->n_dims[1] || !o->n_batches)
        return EXIT_DONE;
    struct uni_matrix before = {.data = r->whole[0], .dtype = UNI_FLOAT32, .n_cells = r->n_cells, .n_dims = r->n_dims[0]};
    struct uni_matrix after = before;
    after.data = r->whole[1];
    for (int v = 0; v < o->n_batches; v++)
        batches[v] = batch_of(&r->variable[v]);
    if (o->n_labels)
        types = batch_of(&r->variable[o->n_batches]);
    progress_stage(&r->progress, "looking at", "what moved");
    int failed =
        uni_diagnose(&r->diagnosis, NULL, &before, &after, batches, o->n_batches, o->n_labels ? &types : NULL, o->threads);
    progress_clear(&r->progress);
    return failed ? say_failed("%s: %s", o->input, uni_last_error()) : EXIT_DONE;
}

/* ---- for the page -------------------------------------------------------------------------------------------------------------
 */

struct ranked {
    double moved;
    int64_t row;
};

static int farthest_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->moved != y->moved)
        return x->moved > y->moved ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void clipped(struct json *j, const char *key, const char *text)
{
    char room[REPORT_NAME];
    json_text(j, key, text ? report_clip(room, text) : NULL);
}

static void level(struct json *j, const struct report *r, int64_t row)
{
    const struct uni_level_diagnosis *l = &r->diagnosis->levels[row];
    json_open(j, NULL, '{');
    json_whole(j, "row", row);
    clipped(j, "variable", r->variable[l->variable].labels.name);
    clipped(j, "name", l->name);
    json_whole(j, "cells", l->cells);
    json_real(j, "median", l->length_median);
    json_real(j, "p999", l->length_999);
    json_real(j, "most", l->length_max);
    json_real(j, "distance", l->distance);
    json_real(j, "spread", l->spread);
    json_real(j, "kept", l->spread_kept);
    json_close(j, '}');
}

static void type(struct json *j, const struct report *r, const struct uni_type_diagnosis *t)
{
    json_open(j, NULL, '{');
    clipped(j, "name", t->name);
    json_whole(j, "cells", t->cells);
    json_open(j, "levels", '[');
    for (int v = 0; v < r->options.n_batches; v++)
        json_whole(j, NULL, t->levels[v]);
    json_close(j, ']');
    json_real(j, "median", t->length_median);
    json_real(j, "p999", t->length_999);
    json_real(j, "moved", t->moved);
    json_real(j, "spread", t->spread);
    json_real(j, "removed", t->removed);
    clipped(j, "nearest", t->nearest >= 0 ? r->diagnosis->types[t->nearest].name : NULL);
    json_real(j, "nearest_before", t->nearest_before);
    json_real(j, "nearest_after", t->nearest_after);
    json_close(j, '}');
}

/* Rows with cells, those that moved farthest first; the rest is counted only. */
static int rows(struct json *j, const struct report *r, int types)
{
    const struct uni_diagnosis *d = r->diagnosis;
    int64_t all = types ? d->n_types : d->n_levels, n = 0;
    struct ranked *order = io_room(all + 1, sizeof *order);
    if (!order)
        return -1;
    for (int64_t i = 0; i < all; i++) {
        double moved = types ? d->types[i].length_median : d->levels[i].length_median;
        if (types ? d->types[i].cells : d->levels[i].cells)
            order[n++] = (struct ranked){isnan(moved) ? -1 : moved, i};
    }
    qsort(order, (size_t)n, sizeof *order, farthest_first);
    json_whole(j, types ? "n_types" : "n_levels", n);
    json_open(j, types ? "types" : "levels", '[');
    for (int64_t k = 0; k < n && k < ROWS; k++) {
        if (types)
            type(j, r, &d->types[order[k].row]);
        else
            level(j, r, order[k].row);
    }
    json_close(j, ']');
    free(order);
    return 0;
}

int report_diagnosis(struct json *j, const struct report *r)
{
    const struct uni_diagnosis *d = r->diagnosis;
    if (!d)
        return 0;
    json_open(j, "diagnosis", '{');
    json_real(j, "median", d->length_median);
    json_real(j, "p999", d->length_999);
    json_real(j, "most", d->length_max);
    int bad = rows(j, r, 0) || rows(j, r, 1);
    json_open(j, "findings", '[');
    for (int64_t i = 0; i < d->n_findings; i++)
        json_text(j, NULL, d->findings[i].text);
    json_close(j, ']');
    json_close(j, '}');
    return bad;
}
