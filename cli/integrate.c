/* SPDX-License-Identifier: BSD-3-Clause */
/* `unisono integrate`: what can go wrong is looked at first, then files are read, the method run, and results written. Memory for
 * the values is taken once: the library has its own copy when uni_open returns, so the result goes where the input was.
 */
#include "diagnostics.h"

#include <stdlib.h>
#include <string.h>

static int failed_io(void)
{
    return say_failed("%s", io_error());
}

int failed_library(int status)
{
    const char *sentence = uni_last_error();
    return status == UNI_OPTION ? say_usage("%s", sentence) : say_failed("%s", sentence);
}

void show_warnings(struct integrate *job, const struct uni_summary *s)
{
    for (; job->n_warned < s->n_warnings; job->n_warned++) {
        if (job->options.level < 0)
            continue;
        progress_clear(&job->progress);
        say_warning("%s", s->warnings[job->n_warned]);
    }
}

static struct io_output output_of(const struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    return (struct io_output){.target = o->in_place ? o->input : o->output,
                              .overwrite = o->overwrite,
                              .values = job->result,
                              .n_cells = job->matrix.n_cells,
                              .n_dims = job->matrix.n_dims,
                              .cells = job->matrix.cells.count ? &job->matrix.cells : NULL,
                              .dims = job->matrix.dims.count ? &job->matrix.dims : NULL,
                              .cell_header = job->matrix.cell_header[0] ? job->matrix.cell_header : "cell",
                              .source = job->input_format == IO_H5AD ? o->input : NULL,
                              .source_was = job->input_was,
                              .key = o->key_added};
}

static int check_targets(struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    int status = EXIT_DONE;
    job->input_was = io_stamp_of(o->input);
    job->input_format = io_format_of(o->input);
    job->output_format = o->output ? io_format_of(o->output) : job->input_format;
    if (o->output || o->in_place) {
        struct io_output output = output_of(job);
        if (io_output_check(&output))
            return failed_io();
    }
    if (o->trace)
        status = target_check(o->trace, "--trace", o->overwrite, 0);
    return status != EXIT_DONE || !o->model ? status : model_check(o);
}

static int look_at_input(struct integrate *job)
{
    job->memory_left = memory_available();
    if (io_matrix_open(&job->matrix, job->options.input, job->options.basis))
        return failed_io();
    job->matrix.skip_names = !job->options.meta && job->output_format != IO_TABLE;
    return columns_load(job, NULL);
}

static int load_centroids(struct integrate *job)
{
    const char *path = job->options.centroids;
    struct io_matrix m;
    int status = EXIT_DONE;
    if (!path)
        return EXIT_DONE;
    if (io_format_of(path) != IO_NPY)
        return say_failed("--centroids %s: this must be an .npy file of clusters x dims", path);
    memset(&m, 0, sizeof m);
    if (io_matrix_open(&m, path, NULL))
        return failed_io();
    if (m.n_dims != job->matrix.n_dims)
        status = say_failed("--centroids %s: its rows have %lld values, the embedding has %lld dimensions", path,
                            (long long)m.n_dims, (long long)job->matrix.n_dims);
    else if (!(job->centroids = io_room(io_product(m.n_cells, m.n_dims), sizeof(float))))
        status = say_failed("--centroids %s: no memory for %lld x %lld values", path, (long long)m.n_cells, (long long)m.n_dims);
    else if (io_matrix_read(&m, job->centroids))
        status = failed_io();
    job->options.method.centroids = job->centroids;
    job->options.method.n_centroids = m.n_cells;
    io_matrix_close(&m);
    return status;
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static const struct uni_batch *types_of(const struct integrate *job)
{
    return job->options.label ? &job->types : NULL;
}

/* The result is taken from the run, which gives its assignments back, before it is diagnosed. */
static int64_t beyond_run(const struct integrate *job, int64_t diagnosis)
{
    const struct uni_plan *p = &job->plan;
    int64_t given_back = strcmp(p->backend, "cpu") ? 0 : io_product(2 * p->n_clusters, p->n_cells);
    return greater(diagnosis - given_back, 0);
}

/* Of one run: the values with what reading takes, or with the run, one array of the model and the names; the labels always. */
static void predict_one(struct integrate *job, int64_t names)
{
    const struct integrate_options *o = &job->options;
    const struct io_matrix *m = &job->matrix;
    int64_t values = io_product(m->n_cells, io_product(m->n_dims, sizeof(float)));
    int64_t labels = io_product((o->n_batches + (o->label != NULL)) * (int64_t)sizeof(int32_t), m->n_cells);
    int64_t diagnosis = diagnostics_bytes(job, &job->plan, job->batches, types_of(job)), beyond = beyond_run(job, diagnosis);
    int64_t more = o->model ? greater(model_bytes(&job->plan), io_sum(values, diagnosis)) : beyond;
    job->memory_needed = io_sum(values, greater(m->source_bytes, io_sum(job->plan.bytes, io_sum(names, more))));
    /* Where that is too much: the values are freed once the run has its own, and the result is made in their place. That takes no
       less address space. */
    int64_t lean = io_sum(names, greater(io_sum(values, greater(m->source_bytes, job->plan.bytes_open)),
                                         io_sum(job->plan.bytes, beyond))),
            space = memory_address_space();
    int short_of_memory = job->memory_left >= 0 && job->memory_needed > job->memory_left && lean <= job->memory_left &&
                          (space < 0 || job->memory_needed <= space);
    job->lean = !o->model && (o->low_memory || short_of_memory);
    if (job->lean)
        job->memory_needed = lean;
    job->memory_needed = io_sum(job->memory_needed, labels);
}

/* The program itself with HDF5 and what else it is linked with. */
enum { PROGRAM_BYTES = 6000000 };

/* What will be held at the worst moment. */
static int predict(struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    const struct io_matrix *m = &job->matrix;
    char need[32], left[32];
    /* Rows of a table are matched by name later; a difference in numbers is better told by the name that is missing. */
    if (o->meta && !o->dry_run && job->input_format != IO_NPY && job->batches[0].n_cells != m->n_cells)
        return EXIT_DONE;
    int status = uni_plan(&job->plan, m->n_cells, m->n_dims, job->batches, o->n_batches, &o->method);
    if (status)
        return failed_library(status);
    int64_t names = m->skip_names || job->input_format == IO_NPY ? 0 : io_product(32, m->n_cells);
    names = io_sum(names, io_product(8 * (o->n_regress + (o->weights != NULL)), m->n_cells));
    if (!o->within)
        predict_one(job, names);
    else if ((status = within_plan(job, names, &job->memory_needed)) != EXIT_DONE)
        return status;
    job->memory_needed = io_sum(job->memory_needed, PROGRAM_BYTES);
    if (job->memory_left >= 0 && job->memory_needed > job->memory_left && !o->dry_run)
        return say_failed("%s: this takes %s of memory, and %s are available", o->input,
                          say_bytes(need, (double)job->memory_needed), say_bytes(left, (double)job->memory_left));
    return EXIT_DONE;
}

static int answer_dry_run(const struct integrate *job)
{
    const struct uni_plan *p = &job->plan;
    printf("cells: %lld\ndims: %lld\nlevels: %lld\nclusters: %lld\n", (long long)p->n_cells, (long long)p->n_dims,
           (long long)p->n_levels, (long long)p->n_clusters);
    printf("backend: %s\nthreads: %lld\nmemory: %lld bytes\n", p->backend, (long long)p->threads, (long long)job->memory_needed);
    if (p->bytes_card > 0)
        printf("memory of the card: %lld bytes\n", (long long)p->bytes_card);
    if (job->options.within)
        printf("runs: %lld\nlargest run: %lld cells\n", (long long)job->n_runs, (long long)job->largest_run);
    if (job->memory_left >= 0)
        printf("available: %lld bytes\nfits: %s\n", (long long)job->memory_left,
               job->memory_needed <= job->memory_left ? "yes" : "no");
    if (*p->note)
        say_warning("%s", p->note);
    return EXIT_DONE;
}

static int load_embedding(struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    double start = seconds_wall();
    progress_stage(&job->progress, "reading", o->input);
    job->values = io_room(io_product(job->matrix.n_cells, job->matrix.n_dims), sizeof *job->values);
    if (!job->values)
        return say_failed("%s: no memory for %lld x %lld values", o->input, (long long)job->matrix.n_cells,
                          (long long)job->matrix.n_dims);
    job->matrix.threads = job->plan.threads;
    if (io_matrix_read(&job->matrix, job->values) || io_stamp_check(&job->input_was, o->input)) {
        progress_clear(&job->progress);
        return failed_io();
    }
    job->seconds.read = seconds_wall() - start;
    /* Now the cells have names; a table's rows are put in their order. */
    return o->meta && job->matrix.cells.count ? columns_load(job, &job->matrix.cells) : EXIT_DONE;
}

/* The run's own rows become the result, beside the values that it began with. A --model is read from the run afterwards, so there
 * the result is a copy. Where lean, the values are gone. */
static int take_result(struct integrate *job)
{
    int64_t count = io_product(job->matrix.n_cells, job->matrix.n_dims);
    double start = seconds_wall();
    float *copy = job->options.model ? io_room(count, sizeof *copy) : NULL;
    if (job->options.model && !copy)
        return say_failed("%s: no memory for the result", job->options.input);
    int err = copy ? uni_read(job->run, UNI_CORRECTED, copy) : uni_take(job->run, &job->result);
    if (copy)
        job->result = copy;
    job->seconds.result = seconds_wall() - start;
    if (!err)
        err = diagnostics_make(&job->whole.diagnosis, job, job->values, job->result, job->batches, types_of(job));
    int status = err ? failed_library(err) : EXIT_DONE;
    free(job->values);
    job->values = copy;
    return status;
}

static int run_method(struct integrate *job)
{
    if (job->options.within) {
        int ended = within_run(job);
        if (ended == EXIT_DONE)
            diagnostics_warn(job);
        return ended;
    }
    struct uni_options *method = &job->options.method;
    struct uni_matrix embedding = {
        .data = job->values, .dtype = UNI_FLOAT32, .n_cells = job->matrix.n_cells, .n_dims = job->matrix.n_dims};
    double start = seconds_wall();
    method->progress = progress_round;
    method->progress_user = &job->progress;
    int status = uni_open(&job->run, &embedding, job->batches, job->options.n_batches, method);
    job->seconds.open = seconds_wall() - start;
    if (status) {
        progress_clear(&job->progress);
        return failed_library(status);
    }
    show_warnings(job, uni_summary(job->run));
    if (job->lean) {
        free(job->values);
        job->values = NULL;
    }
    start = seconds_wall();
    status = uni_run(job->run);
    job->seconds.run = seconds_wall() - start;
    progress_clear(&job->progress);
    if (status)
        return failed_library(status);
    status = take_result(job);
    if (status != EXIT_DONE)
        return status;
    job->summary = uni_summary(job->run);
    show_warnings(job, job->summary);
    job->whole.cells = job->matrix.n_cells;
    job->whole.summary = job->summary;
    job->runs = &job->whole;
    job->n_runs = 1;
    diagnostics_warn(job);
    return EXIT_DONE;
}

static int write_output(struct integrate *job)
{
    struct entries entries;
    struct io_output output = output_of(job);
    int status = entries_open(&entries, job);
    if (status == EXIT_DONE) {
        output.entries = entries.at;
        output.n_entries = entries.count;
        progress_stage(&job->progress, "writing", output.target);
        status = io_output_write(&output) ? EXIT_FAILED : EXIT_DONE;
        progress_clear(&job->progress);
        if (status != EXIT_DONE)
            failed_io();
    }
    entries_close(&entries);
    return status;
}

static int write_trace(struct integrate *job)
{
    char *text = trace_text(job);
    if (!text)
        return say_failed("--trace %s: no memory for the text", job->options.trace);
    int status = io_text_write(job->options.trace, text) ? failed_io() : EXIT_DONE;
    free(text);
    return status;
}

static int write_results(struct integrate *job)
{
    double start = seconds_wall();
    int status = write_output(job);
    if (status == EXIT_DONE && job->options.model)
        status = model_write(job);
    job->seconds.write = seconds_wall() - start;
    job->seconds.total = seconds_wall() - job->seconds.start;
    if (status == EXIT_DONE && job->options.trace)
        status = write_trace(job);
    return status;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* What was done beyond the defaults that change the method: ", flavor harmony1, regress depth". */
static void put_method(char *text, size_t size, const struct integrate *job)
{
    static const char *const named[] = {"flavor", "compat", "update", "combine", "overcorrect"};
    const struct integrate_options *o = &job->options;
    struct uni_options usual;
    char now[64], before[64];
    size_t used = 0;
    uni_options_init(&usual, sizeof usual);
    text[0] = 0;
    for (size_t i = 0; i < sizeof named / sizeof named[0] && used < size; i++) {
        if (!uni_options_get(&o->method, named[i], now, sizeof now) &&
            !uni_options_get(&usual, named[i], before, sizeof before) && strcmp(now, before) != 0)
            used += (size_t)snprintf(text + used, size - used, strcmp(now, "yes") ? ", %s %s" : ", %s", named[i], now);
    }
    for (int x = 0; x < o->n_regress && used < size; x++)
        used += (size_t)snprintf(text + used, size - used, ", regress %s", o->regress[x]);
    if (o->weights && used < size)
        used += (size_t)snprintf(text + used, size - used, ", weights %s", o->weights);
    if (o->within && used < size)
        snprintf(text + used, size - used, ", within %s", o->within);
}

static void last_line(const struct integrate *job)
{
    const struct uni_summary *s = job->summary;
    char memory[32], method[512];
    put_method(method, sizeof method, job);
    say("%lld cells x %lld dim%s, %lld level%s, %lld cluster%s%s; %lld round%s, %s; %s, %lld thread%s; %.2f s wall, %.2f s CPU, "
        "%s "
        "peak memory",
        (long long)s->n_cells, (long long)s->n_dims, plural(s->n_dims), (long long)s->n_levels, plural(s->n_levels),
        (long long)s->n_clusters, plural(s->n_clusters), method, (long long)s->n_rounds, plural(s->n_rounds), s->reason_text,
        s->backend, (long long)s->threads, plural(s->threads), seconds_wall() - job->seconds.start, seconds_cpu(),
        say_bytes(memory, (double)memory_peak()));
}

static int integrate(struct integrate *job)
{
    static int (*const look[])(struct integrate *) = {check_targets, look_at_input, load_centroids, predict};
    static int (*const work[])(struct integrate *) = {load_embedding, run_method, write_results};
    int status = EXIT_DONE;
    for (size_t i = 0; i < sizeof look / sizeof look[0] && status == EXIT_DONE; i++)
        status = look[i](job);
    if (job->options.dry_run)
        return status == EXIT_DONE ? answer_dry_run(job) : status;
    for (size_t i = 0; i < sizeof work / sizeof work[0] && status == EXIT_DONE; i++)
        status = work[i](job);
    if (status == EXIT_DONE && job->options.level >= 0)
        last_line(job);
    return status;
}

static void integrate_close(struct integrate *job)
{
    uni_diagnosis_close(job->whole.diagnosis);
    uni_close(job->run);
    free(job->values);
    free(job->centroids);
    io_matrix_close(&job->matrix);
    columns_close(job);
    within_close(job);
}

int integrate_main(int argc, char **argv)
{
    struct integrate *job = calloc(1, sizeof *job);
    if (!job)
        return say_failed("no memory");
    job->seconds.start = seconds_wall();
    int status = integrate_options_read(&job->options, argc, argv);
    if (status == EXIT_DONE && job->options.help)
        integrate_help(stdout);
    else if (status == EXIT_DONE) {
        progress_open(&job->progress, job->options.level);
        status = integrate(job);
    }
    integrate_close(job);
    free(job);
    return status;
}
