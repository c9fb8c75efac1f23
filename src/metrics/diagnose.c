/* SPDX-License-Identifier: BSD-3-Clause */
/* uni_diagnose: checks what is given, takes the memory, and has the tables filled. What is worth a warning: diagnose_findings.c.
 */
#include "diagnose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pool.h"
#include "../error.h"
#include "../method.h"
#include "../surroundings.h"

/* What a check for whoever takes an embedding said, of one of two. */
static int say_which(int err, const char *what)
{
    char said[512];
    snprintf(said, sizeof said, "%s", uni_last_error());
    return uni_fail(err, "%s the correction: %.480s", what, said);
}

static int check_matrices(struct uni_matrix plain[2], const struct uni_matrix *before, const struct uni_matrix *after)
{
    if (!before != !after)
        return uni_fail(UNI_INPUT, "only the embedding %s the correction is given; give both, or neither",
                        before ? "before" : "after");
    if (!before)
        return UNI_OK;
    if (before->n_cells != after->n_cells || before->n_dims != after->n_dims)
        return uni_fail(UNI_INPUT,
                        "the embedding is %lldx%lld before the correction and %lldx%lld after (cells x dimensions); they must be "
                        "the same",
                        (long long)before->n_cells, (long long)before->n_dims, (long long)after->n_cells,
                        (long long)after->n_dims);
    if (before->n_cells < 1 || before->n_dims < 1)
        return uni_fail(UNI_INPUT, "the embedding is %lldx%lld (cells x dimensions); there is nothing to diagnose",
                        (long long)before->n_cells, (long long)before->n_dims);
    int err = uni_matrix_plain(before, &plain[0]);
    if (err)
        return say_which(err, "before");
    err = uni_matrix_plain(after, &plain[1]);
    return err ? say_which(err, "after") : UNI_OK;
}

static int check_labels(const struct uni_batch *b, const char *otherwise, int64_t n_cells, int64_t n_dims)
{
    const char *name = b->name ? b->name : otherwise;
    int64_t missing;
    int err = uni_labels_check(b, name, n_cells, n_dims);
    return err ? err : uni_levels_check(&missing, b, name);
}

/* Of what is diagnosed: the embeddings, else the run. */
static int check_all_labels(const struct uni_diagnose_work *w, const struct uni_batch *batches, int n_batches,
                            const struct uni_batch *types)
{
    int err = UNI_OK;
    for (int v = 0; v < n_batches && !err; v++)
        err = check_labels(&batches[v], "batch", w->answer.n_cells, w->answer.n_dims);
    return err || !types ? err : check_labels(types, "cell type", w->answer.n_cells, w->answer.n_dims);
}

/* Levels of all variables; where a run took cells without a label, they are a level more of their variable. */
static void lay_out_levels(struct uni_diagnose_work *w, int missing_is_level)
{
    const int V = (int)w->answer.n_variables;
    for (int v = 0; v < V; v++) {
        int missing = 0;
        for (int64_t i = 0; missing_is_level && i < w->batches[v].n_cells && !missing; i++)
            missing = w->batches[v].level[i] < 0;
        w->level_first[v + 1] = w->level_first[v] + w->batches[v].n_levels + missing;
    }
    w->answer.n_levels = w->level_first[V];
}

/* Clusters and levels from the run, which must have ended and be readable. */
static int ask_run(struct uni_diagnose_work *w, struct uni_harmony *run, struct uni_diagnose_cells *c)
{
    int64_t shape[3];
    const struct uni_summary *s = uni_summary(run);
    int err = uni_shape(run, UNI_CORRECTION, shape);
    if (err)
        return err;
    if (s->reason == UNI_NOT_RUN || s->reason == UNI_FAILED || s->reason == UNI_CANCELLED)
        return uni_fail(UNI_INPUT, "there is nothing to diagnose: the run ended with \"%s\"", s->reason_text);
    if (s->n_cells != w->answer.n_cells || s->n_dims != w->answer.n_dims)
        return uni_fail(UNI_INPUT, "the run has %lld cells x %lld dimensions, what is given %lld x %lld", (long long)s->n_cells,
                        (long long)s->n_dims, (long long)w->answer.n_cells, (long long)w->answer.n_dims);
    w->answer.n_clusters = s->n_rounds ? shape[1] : 0;
    lay_out_levels(w, s->n_skipped == 0);
    if (s->n_variables == 1 && w->answer.n_variables > 1) {
        err = uni_diagnose_joint_open(w, c, shape[0]);
        if (!err)
            lay_out_levels(w, 0);
    } else if (s->n_variables != w->answer.n_variables || shape[0] != w->answer.n_levels) {
        err = uni_fail(
            UNI_INPUT, "the run has %lld levels of %lld batch variables, what is given %lld of %lld; give those of the run",
            (long long)shape[0], (long long)s->n_variables, (long long)w->answer.n_levels, (long long)w->answer.n_variables);
    }
    return err;
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
    static const struct uni_level_diagnosis unknown = {NULL, 0, 0, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, 0, NAN};
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

static const char *name_at(const struct uni_batch *b, int64_t level, char number[32])
{
    if (level == b->n_levels)
        return "(missing)";
    if (b->level_names && b->level_names[level])
        return b->level_names[level];
    snprintf(number, 32, "number %lld", (long long)level);
    return number;
}

/* Copies of the names of levels and types: the caller's may go. Walked once to add up, once to copy. */
static int open_names(struct uni_diagnose_work *w)
{
    char number[32], *text = NULL, *at = NULL;
    int64_t bytes = 0;
    for (int copy = 0; copy < 2; copy++) {
        for (int64_t row = 0; row < w->answer.n_levels + w->answer.n_types; row++) {
            int is_level = row < w->answer.n_levels;
            int64_t t = row - w->answer.n_levels;
            const char *name = is_level ? name_at(&w->batches[w->levels[row].variable], w->levels[row].level, number)
                                        : name_at(w->types, t, number);
            size_t size = strlen(name) + 1;
            bytes += (int64_t)size;
            if (!copy)
                continue;
            *(is_level ? &w->levels[row].name : &w->types_out[t].name) = memcpy(at, name, size);
            at += size;
        }
        const struct uni_array_row list[] = {UNI_ARRAY(text, bytes)};
        int err = copy ? UNI_OK : uni_arena_open(&w->name_arena, list, 1, "the names of batches and cell types");
        if (err)
            return err;
        at = text;
    }
    return UNI_OK;
}

/* Values are looked at by the pass alone, and again only where it met one that is no number. */
static int say_where(int err, const struct uni_diagnose_cells *c)
{
    struct uni_matrix unused;
    if (err != UNI_INPUT)
        return err;
    if (uni_matrix_check(c->before, &unused, NULL))
        return say_which(err, "before");
    return uni_matrix_check(c->after, &unused, NULL) ? say_which(err, "after") : err;
}

static int work_on_cells(struct uni_diagnose_work *w, struct uni_diagnose_cells *c)
{
    int err = 0;
    TRY(uni_diagnose_order_open(c, w));
    w->answer.n_skipped = c->N_all - c->N;
    if (!c->before)
        goto done;
    TRY(say_where(uni_diagnose_pass(c), c));
    uni_diagnose_levels(w, c);
    TRY(uni_diagnose_types(w, c));
done:
    uni_diagnose_order_close(c);
    return err;
}

static int fill(struct uni_diagnose_work *w, struct uni_harmony *run, const struct uni_matrix *before,
                const struct uni_matrix *after, int64_t threads)
{
    int err = 0;
    threads = threads > 0 ? threads : uni_cpu_count();
    struct uni_diagnose_cells cells = {.N_all = w->answer.n_cells,
                                       .V = w->answer.n_variables,
                                       .batches = w->batches,
                                       .level_first = w->level_first,
                                       .threads = threads < UNI_DIAGNOSE_THREADS ? threads : UNI_DIAGNOSE_THREADS};
    cells.pool = uni_pool_open(cells.threads, NULL);
    if (!cells.pool)
        TRY(uni_fail(UNI_MEMORY, "no memory for %lld threads", (long long)cells.threads));
    struct uni_diagnose_cells joint = cells;
    if (run)
        TRY(ask_run(w, run, &joint));
    else
        lay_out_levels(w, 0);
    TRY(open_answer(w));
    TRY(open_names(w));
    cells.D = w->answer.n_dims;
    cells.V = w->answer.n_variables;
    cells.T = w->answer.n_types;
    cells.batches = w->batches;
    cells.types = w->types;
    cells.before = before;
    cells.after = after;
    TRY(work_on_cells(w, &cells));
    TRY(uni_diagnose_tables(w, run));
    uni_diagnose_findings(w);
done:
    uni_pool_close(cells.pool);
    uni_arena_close(&w->joint_arena);
    w->batches = w->types = NULL;
    return err;
}

int uni_diagnose(struct uni_diagnosis **diagnosis, struct uni_harmony *run, const struct uni_matrix *before,
                 const struct uni_matrix *after, const struct uni_batch *batches, int n_batches, const struct uni_batch *types,
                 int64_t threads)
{
    OWN_SURROUNDINGS;
    *diagnosis = NULL;
    struct uni_matrix plain[2];
    int err = check_matrices(plain, before, after);
    if (!err && (!batches || n_batches < 1 || n_batches > UNI_MAX_VARIABLES))
        err = uni_fail(UNI_INPUT, "%d batch variables; give 1 to %d", batches ? n_batches : 0, UNI_MAX_VARIABLES);
    if (err)
        return err;
    struct uni_diagnose_work *w = calloc(1, sizeof *w);
    if (!w)
        return uni_fail(UNI_MEMORY, "no memory for diagnostics: %zu bytes asked for", sizeof *w);
    w->batches = batches;
    w->types = types && types->n_levels ? types : NULL; /* a column without any label has no levels */
    w->answer.n_cells = before ? before->n_cells : run ? uni_summary(run)->n_cells : batches[0].n_cells;
    w->answer.n_dims = before ? before->n_dims : run ? uni_summary(run)->n_dims : 0;
    w->answer.n_variables = n_batches;
    w->answer.n_types = w->types ? types->n_levels : 0;
    w->answer.length_median = w->answer.length_rms = w->answer.length_999 = w->answer.length_max = NAN;
    err = check_all_labels(w, batches, n_batches, w->types);
    if (!err)
        err = fill(w, run, before ? &plain[0] : NULL, before ? &plain[1] : NULL, threads);
    if (err)
        uni_diagnosis_close(&w->answer);
    else
        *diagnosis = &w->answer;
    return err;
}

int64_t uni_diagnose_bytes(const struct uni_plan *plan, const struct uni_batch *batches, int n_batches,
                           const struct uni_batch *types)
{
    struct uni_diagnose_work w = {.batches = batches, .types = types, .answer = {.n_variables = n_batches}};
    struct uni_array_row list[ROWS];
    int64_t names = 0, joint = 0;
    char number[32];
    w.answer.n_dims = plan->n_dims;
    w.answer.n_clusters = plan->n_clusters;
    w.answer.n_types = types ? types->n_levels : 0;
    for (int v = 0; v < n_batches; v++) {
        w.level_first[v + 1] = w.level_first[v] + batches[v].n_levels + 1;
        for (int64_t l = 0; l <= batches[v].n_levels; l++)
            names += (int64_t)strlen(name_at(&batches[v], l, number)) + 1;
    }
    for (int64_t t = 0; t < w.answer.n_types; t++)
        names += (int64_t)strlen(name_at(types, t, number)) + 1;
    w.answer.n_levels = w.level_first[n_batches];
    struct uni_diagnose_cells c = {.N_all = batches[0].n_cells,
                                   .D = plan->n_dims,
                                   .V = n_batches,
                                   .T = w.answer.n_types,
                                   .level_first = w.level_first,
                                   .threads = UNI_DIAGNOSE_THREADS};
    int64_t cells = uni_diagnose_order_bytes(&c);
    if (n_batches > 1 && plan->n_levels > w.answer.n_levels) { /* combined */
        w.answer.n_levels = plan->n_levels;
        names += plan->n_levels * 64 * n_batches;
    }
    if (n_batches > 1)
        joint = uni_diagnose_joint_bytes(batches[0].n_cells, plan->n_levels, n_batches);
    list_answer(list, &w);
    int64_t answer = uni_arena_bytes(list, ROWS), W = 4 * w.answer.n_levels * plan->n_clusters * plan->n_dims;
    return answer < 0 || cells < 0 ? -1 : answer + names + joint + (cells > W ? cells : W);
}

void uni_diagnosis_close(struct uni_diagnosis *diagnosis)
{
    struct uni_diagnose_work *w = (struct uni_diagnose_work *)diagnosis;
    if (!w)
        return;
    uni_arena_close(&w->arena);
    uni_arena_close(&w->name_arena);
    free(w);
}
