/* SPDX-License-Identifier: BSD-3-Clause */
/* `unisono score`: labels and one embedding after another are read, scored, and their values kept for -o. */
#include "score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int failed_io(void)
{
    return say_failed("%s", io_error());
}

static int failed_library(int status)
{
    return status == UNI_OPTION ? say_usage("--%s", uni_last_error()) : say_failed("%s", uni_last_error());
}

/* Kept for the JSON too; a second time the same is not said again. */
static void note(struct score_job *job, const char *text)
{
    for (int i = 0; i < job->n_notes; i++)
        if (!strcmp(job->notes[i], text))
            return;
    char *copy = strdup(text);
    if (!copy)
        return;
    job->notes[job->n_notes++] = copy;
    if (!job->options.quiet)
        say_warning("%s", text);
}

static int64_t n_columns_out(const struct score_job *job)
{
    return (int64_t)job->options.n_bases * job->options.n_columns;
}

/* ---- bases and names --------------------------------------------------------------------------------------------------------
 */

/* Without --basis: what integrate reads and what it writes, as far as they are there. */
static int settle_bases(struct score_job *job)
{
    static const char *const usual[] = {"X_pca", "X_pca_harmony"};
    struct score_options *o = &job->options;
    if (job->format != IO_H5AD) {
        o->basis[o->n_bases++] = o->input;
        return EXIT_DONE;
    }
    if (o->n_bases)
        return EXIT_DONE;
    if (io_h5ad_keys(&job->keys, o->input))
        return failed_io();
    for (int u = 0; u < 2; u++)
        for (int64_t i = 0; i < job->keys.count; i++)
            if (!strcmp(job->keys.at[i], usual[u]))
                o->basis[o->n_bases++] = usual[u];
    if (!o->n_bases) /* the sentence that says what there is */
        o->basis[o->n_bases++] = usual[0];
    return EXIT_DONE;
}

/* lisi_COLUMN_BASIS, and lisi_COLUMN where the file is the basis. */
static int make_names(struct score_job *job)
{
    const struct score_options *o = &job->options;
    size_t size = 0;
    for (int b = 0; b < o->n_bases; b++)
        for (int c = 0; c < o->n_columns; c++)
            size += strlen(o->basis[b]) + strlen(o->column[c]) + 8;
    job->names.at = io_room_zeroed(n_columns_out(job), sizeof *job->names.at);
    char *at = job->names.bytes = calloc(size, 1);
    if (!job->names.at || !at)
        return say_failed("no memory for the names of %lld columns", (long long)n_columns_out(job));
    for (int b = 0; b < o->n_bases; b++)
        for (int c = 0; c < o->n_columns; c++) {
            job->names.at[job->names.count++] = at;
            at += sprintf(at, job->format == IO_H5AD ? "lisi_%s_%s" : "lisi_%s", o->column[c], o->basis[b]) + 1;
        }
    return EXIT_DONE;
}

static struct io_output output_of(const struct score_job *job)
{
    const struct score_options *o = &job->options;
    return (struct io_output){.target = o->output,
                              .overwrite = o->overwrite,
                              .values = job->table,
                              .n_cells = job->table ? job->batches[0].n_cells : 0,
                              .n_dims = job->names.count,
                              .cells = job->cells.count ? &job->cells : NULL,
                              .dims = &job->names,
                              .cell_header = job->cell_header[0] ? job->cell_header : "cell",
                              .source = job->format == IO_H5AD ? o->input : NULL,
                              .source_was = job->input_was,
                              .into_obs = 1};
}

static int check_output(struct score_job *job)
{
    int status = job->options.output ? make_names(job) : EXIT_DONE;
    if (status != EXIT_DONE || !job->options.output)
        return status;
    struct io_output output = output_of(job);
    return io_output_check(&output) ? failed_io() : EXIT_DONE;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------
 */

static int load_labels(struct score_job *job, const struct io_strings *cells)
{
    const struct score_options *o = &job->options;
    char text[300];
    for (int c = 0; c < o->n_columns; c++) {
        struct io_labels *l = &job->labels[c];
        if (o->meta ? io_labels_table(l, o->meta, o->column[c], cells, 0) : io_labels_h5ad(l, o->input, o->column[c], 0))
            return failed_io();
        job->batches[c] = (struct uni_batch){
            .name = l->name, .n_cells = l->n_cells, .n_levels = l->n_levels ? l->n_levels : 1, .level = l->level};
        snprintf(text, sizeof text, "\"%.200s\": %lld of %lld cells have no label and do not count as neighbours", l->name,
                 (long long)l->n_missing, (long long)l->n_cells);
        if (l->n_missing)
            note(job, text);
    }
    return EXIT_DONE;
}

static int64_t values_bytes(const struct io_matrix *m)
{
    return io_product(io_product(m->n_cells, m->n_dims), sizeof(float));
}

/* Is there memory for the values, with what reading them takes or scoring them, and for the output? */
static int check_memory(const struct score_job *job, int64_t scoring)
{
    const struct io_matrix *m = &job->matrix;
    int64_t left = memory_available(), needed = io_sum(values_bytes(m), m->source_bytes > scoring ? m->source_bytes : scoring);
    char a[32], b[32];
    if (job->options.output && !job->table)
        needed = io_sum(needed, io_product(io_product(m->n_cells, n_columns_out(job)), sizeof(float)));
    if (left >= 0 && needed > left)
        return say_failed("%s: this takes %s of memory, and %s are available", job->options.input, say_bytes(a, (double)needed),
                          say_bytes(b, (double)left));
    return EXIT_DONE;
}

static int read_values(struct score_job *job)
{
    struct io_matrix *m = &job->matrix;
    job->values = io_room(io_product(m->n_cells, m->n_dims), sizeof *job->values);
    if (!job->values)
        return say_failed("%s: no memory for %lld x %lld values", job->options.input, (long long)m->n_cells,
                          (long long)m->n_dims);
    progress_stage(&job->progress, "reading", job->options.input);
    int failed = io_matrix_read(m, job->values);
    progress_clear(&job->progress);
    return failed ? failed_io() : EXIT_DONE;
}

/* Names are read with the first basis only, and only for a table. */
static void keep_cells(struct score_job *job)
{
    if (!job->options.output || job->cells.count)
        return;
    job->cells = job->matrix.cells;
    memset(&job->matrix.cells, 0, sizeof job->matrix.cells);
    memcpy(job->cell_header, job->matrix.cell_header, sizeof job->cell_header);
}

/* ---- scoring ----------------------------------------------------------------------------------------------------------------
 */

static struct uni_matrix embedding_of(const struct score_job *job)
{
    return (struct uni_matrix){.data = job->values, .n_cells = job->matrix.n_cells, .n_dims = job->matrix.n_dims};
}

static int plan(struct score_job *job)
{
    struct uni_matrix embedding = embedding_of(job);
    int status = uni_lisi_plan(&job->plan, &embedding, job->batches, job->options.n_columns, &job->options.lisi);
    if (status)
        return failed_library(status);
    if (job->plan.note[0])
        note(job, job->plan.note);
    return EXIT_DONE;
}

static int keep_values(struct score_job *job, int b, const double *values, const int64_t *cells)
{
    int64_t n = job->plan.n_sampled, n_cells = job->plan.n_cells, columns = job->options.n_columns, width = n_columns_out(job);
    if (!job->options.output)
        return EXIT_DONE;
    if (!job->table) {
        job->table = io_room(io_product(n_cells, width), sizeof *job->table);
        for (int64_t i = 0; job->table && i < n_cells * width; i++)
            job->table[i] = NAN;
    }
    if (!job->table)
        return say_failed("no memory for %lld x %lld values", (long long)n_cells, (long long)width);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t i = 0; i < n; i++)
            job->table[cells[i] * width + b * columns + c] = (float)values[c * n + i];
    return EXIT_DONE;
}

static int call_library(struct score_job *job, int b, double *values, int64_t *cells, struct uni_lisi_score *scores)
{
    const struct score_options *o = &job->options;
    struct uni_lisi_options lisi = o->lisi;
    struct uni_matrix embedding = embedding_of(job);
    char warning[UNI_LISI_WARNING] = "";
    lisi.warning = warning;
    lisi.progress = progress_cells;
    lisi.progress_user = &job->progress;
    progress_stage(&job->progress, "scoring", o->basis[b]);
    int failed = uni_lisi(&embedding, job->batches, o->n_columns, &lisi, values, cells, scores);
    progress_clear(&job->progress);
    if (!failed && *warning)
        note(job, warning);
    return failed;
}

static int score_values(struct score_job *job, int b)
{
    const struct score_options *o = &job->options;
    struct uni_lisi_score scores[SCORE_COLUMNS];
    double *values = io_room(io_product(job->plan.n_sampled, o->n_columns), sizeof *values);
    int64_t *cells = io_room(job->plan.n_sampled, sizeof *cells);
    int status = EXIT_DONE, failed;
    if (!values || !cells)
        status = say_failed("no memory for the scores of %lld cells", (long long)job->plan.n_sampled);
    else if ((failed = call_library(job, b, values, cells, scores)))
        status = failed_library(failed);
    else
        status = keep_values(job, b, values, cells);
    for (int c = 0; status == EXIT_DONE && c < o->n_columns; c++)
        job->scores[job->n_scores++] = (struct score){o->basis[b], o->column[c], o->is_type[c], scores[c]};
    free(values);
    free(cells);
    return status;
}

static int score_basis(struct score_job *job, int b)
{
    const struct score_options *o = &job->options;
    struct io_matrix *m = &job->matrix;
    int is_h5ad = job->format == IO_H5AD, status = EXIT_DONE;
    if (io_matrix_open(m, o->input, o->basis[b]))
        return failed_io();
    m->skip_names = is_h5ad && (!o->output || io_format_of(o->output) != IO_TABLE || b > 0) && !o->meta;
    /* Rows of a table are matched by name, so labels wait for the names. */
    if (b == 0 && (is_h5ad && !o->meta))
        status = load_labels(job, NULL);
    else if (b == 0 && (status = check_memory(job, 0)) == EXIT_DONE && (status = read_values(job)) == EXIT_DONE)
        status = load_labels(job, &m->cells);
    if (status == EXIT_DONE)
        status = plan(job);
    if (status == EXIT_DONE)
        status = check_memory(job, job->plan.bytes);
    if (status == EXIT_DONE && !job->values)
        status = read_values(job);
    if (status == EXIT_DONE)
        keep_cells(job);
    if (status == EXIT_DONE)
        status = score_values(job, b);
    free(job->values);
    job->values = NULL;
    io_matrix_close(m);
    return status;
}

static int score(struct score_job *job)
{
    job->format = io_format_of(job->options.input);
    job->input_was = io_stamp_of(job->options.input);
    int status = settle_bases(job);
    if (status == EXIT_DONE)
        status = check_output(job);
    for (int b = 0; b < job->options.n_bases && status == EXIT_DONE; b++)
        status = score_basis(job, b);
    if (status == EXIT_DONE && job->options.output) {
        struct io_output output = output_of(job);
        progress_stage(&job->progress, "writing", job->options.output);
        int failed = io_output_write(&output);
        progress_clear(&job->progress);
        if (failed)
            status = failed_io();
    }
    if (status == EXIT_DONE)
        score_print(job);
    return status;
}

int score_main(int argc, char **argv)
{
    static struct score_job job;
    memset(&job, 0, sizeof job);
    int status = score_options_read(&job.options, argc, argv);
    if (status == EXIT_DONE && job.options.help)
        score_help(stdout);
    else if (status == EXIT_DONE) {
        progress_open(&job.progress, job.options.quiet ? -1 : 0);
        status = score(&job);
    }
    for (int c = 0; c < SCORE_COLUMNS; c++)
        io_labels_close(&job.labels[c]);
    for (int i = 0; i < job.n_notes; i++)
        free(job.notes[i]);
    io_strings_close(&job.keys);
    io_strings_close(&job.cells);
    io_strings_close(&job.names);
    free(job.table);
    return status;
}
