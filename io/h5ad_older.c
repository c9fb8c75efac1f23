/* SPDX-License-Identifier: BSD-3-Clause */
/* obsm as anndata before 0.7 has it: one dataset of records, a field per key. Nothing can be added to that, so in the copy it
   becomes a group of one dataset per key, as anndata writes obsm today. Values keep their type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

enum { MOST_AXES = 8 };

/* A field of the records, and the dataset that it becomes. */
struct field {
    hid_t record; /* its type among the records, an array of elements where it has axes of its own */
    hid_t element;
    int n_axes; /* with that of the cells */
    hsize_t shape[MOST_AXES];
};

static void close_field(struct field *field)
{
    io_h5_close_id(field->record);
    io_h5_close_id(field->element);
}

/* -1 without a sentence: no plain numbers, or HDF5 failed. */
static int open_field(struct field *field, hid_t records, unsigned i, hsize_t n_cells)
{
    *field = (struct field){H5Tget_member_type(records, i), H5I_INVALID_HID, 1, {n_cells}};
    if (H5Tget_class(field->record) == H5T_ARRAY) {
        int n_axes = H5Tget_array_ndims(field->record);
        if (n_axes < 1 || n_axes >= MOST_AXES || H5Tget_array_dims2(field->record, field->shape + 1) < 0)
            return -1;
        field->n_axes += n_axes;
        field->element = H5Tget_super(field->record);
    } else {
        field->element = H5Tcopy(field->record);
    }
    /* What the file says of a record's size must be what its numbers take: pieces are of the one, and hold the other. */
    int64_t bytes = (int64_t)H5Tget_size(field->element);
    for (int axis = 1; axis < field->n_axes; axis++)
        bytes = io_product(bytes, (int64_t)field->shape[axis]);
    if (bytes <= 0 || bytes != (int64_t)H5Tget_size(field->record))
        return -1;
    H5T_class_t class = H5Tget_class(field->element);
    return class == H5T_FLOAT || class == H5T_INTEGER || class == H5T_ENUM ? 0 : -1;
}

static int check_fields(const struct io_h5_file *file, hid_t records, const char *key, int overwrite)
{
    int err = 0, count = H5Tget_nmembers(records);
    for (int i = 0; !err && i < count; i++) {
        struct field field;
        char *name = H5Tget_member_name(records, (unsigned)i);
        if (!name || open_field(&field, records, (unsigned)i, 1))
            err = io_fail("%s: obsm is stored as anndata before 0.7 did, and its \"%s\" holds no numbers: open and save the file "
                          "with a current anndata first, or write .npy or .tsv",
                          file->path, name ? name : "");
        else if (!overwrite && strcmp(name, key) == 0)
            err = io_fail("%s: has obsm/\"%s\" already (-f overwrites it, --key-added names another)", file->path, key);
        if (name)
            close_field(&field);
        H5free_memory(name);
    }
    return err;
}

int io_h5ad_older_check(const struct io_h5_file *file, const char *key, int overwrite)
{
    int64_t shape[3];
    hid_t obsm = H5Dopen2(file->id, "obsm", H5P_DEFAULT), records = H5Dget_type(obsm);
    int err = 0;
    if (H5Tget_class(records) != H5T_COMPOUND)
        err = io_fail("%s: obsm is neither a group nor a list of records: the file is damaged", file->path);
    if (!err)
        err = io_h5_check_values(file, obsm, "obsm");
    if (!err && io_h5_shape(obsm, shape) != 1)
        err = io_fail("%s: obsm is neither a group nor a list of records: the file is damaged", file->path);
    if (!err)
        err = check_fields(file, records, key, overwrite);
    io_h5_close_id(records);
    io_h5_close_id(obsm);
    return err;
}

int64_t io_h5ad_older_bytes(hid_t file)
{
    enum { HEADERS = 8192 }; /* of a dataset, with its part of the group */
    if (!io_h5_exists(file, "obsm") || io_h5_type(file, "obsm") != H5O_TYPE_DATASET)
        return 0;
    int64_t shape[3];
    hid_t obsm = H5Dopen2(file, "obsm", H5P_DEFAULT), records = H5Dget_type(obsm);
    io_h5_shape(obsm, shape);
    int64_t bytes = io_sum(io_product(shape[0], (int64_t)H5Tget_size(records)), io_product(H5Tget_nmembers(records), HEADERS));
    io_h5_close_id(records);
    io_h5_close_id(obsm);
    return bytes;
}

/* Rows first .. first + count. one: the records with this field only. */
static int copy_rows(hid_t obsm, hid_t one, hid_t to, const struct field *field, hsize_t first, hsize_t count, void *piece)
{
    hsize_t start[MOST_AXES] = {first}, extent[MOST_AXES];
    memcpy(extent, field->shape, sizeof extent);
    extent[0] = count;
    hid_t from = H5Dget_space(obsm), into = H5Dget_space(to);
    hid_t rows = H5Screate_simple(1, &count, NULL), values = H5Screate_simple(field->n_axes, extent, NULL);
    int err = H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, &count, NULL) < 0 ||
                      H5Sselect_hyperslab(into, H5S_SELECT_SET, start, NULL, extent, NULL) < 0 ||
                      H5Dread(obsm, one, rows, from, H5P_DEFAULT, piece) < 0 ||
                      H5Dwrite(to, field->element, values, into, H5P_DEFAULT, piece) < 0
                  ? -1
                  : 0;
    io_h5_close_id(values);
    io_h5_close_id(rows);
    io_h5_close_id(into);
    io_h5_close_id(from);
    return err;
}

static int copy_field(hid_t obsm, hid_t group, const char *name, const struct field *field)
{
    size_t width = H5Tget_size(field->record);
    hsize_t n_cells = field->shape[0], most = IO_PIECE / width + 1;
    int err = io_h5ad_make_array(group, name, field->element, field->element, field->n_axes, field->shape, NULL, "array");
    void *piece = err ? NULL : io_room((int64_t)most, width);
    if (!piece)
        return err ? err : io_h5_no_memory();
    hid_t one = H5Tcreate(H5T_COMPOUND, width), to = H5Dopen2(group, name, H5P_DEFAULT);
    err = to < 0 || H5Tinsert(one, name, 0, field->record) < 0 ? -1 : 0;
    for (hsize_t i = 0; !err && i < n_cells; i += most)
        err = copy_rows(obsm, one, to, field, i, n_cells - i < most ? n_cells - i : most, piece);
    io_h5_close_id(to);
    io_h5_close_id(one);
    free(piece);
    return err;
}

int io_h5ad_older_convert(hid_t file, const char *key)
{
    int64_t shape[3];
    hid_t obsm = H5Dopen2(file, "obsm", H5P_DEFAULT), records = H5Dget_type(obsm);
    io_h5_shape(obsm, shape);
    /* Its name goes to the group; the dataset itself goes, and its room becomes free, when it is closed. */
    hid_t group = H5Ldelete(file, "obsm", H5P_DEFAULT) < 0 ? H5I_INVALID_HID : io_h5ad_make_group(file, "obsm", "dict", "0.1.0");
    int err = group < 0 ? -1 : 0, count = H5Tget_nmembers(records);
    for (int i = 0; !err && i < count; i++) {
        struct field field;
        char *name = H5Tget_member_name(records, (unsigned)i);
        err = name ? open_field(&field, records, (unsigned)i, (hsize_t)shape[0]) : -1;
        if (!err && strcmp(name, key) != 0) /* which is about to be written anew */
            err = copy_field(obsm, group, name, &field);
        if (name)
            close_field(&field);
        H5free_memory(name);
    }
    io_h5_close_id(group);
    io_h5_close_id(records);
    io_h5_close_id(obsm);
    return err;
}
