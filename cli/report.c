/* SPDX-License-Identifier: BSD-3-Clause */
/* `unisono report`: did it work, and did it go too far? What can go wrong is looked at first; then the embeddings are read one
 * after the other, because of a million cells only a sample is shown.
 */
#include "report.h"

#include <stdlib.h>
#include <string.h>

static int check_targets(struct report *r)
{
    const struct report_options *o = &r->options;
    const char *const target[] = {o->output, o->svg, o->png}, *const what[] = {"-o", "--svg", "--png"};
    int status = EXIT_DONE;
    for (int i = 0; i < 3 && status == EXIT_DONE; i++)
        if (target[i])
            status = target_check(target[i], what[i], o->overwrite, 0);
    return status;
}

static int write_outputs(struct report *r)
{
    const struct report_options *o = &r->options;
    char *page = o->output ? report_page(r) : NULL, *svg = o->svg || o->png ? report_svg(r) : NULL;
    int status = EXIT_DONE;
    progress_stage(&r->progress, "writing", o->output ? o->output : o->svg ? o->svg : o->png);
    if ((o->output && !page) || ((o->svg || o->png) && !svg))
        status = say_failed("%s: no memory for the text of the report", o->input);
    if (status == EXIT_DONE && o->output && io_text_write(o->output, page))
        status = say_failed("%s", io_error());
    if (status == EXIT_DONE && o->svg && io_text_write(o->svg, svg))
        status = say_failed("%s", io_error());
    if (status == EXIT_DONE && o->png)
        status = report_png(o->png, svg);
    progress_clear(&r->progress);
    free(page);
    free(svg);
    return status;
}

static void last_line(const struct report *r, double seconds)
{
    const struct report_options *o = &r->options;
    char memory[32];
    say("%s: %lld cells, %lld shown, %lld in the t-SNE; %.2f s wall, %.2f s CPU, %s peak memory",
        o->output ? o->output
        : o->svg  ? o->svg
                  : o->png,
        (long long)r->n_cells, (long long)r->S, (long long)r->T, seconds, seconds_cpu(),
        say_bytes(memory, (double)memory_peak()));
}

static int report(struct report *r)
{
    static int (*const steps[])(struct report *) = {check_targets, report_look, report_read, report_layouts, write_outputs};
    double start = seconds_wall();
    int status = EXIT_DONE;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == EXIT_DONE; i++)
        status = steps[i](r);
    if (status == EXIT_DONE && r->options.level >= 0)
        last_line(r, seconds_wall() - start);
    return status;
}

static void report_close(struct report *r)
{
    for (int i = 0; i < r->n_variables; i++) {
        struct report_variable *v = &r->variable[i];
        io_labels_close(&v->labels);
        free(v->cells);
        free(v->score[0]);
        free(v->score[1]);
    }
    for (int i = 0; i < r->n_layouts; i++) {
        free(r->layout[i].xy[0]);
        free(r->layout[i].xy[1]);
    }
    for (int64_t i = 0; r->name && i < r->S; i++)
        free(r->name[i]);
    free(r->name);
    free(r->row);
    uni_diagnosis_close(r->diagnosis);
    free(r->values[0]);
    free(r->values[1]);
    free(r->moved);
    free(r->trace);
    free(r->key_basis);
    free(r->key_batches);
    io_uns_close(&r->run);
}

int report_main(int argc, char **argv)
{
    struct report *r = calloc(1, sizeof *r);
    if (!r)
        return say_failed("no memory");
    int status = report_options_read(&r->options, argc, argv);
    if (status == EXIT_DONE && r->options.help)
        report_help(stdout);
    else if (status == EXIT_DONE) {
        progress_open(&r->progress, r->options.level);
        status = report(r);
    }
    report_close(r);
    free(r);
    return status;
}
