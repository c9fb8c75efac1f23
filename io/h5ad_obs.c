/* SPDX-License-Identifier: BSD-3-Clause */
/* Columns of numbers that obs of an .h5ad gains: a dataset each, and their names in the list of columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

int io_h5ad_obs_check(const struct io_h5_file *file, const struct io_output *output)
{
    char index[256] = "", path[600];
    if (io_h5_type(file->id, "obs") != H5O_TYPE_GROUP)
        return io_fail(
            "%s: obs is no group, no columns can be added to it: open and save the file with a current anndata first, or "
            "write .npy or .tsv",
            file->path);
    hid_t obs = H5Gopen2(file->id, "obs", H5P_DEFAULT);
    io_h5_text_attribute(obs, "_index", index, sizeof index);
    io_h5_close_id(obs);
    for (int64_t j = 0; j < output->dims->count; j++) {
        const char *name = output->dims->at[j];
        snprintf(path, sizeof path, "obs/%s", name);
        if (strcmp(name, index) == 0 || strcmp(name, "_index") == 0)
            return io_fail("%s: \"%s\" is the column of obs that names the cells, and cannot be written", file->path, name);
        if (!output->overwrite && io_h5_exists(file->id, path))
            return io_fail("%s: obs has a column \"%s\" already (-f overwrites it)", file->path, name);
    }
    return 0;
}

static int is_listed(const struct io_strings *names, const char *name)
{
    for (int64_t i = 0; i < names->count; i++)
        if (strcmp(names->at[i], name) == 0)
            return 1;
    return 0;
}

/* The columns that obs has, then the new ones. */
static int list_columns(const struct io_h5_file *file, hid_t obs, const struct io_strings *added)
{
    struct io_strings listed = {0};
    int err = io_h5ad_column_order(file, obs, "obs", &listed);
    const char **all = err ? NULL : io_room(io_sum(listed.count, added->count), sizeof *all);
    int64_t count = 0;
    if (!err && !all)
        err = io_h5_no_memory();
    for (int64_t i = 0; !err && i < listed.count; i++)
        all[count++] = listed.at[i];
    for (int64_t j = 0; !err && j < added->count; j++)
        if (!is_listed(&listed, added->at[j]))
            all[count++] = added->at[j];
    if (!err && H5Adelete(obs, "column-order") < 0)
        err = -1;
    if (!err)
        err = io_h5ad_list_attribute(obs, "column-order", all, count);
    free(all);
    io_strings_close(&listed);
    return err;
}

static int write_column(hid_t obs, const struct io_output *output, int64_t j, float *column)
{
    hsize_t extent = (hsize_t)output->n_cells;
    const char *name = output->dims->at[j];
    for (int64_t i = 0; i < output->n_cells; i++)
        column[i] = output->values[i * output->n_dims + j];
    if (H5Lexists(obs, name, H5P_DEFAULT) > 0 && H5Ldelete(obs, name, H5P_DEFAULT) < 0)
        return -1;
    return io_h5ad_make_array(obs, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, &extent, column, "array");
}

int io_h5ad_obs_add(const struct io_h5_file *file, const struct io_output *output, char *why, size_t size)
{
    float *column = io_room(output->n_cells, sizeof *column);
    hid_t obs = H5Gopen2(file->id, "obs", H5P_DEFAULT);
    int err = !column ? io_h5_no_memory() : obs < 0 ? -1 : 0;
    for (int64_t j = 0; !err && j < output->n_dims; j++)
        err = write_column(obs, output, j, column);
    if (!err)
        err = list_columns(file, obs, output->dims);
    if (err)
        snprintf(why, size, "%s", io_h5_reason());
    io_h5_close_id(obs);
    free(column);
    return err;
}
