/* SPDX-License-Identifier: BSD-3-Clause */
/* By the name's ending to the format that reads or writes it. */
#include <stdio.h>
#include <string.h>

#include "io_internal.h"

static int fail_ending(const char *path)
{
    return io_fail("%s: the name's ending says no format; known are .h5ad, .npy, .tsv, .csv, .tsv.gz and .csv.gz", path);
}

int io_matrix_open(struct io_matrix *matrix, const char *path, const char *key)
{
    memset(matrix, 0, sizeof *matrix);
    switch (io_format_of(path)) {
    case IO_H5AD:
        return io_h5ad_matrix_open(matrix, path, key ? key : "");
    case IO_NPY:
        return io_npy_open(matrix, path);
    case IO_TABLE:
        return io_table_matrix_open(matrix, path);
    default:
        return fail_ending(path);
    }
}

int io_matrix_read(struct io_matrix *matrix, float *dst)
{
    const struct io_source *source = matrix->state;
    int err = source->read(matrix, dst);
    if (err) {
        io_strings_close(&matrix->cells);
        io_strings_close(&matrix->dims);
        matrix->cell_header[0] = 0;
    }
    return err;
}

void io_matrix_close(struct io_matrix *matrix)
{
    struct io_source *source = matrix->state;
    if (source)
        source->close(source);
    io_strings_close(&matrix->cells);
    io_strings_close(&matrix->dims);
    memset(matrix, 0, sizeof *matrix);
}

int io_output_check(const struct io_output *output)
{
    switch (io_format_of(output->target)) {
    case IO_H5AD:
        return io_h5ad_check(output);
    case IO_NPY:
    case IO_TABLE:
        return io_target_check(output->target, output->overwrite);
    default:
        return fail_ending(output->target);
    }
}

static int write_npy(const struct io_output *output)
{
    /* io_npy_write replaces what is there. */
    int64_t shape[2] = {output->n_cells, output->n_dims};
    if (io_target_check(output->target, output->overwrite))
        return -1;
    return io_npy_write(output->target, output->values, 'f', 2, shape);
}

int io_output_write(const struct io_output *output)
{
    switch (io_format_of(output->target)) {
    case IO_H5AD:
        return io_h5ad_write(output);
    case IO_NPY:
        return write_npy(output);
    case IO_TABLE:
        return io_table_write(output);
    default:
        return fail_ending(output->target);
    }
}
