/* SPDX-License-Identifier: BSD-3-Clause */
/* Numeric columns. They are read as labels first, in whatever layout those come, and put in the order of the cells as labels are;
   a label's text holds every bit of the number. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io_internal.h"

/* The cell's number, or a sentence about the first that has none. A category without cells may be any text. */
static int take_numbers(double *value, const struct io_labels *labels, const double *number, const unsigned char *is_text,
                        const char *path)
{
    for (int64_t i = 0; i < labels->n_cells; i++) {
        int32_t level = labels->level[i];
        if (level >= 0 && is_text[level])
            return io_fail("%s: column \"%s\" holds text (\"%.100s\" at cell %" PRId64 "); it must hold a number for every cell",
                           path, labels->name, labels->names.at[level], i + 1);
        if (level < 0 || isnan(number[level]))
            return io_fail("%s: column \"%s\" has no number at cell %" PRId64 "; every cell needs one", path, labels->name,
                           i + 1);
        value[i] = number[level];
    }
    return 0;
}

/* Closes the labels. */
static int to_numbers(double **value, int64_t *n_cells, struct io_labels *labels, const char *path)
{
    double *number = io_room(labels->n_levels, sizeof *number), *all = io_room(labels->n_cells, sizeof *all);
    unsigned char *is_text = io_room_zeroed(labels->n_levels, 1);
    int err = number && all && is_text ? 0 : io_fail_memory(path, labels->name, io_product(labels->n_cells, 2 * sizeof *all));
    for (int64_t l = 0; !err && l < labels->n_levels; l++)
        is_text[l] = io_parse_number(labels->names.at[l], strlen(labels->names.at[l]), &number[l]) != 0;
    if (!err)
        err = take_numbers(all, labels, number, is_text, path);
    free(number);
    free(is_text);
    if (err) {
        free(all);
    } else {
        *value = all;
        *n_cells = labels->n_cells;
    }
    io_labels_close(labels);
    return err;
}

int io_numbers_h5ad(double **value, int64_t *n_cells, const char *path, const char *column)
{
    struct io_labels labels;
    *value = NULL;
    *n_cells = 0;
    return io_labels_h5ad(&labels, path, column, 1) ? -1 : to_numbers(value, n_cells, &labels, path);
}

int io_numbers_table(double **value, int64_t *n_cells, const char *path, const char *column, const struct io_strings *cells)
{
    struct io_labels labels;
    *value = NULL;
    *n_cells = 0;
    return io_labels_table(&labels, path, column, cells, 1) ? -1 : to_numbers(value, n_cells, &labels, path);
}
