/* SPDX-License-Identifier: BSD-3-Clause */
/* --within: the levels of a column are integrated apart, one after another, as if each were a file of its own. A run gets copies
 * of its cells, and its result takes their places among the values. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnostics.h"

/* The cells by level, and one level's copies. */
struct parts {
    int64_t n;                         /* levels */
    int64_t *cell;                     /* (n_cells) those of the first level, then those of the second, ... */
    int64_t *first;                    /* (n + 1) */
    int32_t *level[UNI_MAX_VARIABLES]; /* (of the largest level) */
    int32_t *type;
    double *number[UNI_MAX_VARIABLES + 1];
    float *values;
};

/* One level's part. */
struct part {
    int64_t n_cells;
    const int64_t *cell; /* (n_cells) */
    const char *name;
    struct uni_batch batches[UNI_MAX_VARIABLES];
    struct uni_batch types; /* with --label */
    struct uni_covariate covariates[UNI_MAX_VARIABLES];
    struct uni_options method;
    const char *constant[UNI_MAX_VARIABLES]; /* columns with one value in all its cells */
    int n_constant;
};

static void parts_close(struct parts *parts)
{
    free(parts->cell);
    free(parts->first);
    for (int v = 0; v < UNI_MAX_VARIABLES; v++)
        free(parts->level[v]);
    free(parts->type);
    for (int x = 0; x <= UNI_MAX_VARIABLES; x++)
        free(parts->number[x]);
    free(parts->values);
    memset(parts, 0, sizeof *parts);
}

static int check_missing(const struct integrate *job)
{
    const struct io_labels *l = &job->within;
    int64_t first = 0;
    if (l->n_cells != job->matrix.n_cells)
        return say_failed("--within %s has %lld labels for %lld cells", l->name, (long long)l->n_cells,
                          (long long)job->matrix.n_cells);
    if (!l->n_missing || job->options.method.missing != UNI_MISSING_ERROR)
        return EXIT_DONE;
    while (l->level[first] >= 0)
        first++;
    return say_failed(
        "--within %s has %lld missing label%s, %sat cell %lld; fill them in, or use --missing skip (leave these cells "
        "uncorrected) or --missing level (integrate them as a level of their own)",
        l->name, (long long)l->n_missing, l->n_missing == 1 ? "" : "s", l->n_missing == 1 ? "" : "the first ",
        (long long)first + 1);
}

static int parts_open(struct parts *parts, const struct integrate *job)
{
    const struct io_labels *l = &job->within;
    const struct integrate_options *o = &job->options;
    memset(parts, 0, sizeof *parts);
    int status = check_missing(job);
    if (status != EXIT_DONE)
        return status;
    parts->n = l->n_levels + (l->n_missing > 0 && o->method.missing == UNI_MISSING_LEVEL);
    parts->cell = io_room(l->n_cells, sizeof *parts->cell);
    parts->first = io_room_zeroed(parts->n + 2, sizeof *parts->first);
    int64_t *at = parts->first, largest = 1;
    int bad = !parts->cell || !at;
    for (int64_t i = 0; i < l->n_cells && !bad; i++) {
        int64_t level = l->level[i] < 0 ? l->n_levels : l->level[i];
        if (level < parts->n)
            at[level + 2]++;
    }
    for (int64_t g = 0; g < parts->n && !bad; g++) {
        largest = at[g + 2] > largest ? at[g + 2] : largest;
        at[g + 2] += at[g + 1];
    }
    for (int64_t i = 0; i < l->n_cells && !bad; i++) {
        int64_t level = l->level[i] < 0 ? l->n_levels : l->level[i];
        if (level < parts->n)
            parts->cell[at[level + 1]++] = i;
    }
    for (int v = 0; v < o->n_batches && !bad; v++)
        bad = !(parts->level[v] = io_room(largest, sizeof *parts->level[v]));
    bad = bad || (o->label && !(parts->type = io_room(largest, sizeof *parts->type)));
    for (int x = 0; x < o->n_regress + (o->weights != NULL) && !bad; x++)
        bad = !(parts->number[x] = io_room(largest, sizeof *parts->number[x]));
    return bad ? say_failed("--within %s: no memory for its levels", l->name) : EXIT_DONE;
}

/* A column that is the same for all cells of a level has nothing to regress out there. */
static void take_numbers(struct part *part, struct parts *parts, const struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    part->method.n_covariates = part->n_constant = 0;
    for (int x = 0; x < o->n_regress + (o->weights != NULL); x++) {
        double *to = parts->number[x];
        int same = 1;
        for (int64_t i = 0; i < part->n_cells; i++) {
            to[i] = job->numbers[x][part->cell[i]];
            same &= to[i] == to[0];
        }
        if (x == o->n_regress) {
            part->method.weights = to;
            part->method.n_weights = part->n_cells;
        } else if (same) {
            part->constant[part->n_constant++] = o->regress[x];
        } else {
            part->covariates[part->method.n_covariates++] =
                (struct uni_covariate){.name = o->regress[x], .n_cells = part->n_cells, .value = to};
        }
    }
    part->method.covariates = part->method.n_covariates ? part->covariates : NULL;
}

/* The level's cells, and those of them that have all their labels. */
static int64_t part_take(struct part *part, struct parts *parts, int64_t g, const struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    int64_t usable = 0;
    part->n_constant = 0;
    part->cell = parts->cell + parts->first[g];
    part->n_cells = parts->first[g + 1] - parts->first[g];
    part->name = g < job->within.names.count ? job->within.names.at[g] : "(missing)";
    part->method = o->method;
    part->method.force = 1; /* what looks like a mistake was looked for among all cells */
    for (int64_t i = 0; i < part->n_cells; i++) {
        int missing = 0;
        for (int v = 0; v < o->n_batches; v++) {
            parts->level[v][i] = job->labels[v].level[part->cell[i]];
            missing |= parts->level[v][i] < 0;
        }
        usable += !missing || o->method.missing != UNI_MISSING_SKIP;
    }
    for (int v = 0; v < o->n_batches; v++) {
        part->batches[v] = job->batches[v];
        part->batches[v].n_cells = part->n_cells;
        part->batches[v].level = parts->level[v];
    }
    part->types = job->types;
    part->types.n_cells = part->n_cells;
    part->types.level = parts->type;
    for (int64_t i = 0; o->label && i < part->n_cells; i++)
        parts->type[i] = job->types.level[part->cell[i]];
    if (usable >= 2)
        take_numbers(part, parts, job);
    return usable;
}

static const struct uni_batch *types_of(const struct integrate *job, const struct part *part)
{
    return job->options.label ? &part->types : NULL;
}

static int failed_part(const struct part *part, struct integrate *job, int status)
{
    progress_clear(&job->progress);
    say_failed("%s \"%s\": %s", job->options.within, part->name, uni_last_error());
    return status == UNI_OPTION ? EXIT_USAGE : EXIT_FAILED;
}

int within_plan(struct integrate *job, int64_t names, int64_t *needed)
{
    const struct integrate_options *o = &job->options;
    const struct io_matrix *m = &job->matrix;
    struct parts parts;
    struct part part;
    struct uni_plan plan, all = job->plan;
    int64_t most = m->source_bytes, row = m->n_dims * (int64_t)sizeof(float), largest = 0, diagnoses = 0;
    int status = parts_open(&parts, job);
    for (int64_t g = 0; g < parts.n && status == EXIT_DONE; g++) {
        if (part_take(&part, &parts, g, job) < 2)
            continue;
        int err = uni_plan(&plan, part.n_cells, m->n_dims, part.batches, o->n_batches, &part.method);
        if (err) {
            status = failed_part(&part, job, err);
            break;
        }
        job->n_runs++;
        int64_t opening = part.n_cells * row + plan.bytes_open, ended = plan.bytes + (o->low_memory ? 0 : part.n_cells * row);
        int64_t bytes = opening > ended ? opening : ended;
        diagnoses = io_sum(diagnoses, diagnostics_bytes(job, &plan, part.batches, types_of(job, &part)));
        most = bytes > most ? bytes : most;
        job->plan = plan.bytes > largest ? plan : job->plan;
        largest = plan.bytes > largest ? plan.bytes : largest;
    }
    job->largest_run = job->plan.n_cells;
    job->plan.n_cells = all.n_cells;
    job->plan.n_levels = all.n_levels;
    *needed = io_sum(diagnoses, m->n_cells * (row + 16 + 4 * o->n_batches + 8 * (o->n_regress + 1)) + names + most);
    parts_close(&parts);
    return status;
}

/* ---- what is kept of a run ---------------------------------------------------------------------------------------------- */

static void *copied(const void *from, int64_t count, size_t size)
{
    void *to = io_room(count, size);
    if (to && count)
        memcpy(to, from, (size_t)count * size);
    return to;
}

static void copy_close(struct uni_summary *s)
{
    for (int64_t i = 0; s->warnings && i < s->n_warnings; i++)
        free((void *)(uintptr_t)s->warnings[i]);
    free((void *)(uintptr_t)s->warnings);
    free((void *)(uintptr_t)s->rounds);
    free((void *)(uintptr_t)s->objectives);
    free((void *)(uintptr_t)s->backend);
    free((void *)(uintptr_t)s->reason_text);
}

static char *warning_of(const struct integrate *job, const struct part *part, const char *column, const char *text)
{
    char *all = NULL;
    if (asprintf(&all, "%s \"%s\": %s%s", job->options.within, part->name, column, text) < 0)
        return NULL;
    return all;
}

/* A copy of s, its warnings with the level's name before them. */
static int keep_run(struct integrate *job, const struct part *part, const struct uni_summary *s)
{
    struct integrate_run *run = &job->runs[job->n_runs++];
    struct uni_summary *c = &run->copy;
    char **warnings = io_room_zeroed(s->n_warnings + part->n_constant + 1, sizeof *warnings);
    *c = *s;
    c->n_warnings = 0;
    c->warnings = (const char *const *)warnings;
    c->rounds = copied(s->rounds, s->n_rounds, sizeof *s->rounds);
    c->objectives = copied(s->objectives, s->n_objectives, sizeof *s->objectives);
    c->backend = strdup(s->backend);
    c->reason_text = strdup(s->reason_text);
    int bad = !warnings || !c->rounds || !c->objectives || !c->backend || !c->reason_text;
    for (int x = 0; x < part->n_constant && !bad; x++)
        bad = !(warnings[c->n_warnings++] =
                    warning_of(job, part, part->constant[x], " is the same for all its cells, so it is not regressed out there"));
    for (int64_t i = 0; i < s->n_warnings && !bad; i++)
        bad = !(warnings[c->n_warnings++] = warning_of(job, part, s->warnings[i], ""));
    run->summary = c;
    run->level = part->name;
    run->cells = part->n_cells;
    job->total.n_warnings += c->n_warnings;
    return bad ? say_failed("--within %s: no memory for the report on a run", job->options.within) : EXIT_DONE;
}

/* ---- the runs ----------------------------------------------------------------------------------------------------------- */

/* A copy of the part's rows, where they are together. */
static int rows_open(struct integrate *job, struct parts *parts, const struct part *part)
{
    int64_t D = job->matrix.n_dims;
    size_t row = (size_t)D * sizeof(float);
    parts->values = io_room(part->n_cells, row);
    if (!parts->values)
        return say_failed("%s \"%s\": no memory for %lld x %lld values", job->options.within, part->name,
                          (long long)part->n_cells, (long long)D);
    for (int64_t i = 0; i < part->n_cells; i++)
        memcpy(parts->values + i * D, job->values + part->cell[i] * D, row);
    return EXIT_DONE;
}

static void rows_close(struct parts *parts)
{
    free(parts->values);
    parts->values = NULL;
}

static int run_open(struct integrate *job, struct parts *parts, struct part *part)
{
    int status = rows_open(job, parts, part);
    if (status != EXIT_DONE)
        return status;
    struct uni_matrix embedding = {
        .data = parts->values, .dtype = UNI_FLOAT32, .n_cells = part->n_cells, .n_dims = job->matrix.n_dims};
    part->method.progress = progress_round;
    part->method.progress_user = &job->progress;
    double start = seconds_wall();
    int err = uni_open(&job->run, &embedding, part->batches, job->options.n_batches, &part->method);
    job->seconds.open += seconds_wall() - start;
    rows_close(parts);
    return err ? failed_part(part, job, err) : EXIT_DONE;
}

/* The diagnosis is the next kept run's. */
static int diagnose_part(struct integrate *job, struct parts *parts, const struct part *part, const float *corrected)
{
    int low = job->options.low_memory, status = low ? EXIT_DONE : rows_open(job, parts, part);
    if (status != EXIT_DONE)
        return status;
    int err = diagnostics_make(&job->runs[job->n_runs].diagnosis, job, parts->values, low ? NULL : corrected, part->batches,
                               types_of(job, part));
    rows_close(parts);
    return err ? failed_part(part, job, err) : EXIT_DONE;
}

static int run_part(struct integrate *job, struct parts *parts, struct part *part)
{
    int64_t D = job->matrix.n_dims;
    const float *corrected;
    int status = run_open(job, parts, part);
    if (status != EXIT_DONE)
        return status;
    double start = seconds_wall();
    int err = uni_run(job->run);
    job->seconds.run += seconds_wall() - start;
    start = seconds_wall();
    if (!err)
        err = uni_take(job->run, &corrected);
    if (err)
        return failed_part(part, job, err);
    job->seconds.result += seconds_wall() - start;
    status = diagnose_part(job, parts, part, corrected);
    if (status != EXIT_DONE)
        return status;
    for (int64_t i = 0; i < part->n_cells; i++)
        memcpy(job->values + part->cell[i] * D, corrected + i * D, (size_t)D * sizeof(float));
    status = keep_run(job, part, uni_summary(job->run));
    uni_close(job->run);
    job->run = NULL;
    return status;
}

static int keep_unchanged(struct integrate *job, const struct part *part)
{
    const char *const warning[] = {"it has fewer than two cells that take part, and comes back unchanged"};
    const struct uni_summary none = {.n_cells = part->n_cells,
                                     .n_skipped = part->n_cells,
                                     .n_dims = job->matrix.n_dims,
                                     .n_variables = job->options.n_batches,
                                     .backend = "none",
                                     .reason = UNI_NO_ROUNDS,
                                     .reason_text = "fewer than two cells",
                                     .n_warnings = 1,
                                     .warnings = warning};
    return keep_run(job, part, &none);
}

/* The runs as one. */
static int add_up(struct integrate *job)
{
    struct uni_summary *all = &job->total;
    int64_t settled = 0, n = 0;
    const char **warnings = io_room_zeroed(all->n_warnings + 1, sizeof *warnings);
    if (!warnings)
        return say_failed("--within %s: no memory for its warnings", job->options.within);
    all->n_cells = job->matrix.n_cells;
    all->n_dims = job->matrix.n_dims;
    all->n_levels = job->plan.n_levels;
    all->n_skipped = job->matrix.n_cells;
    all->backend = job->plan.backend;
    for (int64_t r = 0; r < job->n_runs; r++) {
        const struct uni_summary *s = job->runs[r].summary;
        all->n_skipped -= s->n_cells - s->n_skipped;
        all->n_clusters += s->n_rounds ? s->n_clusters : 0;
        all->n_rounds += s->n_rounds;
        all->n_variables = s->n_variables;
        all->bytes = s->bytes > all->bytes ? s->bytes : all->bytes;
        all->bytes_card = s->bytes_card > all->bytes_card ? s->bytes_card : all->bytes_card;
        all->threads = s->threads > all->threads ? s->threads : all->threads;
        all->backend = s->bytes == all->bytes ? s->backend : all->backend;
        all->seconds_seed += s->seconds_seed;
        all->seconds_assign += s->seconds_assign;
        all->seconds_sweep += s->seconds_sweep;
        all->seconds_moments += s->seconds_moments;
        all->seconds_ridge += s->seconds_ridge;
        settled += s->reason == UNI_CONVERGED;
        for (int64_t i = 0; i < s->n_warnings; i++)
            warnings[n++] = s->warnings[i];
    }
    all->warnings = (const char *const *)warnings;
    snprintf(job->total_reason, sizeof job->total_reason, "%lld of %lld runs converged", (long long)settled,
             (long long)job->n_runs);
    all->reason_text = job->total_reason;
    job->summary = all;
    return EXIT_DONE;
}

int within_run(struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    struct parts parts;
    struct part part;
    struct uni_plan plan;
    /* What concerns all cells, now that a table's rows are in their order. */
    int err = uni_plan(&plan, job->matrix.n_cells, job->matrix.n_dims, job->batches, o->n_batches, &o->method);
    if (err)
        return failed_library(err);
    int status = parts_open(&parts, job);
    job->n_runs = 0;
    job->runs = status == EXIT_DONE ? io_room_zeroed(parts.n + 1, sizeof *job->runs) : NULL;
    if (status == EXIT_DONE && !job->runs)
        status = say_failed("--within %s: no memory for %lld runs", o->within, (long long)parts.n);
    for (int64_t g = 0; g < parts.n && status == EXIT_DONE; g++) {
        int64_t usable = part_take(&part, &parts, g, job);
        if (part.n_cells == 0)
            continue;
        progress_part(&job->progress, part.name, g + 1, parts.n);
        status = usable < 2 ? keep_unchanged(job, &part) : run_part(job, &parts, &part);
        job->n_warned = 0;
        if (status == EXIT_DONE)
            show_warnings(job, job->runs[job->n_runs - 1].summary);
    }
    progress_clear(&job->progress);
    parts_close(&parts);
    job->result = job->values;
    return status == EXIT_DONE ? add_up(job) : status;
}

void within_close(struct integrate *job)
{
    if (!job->options.within)
        return;
    for (int64_t r = 0; job->runs && r < job->n_runs; r++)
        copy_close(&job->runs[r].copy);
    for (int64_t r = 0; job->runs && r <= job->n_runs; r++) /* that of a run that failed after it, too */
        uni_diagnosis_close(job->runs[r].diagnosis);
    free((void *)(uintptr_t)job->total.warnings);
    free(job->runs);
}
