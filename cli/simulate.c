/* SPDX-License-Identifier: BSD-3-Clause */
/* `unisono simulate`: options, names and files around simulate_atlas.c. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "io.h"
#include "simulate.h"

static const char default_basis[] = "X_pca";

enum { OUTPUT, META_OUT, CELLS, DIMS, LEVELS, TYPES, RARE, UNEVEN, SHIFT, TYPE_SHIFT, SEED, OVERWRITE, QUIET, HELP };

static const struct argument table[] = {
    {"output", 'o', OUTPUT, "OUT", NULL, NULL, "file to write: .h5ad, or .npy, .tsv, .csv (.gz) with --meta-out beside it"},
    {"meta-out", 0, META_OUT, "FILE.tsv", NULL, NULL, "table of cell names, batches and types, where OUT is no .h5ad"},
    {"cells", 0, CELLS, "N", "2 to 1e9", "20000", "number of cells"},
    {"dims", 0, DIMS, "N", "1 to 10000", "30", "number of dimensions"},
    {"levels", 0, LEVELS, "N", "1 to 100000", "4", "number of batches"},
    {"types", 0, TYPES, "N", "1 to 10000", "12", "number of cell types"},
    {"rare", 0, RARE, "N", "0 to 100", "0", "further types with a thousandth of the cells each"},
    {"uneven", 0, UNEVEN, "X", "0 to 100", "1.0", "how much batches, types and mixtures differ in size; 0: not at all"},
    {"shift", 0, SHIFT, "X", "0 to 1000", "1.0", "length of a batch's common shift, in spreads of a type"},
    {"type-shift", 0, TYPE_SHIFT, "X", "0 to 1000", "0.5", "length of the further shift of each type in each batch"},
    {"seed", 0, SEED, "N", ">= 0", "1", "of everything that is drawn"},
    {"overwrite", 'f', OVERWRITE, NULL, NULL, NULL, "overwrite files that exist"},
    {"quiet", 'q', QUIET, NULL, NULL, NULL, "print nothing unless it fails"},
    {"help", 'h', HELP, NULL, NULL, NULL, "show this"},
    {NULL, 0, 0, NULL, NULL, NULL, NULL},
};

struct simulate {
    const char *output, *meta_out;
    int overwrite, quiet, help;
    struct atlas atlas;
    float *values;
    int32_t *level, *type;
    struct io_strings level_names, type_names, cell_names;
};

void simulate_help(FILE *out)
{
    fputs("usage: unisono simulate -o OUT.h5ad [options]\n"
          "       unisono simulate -o OUT.npy --meta-out FILE.tsv [options]\n\n"
          "Makes an atlas: Gaussian cell types in a space like that of principal components, and in every batch a shift of all "
          "cells and\n"
          "a smaller one of each type. The columns are batch and cell_type. Lengths are in spreads: the root mean square "
          "distance of a cell\n"
          "from the centre of its type in its batch is 1; centres of types are 4 from the origin. A seed gives the same bytes "
          "everywhere.\n\n",
          out);
    arguments_help(out, table);
}

static int set_number(struct simulate *s, const struct argument *o, const char *value)
{
    struct atlas *a = &s->atlas;
    switch (o->id) {
    case CELLS:
        return argument_whole(o, value, 2, 1000000000, &a->n_cells);
    case DIMS:
        return argument_whole(o, value, 1, 10000, &a->n_dims);
    case LEVELS:
        return argument_whole(o, value, 1, 100000, &a->n_levels);
    case TYPES:
        return argument_whole(o, value, 1, 10000, &a->n_types);
    case RARE:
        return argument_whole(o, value, 0, 100, &a->n_rare);
    case UNEVEN:
        return argument_real(o, value, 0, 100, &a->uneven);
    case SHIFT:
        return argument_real(o, value, 0, 1000, &a->shift);
    case TYPE_SHIFT:
        return argument_real(o, value, 0, 1000, &a->type_shift);
    case SEED:
        return argument_whole(o, value, 0, INT64_MAX, &a->seed);
    }
    return EXIT_DONE;
}

static int set(void *user, const struct argument *option, const char *value)
{
    struct simulate *s = user;
    if (!option)
        return say_usage("simulate takes no operand, so %s is one too many; -o names the output", value);
    switch (option->id) {
    case OUTPUT:
        s->output = value;
        return EXIT_DONE;
    case META_OUT:
        s->meta_out = value;
        return EXIT_DONE;
    case OVERWRITE:
        s->overwrite = 1;
        return EXIT_DONE;
    case QUIET:
        s->quiet = 1;
        return EXIT_DONE;
    case HELP:
        s->help = 1;
        return EXIT_DONE;
    }
    return set_number(s, option, value);
}

/* The defaults are those that the table shows. */
static int set_defaults(struct simulate *s)
{
    for (const struct argument *a = table; a->name; a++) {
        if (a->initial && set_number(s, a, a->initial) != EXIT_DONE)
            return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static int check_together(const struct simulate *s)
{
    if (!s->output)
        return say_usage("simulate needs -o OUT");
    enum io_format format = io_format_of(s->output);
    if (format == IO_UNKNOWN)
        return say_usage("%s: what format is this? Names end in .h5ad, .npy, .tsv, .csv, .tsv.gz or .csv.gz", s->output);
    if (format == IO_H5AD && s->meta_out)
        return say_usage("--meta-out is for outputs that are no .h5ad; %s holds its labels itself", s->output);
    if (format != IO_H5AD && !s->meta_out)
        return say_usage("--meta-out FILE.tsv is needed: %s cannot hold the batches", s->output);
    if (s->meta_out && (strlen(s->meta_out) < 5 || strcmp(s->meta_out + strlen(s->meta_out) - 4, ".tsv") != 0))
        return say_usage("--meta-out %s: the name must end in .tsv", s->meta_out);
    if (s->atlas.n_levels > s->atlas.n_cells)
        return say_usage("--levels %lld is out of range: there are only %lld cells", (long long)s->atlas.n_levels,
                         (long long)s->atlas.n_cells);
    int status = target_check(s->output, "-o", s->overwrite, 0);
    return status == EXIT_DONE && s->meta_out ? target_check(s->meta_out, "--meta-out", s->overwrite, 0) : status;
}

static int digits_of(int64_t n)
{
    return snprintf(NULL, 0, "%lld", (long long)n);
}

/* "batch_07": numbers from 1, with at least so many digits. Returns -1 without memory. */
static int name_all(struct io_strings *names, const char *stem, int64_t n, int digits)
{
    size_t size = strlen(stem) + 24;
    names->at = io_room(n, sizeof *names->at);
    names->bytes = io_room(n, size);
    if (!names->at || !names->bytes)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        char *at = names->bytes + (size_t)i * size;
        snprintf(at, size, "%s%0*lld", stem, digits, (long long)i + 1);
        names->at[i] = at;
    }
    names->count = n;
    return 0;
}

static int name_types(struct simulate *s)
{
    const struct atlas *a = &s->atlas;
    int64_t n = a->n_types + a->n_rare;
    int digits = digits_of(a->n_types);
    size_t size = 32;
    s->type_names.at = io_room(n, sizeof *s->type_names.at);
    s->type_names.bytes = io_room(n, size);
    if (!s->type_names.at || !s->type_names.bytes)
        return -1;
    for (int64_t t = 0; t < n; t++) {
        char *at = s->type_names.bytes + (size_t)t * size;
        if (t < a->n_types)
            snprintf(at, size, "type_%0*lld", digits, (long long)t + 1);
        else
            snprintf(at, size, "rare_%lld", (long long)(t - a->n_types) + 1);
        s->type_names.at[t] = at;
    }
    s->type_names.count = n;
    return 0;
}

/* Whether there is memory for values, labels and names, before the machine is brought to its knees. */
static int check_memory(const struct simulate *s)
{
    char need[32], left[32];
    int64_t names = s->meta_out ? 3 * 32 : 0;
    int64_t cell = io_sum(io_product(s->atlas.n_dims, sizeof(float)), 2 * (int64_t)sizeof(int32_t) + names);
    int64_t bytes = io_product(s->atlas.n_cells, cell);
    int64_t available = memory_available();
    if (available < 0 || bytes <= available)
        return EXIT_DONE;
    return say_failed("this takes %s of memory, and %s are available", say_bytes(need, (double)bytes),
                      say_bytes(left, (double)available));
}

static int make(struct simulate *s)
{
    const struct atlas *a = &s->atlas;
    s->values = io_room(io_product(a->n_cells, a->n_dims), sizeof *s->values);
    s->level = io_room(a->n_cells, sizeof *s->level);
    s->type = io_room(a->n_cells, sizeof *s->type);
    if (!s->values || !s->level || !s->type || name_all(&s->level_names, "batch_", a->n_levels, digits_of(a->n_levels)) ||
        name_types(s) || atlas_make(a, s->values, s->level, s->type))
        return say_failed("no memory for %lld x %lld values", (long long)a->n_cells, (long long)a->n_dims);
    return EXIT_DONE;
}

static int write_meta(const struct simulate *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return say_failed("%s: no memory for the text", s->meta_out);
    fputs("cell_id\tbatch\tcell_type\n", out);
    for (int64_t i = 0; i < s->atlas.n_cells; i++)
        fprintf(out, "%s\t%s\t%s\n", s->cell_names.at[i], s->level_names.at[s->level[i]], s->type_names.at[s->type[i]]);
    int status = EXIT_DONE;
    if (fclose(out))
        status = say_failed("%s: no memory for the text", s->meta_out);
    else if (io_text_write(s->meta_out, text))
        status = say_failed("%s", io_error());
    free(text);
    return status;
}

static int write_h5ad(const struct simulate *s)
{
    const char *const columns[] = {"batch", "cell_type"};
    const int32_t *const levels[] = {s->level, s->type};
    const struct io_strings *const names[] = {&s->level_names, &s->type_names};
    struct io_new_h5ad file = {.n_cells = s->atlas.n_cells,
                               .n_dims = s->atlas.n_dims,
                               .values = s->values,
                               .key = default_basis,
                               .n_columns = 2,
                               .column = columns,
                               .level = levels,
                               .level_names = names};
    return io_h5ad_create(s->output, &file, s->overwrite) ? say_failed("%s", io_error()) : EXIT_DONE;
}

static int write_table(struct simulate *s)
{
    if (name_all(&s->cell_names, "cell", s->atlas.n_cells, 1))
        return say_failed("no memory for the names of %lld cells", (long long)s->atlas.n_cells);
    struct io_output output = {.target = s->output,
                               .overwrite = s->overwrite,
                               .values = s->values,
                               .n_cells = s->atlas.n_cells,
                               .n_dims = s->atlas.n_dims,
                               .cells = &s->cell_names,
                               .cell_header = "cell_id"};
    if (io_output_write(&output))
        return say_failed("%s", io_error());
    return write_meta(s);
}

static int simulate(struct simulate *s)
{
    const struct atlas *a = &s->atlas;
    double start = seconds_wall();
    int status = check_together(s);
    if (status == EXIT_DONE)
        status = check_memory(s);
    if (status == EXIT_DONE)
        status = make(s);
    if (status == EXIT_DONE)
        status = io_format_of(s->output) == IO_H5AD ? write_h5ad(s) : write_table(s);
    if (status == EXIT_DONE && !s->quiet)
        say("%lld cells x %lld dims, %lld batches, %lld cell types in %s; %.2f s", (long long)a->n_cells, (long long)a->n_dims,
            (long long)a->n_levels, (long long)(a->n_types + a->n_rare), s->output, seconds_wall() - start);
    return status;
}

int simulate_main(int argc, char **argv)
{
    struct simulate s;
    memset(&s, 0, sizeof s);
    int status = set_defaults(&s);
    if (status == EXIT_DONE)
        status = arguments_read(table, argc, argv, set, &s);
    if (status == EXIT_DONE && s.help)
        simulate_help(stdout);
    else if (status == EXIT_DONE)
        status = simulate(&s);
    free(s.values);
    free(s.level);
    free(s.type);
    io_strings_close(&s.level_names);
    io_strings_close(&s.type_names);
    io_strings_close(&s.cell_names);
    return status;
}
