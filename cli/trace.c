/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON report of --trace. docs/cli.md describes its members. */
#include <stdlib.h>
#include <string.h>

#include "diagnostics.h"

/* "2" and "2,1" become numbers and arrays of them, any other text stays text. */
static void parameter(struct json *j, const struct uni_option *o, const char *text)
{
    char *end;
    double first = strtod(text, &end);
    if (o->kind == UNI_KIND_FLAG)
        json_bool(j, o->name, !strcmp(text, "yes"));
    else if (o->kind == UNI_KIND_CHOICE || end == text || (*end && *end != ','))
        json_text(j, o->name, text);
    else if (o->kind == UNI_KIND_INT)
        json_whole(j, o->name, strtoll(text, NULL, 10));
    else if (!*end)
        json_real(j, o->name, first);
    else {
        json_open(j, o->name, '[');
        json_real(j, NULL, first);
        while (*end == ',')
            json_real(j, NULL, strtod(end + 1, &end));
        json_close(j, ']');
    }
}

static void parameters(struct json *j, const struct uni_options *method)
{
    const struct uni_option *o;
    char text[256];
    json_open(j, "parameters", '{');
    for (int i = 0; (o = uni_option_at(i)); i++) {
        if (!uni_options_get(method, o->name, text, sizeof text))
            parameter(j, o, text);
    }
    json_close(j, '}');
}

static void files(struct json *j, const struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    json_text(j, "input", o->input);
    json_text(j, "output", o->in_place ? o->input : o->output);
    json_text(j, "meta", o->meta);
    json_text(j, "basis", job->input_format == IO_H5AD ? o->basis : NULL);
    json_text(j, "key_added", job->input_format == IO_H5AD ? o->key_added : NULL);
    json_text(j, "centroids", o->centroids);
    json_text(j, "model", o->model);
    json_open(j, "regress", '[');
    for (int x = 0; x < o->n_regress; x++)
        json_text(j, NULL, o->regress[x]);
    json_close(j, ']');
    json_text(j, "weights", o->weights);
    json_text(j, "within", o->within);
}

static void sizes(struct json *j, const struct uni_summary *s)
{
    json_open(j, "sizes", '{');
    json_whole(j, "cells", s->n_cells);
    json_whole(j, "cells_skipped", s->n_skipped);
    json_whole(j, "dims", s->n_dims);
    json_whole(j, "levels", s->n_levels);
    json_whole(j, "clusters", s->n_clusters);
    json_whole(j, "variables", s->n_variables);
    json_close(j, '}');
}

static void seconds(struct json *j, const struct integrate *job)
{
    const struct uni_summary *s = job->summary;
    json_open(j, "seconds", '{');
    json_real(j, "read_labels", job->seconds.labels);
    json_real(j, "read_embedding", job->seconds.read);
    json_real(j, "open", job->seconds.open);
    json_real(j, "seed", s->seconds_seed);
    json_real(j, "assign", s->seconds_assign);
    json_real(j, "sweep", s->seconds_sweep);
    json_real(j, "moments", s->seconds_moments);
    json_real(j, "ridge", s->seconds_ridge);
    json_real(j, "run", job->seconds.run);
    json_real(j, "result", job->seconds.result);
    json_real(j, "diagnose", job->seconds.diagnose);
    json_real(j, "write", job->seconds.write);
    json_real(j, "total", job->seconds.total);
    json_real(j, "cpu", seconds_cpu());
    json_close(j, '}');
}

static void variable(struct json *j, const char *key, const struct io_labels *l)
{
    int64_t *cells = io_room_zeroed(l->n_levels + 1, sizeof *cells);
    for (int64_t i = 0; cells && i < l->n_cells; i++) {
        if (l->level[i] >= 0 && l->level[i] < l->n_levels)
            cells[l->level[i]]++;
    }
    json_open(j, key, '{');
    json_text(j, "name", l->name);
    json_whole(j, "missing", l->n_missing);
    json_open(j, "levels", '[');
    for (int64_t i = 0; i < l->n_levels; i++) {
        json_open(j, NULL, '{');
        json_text(j, "name", i < l->names.count ? l->names.at[i] : NULL);
        if (cells)
            json_whole(j, "cells", cells[i]);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
    free(cells);
}

static void variables(struct json *j, const struct integrate *job)
{
    struct io_labels joint;
    json_open(j, "variables", '[');
    for (int v = 0; v < job->options.n_batches; v++)
        variable(j, NULL, &job->labels[v]);
    json_close(j, ']');
    if (job->options.method.combine && job->options.n_batches > 1 && !columns_joint(&joint, job)) {
        variable(j, "joint", &joint);
        io_labels_close(&joint);
    }
}

static void rounds(struct json *j, const struct uni_summary *s)
{
    int increased = 0;
    json_open(j, "rounds", '[');
    for (int64_t i = 0; i < s->n_rounds; i++) {
        const struct uni_round *r = &s->rounds[i];
        increased |= r->objective_change < 0;
        json_open(j, NULL, '{');
        json_whole(j, "round", i + 1);
        json_whole(j, "sweeps", r->sweeps);
        json_real(j, "objective", r->objective);
        json_real(j, "objective_change", r->objective_change);
        json_real(j, "change", r->change);
        json_whole(j, "pruned_pairs", r->pruned_pairs);
        json_whole(j, "skipped_clusters", r->skipped_clusters);
        json_real(j, "seconds", r->seconds);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_bool(j, "objective_increased", increased);
}

static void objectives(struct json *j, const struct uni_summary *s)
{
    json_open(j, "objective", '[');
    for (int64_t i = 0; i < s->n_objectives; i++) {
        const struct uni_objective *o = &s->objectives[i];
        json_open(j, NULL, '{');
        json_whole(j, "round", o->round);
        json_whole(j, "sweep", o->sweep);
        json_real(j, "total", o->total);
        json_real(j, "distance", o->distance);
        json_real(j, "entropy", o->entropy);
        json_real(j, "diversity", o->diversity);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void warnings(struct json *j, const struct uni_summary *s)
{
    json_open(j, "warnings", '[');
    for (int64_t i = 0; i < s->n_warnings; i++)
        json_text(j, NULL, s->warnings[i]);
    json_close(j, ']');
}

/* Where there is one run its rounds are members of the report itself. */
static void runs(struct json *j, const struct integrate *job)
{
    if (!job->options.within) {
        rounds(j, job->summary);
        objectives(j, job->summary);
        return;
    }
    json_open(j, "runs", '[');
    for (int64_t r = 0; r < job->n_runs; r++) {
        const struct uni_summary *s = job->runs[r].summary;
        json_open(j, NULL, '{');
        json_text(j, "level", job->runs[r].level);
        sizes(j, s);
        json_text(j, "backend", s->backend);
        json_real(j, "seconds", s->seconds_run);
        json_text(j, "reason", s->reason_text);
        rounds(j, s);
        objectives(j, s);
        warnings(j, s);
        diagnostics_trace(j, job, job->runs[r].diagnosis);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void report(struct json *j, const struct integrate *job)
{
    const struct uni_summary *s = job->summary;
    json_open(j, NULL, '{');
    json_text(j, "program", "unisono");
    json_text(j, "version", uni_version());
    files(j, job);
    parameters(j, &job->options.method);
    json_whole(j, "seed", job->options.method.seed);
    json_text(j, "backend", s->backend);
    json_whole(j, "threads", s->threads);
    sizes(j, s);
    seconds(j, job);
    json_whole(j, "memory_predicted_bytes", job->memory_needed);
    json_whole(j, "memory_peak_bytes", memory_peak());
    if (s->bytes_card > 0)
        json_whole(j, "memory_card_bytes", s->bytes_card);
    json_text(j, "reason", s->reason_text);
    runs(j, job);
    variables(j, job);
    warnings(j, s);
    if (!job->options.within)
        diagnostics_trace(j, job, job->whole.diagnosis);
    json_close(j, '}');
}

char *trace_text(const struct integrate *job)
{
    char *text = NULL;
    size_t size = 0;
    struct json j = {.out = open_memstream(&text, &size)};
    if (!j.out)
        return NULL;
    report(&j, job);
    int bad = ferror(j.out);
    if (fclose(j.out) || bad) {
        free(text);
        return NULL;
    }
    return text;
}
