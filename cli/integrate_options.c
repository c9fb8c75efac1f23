/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `unisono integrate`: the program's own options, then every row of the library's option table. */
#include <string.h>

#include "integrate.h"

static const char default_basis[] = "X_pca", default_key[] = "X_pca_harmony";

enum {
    BATCH,
    REGRESS,
    WEIGHTS,
    WITHIN,
    LABEL,
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

static const struct argument of_columns[] = {
    {"batch", 0, BATCH, "COLUMN", NULL, NULL, "labels of a batch variable; repeat for several"},
    {"regress", 0, REGRESS, "COLUMN", NULL, NULL,
     "numbers to regress out within clusters, such as log counts; repeat for several (docs/method.md: when not to)"},
    {"weights", 0, WEIGHTS, "COLUMN", NULL, NULL, "what each cell counts, > 0: 2 is the cell twice"},
    {"within", 0, WITHIN, "COLUMN", NULL, NULL, "integrate every level of this column for itself"},
    {"label", 0, LABEL, "COLUMN", NULL, NULL, "cell types, for the diagnostics: the result does not depend on them"},
    {"meta", 0, META, "FILE", NULL, NULL, "table with these columns and a row per cell, needed where the input is no .h5ad"},
    {NULL, 0, 0, NULL, NULL, NULL, NULL},
};
static const struct argument of_files[] = {
    {"output", 'o', OUTPUT, "OUT", NULL, NULL, "file to write"},
    {"in-place", 0, IN_PLACE, NULL, NULL, NULL, "write into the input .h5ad (a clone of it replaces it at the end)"},
    {"overwrite", 'f', OVERWRITE, NULL, NULL, NULL, "overwrite files and entries that exist"},
    {"basis", 0, BASIS, "KEY", NULL, default_basis, "obsm entry to correct"},
    {"key-added", 0, KEY_ADDED, "KEY", NULL, default_key, "obsm and uns entry to write"},
    {"centroids", 0, CENTROIDS, "FILE.npy", NULL, NULL, "clusters x dims: start from these instead of seeding"},
    {"trace", 0, TRACE, "FILE.json", NULL, NULL, "parameters, sizes, times, objective of every sweep, rounds, warnings"},
    {"model", 0, MODEL, "FILE.npz", NULL, NULL, "assignments and tables of the result; a folder: .npy files in it"},
    {NULL, 0, 0, NULL, NULL, NULL, NULL},
};
static const struct argument of_run[] = {
    {"dry-run", 0, DRY_RUN, NULL, NULL, NULL, "print sizes, backend and memory, and stop"},
    {"low-memory", 0, LOW_MEMORY, NULL, NULL, NULL,
     "take some third less memory and a little longer (done anyway where memory is short)"},
    {"quiet", 'q', QUIET, NULL, NULL, NULL, "print nothing unless it fails"},
    {"verbose", 'v', VERBOSE, NULL, NULL, NULL, "print a line per round"},
    {"help", 'h', HELP, NULL, NULL, NULL, "show this"},
    {NULL, 0, 0, NULL, NULL, NULL, NULL},
};
static const struct {
    const char *title;
    const struct argument *rows;
} groups[] = {{"Columns of obs, or of the table of --meta:", of_columns}, {"Files:", of_files}, {"Run:", of_run}};
enum { N_GROUPS = sizeof groups / sizeof groups[0], N_MOST = 80, TEXT = 64 };

struct table {
    struct argument rows[N_MOST + 1];
    char initial[N_MOST][TEXT];
    const struct argument *method; /* where the library's begin */
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
    for (int g = 0; g < N_GROUPS; g++)
        for (const struct argument *a = groups[g].rows; a->name; a++)
            t->rows[n++] = *a;
    t->method = t->rows + n;
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
    fputs("usage: unisono integrate IN --batch COLUMN [--batch COLUMN ...] (-o OUT | --in-place | --dry-run) [options]\n\n"
          "Removes the effect of the batch variables from an embedding (cells x dimensions) by Harmony v2.\n"
          "IN and OUT: .h5ad (AnnData), .npy, .tsv, .csv, and .gz of the last two (header line, an optional first column of cell "
          "names).\n\n",
          out);
    for (int g = 0; g < N_GROUPS; g++) {
        fprintf(out, "%s\n", groups[g].title);
        arguments_help(out, groups[g].rows);
        fputs("\n", out);
    }
    fputs("Method (flavor and compat set further defaults; what is given beside them wins):\n", out);
    arguments_help(out, t.method);
}

static const char **text_of(struct integrate_options *o, int id)
{
    switch (id) {
    case WEIGHTS:
        return &o->weights;
    case WITHIN:
        return &o->within;
    case LABEL:
        return &o->label;
    case META:
        return &o->meta;
    case OUTPUT:
        return &o->output;
    case BASIS:
        return &o->basis;
    case KEY_ADDED:
        return &o->key_added;
    case CENTROIDS:
        return &o->centroids;
    case TRACE:
        return &o->trace;
    case MODEL:
        return &o->model;
    }
    return NULL;
}

static int *flag_of(struct integrate_options *o, int id)
{
    switch (id) {
    case IN_PLACE:
        return &o->in_place;
    case DRY_RUN:
        return &o->dry_run;
    case LOW_MEMORY:
        return &o->low_memory;
    case OVERWRITE:
        return &o->overwrite;
    case HELP:
        return &o->help;
    }
    return NULL;
}

static int add_column(const char *column[UNI_MAX_VARIABLES], int *n, const struct argument *option, const char *value)
{
    if (*n == UNI_MAX_VARIABLES)
        return say_usage("--%s %s is one too many: at most %d columns", option->name, value, UNI_MAX_VARIABLES);
    column[(*n)++] = value;
    return EXIT_DONE;
}

static int set_own(struct integrate_options *o, const struct argument *option, const char *value)
{
    if (option->id == BATCH)
        return add_column(o->batch, &o->n_batches, option, value);
    if (option->id == REGRESS)
        return add_column(o->regress, &o->n_regress, option, value);
    if (text_of(o, option->id))
        *text_of(o, option->id) = value;
    else if (flag_of(o, option->id))
        *flag_of(o, option->id) = 1;
    else
        o->level = option->id == QUIET ? -1 : 1;
    return EXIT_DONE;
}

/* The options that preset others are read before all, wherever they stand: the command line is gone through once for each of
   them, and once for the rest. The method of 2019 in the package's manner has the defaults of 2019. */
static const char *const presets[] = {"compat", "flavor"};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

struct reading {
    struct integrate_options *options;
    int preset; /* N_PRESETS: the rest */
};

static int set(void *user, const struct argument *option, const char *value)
{
    const struct reading *reading = user;
    struct integrate_options *o = reading->options;
    int preset = 0;
    while (preset < N_PRESETS && !(option && option->id == METHOD && !strcmp(option->name, presets[preset])))
        preset++;
    if (preset != reading->preset)
        return EXIT_DONE;
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

/* No column is two things. */
static int check_columns(const struct integrate_options *o)
{
    const char *name[2 * UNI_MAX_VARIABLES + 2], *what[2 * UNI_MAX_VARIABLES + 2];
    int n = 0;
    for (int i = 0; i < o->n_batches; i++)
        name[n] = o->batch[i], what[n++] = "--batch";
    for (int i = 0; i < o->n_regress; i++)
        name[n] = o->regress[i], what[n++] = "--regress";
    if (o->within)
        name[n] = o->within, what[n++] = "--within";
    if (o->label)
        name[n] = o->label, what[n++] = "--label";
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            if (!strcmp(name[i], name[j]))
                return !strcmp(what[i], what[j])
                           ? say_usage("%s %s is given twice", what[i], name[i])
                           : say_usage("%s and %s both name the column %s; it can be one of them", what[j], what[i], name[i]);
        }
    }
    return EXIT_DONE;
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
    if (o->within && o->model)
        return say_usage(
            "--within and --model exclude each other: a model is of one run, and --within makes one for every level; "
            "integrate a file of that level's cells for its model");
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
    return check_columns(o);
}

int integrate_options_read(struct integrate_options *o, int argc, char **argv)
{
    struct table t;
    memset(o, 0, sizeof *o);
    uni_options_init(&o->method, sizeof o->method);
    table_fill(&t);
    struct reading reading = {.options = o};
    int status = EXIT_DONE;
    for (; reading.preset <= N_PRESETS && status == EXIT_DONE; reading.preset++)
        status = arguments_read(t.rows, argc, argv, set, &reading);
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
