/* SPDX-License-Identifier: BSD-3-Clause */
/* Embeddings that are no dense array: data frames and sparse matrices in obsm. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

/* ---- data frames
 * ---------------------------------------------------------------------------------------------------------------------- */

/* A column is a dataset, or a group of values and mask. */
static void column_path(const struct io_h5ad_source *source, const char *column, const char *part, char *path, size_t size)
{
    int group = io_h5_type(source->object, column) == H5O_TYPE_GROUP;
    snprintf(path, size, "%s%s%s", column, group ? "/" : "", group ? part : "");
}

/* The piece of values as floats, NaN where the mask says so. */
static void frame_piece(const struct io_h5_vector *values, const struct io_h5_vector *mask, float *dst)
{
    for (int64_t i = 0; i < values->n_piece; i++)
        dst[i] = mask && io_h5_vector_integer(mask, i) ? NAN : io_h5_vector_float(values, i);
}

static int frame_column(const struct io_h5ad_source *source, int64_t j, int64_t n_cells, float *piece, struct io_sink *sink)
{
    const char *column = source->columns.at[j];
    struct io_h5_vector values, mask;
    char path[600];
    int masked = io_h5_type(source->object, column) == H5O_TYPE_GROUP, more = 0;
    column_path(source, column, "values", path, sizeof path);
    memset(&mask, 0, sizeof mask);
    mask.dataset = mask.memory_type = H5I_INVALID_HID;
    int err = io_h5_vector_open(&values, &source->file, source->object, path, NULL);
    if (!err && masked) {
        column_path(source, column, "mask", path, sizeof path);
        err = io_h5_vector_open(&mask, &source->file, source->object, path, NULL);
    }
    if (!err && masked && mask.kind != IO_H5_ENUM && mask.kind != IO_H5_INTEGER && mask.kind != IO_H5_UNSIGNED)
        err = io_fail("%s: %s: the mask of column \"%s\" holds no booleans: the file is damaged", source->path, source->thing,
                      column);
    if (!err && (values.count != n_cells || (masked && mask.count != n_cells)))
        err = io_fail("%s: %s: column \"%s\" has %" PRId64 " rows and the first has %" PRId64 ": the file is damaged",
                      source->path, source->thing, column, values.count, n_cells);
    while (!err && (more = io_h5_vector_next(&values)) > 0) {
        if (masked && io_h5_vector_next(&mask) <= 0)
            err = -1;
        if (!err) {
            frame_piece(&values, masked ? &mask : NULL, piece);
            err = sink->put(sink, values.first, j, values.n_piece, 1, piece);
        }
    }
    io_h5_vector_close(&values);
    io_h5_vector_close(&mask);
    return err || more < 0 ? -1 : 0;
}

static int frame_values(const struct io_h5ad_source *source, int64_t n_cells, int64_t n_dims, struct io_sink *sink)
{
    float *piece = malloc(IO_PIECE); /* a vector's has half as many bytes, of eight each */
    int err = piece ? 0 : io_fail_memory(source->path, source->thing, IO_PIECE);
    for (int64_t j = 0; !err && j < n_dims; j++)
        err = frame_column(source, j, n_cells, piece, sink);
    free(piece);
    return err;
}

/* The strings of the attribute column-order. */
int io_h5ad_column_order(const struct io_h5_file *file, hid_t object, const char *thing, struct io_strings *columns)
{
    struct io_builder builder = {0};
    if (H5Aexists(object, "column-order") <= 0)
        return io_fail("%s: %s has no attribute column-order: the file is damaged", file->path, thing);
    hid_t attribute = H5Aopen(object, "column-order", H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute), memory = H5Tcopy(type);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    size_t width = H5Tget_size(type);
    int variable = H5Tis_variable_str(type) > 0, err = 0;
    /* An empty list has a type of numbers. */
    if (count > 0 &&
        (H5Tget_class(type) != H5T_STRING || width == 0 || io_product(count, (int64_t)width) > file->bytes + IO_PIECE))
        err = io_fail("%s: %s: the attribute column-order is no list of names: the file is damaged", file->path, thing);
    char *values = !err && count > 0 ? io_room_zeroed(count, width) : NULL;
    if (!err && count > 0 && !values)
        err = io_fail_memory(file->path, "column-order", io_product(count, (int64_t)width));
    if (values && H5Aread(attribute, memory, values) < 0)
        err = io_fail("%s: %s: column-order cannot be read: %s", file->path, thing, io_h5_reason());
    for (hssize_t i = 0; values && !err && i < count; i++) {
        const char *text = variable ? ((char **)values)[i] : values + (size_t)i * width;
        err = io_builder_add(&builder, text ? text : "", text ? (variable ? strlen(text) : strnlen(text, width)) : 0);
    }
    if (values && variable)
        H5Dvlen_reclaim(memory, space, H5P_DEFAULT, values);
    free(values);
    io_h5_close_id(memory);
    io_h5_close_id(type);
    io_h5_close_id(space);
    io_h5_close_id(attribute);
    if (!err)
        err = io_builder_finish(&builder, columns);
    io_builder_close(&builder);
    return err;
}

/* Checks that a column is of numbers; its length is checked against the first one's when it is read. */
static int check_column(const struct io_h5ad_source *source, const char *column, int64_t *count)
{
    char path[600], encoding[64] = "";
    struct io_h5_vector vector;
    if (!io_h5_exists(source->object, column))
        return io_fail("%s: %s: column \"%s\" of column-order is not there: the file is damaged", source->path, source->thing,
                       column);
    if (io_h5_type(source->object, column) == H5O_TYPE_GROUP) {
        hid_t group = H5Gopen2(source->object, column, H5P_DEFAULT);
        io_h5_text_attribute(group, "encoding-type", encoding, sizeof encoding);
        io_h5_close_id(group);
        if (strncmp(encoding, "nullable-", 9) != 0 || strcmp(encoding, "nullable-string-array") == 0)
            return io_fail("%s: %s: column \"%s\" is stored as \"%s\", a column of numbers is needed", source->path,
                           source->thing, column, encoding);
    }
    column_path(source, column, "values", path, sizeof path);
    int err = io_h5_vector_open(&vector, &source->file, source->object, path, NULL);
    if (!err && (vector.kind == IO_H5_FIXED || vector.kind == IO_H5_VARIABLE || vector.kind == IO_H5_ENUM))
        err = io_fail("%s: %s: column \"%s\" holds %s, a column of numbers is needed", source->path, source->thing, column,
                      vector.kind == IO_H5_ENUM ? "booleans" : "text");
    *count = vector.count;
    io_h5_vector_close(&vector);
    return err;
}

int io_h5ad_frame_open(struct io_h5ad_source *source, struct io_matrix *matrix)
{
    int64_t count = 0, n_cells = 0;
    int err = io_h5ad_column_order(&source->file, source->object, source->thing, &source->columns);
    for (int64_t j = 0; !err && j < source->columns.count; j++) {
        err = check_column(source, source->columns.at[j], &count);
        n_cells = j == 0 ? count : n_cells;
    }
    if (!err)
        err = io_check_sizes(source->path, source->thing, n_cells, source->columns.count);
    if (!err) {
        matrix->n_cells = n_cells;
        matrix->n_dims = source->columns.count;
        matrix->source_bytes = 5 * IO_PIECE;
        source->values = frame_values;
    }
    return err;
}

/* ---- sparse matrices
 * ------------------------------------------------------------------------------------------------------------------ */

/* Where rows (csr) or columns (csc) begin among the values; n_major + 1 numbers that do not fall. */
static int read_starts(const struct io_h5ad_source *source, int64_t n_major, int64_t **starts)
{
    struct io_h5_vector vector;
    int more = 0;
    *starts = NULL;
    int err = io_h5_vector_open(&vector, &source->file, source->object, "indptr", NULL);
    if (!err && vector.kind != IO_H5_INTEGER && vector.kind != IO_H5_UNSIGNED)
        err = io_fail("%s: %s: indptr holds no integers: the file is damaged", source->path, source->thing);
    if (!err && vector.count != n_major + 1)
        err = io_fail("%s: %s: indptr has %" PRId64 " entries, %" PRId64 " are needed: the file is damaged", source->path,
                      source->thing, vector.count, n_major + 1);
    if (!err && !(*starts = io_room(vector.count, sizeof **starts)))
        err = io_fail_memory(source->path, source->thing, io_product(vector.count, sizeof **starts));
    while (!err && (more = io_h5_vector_next(&vector)) > 0)
        memcpy(*starts + vector.first, vector.piece, (size_t)vector.n_piece * sizeof **starts);
    if (!err && more < 0)
        err = -1;
    for (int64_t i = 0; !err && i <= n_major; i++)
        if ((*starts)[i] < 0 || (i == 0 && (*starts)[0] != 0) || (i > 0 && (*starts)[i] < (*starts)[i - 1]) ||
            (*starts)[i] > source->n_values || (i == n_major && (*starts)[i] != source->n_values))
            err =
                io_fail("%s: %s: indptr[%" PRId64 "] is %" PRId64 ", which does not fit %" PRId64 " values: the file is damaged",
                        source->path, source->thing, i, (*starts)[i], source->n_values);
    io_h5_vector_close(&vector);
    return err;
}

/* A piece of values and where they belong. */
struct entries {
    float *value;
    int64_t *at;
};

/* major is the row (csr) or column (csc) that the piece's first value is in. */
static int place_piece(const struct io_h5ad_source *source, const struct io_h5_vector *data, const struct io_h5_vector *minor,
                       const int64_t *starts, int64_t *major, int64_t n_cells, int64_t n_dims, struct entries *entries)
{
    int64_t n_minor = source->by_columns ? n_cells : n_dims;
    for (int64_t i = 0; i < data->n_piece; i++) {
        int64_t at = io_h5_vector_integer(minor, i);
        while (starts[*major + 1] <= data->first + i)
            ++*major;
        if (at < 0 || at >= n_minor)
            return io_fail("%s: %s: index %" PRId64 " of value %" PRId64 " is not below %" PRId64 ": the file is damaged",
                           source->path, source->thing, at, data->first + i, n_minor);
        entries->value[i] = io_h5_vector_float(data, i);
        entries->at[i] = source->by_columns ? at * n_dims + *major : *major * n_dims + at;
    }
    return 0;
}

static int sparse_values(const struct io_h5ad_source *source, int64_t n_cells, int64_t n_dims, struct io_sink *sink)
{
    struct io_h5_vector data = {.dataset = H5I_INVALID_HID}, minor = {.dataset = H5I_INVALID_HID};
    int64_t *starts, major = 0;
    int more = 0;
    data.memory_type = minor.memory_type = H5I_INVALID_HID;
    int err = read_starts(source, source->by_columns ? n_dims : n_cells, &starts);
    if (!err)
        err = io_h5_vector_open(&data, &source->file, source->object, "data", NULL);
    if (!err)
        err = io_h5_vector_open(&minor, &source->file, source->object, "indices", NULL);
    if (!err && (minor.kind != IO_H5_INTEGER && minor.kind != IO_H5_UNSIGNED))
        err = io_fail("%s: %s: indices holds no integers: the file is damaged", source->path, source->thing);
    if (!err && (minor.count != data.count || data.count != source->n_values))
        err = io_fail("%s: %s changed while it was read", source->path, source->thing);
    struct entries entries = {err ? NULL : io_room(data.most, sizeof(float)), err ? NULL : io_room(data.most, sizeof(int64_t))};
    if (!err && (!entries.value || !entries.at))
        err = io_fail_memory(source->path, source->thing, io_product(data.most, 12));
    while (!err && (more = io_h5_vector_next(&data)) > 0) {
        err = io_h5_vector_next(&minor) > 0 && minor.n_piece == data.n_piece ? 0 : -1;
        if (!err)
            err = place_piece(source, &data, &minor, starts, &major, n_cells, n_dims, &entries);
        if (!err)
            err = sink->sum(sink, data.n_piece, entries.at, entries.value); /* scipy adds up repeated entries too */
    }
    free(entries.value);
    free(entries.at);
    io_h5_vector_close(&data);
    io_h5_vector_close(&minor);
    free(starts);
    return err || more < 0 ? -1 : 0;
}

static int check_parts(struct io_h5ad_source *source)
{
    struct io_h5_vector data, minor;
    int err = io_h5_vector_open(&data, &source->file, source->object, "data", NULL);
    if (err)
        return err;
    if (data.kind != IO_H5_FLOAT && data.kind != IO_H5_INTEGER && data.kind != IO_H5_UNSIGNED)
        err = io_fail("%s: %s holds no numbers, an embedding needs them", source->path, source->thing);
    source->n_values = data.count;
    io_h5_vector_close(&data);
    if (err)
        return err;
    err = io_h5_vector_open(&minor, &source->file, source->object, "indices", NULL);
    if (!err && minor.count != source->n_values)
        err = io_fail("%s: %s has %" PRId64 " values and %" PRId64 " indices: the file is damaged", source->path, source->thing,
                      source->n_values, minor.count);
    io_h5_vector_close(&minor);
    return err;
}

int io_h5ad_sparse_open(struct io_h5ad_source *source, struct io_matrix *matrix, int by_columns)
{
    int64_t shape[2] = {0, 0}, *starts = NULL;
    source->by_columns = by_columns;
    if (io_h5_integer_attribute(source->object, "shape", shape, 2) != 2 &&
        io_h5_integer_attribute(source->object, "h5sparse_shape", shape, 2) != 2)
        return io_fail("%s: %s has no attribute shape of two integers: the file is damaged", source->path, source->thing);
    int err = io_check_sizes(source->path, source->thing, shape[0], shape[1]);
    /* No embedding is so sparse that its values would not have fitted if they had been compressed. */
    if (!err && io_product(shape[0], io_product(shape[1], sizeof(float))) > io_most_expanded(source->file.bytes))
        err = io_fail("%s: %s claims to be %" PRId64 " x %" PRId64 ", far more than the file's %" PRId64
                      " bytes account for: it is damaged",
                      source->path, source->thing, shape[0], shape[1], source->file.bytes);
    if (!err)
        err = check_parts(source);
    if (!err)
        err = read_starts(source, by_columns ? shape[1] : shape[0], &starts);
    free(starts);
    if (!err) {
        matrix->n_cells = shape[0];
        matrix->n_dims = shape[1];
        matrix->source_bytes = io_sum(6 * IO_PIECE, io_product(by_columns ? shape[1] : shape[0], sizeof *starts));
        source->values = sparse_values;
    }
    return err;
}
