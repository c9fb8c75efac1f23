/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `unisono report`. */
#include <string.h>

#include "report.h"

enum { OUTPUT, BATCH, LABEL, BASIS, LAYOUT, SVG, PNG, TRACE, TITLE, POINTS, TSNE, PERPLEXITY, SEED, THREADS, FORCE, QUIET, HELP };

static const struct argument table[] = {
    {"output", 'o', OUTPUT, "FILE.html", NULL, NULL, "the page to write"},
    {"batch", 0, BATCH, "COLUMN", NULL, "what integrate was given", "column with batch labels; repeat for several"},
    {"label", 0, LABEL, "COLUMN", NULL, NULL, "column with cell types; repeat for several"},
    {"basis", 0, BASIS, "KEY", NULL, "X_pca, X_pca_harmony",
     "obsm entry before, and again for the one after; one alone: no comparison"},
    {"layout", 0, LAYOUT, "KEY", NULL, "X_umap where there is one",
     "obsm entry with two columns that the page opens with; two: before and after"},
    {"svg", 0, SVG, "FILE.svg", NULL, NULL, "a static picture, for a paper"},
    {"png", 0, PNG, "FILE.png", NULL, NULL, "the same picture; for builds with librsvg"},
    {"trace", 0, TRACE, "FILE.json", NULL, NULL, "what integrate --trace wrote: times and memory are in it"},
    {"title", 0, TITLE, "TEXT", NULL, "the file's name", "heading"},
    {"points", 0, POINTS, "N", "2 to 20000", "20000", "cells that the page carries, sampled"},
    {"tsne-cells", 0, TSNE, "N", "0 to 10000", "4000", "cells of them in the t-SNE; 0: none is made"},
    {"perplexity", 0, PERPLEXITY, "P", "1 to 1000", "30", "of LISI and t-SNE"},
    {"seed", 0, SEED, "N", "not negative", "0", "of the sample"},
    {"threads", 0, THREADS, "N", "1 to 1024", "all CPUs", "most threads to use"},
    {"force", 'f', FORCE, NULL, NULL, NULL, "overwrite outputs; accept columns that look like no labels"},
    {"quiet", 'q', QUIET, NULL, NULL, NULL, "print nothing on success"},
    {"help", 'h', HELP, NULL, NULL, NULL, "show this"},
    {NULL, 0, 0, NULL, NULL, NULL, NULL},
};

void report_help(FILE *out)
{
    fputs("usage: unisono report FILE.h5ad [--batch COLUMN ...] [--label COLUMN ...] -o REPORT.html [options]\n\n"
          "Writes one page that shows the cells before and after the correction, how well batches mix and cell types stay apart\n"
          "(LISI), how far cells moved, and how the run went. It needs no network and no other file; any browser opens it.\n\n",
          out);
    arguments_help(out, table);
}

static int add(const struct argument *option, const char **list, int *n, int most, const char *value)
{
    if (*n == most)
        return say_usage("--%s %s is one too many: at most %d", option->name, value, most);
    list[(*n)++] = value;
    return EXIT_DONE;
}

static int set_operand(struct report_options *o, const char *value)
{
    if (o->input)
        return say_usage("report takes one file; %s and %s were given", o->input, value);
    o->input = value;
    return EXIT_DONE;
}

static int set_name(struct report_options *o, const struct argument *option, const char *value)
{
    const char **const place[] = {
        [OUTPUT] = &o->output, [SVG] = &o->svg, [PNG] = &o->png, [TRACE] = &o->trace, [TITLE] = &o->title};
    *place[option->id] = value;
    return EXIT_DONE;
}

static int set(void *user, const struct argument *option, const char *value)
{
    struct report_options *o = user;
    if (!option)
        return set_operand(o, value);
    switch (option->id) {
    case BATCH:
        return add(option, o->batch, &o->n_batches, REPORT_VARIABLES, value);
    case LABEL:
        return add(option, o->label, &o->n_labels, REPORT_VARIABLES, value);
    case BASIS:
        return add(option, o->basis, &o->n_bases, 2, value);
    case LAYOUT:
        return add(option, o->layout, &o->n_layouts, 2, value);
    case POINTS:
        return argument_whole(option, value, 2, REPORT_POINTS, &o->points);
    case TSNE:
        return argument_whole(option, value, 0, REPORT_TSNE, &o->tsne_cells);
    case PERPLEXITY:
        return argument_real(option, value, 1, 1000, &o->perplexity);
    case SEED:
        return argument_whole(option, value, 0, INT64_MAX, &o->seed);
    case THREADS:
        return argument_whole(option, value, 1, 1024, &o->threads);
    case FORCE:
        o->overwrite = 1;
        return EXIT_DONE;
    case QUIET:
        o->level = -1;
        return EXIT_DONE;
    case HELP:
        o->help = 1;
        return EXIT_DONE;
    default:
        return set_name(o, option, value);
    }
}

static int check(const struct report_options *o)
{
    if (!o->input)
        return say_usage("report needs a file (unisono help report)");
    if (io_format_of(o->input) != IO_H5AD)
        return say_usage("%s: report reads .h5ad files", o->input);
    if (!o->output && !o->svg && !o->png)
        return say_usage("report needs -o REPORT.html, or --svg or --png: a file to write");
    if (o->png && !report_has_png)
        return say_usage(
            "--png %s: this build has no librsvg, which draws it (Debian: librsvg2-dev, then build anew); --svg needs nothing",
            o->png);
    return EXIT_DONE;
}

int report_options_read(struct report_options *o, int argc, char **argv)
{
    memset(o, 0, sizeof *o);
    o->points = REPORT_POINTS;
    o->tsne_cells = 4000;
    o->perplexity = 30;
    int status = arguments_read(table, argc, argv, set, o);
    return status != EXIT_DONE || o->help ? status : check(o);
}
