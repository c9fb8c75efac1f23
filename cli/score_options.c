/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `unisono score`. */
#include <math.h>
#include <string.h>

#include "score.h"

enum { BATCH, LABEL, META, BASIS, OUTPUT, SAMPLE, ALL, PERPLEXITY, SEED, THREADS, BACKEND, DEVICE, JSON, OVERWRITE, QUIET, HELP };
enum { N_OPTIONS = HELP + 1, TEXT = 32 };

struct table {
    struct argument rows[N_OPTIONS + 1];
    char sample[TEXT], perplexity[TEXT], seed[TEXT], threads[TEXT], backend[TEXT], device[TEXT];
};

/* What the library says of its option; the names of backends are there. */
static const char *range_of(const char *name)
{
    const struct uni_option *o;
    for (int i = 0; (o = uni_option_at(i)); i++)
        if (!strcmp(o->name, name))
            return o->range;
    return NULL;
}

static int backend_text(char *text, int backend)
{
    struct uni_options o;
    uni_options_init(&o, sizeof o);
    o.backend = (enum uni_backend_kind)backend;
    return uni_options_get(&o, "backend", text, TEXT);
}

/* The defaults that help shows are those of a live struct, so they cannot differ from what a run does. */
static void table_fill(struct table *t)
{
    struct uni_lisi_options o;
    uni_lisi_options_init(&o, sizeof o);
    snprintf(t->sample, TEXT, "%lld", (long long)o.sample);
    snprintf(t->perplexity, TEXT, "%g", o.perplexity);
    snprintf(t->seed, TEXT, "%lld", (long long)o.seed);
    snprintf(t->threads, TEXT, "%lld", (long long)o.threads);
    if (backend_text(t->backend, o.backend))
        *t->backend = 0;
    snprintf(t->device, TEXT, "%lld", (long long)o.device);
    const struct argument rows[N_OPTIONS + 1] = {
        {"batch", 0, BATCH, "COLUMN", NULL, NULL, "column with batch labels (iLISI); repeat for several"},
        {"label", 0, LABEL, "COLUMN", NULL, NULL, "column with cell types (cLISI); repeat for several"},
        {"meta", 0, META, "FILE", NULL, NULL, "table with a row per cell, needed where the input is no .h5ad"},
        {"basis", 0, BASIS, "KEY", NULL, "those of X_pca, X_pca_harmony that exist", "obsm entry to score; repeat for several"},
        {"output", 'o', OUTPUT, "OUT", NULL, NULL,
         "file for the values of every cell; .h5ad: the input with columns of obs added"},
        {"sample", 0, SAMPLE, "N", ">= 1", t->sample, "cells to look at, drawn by the seed, among all cells as neighbours"},
        {"all", 0, ALL, NULL, NULL, NULL, "look at every cell"},
        {"perplexity", 0, PERPLEXITY, "X", "> 1", t->perplexity, "effective number of neighbours"},
        {"seed", 0, SEED, "N", "any whole number", t->seed, "of the sample"},
        {"threads", 0, THREADS, "N", "0 to 4096", t->threads, "0: the CPUs that this process may use"},
        {"backend", 0, BACKEND, "NAME", range_of("backend"), t->backend, "what goes through all cells; the same values"},
        {"device", 0, DEVICE, "N", "0 to 1023", t->device, "of several cards the one that backend cuda uses"},
        {"json", 0, JSON, NULL, NULL, NULL, "print JSON, not a table"},
        {"overwrite", 'f', OVERWRITE, NULL, NULL, NULL, "overwrite files and columns that exist"},
        {"quiet", 'q', QUIET, NULL, NULL, NULL, "no notes on stderr"},
        {"help", 'h', HELP, NULL, NULL, NULL, "show this"},
        {NULL, 0, 0, NULL, NULL, NULL, NULL},
    };
    memcpy(t->rows, rows, sizeof rows);
}

void score_help(FILE *out)
{
    struct table t;
    table_fill(&t);
    fputs("usage: unisono score FILE --batch COLUMN [--label COLUMN] [--basis KEY ...] [-o OUT] [options]\n\n"
          "Says how well batches mix and cell types stay apart: LISI, the number of levels among a cell's nearest neighbours "
          "(exact\n"
          "ones, weighted by nearness). iLISI of batches: 1 not mixed, the number of batches if evenly mixed. cLISI of cell "
          "types: 1 is\n"
          "well apart. scaled: from 0 to 1, higher is better, by the median. FILE: .h5ad (AnnData), .npy, .tsv, .csv, .gz of "
          "these two.\n\n",
          out);
    arguments_help(out, t.rows);
}

static int add_column(struct score_options *o, const char *name, int is_type)
{
    if (o->n_columns == SCORE_COLUMNS)
        return say_usage("%s is one column too many: at most %d", name, SCORE_COLUMNS);
    for (int i = 0; i < o->n_columns; i++)
        if (!strcmp(o->column[i], name))
            return say_usage("the column %s is named twice", name);
    o->column[o->n_columns] = name;
    o->is_type[o->n_columns++] = is_type;
    return EXIT_DONE;
}

static int add_basis(struct score_options *o, const char *name)
{
    if (o->n_bases == SCORE_BASES)
        return say_usage("--basis %s is one too many: at most %d", name, SCORE_BASES);
    for (int i = 0; i < o->n_bases; i++)
        if (!strcmp(o->basis[i], name))
            return say_usage("the basis %s is named twice", name);
    o->basis[o->n_bases++] = name;
    return EXIT_DONE;
}

static int set_backend(struct score_options *o, const char *name)
{
    struct uni_options method;
    uni_options_init(&method, sizeof method);
    if (uni_options_set(&method, "backend", name))
        return say_usage("--%s", uni_last_error());
    o->lisi.backend = method.backend;
    return EXIT_DONE;
}

static int set(void *user, const struct argument *option, const char *value)
{
    struct score_options *o = user;
    if (!option) {
        if (o->input)
            return say_usage("score takes one file; %s and %s were given", o->input, value);
        o->input = value;
        return EXIT_DONE;
    }
    switch (option->id) {
    case BATCH:
    case LABEL:
        return add_column(o, value, option->id == LABEL);
    case BASIS:
        return add_basis(o, value);
    case SAMPLE:
        return argument_whole(option, value, 1, INT64_MAX, &o->lisi.sample);
    case ALL:
        o->lisi.sample = 0;
        break;
    case PERPLEXITY:
        return argument_real(option, value, nextafter(1, 2), HUGE_VAL, &o->lisi.perplexity);
    case SEED:
        return argument_whole(option, value, INT64_MIN, INT64_MAX, &o->lisi.seed);
    case THREADS:
        return argument_whole(option, value, 0, 4096, &o->lisi.threads);
    case BACKEND:
        return set_backend(o, value);
    case DEVICE:
        return argument_whole(option, value, 0, 1023, &o->lisi.device);
    case META:
        o->meta = value;
        break;
    case OUTPUT:
        o->output = value;
        break;
    case JSON:
        o->json = 1;
        break;
    case OVERWRITE:
        o->overwrite = 1;
        break;
    case QUIET:
        o->quiet = 1;
        break;
    case HELP:
        o->help = 1;
        break;
    }
    return EXIT_DONE;
}

/* Batches before cell types, in the order they were named. */
static void put_batches_first(struct score_options *o)
{
    const char *column[SCORE_COLUMNS];
    int n = 0, n_batches;
    for (int i = 0; i < o->n_columns; i++)
        if (!o->is_type[i])
            column[n++] = o->column[i];
    n_batches = n;
    for (int i = 0; i < o->n_columns; i++)
        if (o->is_type[i])
            column[n++] = o->column[i];
    for (int i = 0; i < o->n_columns; i++) {
        o->column[i] = column[i];
        o->is_type[i] = i >= n_batches;
    }
}

static int check_together(const struct score_options *o)
{
    if (!o->input || !o->n_columns)
        return say_usage("score needs a file and --batch COLUMN, --label COLUMN or both (unisono help score)");
    enum io_format in = io_format_of(o->input);
    if (in == IO_UNKNOWN)
        return say_usage("%s: what format is this? Names end in .h5ad, .npy, .tsv, .csv, .tsv.gz or .csv.gz", o->input);
    if (o->output && io_format_of(o->output) == IO_UNKNOWN)
        return say_usage("%s: what format is this? Names end in .h5ad, .npy, .tsv, .csv, .tsv.gz or .csv.gz", o->output);
    if (in != IO_H5AD && !o->meta)
        return say_usage("--meta FILE is needed: %s has no labels of its own", o->input);
    if (in != IO_H5AD && o->n_bases)
        return say_usage("--basis names an entry of an .h5ad file; %s is none", o->input);
    return EXIT_DONE;
}

int score_options_read(struct score_options *o, int argc, char **argv)
{
    struct table t;
    memset(o, 0, sizeof *o);
    uni_lisi_options_init(&o->lisi, sizeof o->lisi);
    table_fill(&t);
    int status = arguments_read(t.rows, argc, argv, set, o);
    if (status != EXIT_DONE || o->help)
        return status;
    put_batches_first(o);
    return check_together(o);
}
