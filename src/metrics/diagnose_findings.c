/* SPDX-License-Identifier: BSD-3-Clause */
/* What is worth a warning: thresholds and sentences. docs/diagnostics.md has what every threshold was measured on. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "diagnose.h"

static const double FEW_CELLS = 30;      /* a cluster's worth, by the default number of clusters, or ... */
static const double FEW_OF_EVEN = 0.5;   /* ... of what a level would have if all were equal, whichever is less */
static const double SMALL_SHARE = 0.01;  /* of the cells, or ... */
static const double SMALL_OF_EVEN = 0.1; /* ... of the equal share, whichever is less */
static const double FAR_LEVEL = 3;       /* times the median of the variable's levels */
static const double FAR_CELLS = 6;       /* times the level's root mean square */
static const double SPREAD_LEAST = 0.9;  /* of a level's spread */
static const double SPREAD_MOST = 1.1;
static const double THIN_MASS = 0.1;    /* of a level's cells */
static const double LONE_SHARE = 0.9;   /* of a type's cells in one level, where no other has UNI_FEWEST */
static const double LONE_MOVED = 0.5;   /* spreads of the type, unless it moved as its neighbours did: */
static const double LONE_KEPT = 0.9;    /* of its distance from the type that came closest */
static const double TYPE_REMOVED = 0.2; /* of a type's variance */
static const double TYPE_ADDED = 0.2;
static const double TYPES_KEPT = 0.8; /* of their distance */

struct finder {
    struct uni_diagnose_work *w;
    enum uni_finding_kind kind;
    int64_t n;
};

/* A candidate; the largest rank is the worst. */
static void consider(struct finder *f, double rank, int64_t row, int64_t other, double value, double threshold)
{
    f->w->ranked[f->n++] = (struct uni_ranked){rank, value, threshold, row, other};
}

static int worse_first(const void *a, const void *b)
{
    const struct uni_ranked *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank) - (x->rank > y->rank) : (x->row > y->row) - (x->row < y->row);
}

static void __attribute__((format(printf, 4, 5))) write_to(char *text, size_t size, size_t *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + *at, size - *at, format, arguments);
    va_end(arguments);
    *at = n < 0 || *at + (size_t)n >= size ? size - 1 : *at + (size_t)n;
}

/* ---- sentences ------------------------------------------------------------------------------------------------------------- */

struct sentence {
    char *text;
    size_t size, at;
};
#define SAY(s, ...) write_to((s)->text, (s)->size, &(s)->at, __VA_ARGS__)

static void say_level(struct sentence *s, const struct uni_diagnose_work *w, int64_t row)
{
    const struct uni_level_diagnosis *l = &w->levels[row];
    const char *variable = w->batches[l->variable].name;
    if (l->level == w->batches[l->variable].n_levels)
        SAY(s, "the cells without a label in %.60s", variable ? variable : "batch");
    else
        SAY(s, "%.60s %.60s", variable ? variable : "batch", l->name);
}

static void say_type(struct sentence *s, const struct uni_diagnose_work *w, int64_t t)
{
    SAY(s, "%.60s %.60s", w->types->name ? w->types->name : "cell type", w->types_out[t].name);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void say_cells(struct sentence *s, int64_t cells)
{
    SAY(s, "%lld cell%s", (long long)cells, plural(cells));
}

static void say_small_level(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    const struct uni_level_diagnosis *l = &w->levels[r->row];
    say_level(s, w, r->row);
    SAY(s, ": ");
    say_cells(s, l->cells);
    if (l->length_median > 0 && w->answer.length_median > 0)
        SAY(s, ", moved %.1f times the median", l->length_median / w->answer.length_median);
    SAY(s, "; a batch effect learnt from so few is mostly chance");
}

static void say_far_level(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    say_level(s, w, r->row);
    SAY(s, ": ");
    say_cells(s, w->levels[r->row].cells);
    SAY(s, ", %.1f times as far from the other cells as is usual here; is it another technology, or other cell types?", r->value);
}

static void say_far_cells(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    const struct uni_level_diagnosis *l = &w->levels[r->row];
    say_level(s, w, r->row);
    SAY(s, ": some of its ");
    say_cells(s, l->cells);
    SAY(s, " moved %.1f times as far as is usual for it", r->value);
}

static void say_level_shrunk(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    say_level(s, w, r->row);
    SAY(s, ": its own spread shrank to %.0f %%, so differences between its cells went with the batch effect; try a smaller theta",
        100 * r->value);
}

static void say_level_torn(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    say_level(s, w, r->row);
    SAY(s,
        ": its own spread grew to %.0f %%, so cells that belong together were moved apart; has it cell types that no other has?",
        100 * r->value);
}

static void say_thin_level(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    const struct uni_level_diagnosis *l = &w->levels[r->row];
    say_level(s, w, r->row);
    SAY(s, ": %.0f %% of its ", 100 * r->value);
    say_cells(s, l->cells);
    SAY(s, " %s corrected on less than one cell a cluster (%lld of %lld clusters); use fewer clusters, or a larger lambda",
        l->cells == 1 ? "is" : "are", (long long)l->thin, (long long)w->answer.n_clusters);
}

static void say_lone_level(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    const struct uni_level_diagnosis *l = &w->levels[r->row];
    say_level(s, w, r->row);
    if (r->other > 0)
        SAY(s, " and %lld more", (long long)r->other);
    SAY(s, ": no cell type of %s is in any other, so batch effect and cell type cannot be told apart",
        r->other > 0 ? "theirs" : "its");
    if (l->length_median > 0 && w->answer.length_median > 0)
        SAY(s, "; it moved %.1f times the median", l->length_median / w->answer.length_median);
}

static void say_lone_type(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    const struct uni_type_diagnosis *t = &w->types_out[r->row];
    int v = w->levels[r->other].variable;
    int64_t there = w->type_level_cells[v * w->answer.n_types + r->row];
    say_type(s, w, r->row);
    if (there < t->cells)
        SAY(s, ": %lld of its ", (long long)there);
    else
        SAY(s, ": all of its ");
    say_cells(s, t->cells);
    SAY(s, " are in ");
    say_level(s, w, r->other);
    SAY(s, ", and they moved by %.1f of their spread, although no other says where to", r->value);
}

static void say_type_shrunk(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    say_type(s, w, r->row);
    SAY(s, ": %.0f %% of the variance between its own cells was removed", 100 * r->value);
}

static void say_type_torn(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    say_type(s, w, r->row);
    SAY(s, ": the variance between its own cells grew by %.0f %%, so they were moved apart", 100 * r->value);
}

static void say_types_merged(struct sentence *s, const struct uni_diagnose_work *w, const struct uni_ranked *r)
{
    say_type(s, w, r->row);
    SAY(s, " and ");
    say_type(s, w, r->other);
    SAY(s, ": of their distance within a batch %.0f %% is left", 100 * r->value);
}

/* Names may hold anything; a sentence may go to a terminal. 0xc2 0x80 to 0x9f is UTF-8 for control characters too. */
static void make_printable(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++)
        if (*at < 0x20 || *at == 0x7f)
            *at = '?';
        else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
            at[0] = at[1] = '?';
}

/* Lists the worst, and counts the rest. */
static void list(struct finder *f, void (*say)(struct sentence *, const struct uni_diagnose_work *, const struct uni_ranked *))
{
    static const char *const names[UNI_FINDING_KINDS] = {"small_level", "far_level",  "far_cells",   "level_shrunk",
                                                         "level_torn",  "thin_level", "lone_level",  "lone_type",
                                                         "type_shrunk", "type_torn",  "types_merged"};
    struct uni_diagnose_work *w = f->w;
    qsort(w->ranked, (size_t)f->n, sizeof *w->ranked, worse_first);
    for (int64_t i = 0; i < f->n && i < UNI_FINDINGS_LISTED; i++) {
        const struct uni_ranked *r = &w->ranked[i];
        int64_t at = w->answer.n_findings++, more = i == UNI_FINDINGS_LISTED - 1 ? f->n - UNI_FINDINGS_LISTED : 0;
        struct sentence s = {w->text + at * UNI_FINDING_TEXT, UNI_FINDING_TEXT, 0};
        say(&s, w, r);
        if (more)
            SAY(&s, " (and %lld more like this)", (long long)more);
        make_printable(s.text);
        w->findings[at] = (struct uni_finding){f->kind, names[f->kind], r->row, r->other, r->value, r->threshold, more, s.text};
    }
}

/* ---- levels ---------------------------------------------------------------------------------------------------------------- */

static void find_small_levels(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_SMALL_LEVEL, 0};
    double N = (double)(w->answer.n_cells - w->answer.n_skipped);
    for (int64_t l = 0; l < w->answer.n_levels; l++) {
        int64_t levels = w->levels_used[w->levels[l].variable];
        double cells = (double)w->levels[l].cells, even = N / (double)levels;
        double limit = fmax(fmin(FEW_CELLS, FEW_OF_EVEN * even), fmin(SMALL_SHARE * N, SMALL_OF_EVEN * even));
        if (levels > 1 && cells > 0 && cells < limit)
            consider(&f, -cells, l, -1, cells, limit);
    }
    list(&f, say_small_level);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void find_far_levels(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_FAR_LEVEL, 0};
    for (int v = 0; v < w->answer.n_variables; v++) {
        int64_t n = 0;
        double *distance = (double *)(void *)w->weighed;
        for (int64_t l = w->level_first[v]; l < w->level_first[v + 1]; l++)
            if (isfinite(w->levels[l].distance))
                distance[n++] = w->levels[l].distance;
        qsort(distance, (size_t)n, sizeof *distance, by_value);
        double median = n ? distance[(n - 1) / 2] : 0;
        for (int64_t l = w->level_first[v]; n > 2 && l < w->level_first[v + 1]; l++) {
            double ratio = w->levels[l].distance / median;
            if (median > 0 && ratio > FAR_LEVEL)
                consider(&f, ratio, l, -1, ratio, FAR_LEVEL);
        }
    }
    list(&f, say_far_level);
}

static void find_far_cells(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_FAR_CELLS, 0};
    for (int64_t l = 0; l < w->answer.n_levels; l++) {
        double ratio = w->levels[l].length_999 / w->levels[l].length_rms;
        if (ratio > FAR_CELLS)
            consider(&f, ratio, l, -1, ratio, FAR_CELLS);
    }
    list(&f, say_far_cells);
}

static void find_spreads(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_LEVEL_SHRUNK, 0};
    for (int64_t l = 0; l < w->answer.n_levels; l++)
        if (w->levels[l].spread_kept < SPREAD_LEAST)
            consider(&f, -w->levels[l].spread_kept, l, -1, w->levels[l].spread_kept, SPREAD_LEAST);
    list(&f, say_level_shrunk);
    f = (struct finder){w, UNI_LEVEL_TORN, 0};
    for (int64_t l = 0; l < w->answer.n_levels; l++)
        if (w->levels[l].spread_kept > SPREAD_MOST)
            consider(&f, w->levels[l].spread_kept, l, -1, w->levels[l].spread_kept, SPREAD_MOST);
    list(&f, say_level_torn);
}

static void find_thin_levels(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_THIN_LEVEL, 0};
    for (int64_t l = 0; l < w->answer.n_levels; l++)
        if (w->levels[l].thin_mass > THIN_MASS)
            consider(&f, w->levels[l].thin_mass, l, -1, w->levels[l].thin_mass, THIN_MASS);
    list(&f, say_thin_level);
}

/* ---- types ----------------------------------------------------------------------------------------------------------------- */

/* Levels that share a type hang together in trees; all but the largest tree are cut off from it. Leaves a mark at these. */
static void find_lone_levels(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_LONE_LEVEL, 0};
    for (int64_t l = 0; l < w->answer.n_levels; l++) {
        int64_t root = uni_diagnose_tree(w, l);
        w->tree_levels[root] += w->has_type[l];
        w->tree_cells[root] += w->has_type[l] ? (double)w->levels[l].cells : 0;
    }
    for (int v = 0; v < w->answer.n_variables; v++) {
        int64_t most = w->level_first[v];
        for (int64_t l = most; l < w->level_first[v + 1]; l++)
            most = w->tree_cells[l] > w->tree_cells[most] ? l : most;
        for (int64_t l = w->level_first[v]; l < w->level_first[v + 1]; l++)
            if (w->tree_levels[l] && l != most) {
                w->lone[l] = 1;
                consider(&f, w->tree_cells[l], l, w->tree_levels[l] - 1, w->tree_cells[l], 0);
            }
    }
    list(&f, say_lone_level);
}

/* The level that has the type for itself; -1: none, or one that was named as cut off. */
static int64_t only_level(const struct uni_diagnose_work *w, int64_t t, int v)
{
    const struct uni_type_diagnosis *type = &w->types_out[t];
    int64_t i = v * w->answer.n_types + t, level = w->type_level[i];
    if (type->levels[v] != 1 || w->levels_used[v] < 2 || (double)w->type_level_cells[i] < LONE_SHARE * (double)type->cells)
        return -1;
    return w->lone[uni_diagnose_tree(w, level)] ? -1 : level;
}

static void find_lone_types(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_LONE_TYPE, 0};
    for (int64_t t = 0; t < w->answer.n_types; t++) {
        const struct uni_type_diagnosis *type = &w->types_out[t];
        double moved = type->length_median / type->spread, kept = type->nearest_after / type->nearest_before;
        int64_t level = -1;
        for (int v = 0; v < w->answer.n_variables && level < 0; v++)
            level = only_level(w, t, v);
        if (level >= 0 && moved > LONE_MOVED && !(kept >= LONE_KEPT))
            consider(&f, moved, t, level, moved, LONE_MOVED);
    }
    list(&f, say_lone_type);
}

static void find_type_spreads(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_TYPE_SHRUNK, 0};
    for (int64_t t = 0; t < w->answer.n_types; t++)
        if (w->types_out[t].removed > TYPE_REMOVED)
            consider(&f, w->types_out[t].removed, t, -1, w->types_out[t].removed, TYPE_REMOVED);
    list(&f, say_type_shrunk);
    f = (struct finder){w, UNI_TYPE_TORN, 0};
    for (int64_t t = 0; t < w->answer.n_types; t++)
        if (-w->types_out[t].removed > TYPE_ADDED)
            consider(&f, -w->types_out[t].removed, t, -1, -w->types_out[t].removed, TYPE_ADDED);
    list(&f, say_type_torn);
}

/* A pair is named once, by the type that comes first in the caller's order. */
static void find_merged_types(struct uni_diagnose_work *w)
{
    struct finder f = {w, UNI_TYPES_MERGED, 0};
    for (int64_t t = 0; t < w->answer.n_types; t++) {
        const struct uni_type_diagnosis *type = &w->types_out[t];
        double kept = type->nearest_after / type->nearest_before;
        if (kept < TYPES_KEPT && !(w->types_out[type->nearest].nearest == t && type->nearest < t))
            consider(&f, -kept, t, type->nearest, kept, TYPES_KEPT);
    }
    list(&f, say_types_merged);
}

void uni_diagnose_findings(struct uni_diagnose_work *w)
{
    for (int64_t l = 0; l < w->answer.n_levels; l++)
        w->levels_used[w->levels[l].variable] += w->levels[l].cells > 0;
    find_small_levels(w);
    find_far_levels(w);
    find_far_cells(w);
    find_spreads(w);
    find_thin_levels(w);
    find_lone_levels(w);
    find_lone_types(w);
    find_type_spreads(w);
    find_merged_types(w);
}
