/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `unisono integrate`: the program's own options, then every row of the library's option table. */
#include <string.h>

#include "integrate.h"

static const char default_basis[] = "X_pca", default_key[] = "X_pca_harmony";

enum {
    BATCH,
    META,
    OUTPUT,
    IN_PLACE,
    DRY_RUN,
    LOW_MEMORY,
    BASIS,
    KEY_ADDED,
    CENTROIDS,
    TRACE,
    MODEL,
    OVERWRITE,
    QUIET,
    VERBOSE,
    HELP,
    METHOD
};

static const struct argument own[] = {
    {"batch", 0, BATCH, "COLUMN", NULL, NULL, "column with the batch labels; repeat for several batch variables"},
    {"meta", 0, META, "FILE", NULL, NULL, "table with a row per cell, needed where the input is no .h5ad"},
    {"output", 'o', OUTPUT, "OUT", NULL, NULL, "file to write"},
    {"in-place", 0, IN_PLACE, NULL, NULL, NULL, "write into the input .h5ad (a clone of it replaces it at the end)"},
    {"dry-run", 0, DRY_RUN, NULL, NULL, NULL, "print sizes, backend and memory, and stop"},
    {"low-memory", 0, LOW_MEMORY, NULL, NULL, NULL,
     "take some third less memory and a little longer (done anyway where memory is short)"},
    {"basis", 0, BASIS, "KEY", NULL, default_basis, "obsm entry to correct"},
    {"key-added", 0, KEY_ADDED, "KEY", NULL, default_key, "obsm and uns entry to write"},
    {"centroids", 0, CENTROIDS, "FILE.npy", NULL, NULL, "clusters x dims: start from these instead of seeding"},
    {"trace", 0, TRACE, "FILE.json", NULL, NULL, "parameters, sizes, times, objective of every sweep, rounds, warnings"},
    {"model", 0, MODEL, "FILE.npz", NULL, NULL, "assignments and tables of the result; a folder: .npy files in it"},
    {"overwrite", 'f', OVERWRITE, NULL, NULL, NULL, "overwrite files and entries that exist"},
    {"quiet", 'q', QUIET, NULL, NULL, NULL, "print nothing unless it fails"},
    {"verbose", 'v', VERBOSE, NULL, NULL, NULL, "print a line per round"},
    {"help", 'h', HELP, NULL, NULL, NULL, "show this"},
};
enum { N_OWN = sizeof own / sizeof own[0], N_MOST = N_OWN + 48, TEXT = 64 };

struct table {
    struct argument rows[N_MOST + 1];
    char initial[N_MOST][TEXT];
};

static const char *value_name(const struct uni_option *o)
{
    switch (o->kind) {
    case UNI_KIND_INT:
        return "N";
    case UNI_KIND_REAL:
        return "X";
    case UNI_KIND_VALUES:
        return "X[,X]";
    case UNI_KIND_CHOICE:
        return o->choices;
    case UNI_KIND_FLAG:
        return NULL;
    }
    return "X";
}

/* The defaults that help shows are those of a live struct, so they cannot differ from what a run does. */
static void table_fill(struct table *t)
{
    struct uni_options defaults;
    const struct uni_option *o;
    int n = 0;
    uni_options_init(&defaults, sizeof defaults);
    for (; n < N_OWN; n++)
        t->rows[n] = own[n];
    for (int i = 0; n < N_MOST && (o = uni_option_at(i)); i++, n++) {
        struct argument *a = &t->rows[n];
        *a = (struct argument){.name = o->name,
                               .id = METHOD,
                               .value = value_name(o),
                               .range = o->kind == UNI_KIND_CHOICE ? NULL : o->range,
                               .help = o->help};
        if (o->kind == UNI_KIND_FLAG)
            a->range = NULL;
        else if (!uni_options_get(&defaults, o->name, t->initial[n], TEXT))
            a->initial = t->initial[n];
    }
    memset(&t->rows[n], 0, sizeof t->rows[n]);
}

void integrate_help(FILE *out)
{
    struct table t;
    table_fill(&t);
    struct argument first[N_OWN + 1];
    memcpy(first, t.rows, N_OWN * sizeof first[0]);
    memset(&first[N_OWN], 0, sizeof first[0]);
    fputs("usage: unisono integrate IN --batch COLUMN [--batch COLUMN ...] (-o OUT | --in-place | --dry-run) [options]\n\n"
          "Removes the effect of the batch variables from an embedding (cells x dimensions) by Harmony v2.\n"
          "IN and OUT: .h5ad (AnnData), .npy, .tsv, .csv, and .gz of the last two (header line, an optional first column of cell "
          "names).\n\n",
          out);
    arguments_help(out, first);
    fputs("\nMethod:\n", out);
    arguments_help(out, t.rows + N_OWN);
}

static int set_own(struct integrate_options *o, const struct argument *option, const char *value)
{
    switch (option->id) {
    case BATCH:
        if (o->n_batches == UNI_MAX_VARIABLES)
            return say_usage("--batch %s is one too many: at most %d batch variables", value, UNI_MAX_VARIABLES);
        o->batch[o->n_batches++] = value;
        break;
    case META:
        o->meta = value;
        break;
    case OUTPUT:
        o->output = value;
        break;
    case IN_PLACE:
        o->in_place = 1;
        break;
    case DRY_RUN:
        o->dry_run = 1;
        break;
    case LOW_MEMORY:
        o->low_memory = 1;
        break;
    case BASIS:
        o->basis = value;
        break;
    case KEY_ADDED:
        o->key_added = value;
        break;
    case CENTROIDS:
        o->centroids = value;
        break;
    case TRACE:
        o->trace = value;
        break;
    case MODEL:
        o->model = value;
        break;
    case OVERWRITE:
        o->overwrite = 1;
        break;
    case QUIET:
        o->level = -1;
        break;
    case VERBOSE:
        o->level = 1;
        break;
    case HELP:
        o->help = 1;
        break;
    }
    return EXIT_DONE;
}

static int set(void *user, const struct argument *option, const char *value)
{
    struct integrate_options *o = user;
    if (!option) {
        if (o->input)
            return say_usage("integrate takes one input file; %s and %s were given", o->input, value);
        o->input = value;
        return EXIT_DONE;
    }
    if (option->id != METHOD)
        return set_own(o, option, value);
    if (uni_options_set(&o->method, option->name, value ? value : "yes"))
        return say_usage("--%s", uni_last_error()); /* the sentence begins with the option's name */
    return EXIT_DONE;
}

static int named(const char *path, enum io_format *format)
{
    *format = io_format_of(path);
    return *format != IO_UNKNOWN;
}

/* What the options must say together. */
static int check_together(const struct integrate_options *o)
{
    enum io_format in, out;
    if (!o->input)
        return say_usage("integrate needs an input file (unisono help integrate)");
    if (!o->n_batches)
        return say_usage("integrate needs --batch COLUMN, the column with the batch labels");
    if (!named(o->input, &in))
        return say_usage("%s: what format is this? Names end in .h5ad, .npy, .tsv, .csv, .tsv.gz or .csv.gz", o->input);
    if (o->in_place && o->output)
        return say_usage("-o and --in-place exclude each other");
    if (o->low_memory && o->model)
        return say_usage("--low-memory and --model exclude each other: the model is read from what --low-memory gives up");
    if (!o->output && !o->in_place && !o->dry_run)
        return say_usage("where to? Give -o OUT, --in-place or --dry-run");
    if (o->output && !named(o->output, &out))
        return say_usage("%s: what format is this? Names end in .h5ad, .npy, .tsv, .csv, .tsv.gz or .csv.gz", o->output);
    if (in != IO_H5AD && o->in_place)
        return say_usage("--in-place is for .h5ad files; use -o");
    if (in != IO_H5AD && !o->meta)
        return say_usage("--meta FILE is needed: %s has no batch labels of its own", o->input);
    if (in != IO_H5AD && o->basis)
        return say_usage("--basis names an entry of an .h5ad file; %s is none", o->input);
    const char *files[] = {o->output, o->trace, o->model};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < i; j++) {
            if (files[i] && files[j] && !strcmp(files[i], files[j]))
                return say_usage("%s is named as the target of two outputs", files[i]);
        }
    }
    return EXIT_DONE;
}

int integrate_options_read(struct integrate_options *o, int argc, char **argv)
{
    struct table t;
    memset(o, 0, sizeof *o);
    uni_options_init(&o->method, sizeof o->method);
    table_fill(&t);
    int status = arguments_read(t.rows, argc, argv, set, o);
    if (status != EXIT_DONE || o->help)
        return status;
    status = check_together(o);
    if (!o->basis)
        o->basis = default_basis;
    if (!o->key_added)
        o->key_added = default_key;
    if (o->trace)
        o->method.terms = 1;
    return status;
}
