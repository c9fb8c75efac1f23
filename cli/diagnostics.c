/* SPDX-License-Identifier: BSD-3-Clause */
#include "diagnostics.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 5, PAIRS_MOST = 65536 /* of level and cluster, in uns/KEY: 2 MB */ };

int64_t diagnostics_bytes(const struct integrate *job, const struct uni_plan *plan, const struct uni_batch *batches,
                          const struct uni_batch *types)
{
    return uni_diagnose_bytes(plan, batches, job->options.n_batches, types);
}

int diagnostics_make(struct uni_diagnosis **diagnosis, struct integrate *job, const float *before, const float *after,
                     const struct uni_batch *batches, const struct uni_batch *types)
{
    struct uni_matrix from = {before, UNI_FLOAT32, batches[0].n_cells, job->matrix.n_dims, 0, 0}, to = from;
    double start = seconds_wall();
    to.data = after;
    int status = uni_diagnose(diagnosis, job->run, before ? &from : NULL, before ? &to : NULL, batches, job->options.n_batches,
                              types, job->options.method.threads);
    job->seconds.diagnose += seconds_wall() - start;
    return status;
}

/* A finding of some run. */
struct shown {
    const char *level;
    const struct uni_finding *finding;
};

/* One of every kind before the second of any. total: of all. */
static int64_t shown_first(const struct integrate *job, struct shown shown[SHOWN], int64_t *total)
{
    int64_t n = 0;
    for (int64_t turn = 0; turn < SHOWN; turn++) {
        int64_t seen[UNI_TYPES_MERGED + 1] = {0};
        *total = 0;
        for (int64_t r = 0; r < job->n_runs; r++) {
            const struct uni_diagnosis *d = job->runs[r].diagnosis;
            *total += d ? d->n_findings : 0;
            for (int64_t f = 0; d && f < d->n_findings; f++)
                if (seen[d->findings[f].kind]++ == turn && n < SHOWN)
                    shown[n++] = (struct shown){job->runs[r].level, &d->findings[f]};
        }
    }
    return n;
}

void diagnostics_warn(const struct integrate *job)
{
    struct shown shown[SHOWN];
    int64_t total, n = shown_first(job, shown, &total);
    if (job->options.level < 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (shown[i].level)
            say_warning("%s \"%s\": %s", job->options.within, shown[i].level, shown[i].finding->text);
        else
            say_warning("%s", shown[i].finding->text);
    }
    if (n < total && job->options.trace)
        say_warning("and %lld more: see %s", (long long)(total - n), job->options.trace);
    else if (n < total)
        say_warning("and %lld more: see --trace", (long long)(total - n));
}

/* ---- --trace --------------------------------------------------------------------------------------------------------------- */

static void lengths(struct json *j, double median, double p999)
{
    json_real(j, "length_median", median);
    json_real(j, "length_999", p999);
}

/* A row of a table over levels and clusters. */
static void row(struct json *j, const char *name, const double *values, int64_t n)
{
    json_open(j, name, '[');
    for (int64_t i = 0; i < n; i++)
        json_real(j, NULL, values[i]);
    json_close(j, ']');
}

static void level(struct json *j, const struct integrate *job, const struct uni_diagnosis *d, int64_t l)
{
    const struct uni_level_diagnosis *x = &d->levels[l];
    int64_t K = d->n_clusters;
    json_open(j, NULL, '{');
    json_text(j, "variable", d->n_variables == 1 && job->options.n_batches > 1 ? NULL : job->batches[x->variable].name);
    json_text(j, "name", x->name);
    json_whole(j, "cells", x->cells);
    lengths(j, x->length_median, x->length_999);
    json_real(j, "length_rms", x->length_rms);
    json_real(j, "length_max", x->length_max);
    json_real(j, "distance", x->distance);
    json_real(j, "spread", x->spread);
    json_real(j, "spread_kept", x->spread_kept);
    json_real(j, "uncorrected", x->uncorrected);
    json_whole(j, "pruned", x->pruned);
    json_whole(j, "thin", x->thin);
    json_real(j, "thin_mass", x->thin_mass);
    if (K) {
        row(j, "observed", d->observed + l * K, K);
        row(j, "expected", d->expected + l * K, K);
        row(j, "lambda", d->lambda + l * K, K);
        row(j, "length", d->length + l * K, K);
    }
    json_close(j, '}');
}

static void cluster(struct json *j, const struct uni_diagnosis *d, const struct uni_cluster_diagnosis *x)
{
    json_open(j, NULL, '{');
    json_real(j, "mass", x->mass);
    json_real(j, "length_median", x->length_median);
    json_real(j, "length_999", x->length_999);
    json_real(j, "length_max", x->length_max);
    json_text(j, "longest", x->longest < 0 ? NULL : d->levels[x->longest].name);
    json_real(j, "mixing", x->mixing);
    json_whole(j, "levels", x->levels);
    json_whole(j, "pruned", x->pruned);
    json_whole(j, "thin", x->thin);
    json_close(j, '}');
}

static void type(struct json *j, const struct uni_diagnosis *d, const struct uni_type_diagnosis *x)
{
    json_open(j, NULL, '{');
    json_text(j, "name", x->name);
    json_whole(j, "cells", x->cells);
    json_open(j, "levels", '[');
    for (int64_t v = 0; v < d->n_variables; v++)
        json_whole(j, NULL, x->levels[v]);
    json_close(j, ']');
    lengths(j, x->length_median, x->length_999);
    json_real(j, "moved", x->moved);
    json_real(j, "spread", x->spread);
    json_real(j, "removed", x->removed);
    json_text(j, "nearest", x->nearest < 0 ? NULL : d->types[x->nearest].name);
    json_real(j, "nearest_before", x->nearest_before);
    json_real(j, "nearest_after", x->nearest_after);
    json_close(j, '}');
}

static void findings(struct json *j, const struct uni_diagnosis *d)
{
    json_open(j, "findings", '[');
    for (int64_t f = 0; f < d->n_findings; f++) {
        const struct uni_finding *x = &d->findings[f];
        json_open(j, NULL, '{');
        json_text(j, "kind", x->name);
        json_text(j, "text", x->text);
        json_real(j, "value", x->value);
        json_real(j, "threshold", x->threshold);
        json_whole(j, "more", x->more);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void diagnostics_trace(struct json *j, const struct integrate *job, const struct uni_diagnosis *d)
{
    if (!d)
        return;
    json_open(j, "diagnostics", '{');
    json_text(j, "label", job->options.label);
    lengths(j, d->length_median, d->length_999);
    json_real(j, "length_rms", d->length_rms);
    json_real(j, "length_max", d->length_max);
    findings(j, d);
    json_open(j, "levels", '[');
    for (int64_t l = 0; l < d->n_levels; l++)
        level(j, job, d, l);
    json_close(j, ']');
    json_open(j, "clusters", '[');
    for (int64_t k = 0; k < d->n_clusters; k++)
        cluster(j, d, &d->clusters[k]);
    json_close(j, ']');
    json_open(j, "types", '[');
    for (int64_t t = 0; t < d->n_types; t++)
        type(j, d, &d->types[t]);
    json_close(j, ']');
    json_close(j, '}');
}

/* ---- uns/KEY --------------------------------------------------------------------------------------------------------------- */

/* Names, one a line; a line break in one becomes a space. The pointers to them are size bytes apart. */
static char *lines(const void *rows, int64_t n, size_t size, size_t member)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    for (int64_t i = 0; i < n; i++) {
        const char *name = *(const char *const *)(const void *)((const char *)rows + (size_t)i * size + member);
        if (i)
            fputc('\n', out);
        for (; *name; name++)
            fputc(*name == '\n' || *name == '\r' ? ' ' : *name, out);
    }
    if (!fclose(out))
        return text;
    free(text);
    return NULL;
}

#define NAMES(name, rows, n, of, member)                                                                                         \
    ((n) > 0 && entries_own_text(e, "diagnostics/" name, lines(rows, n, sizeof(struct of), offsetof(struct of, member))))
#define LEVEL(member, whole)                                                                                                     \
    entries_rows(e, "diagnostics/level_" #member, d->levels, d->n_levels, sizeof *d->levels,                                     \
                 offsetof(struct uni_level_diagnosis, member), whole)
#define CLUSTER(member, whole)                                                                                                   \
    entries_rows(e, "diagnostics/cluster_" #member, d->clusters, d->n_clusters, sizeof *d->clusters,                             \
                 offsetof(struct uni_cluster_diagnosis, member), whole)
#define TYPE(member, whole)                                                                                                      \
    entries_rows(e, "diagnostics/type_" #member, d->types, d->n_types, sizeof *d->types,                                         \
                 offsetof(struct uni_type_diagnosis, member), whole)
#define PAIRS(name, values) entries_rows(e, "diagnostics/" name, values, d->n_levels * d->n_clusters, sizeof(double), 0, 0)

/* Findings of all runs, the level's name before each. */
static int findings_of_levels(struct entries *e, const struct integrate *job)
{
    char *text = NULL, *kinds = NULL;
    size_t size = 0, kinds_size = 0;
    int64_t n = 0;
    FILE *out = open_memstream(&text, &size), *out_kinds = open_memstream(&kinds, &kinds_size);
    for (int64_t r = 0; r < job->n_runs && out && out_kinds; r++) {
        const struct uni_diagnosis *d = job->runs[r].diagnosis;
        for (int64_t f = 0; d && f < d->n_findings; f++, n++) {
            const char *between = n ? "\n" : "";
            fprintf(out, "%s%s \"%s\": %s", between, job->options.within, job->runs[r].level, d->findings[f].text);
            fprintf(out_kinds, "%s%s", between, d->findings[f].name);
        }
    }
    int bad = !out || !out_kinds;
    bad |= out && fclose(out);
    bad |= out_kinds && fclose(out_kinds);
    if (bad || !n) {
        free(text);
        free(kinds);
        return bad ? -1 : 0;
    }
    return entries_own_text(e, "diagnostics/findings", text) | entries_own_text(e, "diagnostics/finding_kinds", kinds);
}

int diagnostics_entries(struct entries *e, const struct integrate *job)
{
    const struct uni_diagnosis *d = job->n_runs ? job->runs[0].diagnosis : NULL;
    if (job->options.within)
        return findings_of_levels(e, job);
    if (!d)
        return 0;
    int bad = NAMES("findings", d->findings, d->n_findings, uni_finding, text) ||
              NAMES("finding_kinds", d->findings, d->n_findings, uni_finding, name) ||
              NAMES("levels", d->levels, d->n_levels, uni_level_diagnosis, name) || LEVEL(cells, 1) || LEVEL(length_median, 0) ||
              LEVEL(length_rms, 0) || LEVEL(length_999, 0) || LEVEL(length_max, 0) || LEVEL(distance, 0) || LEVEL(spread, 0) ||
              LEVEL(spread_kept, 0) || LEVEL(uncorrected, 0) || LEVEL(pruned, 1) || LEVEL(thin, 1) || LEVEL(thin_mass, 0);
    bad = bad || CLUSTER(mass, 0) || CLUSTER(length_median, 0) || CLUSTER(length_999, 0) || CLUSTER(length_max, 0) ||
          CLUSTER(longest, 1) || CLUSTER(mixing, 0) || CLUSTER(levels, 1) || CLUSTER(pruned, 1) || CLUSTER(thin, 1);
    if (!bad && d->n_types)
        bad = entries_text(e, "diagnostics/label", job->options.label) ||
              NAMES("types", d->types, d->n_types, uni_type_diagnosis, name) || TYPE(cells, 1) || TYPE(levels, 1) ||
              TYPE(length_median, 0) || TYPE(length_999, 0) || TYPE(moved, 0) || TYPE(spread, 0) || TYPE(removed, 0) ||
              TYPE(nearest, 1) || TYPE(nearest_before, 0) || TYPE(nearest_after, 0);
    if (!bad && d->n_clusters && d->n_levels * d->n_clusters <= PAIRS_MOST)
        bad = PAIRS("pair_observed", d->observed) || PAIRS("pair_expected", d->expected) || PAIRS("pair_lambda", d->lambda) ||
              PAIRS("pair_length", d->length);
    return bad ? -1 : 0;
}
