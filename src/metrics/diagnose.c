/* SPDX-License-Identifier: BSD-3-Clause */
/* uni_diagnose: checks what is given, takes the memory, and has the tables filled. What is worth a warning: diagnose_findings.c.
 */
#include "diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/cpu_pool.h"
#include "../error.h"

static const char *name_of(const struct uni_batch *b, const char *otherwise)
{
    return b->name ? b->name : otherwise;
}

static int check_labels(const struct uni_batch *b, const char *what, int64_t n_cells)
{
    if (!b->level)
        return uni_fail(UNI_INPUT, "the labels of \"%s\" are NULL", name_of(b, what));
    if (b->n_cells != n_cells)
        return uni_fail(UNI_INPUT, "\"%s\" has %lld labels for %lld cells; give one for every cell", name_of(b, what),
                        (long long)b->n_cells, (long long)n_cells);
    for (int64_t i = 0; i < n_cells; i++)
        if (b->level[i] < -1 || b->level[i] >= b->n_levels)
            return uni_fail(UNI_INPUT, "\"%s\" has the level %d at cell %lld (from 1); levels are 0 to %lld, -1 is missing",
                            name_of(b, what), (int)b->level[i], (long long)i + 1, (long long)b->n_levels - 1);
    return UNI_OK;
}

static int check_all_labels(const struct uni_batch *batches, int n_batches, const struct uni_batch *types)
{
    int err = UNI_OK;
    if (!batches || n_batches < 1 || n_batches > UNI_MAX_VARIABLES)
        return uni_fail(UNI_INPUT, "%d batch variables; give 1 to %d", batches ? n_batches : 0, UNI_MAX_VARIABLES);
    for (int v = 0; v < n_batches && !err; v++)
        err = check_labels(&batches[v], "batch", batches[0].n_cells);
    return err || !types ? err : check_labels(types, "cell type", batches[0].n_cells);
}

/* Strides in full, as uni_matrix_row wants them. */
static int check_matrix(struct uni_matrix *plain, const struct uni_matrix *given, const char *what, int64_t n_cells)
{
    *plain = *given;
    if (!given->data || (given->dtype != UNI_FLOAT32 && given->dtype != UNI_FLOAT64))
        return uni_fail(UNI_INPUT,
                        "the embedding %s the correction has no data, or a dtype that is neither UNI_FLOAT32 nor UNI_FLOAT64",
                        what);
    if (given->n_cells != n_cells || given->n_dims < 1)
        return uni_fail(UNI_INPUT, "the embedding %s the correction is %lld x %lld; the labels are for %lld cells", what,
                        (long long)given->n_cells, (long long)given->n_dims, (long long)n_cells);
    if (!given->row_stride && !given->col_stride) {
        plain->col_stride = given->dtype == UNI_FLOAT64 ? 8 : 4;
        plain->row_stride = plain->col_stride * given->n_dims;
    }
    return UNI_OK;
}

static int check_matrices(struct uni_matrix plain[2], const struct uni_matrix *before, const struct uni_matrix *after,
                          int64_t n_cells)
{
    if (!before != !after)
        return uni_fail(UNI_INPUT, "only the embedding %s the correction is given; give both, or neither",
                        before ? "before" : "after");
    if (!before)
        return UNI_OK;
    int err = check_matrix(&plain[0], before, "before", n_cells);
    if (!err)
        err = check_matrix(&plain[1], after, "after", n_cells);
    if (!err && before->n_dims != after->n_dims)
        err = uni_fail(UNI_INPUT, "the embedding has %lld dimensions before the correction and %lld after; they must be the same",
                       (long long)before->n_dims, (long long)after->n_dims);
    return err;
}

/* Levels of all variables; with a run as it has them, where cells without a label may be a level more of their variable. */
static int lay_out_levels(struct uni_diagnose_work *w, int64_t run_levels)
{
    const int V = (int)w->answer.n_variables;
    int64_t B = 0, with_missing = 0;
    int missing[UNI_MAX_VARIABLES] = {0};
    for (int v = 0; v < V; v++) {
        for (int64_t i = 0; i < w->batches[v].n_cells && !missing[v]; i++)
            missing[v] = w->batches[v].level[i] < 0;
        with_missing += missing[v];
        B += w->batches[v].n_levels;
    }
    if (run_levels >= 0 && run_levels != B && run_levels != B + with_missing)
        return uni_fail(UNI_INPUT, "the run has %lld levels, and the batches given have %lld; give those of the run",
                        (long long)run_levels, (long long)B);
    for (int v = 0; v < V; v++)
        w->level_first[v + 1] =
            w->level_first[v] + w->batches[v].n_levels + (run_levels == B + with_missing && run_levels > B && missing[v]);
    w->answer.n_levels = w->level_first[V];
    return UNI_OK;
}

/* Sizes from the run, which must have ended and be readable. */
static int ask_run(struct uni_diagnose_work *w, struct uni_harmony *run, int64_t *levels)
{
    int64_t shape[3];
    const struct uni_summary *s = uni_summary(run);
    int err = uni_shape(run, UNI_CORRECTION, shape);
    if (err)
        return err;
    if (s->reason == UNI_NOT_RUN || s->reason == UNI_FAILED || s->reason == UNI_CANCELLED)
        return uni_fail(UNI_INPUT, "there is nothing to diagnose: the run ended with \"%s\"", s->reason_text);
    if (s->n_cells != w->answer.n_cells || (w->answer.n_dims && s->n_dims != w->answer.n_dims))
        return uni_fail(UNI_INPUT, "the run has %lld cells x %lld dimensions, what is given %lld x %lld", (long long)s->n_cells,
                        (long long)s->n_dims, (long long)w->answer.n_cells, (long long)w->answer.n_dims);
    *levels = shape[0];
    w->answer.n_dims = s->n_dims;
    w->answer.n_clusters = s->n_rounds ? shape[1] : 0;
    return UNI_OK;
}

enum { ROWS = 21 };
static void list_answer(struct uni_array_row list[ROWS], struct uni_diagnose_work *w)
{
    const int64_t B = w->answer.n_levels, K = w->answer.n_clusters, T = w->answer.n_types, D = w->answer.n_dims;
    const struct uni_array_row rows[ROWS] = {UNI_ARRAY(w->levels, B),
                                             UNI_ARRAY(w->clusters, K),
                                             UNI_ARRAY(w->types_out, T),
                                             UNI_ARRAY(w->observed, B * K),
                                             UNI_ARRAY(w->expected, B * K),
                                             UNI_ARRAY(w->lambda, B * K),
                                             UNI_ARRAY(w->length, B * K),
                                             UNI_ARRAY(w->weighed, B),
                                             UNI_ARRAY(w->level_squares, 3 * B),
                                             UNI_ARRAY(w->type_squares, 3 * T),
                                             UNI_ARRAY(w->type_moved, T * D),
                                             UNI_ARRAY(w->linked, B + w->answer.n_variables * T),
                                             UNI_ARRAY(w->type_level, w->answer.n_variables * T),
                                             UNI_ARRAY(w->type_level_cells, w->answer.n_variables * T),
                                             UNI_ARRAY(w->has_type, B),
                                             UNI_ARRAY(w->lone, B),
                                             UNI_ARRAY(w->tree_levels, B),
                                             UNI_ARRAY(w->tree_cells, B),
                                             UNI_ARRAY(w->findings, UNI_MAX_FINDINGS),
                                             UNI_ARRAY(w->text, UNI_MAX_FINDINGS * UNI_FINDING_TEXT),
                                             UNI_ARRAY(w->ranked, B > T ? B : T)};
    memcpy(list, rows, sizeof rows);
}

static int open_answer(struct uni_diagnose_work *w)
{
    static const struct uni_level_diagnosis unknown = {0, 0, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, 0, NAN};
    struct uni_array_row list[ROWS];
    list_answer(list, w);
    int err = uni_arena_open(&w->arena, list, ROWS, "the diagnostics' tables");
    if (err)
        return err;
    for (int64_t v = 0; v < w->answer.n_variables; v++)
        for (int64_t l = w->level_first[v]; l < w->level_first[v + 1]; l++) {
            w->levels[l] = unknown;
            w->levels[l].variable = (int)v;
            w->levels[l].level = l - w->level_first[v];
        }
    for (int64_t t = 0; t < w->answer.n_types; t++)
        w->types_out[t] = (struct uni_type_diagnosis){.length_median = NAN,
                                                      .length_999 = NAN,
                                                      .moved = NAN,
                                                      .spread = NAN,
                                                      .removed = NAN,
                                                      .nearest = -1,
                                                      .nearest_before = NAN,
                                                      .nearest_after = NAN};
    for (int64_t i = 0; i < w->answer.n_variables * w->answer.n_types; i++)
        w->type_level[i] = -1;
    for (int64_t node = 0; node < w->answer.n_levels + w->answer.n_variables * w->answer.n_types; node++)
        w->linked[node] = node;
    w->answer.levels = w->levels;
    w->answer.clusters = w->clusters;
    w->answer.types = w->types_out;
    w->answer.observed = w->answer.n_clusters ? w->observed : NULL;
    w->answer.expected = w->answer.n_clusters ? w->expected : NULL;
    w->answer.lambda = w->answer.n_clusters ? w->lambda : NULL;
    w->answer.length = w->answer.n_clusters ? w->length : NULL;
    w->answer.findings = w->findings;
    return UNI_OK;
}

static int work_on_cells(struct uni_diagnose_work *w, struct uni_diagnose_cells *c)
{
    int err = 0;
    struct uni_pool *pool = NULL;
    TRY(uni_diagnose_order_open(c, w));
    w->answer.n_skipped = c->N_all - c->N;
    if (!c->before)
        goto done;
    pool = uni_pool_open(c->threads, NULL);
    if (!pool)
        TRY(uni_fail(UNI_MEMORY, "no memory for %lld threads", (long long)c->threads));
    TRY(uni_diagnose_pass(c, pool));
    uni_diagnose_levels(w, c);
    TRY(uni_diagnose_types(w, c, pool));
done:
    uni_pool_close(pool);
    uni_diagnose_order_close(c);
    return err;
}

static int fill(struct uni_diagnose_work *w, struct uni_harmony *run, const struct uni_matrix *before,
                const struct uni_matrix *after, int64_t threads)
{
    int err = 0;
    int64_t run_levels = -1;
    struct uni_matrix plain[2];
    TRY(check_matrices(plain, before, after, w->answer.n_cells));
    w->answer.n_dims = before ? before->n_dims : 0;
    if (run)
        TRY(ask_run(w, run, &run_levels));
    TRY(lay_out_levels(w, run_levels));
    TRY(open_answer(w));
    threads = threads > 0 ? threads : uni_cpu_count();
    struct uni_diagnose_cells cells = {.N_all = w->answer.n_cells,
                                       .D = w->answer.n_dims,
                                       .V = w->answer.n_variables,
                                       .T = w->answer.n_types,
                                       .batches = w->batches,
                                       .types = w->types,
                                       .level_first = w->level_first,
                                       .before = before ? &plain[0] : NULL,
                                       .after = before ? &plain[1] : NULL,
                                       .threads = threads < UNI_DIAGNOSE_THREADS ? threads : UNI_DIAGNOSE_THREADS};
    TRY(work_on_cells(w, &cells));
    TRY(uni_diagnose_tables(w, run));
    uni_diagnose_findings(w);
done:
    return err;
}

int uni_diagnose(struct uni_diagnosis **diagnosis, struct uni_harmony *run, const struct uni_matrix *before,
                 const struct uni_matrix *after, const struct uni_batch *batches, int n_batches, const struct uni_batch *types,
                 int64_t threads)
{
    *diagnosis = NULL;
    int err = check_all_labels(batches, n_batches, types);
    if (err)
        return err;
    struct uni_diagnose_work *w = calloc(1, sizeof *w);
    if (!w)
        return uni_fail(UNI_MEMORY, "no memory for diagnostics: %zu bytes asked for", sizeof *w);
    w->batches = batches;
    w->types = types;
    w->answer.n_cells = batches[0].n_cells;
    w->answer.n_variables = n_batches;
    w->answer.n_types = types ? types->n_levels : 0;
    w->answer.length_median = w->answer.length_rms = w->answer.length_999 = w->answer.length_max = NAN;
    err = fill(w, run, before, after, threads);
    if (err)
        uni_diagnosis_close(&w->answer);
    else
        *diagnosis = &w->answer;
    return err;
}

int64_t uni_diagnose_bytes(int64_t n_dims, int64_t n_clusters, const struct uni_batch *batches, int n_batches,
                           const struct uni_batch *types)
{
    struct uni_diagnose_work w = {.answer = {.n_dims = n_dims, .n_clusters = n_clusters, .n_variables = n_batches}};
    struct uni_array_row list[ROWS];
    w.answer.n_types = types ? types->n_levels : 0;
    for (int v = 0; v < n_batches; v++)
        w.level_first[v + 1] = w.level_first[v] + batches[v].n_levels + 1;
    w.answer.n_levels = w.level_first[n_batches];
    struct uni_diagnose_cells c = {.N_all = batches[0].n_cells,
                                   .D = n_dims,
                                   .V = n_batches,
                                   .T = w.answer.n_types,
                                   .level_first = w.level_first,
                                   .threads = UNI_DIAGNOSE_THREADS};
    list_answer(list, &w);
    int64_t answer = uni_arena_bytes(list, ROWS), cells = uni_diagnose_order_bytes(&c);
    int64_t W = 4 * w.answer.n_levels * n_clusters * n_dims;
    return answer < 0 || cells < 0 ? -1 : answer + (cells > W ? cells : W);
}

void uni_diagnosis_close(struct uni_diagnosis *diagnosis)
{
    struct uni_diagnose_work *w = (struct uni_diagnose_work *)diagnosis;
    if (w)
        uni_arena_close(&w->arena);
    free(w);
}
