/* SPDX-License-Identifier: BSD-3-Clause */
/* What uns/KEY of an .h5ad says about a run. Nothing in it depends on the time or the machine's load: the same call gives the
 * same file. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "diagnostics.h"

/* Keeps memory until entries_close; NULL stays NULL. */
static void *keep(struct entries *e, void *memory)
{
    if (memory && e->n_owned < (int)(sizeof e->owned / sizeof e->owned[0]))
        e->owned[e->n_owned++] = memory;
    return memory;
}

static struct io_entry *next(struct entries *e, const char *name)
{
    if (e->count == ENTRIES_MAX || !name)
        return NULL;
    struct io_entry *entry = &e->at[e->count++];
    entry->name = name;
    return entry;
}

int entries_text(struct entries *e, const char *name, const char *text)
{
    struct io_entry *entry = text ? next(e, name) : NULL;
    if (!entry)
        return -1;
    entry->text = text;
    return 0;
}

int entries_own_text(struct entries *e, const char *name, char *text)
{
    return entries_text(e, name, keep(e, text));
}

static int add_number(struct entries *e, const char *name, int64_t number)
{
    double *value = keep(e, malloc(sizeof *value));
    struct io_entry *entry = value ? next(e, name) : NULL;
    if (!entry)
        return -1;
    *value = (double)number;
    entry->values = value;
    entry->integer = 1;
    return 0;
}

/* n numbers of which the entry takes hold; without any there is no entry. */
static int add_values(struct entries *e, const char *name, double *values, int64_t n, int whole)
{
    if (n == 0) {
        free(values);
        return 0;
    }
    struct io_entry *entry = keep(e, values) ? next(e, name) : NULL;
    if (!entry)
        return -1;
    entry->values = values;
    entry->count = n;
    entry->integer = whole;
    return 0;
}

static double number_at(const char *place, int whole)
{
    return whole ? (double)*(const int64_t *)(const void *)place : *(const double *)(const void *)place;
}

int entries_rows(struct entries *e, const char *name, const void *rows, int64_t n, size_t size, size_t member, int whole)
{
    double *values = io_room(n, sizeof *values);
    for (int64_t i = 0; values && i < n; i++)
        values[i] = number_at((const char *)rows + (size_t)i * size + member, whole);
    return values ? add_values(e, name, values, n, whole) : -1;
}

/* Arrays that every run has. */
enum array { ROUNDS, SWEEPS };

static int64_t array_of(const struct integrate_run *run, enum array array, const char **rows, size_t *size)
{
    const struct uni_summary *s = run->summary;
    *rows = array == ROUNDS ? (const char *)s->rounds : (const char *)s->objectives;
    *size = array == ROUNDS ? sizeof *s->rounds : sizeof *s->objectives;
    return array == ROUNDS ? s->n_rounds : s->n_objectives;
}

/* A member of every struct of the runs' arrays, one run after another; whole: it is an int64_t, else a double; RUN: the run's
   number, from 1. */
#define RUN SIZE_MAX
static int add_column(struct entries *e, const struct integrate *job, const char *name, enum array array, size_t member,
                      int whole)
{
    const char *rows;
    size_t size;
    int64_t n = 0, at = 0;
    for (int64_t r = 0; r < job->n_runs; r++)
        n += array_of(&job->runs[r], array, &rows, &size);
    double *values = io_room(n, sizeof *values);
    if (!values)
        return -1;
    for (int64_t r = 0; r < job->n_runs; r++) {
        int64_t count = array_of(&job->runs[r], array, &rows, &size);
        for (int64_t i = 0; i < count; i++) {
            const char *place = rows + (size_t)i * size + (member == RUN ? 0 : member);
            values[at++] = member == RUN ? (double)(r + 1) : number_at(place, whole);
        }
    }
    return add_values(e, name, values, n, whole);
}

static int add_parameters(struct entries *e, const struct uni_options *method)
{
    const struct uni_option *o;
    for (int i = 0; (o = uni_option_at(i)); i++) {
        size_t n = strlen(o->name);
        char *name = keep(e, calloc(1, n + 16)), *text = keep(e, calloc(1, 256));
        if (!name || !text || uni_options_get(method, o->name, text, 256))
            return -1;
        strcpy(name, "params/");
        memcpy(name + 7, o->name, n);
        if (entries_text(e, name, text))
            return -1;
    }
    return 0;
}

/* Texts one after another with between in between. */
static char *joined(const char *const *texts, int64_t n, const char *between)
{
    size_t size = 1;
    for (int64_t i = 0; i < n; i++)
        size += strlen(texts[i]) + strlen(between);
    char *all = calloc(1, size), *end = all;
    for (int64_t i = 0; all && i < n; i++)
        end += sprintf(end, "%s%s", i ? between : "", texts[i]);
    return all;
}

#define ROUND(name, member, whole) add_column(e, job, name, ROUNDS, offsetof(struct uni_round, member), whole)
#define SWEEP(name, member, whole) add_column(e, job, name, SWEEPS, offsetof(struct uni_objective, member), whole)

static int add_tables(struct entries *e, const struct integrate *job)
{
    int bad = job->options.within &&
              (add_column(e, job, "rounds/run", ROUNDS, RUN, 1) || add_column(e, job, "trace/run", SWEEPS, RUN, 1));
    bad = bad || ROUND("rounds/sweeps", sweeps, 1) || ROUND("rounds/objective", objective, 0) ||
          ROUND("rounds/objective_change", objective_change, 0) || ROUND("rounds/change", change, 0) ||
          ROUND("rounds/pruned_pairs", pruned_pairs, 1) || ROUND("rounds/skipped_clusters", skipped_clusters, 1);
    bad = bad || SWEEP("trace/round", round, 1) || SWEEP("trace/sweep", sweep, 1) || SWEEP("trace/objective", total, 0) ||
          SWEEP("trace/diversity", diversity, 0);
    if (!bad && job->options.method.terms)
        bad = SWEEP("trace/distance", distance, 0) || SWEEP("trace/entropy", entropy, 0);
    return bad;
}

/* A text of every run, one a line, or a number. */
static int add_runs(struct entries *e, const struct integrate *job)
{
    int64_t n = job->n_runs;
    const char **level = keep(e, io_room_zeroed(n + 1, sizeof *level)), **reason = keep(e, io_room_zeroed(n + 1, sizeof *reason));
    double *cells = io_room(n, sizeof *cells), *clusters = io_room(n, sizeof *clusters);
    if (!level || !reason || !cells || !clusters) {
        free(cells);
        free(clusters);
        return -1;
    }
    for (int64_t r = 0; r < n; r++) {
        const struct integrate_run *run = &job->runs[r];
        level[r] = run->level;
        reason[r] = run->summary->reason_text;
        cells[r] = (double)run->cells;
        clusters[r] = (double)run->summary->n_clusters;
    }
    int bad = add_values(e, "runs/cells", cells, n, 1);
    bad = add_values(e, "runs/n_clusters", clusters, n, 1) || bad;
    return bad || entries_text(e, "within", job->options.within) ||
           entries_text(e, "runs/level", keep(e, joined(level, n, "\n"))) ||
           entries_text(e, "runs/reason", keep(e, joined(reason, n, "\n")));
}

static int add_all(struct entries *e, const struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    const struct uni_summary *s = job->summary;
    char *method = keep(e, calloc(1, 64));
    int bad = !method || uni_options_get(&o->method, "flavor", method, 64) || entries_text(e, "method", method) ||
              entries_text(e, "program", "unisono") || entries_text(e, "version", uni_version()) ||
              entries_text(e, "batch", keep(e, joined(o->batch, o->n_batches, ","))) || entries_text(e, "backend", s->backend) ||
              entries_text(e, "reason", s->reason_text) || add_number(e, "threads", s->threads) ||
              add_number(e, "seed", o->method.seed) || add_number(e, "n_clusters", s->n_clusters) ||
              add_number(e, "n_rounds", s->n_rounds) || add_number(e, "n_cells_skipped", s->n_skipped) ||
              add_parameters(e, &o->method);
    if (!bad && job->input_format == IO_H5AD)
        bad = entries_text(e, "basis", o->basis);
    if (!bad && o->n_regress)
        bad = entries_text(e, "regress", keep(e, joined(o->regress, o->n_regress, ",")));
    if (!bad && o->weights)
        bad = entries_text(e, "weights", o->weights);
    if (!bad && o->within)
        bad = add_runs(e, job);
    if (!bad && s->n_warnings)
        bad = entries_text(e, "warnings", keep(e, joined(s->warnings, s->n_warnings, "\n")));
    return bad || add_tables(e, job) || diagnostics_entries(e, job);
}

int entries_open(struct entries *e, const struct integrate *job)
{
    memset(e, 0, sizeof *e);
    return add_all(e, job) ? say_failed("no memory for the report on the run") : EXIT_DONE;
}

void entries_close(struct entries *e)
{
    for (int i = 0; i < e->n_owned; i++)
        free(e->owned[i]);
    memset(e, 0, sizeof *e);
}
