/* SPDX-License-Identifier: BSD-3-Clause */
/* `unisono compare`: says in words what an integration changed. Cells of one type in one batch are a group; groups of fewer than
 * FEWEST cells are left out. With m the centre of a group of n cells:
 *
 *     spread^2  = sum over cells |x - m of its group|^2 / (cells - groups)
 *     batches^2 = mean over types, and pairs of batches of it, of |m - m'|^2 - spread^2 (1/n + 1/n')     (what chance adds is
 * taken off) types^2   = mean over pairs of types of |c - c'|^2,  c = mean of the type's m over its batches
 *
 * and batches and types are said as multiples of the spread. It is a summary for data with known types, no benchmark of a method.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "io.h"

enum { FEWEST = 10, BASES_MAX = 8 };
enum { BATCH, LABEL, BASIS, HELP };

static const char *const default_bases[] = {"X_pca", "X_pca_harmony"};

static const struct argument table[] = {
    {"batch", 0, BATCH, "COLUMN", NULL, NULL, "column with the batch labels"},
    {"label", 0, LABEL, "COLUMN", NULL, NULL, "column with the cell types; without it all cells are of one type"},
    {"basis", 0, BASIS, "KEY", NULL, "X_pca, X_pca_harmony", "obsm entry to look at; repeat for several"},
    {"help", 'h', HELP, NULL, NULL, NULL, "show this"},
    {NULL, 0, 0, NULL, NULL, NULL, NULL},
};

struct compare {
    const char *file, *batch, *label, *basis[BASES_MAX];
    int n_bases, help;
    struct io_labels batches, types;
};

struct answer {
    double batches, types; /* in spreads; NaN where there is no pair */
};

void compare_help(FILE *out)
{
    fputs("usage: unisono compare FILE.h5ad --batch COLUMN [--label COLUMN] [--basis KEY ...]\n\n"
          "Says for every basis how far the batches of one cell type are apart, and the cell types, in spreads: the root mean "
          "square\n"
          "distance of a cell from the centre of its type in its batch. Types with fewer than 10 cells in a batch are left out "
          "there.\n\n",
          out);
    arguments_help(out, table);
}

static int set(void *user, const struct argument *option, const char *value)
{
    struct compare *c = user;
    if (!option) {
        if (c->file)
            return say_usage("compare takes one file; %s and %s were given", c->file, value);
        c->file = value;
        return EXIT_DONE;
    }
    switch (option->id) {
    case BATCH:
        c->batch = value;
        break;
    case LABEL:
        c->label = value;
        break;
    case BASIS:
        if (c->n_bases == BASES_MAX)
            return say_usage("--basis %s is one too many: at most %d", value, BASES_MAX);
        c->basis[c->n_bases++] = value;
        break;
    case HELP:
        c->help = 1;
        break;
    }
    return EXIT_DONE;
}

/* The cells of one type in one batch. */
struct groups {
    int64_t n_types, n_batches, n_dims;
    int64_t *size;  /* (n_types, n_batches) */
    double *centre; /* (n_types, n_batches, n_dims) */
};

static int64_t type_of(const struct compare *c, int64_t i)
{
    return c->label ? c->types.level[i] : 0;
}

/* The group of a cell, -1 where a label is missing. */
static int64_t group_of(const struct compare *c, const struct groups *g, int64_t i)
{
    int64_t t = type_of(c, i), b = c->batches.level[i];
    return t < 0 || b < 0 ? -1 : t * g->n_batches + b;
}

static double square_of(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

static void find_centres(const struct compare *c, struct groups *g, const float *values, int64_t n_cells)
{
    for (int64_t i = 0; i < n_cells; i++) {
        int64_t at = group_of(c, g, i);
        for (int64_t j = 0; at >= 0 && j < g->n_dims; j++)
            g->centre[at * g->n_dims + j] += (double)values[i * g->n_dims + j];
        if (at >= 0)
            g->size[at]++;
    }
    for (int64_t at = 0; at < g->n_types * g->n_batches; at++) {
        for (int64_t j = 0; g->size[at] && j < g->n_dims; j++)
            g->centre[at * g->n_dims + j] /= (double)g->size[at];
    }
}

static double spread_square(const struct compare *c, const struct groups *g, const float *values, int64_t n_cells)
{
    double sum = 0;
    int64_t free_cells = 0;
    for (int64_t at = 0; at < g->n_types * g->n_batches; at++)
        free_cells += g->size[at] >= FEWEST ? g->size[at] - 1 : 0;
    for (int64_t i = 0; i < n_cells; i++) {
        int64_t at = group_of(c, g, i);
        for (int64_t j = 0; at >= 0 && g->size[at] >= FEWEST && j < g->n_dims; j++) {
            double x = (double)values[i * g->n_dims + j] - g->centre[at * g->n_dims + j];
            sum += x * x;
        }
    }
    return sum / (double)free_cells;
}

static double batches_square(const struct groups *g, double spread)
{
    double sum = 0;
    int64_t pairs = 0;
    for (int64_t t = 0; t < g->n_types; t++) {
        const int64_t *size = g->size + t * g->n_batches;
        const double *centre = g->centre + t * g->n_batches * g->n_dims;
        for (int64_t a = 0; a < g->n_batches; a++) {
            for (int64_t b = 0; size[a] >= FEWEST && b < a; b++) {
                if (size[b] < FEWEST)
                    continue;
                sum += square_of(centre + a * g->n_dims, centre + b * g->n_dims, g->n_dims) -
                       spread * (1 / (double)size[a] + 1 / (double)size[b]);
                pairs++;
            }
        }
    }
    return pairs ? sum / (double)pairs : NAN;
}

/* Puts each type's centre at its first batch's place; call it last. */
static double types_square(struct groups *g)
{
    double sum = 0;
    int64_t pairs = 0;
    for (int64_t t = 0; t < g->n_types; t++) {
        double *centre = g->centre + t * g->n_batches * g->n_dims;
        int64_t used = 0;
        for (int64_t b = 0; b < g->n_batches; b++) {
            int counts = g->size[t * g->n_batches + b] >= FEWEST;
            for (int64_t j = 0; j < g->n_dims; j++)
                centre[j] = (used ? centre[j] : 0) + (counts ? centre[b * g->n_dims + j] : 0);
            used += counts;
        }
        for (int64_t j = 0; used && j < g->n_dims; j++)
            centre[j] /= (double)used;
        g->size[t * g->n_batches] = used;
        for (int64_t u = 0; used && u < t; u++) {
            if (!g->size[u * g->n_batches])
                continue;
            sum += square_of(centre, g->centre + u * g->n_batches * g->n_dims, g->n_dims);
            pairs++;
        }
    }
    return pairs ? sum / (double)pairs : NAN;
}

static int measure(const struct compare *c, const struct io_matrix *m, const float *values, struct answer *answer)
{
    struct groups g = {.n_types = c->label ? c->types.n_levels : 1, .n_batches = c->batches.n_levels, .n_dims = m->n_dims};
    int64_t n = io_product(g.n_types, g.n_batches);
    g.size = io_room_zeroed(n, sizeof *g.size);
    g.centre = io_room_zeroed(io_product(n, m->n_dims), sizeof *g.centre);
    int status = EXIT_DONE;
    if (!g.size || !g.centre)
        status = say_failed("%s: no memory for %lld cell types in %lld batches", c->file, (long long)g.n_types,
                            (long long)g.n_batches);
    else {
        find_centres(c, &g, values, m->n_cells);
        double spread = spread_square(c, &g, values, m->n_cells);
        double batches = batches_square(&g, spread) / spread;
        answer->batches = batches < 0 ? 0 : sqrt(batches);
        answer->types = sqrt(types_square(&g) / spread);
        if (isnan(answer->batches))
            status = say_failed("%s: no cell type has %d cells in two batches, so there is nothing to compare", c->file, FEWEST);
    }
    free(g.size);
    free(g.centre);
    return status;
}

static int look_at(const struct compare *c, const char *basis, struct answer *answer)
{
    struct io_matrix m;
    memset(&m, 0, sizeof m);
    if (io_matrix_open(&m, c->file, basis))
        return say_failed("%s", io_error());
    m.skip_names = 1;
    int status;
    float *values = io_room(io_product(m.n_cells, m.n_dims), sizeof *values);
    if (m.n_cells != c->batches.n_cells || (c->label && m.n_cells != c->types.n_cells))
        status = say_failed("%s: %s has %lld rows, the labels %lld", c->file, basis, (long long)m.n_cells,
                            (long long)c->batches.n_cells);
    else if (!values)
        status = say_failed("%s: no memory for %lld x %lld values", c->file, (long long)m.n_cells, (long long)m.n_dims);
    else
        status = io_matrix_read(&m, values) ? say_failed("%s", io_error()) : measure(c, &m, values, answer);
    free(values);
    io_matrix_close(&m);
    return status;
}

static void answer_all(const struct compare *c, const struct answer *a)
{
    const char *of_one_type = c->label ? " of one cell type" : "";
    for (int i = 0; i < c->n_bases; i++) {
        printf("%s: batches%s are %.2f spreads apart", c->basis[i], of_one_type, a[i].batches);
        printf(isnan(a[i].types) ? ".\n" : ", cell types %.2f.\n", a[i].types);
    }
    if (c->n_bases < 2)
        return;
    int last = c->n_bases - 1;
    printf("From %s to %s ", c->basis[0], c->basis[last]);
    if (a[last].batches == 0)
        printf("what kept the batches%s apart is gone but for chance", of_one_type);
    else if (a[0].batches >= a[last].batches)
        printf("the batches%s came %.1f times closer", of_one_type, a[0].batches / a[last].batches);
    else
        printf("the batches%s moved apart, by a factor of %.1f", of_one_type, a[last].batches / a[0].batches);
    if (!isnan(a[0].types))
        printf("; the cell types kept %.0f %% of their distance", 100 * a[last].types / a[0].types);
    printf(".\n");
}

static int compare(struct compare *c)
{
    struct answer answers[BASES_MAX];
    int status = EXIT_DONE;
    if (!c->file || !c->batch)
        return say_usage("compare needs a file and --batch COLUMN (unisono help compare)");
    if (io_format_of(c->file) != IO_H5AD)
        return say_usage("%s: compare reads .h5ad files", c->file);
    if (!c->n_bases) {
        memcpy(c->basis, default_bases, sizeof default_bases);
        c->n_bases = sizeof default_bases / sizeof default_bases[0];
    }
    if (io_labels_h5ad(&c->batches, c->file, c->batch, 0) || (c->label && io_labels_h5ad(&c->types, c->file, c->label, 0)))
        return say_failed("%s", io_error());
    for (int i = 0; i < c->n_bases && status == EXIT_DONE; i++)
        status = look_at(c, c->basis[i], &answers[i]);
    if (status == EXIT_DONE)
        answer_all(c, answers);
    return status;
}

int compare_main(int argc, char **argv)
{
    struct compare c;
    memset(&c, 0, sizeof c);
    int status = arguments_read(table, argc, argv, set, &c);
    if (status == EXIT_DONE && c.help)
        compare_help(stdout);
    else if (status == EXIT_DONE)
        status = compare(&c);
    io_labels_close(&c.batches);
    io_labels_close(&c.types);
    return status;
}
