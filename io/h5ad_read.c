/* SPDX-License-Identifier: BSD-3-Clause */
/* An embedding in the obsm of an .h5ad: dense arrays, and which file reads the rest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

/* ---- cells
 * --------------------------------------------------------------------------------------------------------------------------- */

/* Where the cell names are: obs/NAME, or the field NAME of obs as the one compound dataset of anndata before 0.7. */
static int index_of(const struct io_h5_file *file, char *name, size_t size, const char **field)
{
    H5O_type_t type = io_h5_exists(file->id, "obs") ? io_h5_type(file->id, "obs") : H5O_TYPE_UNKNOWN;
    *field = NULL;
    if (type == H5O_TYPE_DATASET) {
        snprintf(name, size, "index");
        *field = name;
        return 0;
    }
    if (type != H5O_TYPE_GROUP)
        return -1;
    hid_t obs = H5Gopen2(file->id, "obs", H5P_DEFAULT);
    if (!io_h5_text_attribute(obs, "_index", name, size))
        snprintf(name, size, "_index");
    int there = io_h5_exists(obs, name);
    io_h5_close_id(obs);
    return there ? 0 : -1;
}

int64_t io_h5ad_count_cells(const struct io_h5_file *file)
{
    char name[256], path[512];
    const char *field;
    int64_t shape[3];
    if (index_of(file, name, sizeof name, &field))
        return -1;
    snprintf(path, sizeof path, field ? "obs" : "obs/%s", name);
    if (io_h5_type(file->id, path) == H5O_TYPE_GROUP) {
        size_t used = strlen(path);
        snprintf(path + used, sizeof path - used, "/values");
    }
    hid_t dataset = H5Dopen2(file->id, path, H5P_DEFAULT);
    int n_axes = dataset >= 0 ? io_h5_shape(dataset, shape) : 0;
    io_h5_close_id(dataset);
    return n_axes == 1 ? shape[0] : -1;
}

int io_h5ad_cell_names(const struct io_h5_file *file, struct io_strings *cells)
{
    char name[256];
    const char *field;
    struct io_builder builder = {0};
    memset(cells, 0, sizeof *cells);
    if (index_of(file, name, sizeof name, &field))
        return 0;
    hid_t location = field ? file->id : H5Gopen2(file->id, "obs", H5P_DEFAULT);
    int err = io_h5_read_names(file, location, field ? "obs" : name, field, &builder);
    if (!field)
        io_h5_close_id(location);
    if (!err)
        err = io_builder_finish(&builder, cells);
    io_builder_close(&builder);
    return err;
}

/* ---- dense values
 * --------------------------------------------------------------------------------------------------------------------- */

/* IEEE half precision, either byte order: HDF5 converts it bit by bit, which is 50 times slower than it need be. */
static int is_half(hid_t type)
{
    size_t sign, exponent, exponent_bits, fraction, fraction_bits;
    return H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) == 2 &&
           H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) >= 0 && sign == 15 &&
           exponent == 10 && exponent_bits == 5 && fraction == 0 && fraction_bits == 10 && H5Tget_ebias(type) == 15;
}

/* What is read at once: whole chunks, or they would be decompressed once a piece. */
struct piece {
    int64_t rows, columns, chunk_bytes;
};

static struct piece piece_of(hid_t dataset, int64_t n_cells, int64_t n_dims)
{
    enum { BYTES = 16 * IO_PIECE };
    hid_t plist = H5Dget_create_plist(dataset), type = H5Dget_type(dataset);
    hsize_t chunk[2] = {1, 1};
    struct piece piece = {.rows = BYTES / io_product(n_dims, sizeof(float)) + 1, .columns = n_dims};
    if (H5Pget_layout(plist) == H5D_CHUNKED && H5Pget_chunk(plist, 2, chunk) == 2) { /* HDF5 has no chunk of 4 GB or more */
        int64_t rows = (int64_t)chunk[0], columns = (int64_t)chunk[1];
        /* Where none is stored HDF5 takes no memory for one, and nobody has looked whether the file can hold it. */
        if (H5Dget_storage_size(dataset) > 0)
            piece.chunk_bytes = io_product(io_product(rows, columns), (int64_t)H5Tget_size(type));
        piece.rows = io_product(piece.rows / rows + 1, rows);
        piece.rows = piece.rows < n_cells ? piece.rows : n_cells;
        if (io_product(piece.rows, n_dims) > BYTES && columns < n_dims) { /* tall chunks */
            int64_t wide = BYTES / io_product(piece.rows, sizeof(float)) / columns * columns;
            piece.columns = wide > columns ? wide : columns;
        }
    }
    piece.rows = piece.rows < n_cells ? piece.rows : n_cells;
    io_h5_close_id(plist);
    io_h5_close_id(type);
    return piece;
}

/* A block of the dataset. half: its values are those of is_half, and come to the second half of dst first. */
static int read_block(const struct io_h5ad_source *source, hid_t space, const hsize_t start[2], const hsize_t extent[2],
                      float *dst, int half)
{
    hid_t memory = H5Screate_simple(2, extent, NULL), type = half ? H5Tcopy(H5T_NATIVE_FLOAT) : H5T_NATIVE_FLOAT;
    size_t count = (size_t)(extent[0] * extent[1]);
    uint16_t *bits = (uint16_t *)(void *)dst + count;
    if (half) { /* the half of this machine's byte order */
        H5Tset_fields(type, 15, 10, 5, 0, 10);
        H5Tset_size(type, 2);
        H5Tset_ebias(type, 15);
    }
    herr_t status = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, extent, NULL);
    if (status >= 0)
        status = H5Dread(source->object, type, memory, space, H5P_DEFAULT, half ? (void *)bits : (void *)dst);
    int err = status < 0 ? io_fail("%s: %s cannot be read: %s", source->path, source->thing, io_h5_reason()) : 0;
    for (size_t i = 0; half && !err && i < count; i++) {
        uint16_t one = bits[i]; /* value i ends where bit pattern i is, or before */
        float value = io_half_to_float(one);
        memcpy(dst + i, &value, sizeof value);
    }
    io_h5_close_id(memory);
    if (half)
        io_h5_close_id(type);
    return err;
}

static int dense_values(const struct io_h5ad_source *source, int64_t n_cells, int64_t n_dims, struct io_sink *sink)
{
    struct piece piece = piece_of(source->object, n_cells, n_dims);
    hid_t type = H5Dget_type(source->object), space = H5Dget_space(source->object);
    int half = is_half(type);
    float *block = io_room(io_product(piece.rows, piece.columns), sizeof *block);
    int err =
        block ? 0 : io_fail_memory(source->path, source->thing, io_product(piece.rows, io_product(piece.columns, sizeof *block)));
    for (int64_t i = 0; !err && i < n_cells; i += piece.rows)
        for (int64_t j = 0; !err && j < n_dims; j += piece.columns) {
            int64_t rows = n_cells - i < piece.rows ? n_cells - i : piece.rows;
            int64_t columns = n_dims - j < piece.columns ? n_dims - j : piece.columns;
            hsize_t start[2] = {(hsize_t)i, (hsize_t)j}, extent[2] = {(hsize_t)rows, (hsize_t)columns};
            err = read_block(source, space, start, extent, block, half);
            if (!err)
                err = sink->put(sink, i, j, rows, columns, block);
        }
    free(block);
    io_h5_close_id(type);
    io_h5_close_id(space);
    return err;
}

static int dense_open(struct io_h5ad_source *source, struct io_matrix *matrix)
{
    int64_t shape[3];
    hid_t type = H5Dget_type(source->object);
    H5T_class_t class = H5Tget_class(type);
    int err = io_h5_check_values(&source->file, source->object, source->thing);
    int n_axes = err ? 0 : io_h5_shape(source->object, shape);
    if (!err && n_axes != 2)
        err = io_fail("%s: %s has %d %s, an embedding has two: cells x dimensions", source->path, source->thing, n_axes,
                      n_axes == 1 ? "axis" : "axes");
    else if (!err && class != H5T_FLOAT && class != H5T_INTEGER)
        err = io_fail("%s: %s holds %s, an embedding needs numbers", source->path, source->thing,
                      class == H5T_STRING ? "text"
                      : class == H5T_ENUM ? "booleans"
                                          : "values that are no plain numbers");
    if (!err)
        err = io_check_sizes(source->path, source->thing, shape[0], shape[1]);
    if (!err) {
        struct piece piece = piece_of(source->object, shape[0], shape[1]);
        matrix->n_cells = shape[0];
        matrix->n_dims = shape[1];
        /* A chunk compressed and plain, a block of values, HDF5's conversion buffer. */
        matrix->source_bytes = io_sum(io_sum(io_product(2, piece.chunk_bytes), 2 * IO_PIECE),
                                      io_product(piece.rows, io_product(piece.columns, sizeof(float))));
        source->values = dense_values;
    }
    io_h5_close_id(type);
    return err;
}

/* ---- obsm as one compound dataset, as anndata before 0.7 wrote it
 * ----------------------------------------------------------------------- */

/* Rows first .. first + count. one: the records with this field only, as n_dims floats. */
static int read_records(const struct io_h5ad_source *source, hid_t one, int64_t first, int64_t count, float *dst)
{
    hsize_t start = (hsize_t)first, extent = (hsize_t)count;
    hid_t space = H5Dget_space(source->object), memory = H5Screate_simple(1, &extent, NULL);
    herr_t status = H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &extent, NULL);
    if (status >= 0)
        status = H5Dread(source->object, one, memory, space, H5P_DEFAULT, dst);
    int err = status < 0 ? io_fail("%s: %s cannot be read: %s", source->path, source->thing, io_h5_reason()) : 0;
    io_h5_close_id(space);
    io_h5_close_id(memory);
    return err;
}

static int compound_values(const struct io_h5ad_source *source, int64_t n_cells, int64_t n_dims, struct io_sink *sink)
{
    hsize_t extent = (hsize_t)n_dims;
    int64_t most = IO_PIECE / n_dims + 1;
    hid_t array = H5Tarray_create2(H5T_NATIVE_FLOAT, 1, &extent);
    hid_t one = H5Tcreate(H5T_COMPOUND, (size_t)io_product(n_dims, sizeof(float)));
    float *piece = io_room(io_product(most, n_dims), sizeof *piece);
    int err = piece ? 0 : io_fail_memory(source->path, source->thing, io_product(most, io_product(n_dims, sizeof *piece)));
    if (!err && H5Tinsert(one, source->field, 0, array) < 0)
        err = io_fail("%s: %s cannot be read: %s", source->path, source->thing, io_h5_reason());
    for (int64_t i = 0; !err && i < n_cells; i += most) {
        int64_t count = n_cells - i < most ? n_cells - i : most;
        err = read_records(source, one, i, count, piece);
        if (!err)
            err = sink->put(sink, i, 0, count, n_dims, piece);
    }
    free(piece);
    io_h5_close_id(one);
    io_h5_close_id(array);
    return err;
}

static int compound_open(struct io_h5ad_source *source, struct io_matrix *matrix)
{
    char nearest[1024];
    int64_t shape[3];
    hsize_t extent[4] = {1, 1, 1, 1};
    hid_t whole = H5Dget_type(source->object), field = H5I_INVALID_HID;
    struct io_strings names = {0};
    int index = H5Tget_class(whole) == H5T_COMPOUND ? H5Tget_member_index(whole, source->key) : -1, n_axes = 0, err = 0;
    if (index < 0) {
        err = io_h5_fields(whole, &names);
        io_suggest(nearest, sizeof nearest, source->key, &names);
        err = io_fail("%s: obsm has no \"%s\"%s", source->path, source->key, nearest);
        io_strings_close(&names);
    } else {
        field = H5Tget_member_type(whole, (unsigned)index);
        n_axes = H5Tget_class(field) == H5T_ARRAY ? H5Tget_array_ndims(field) : 0;
        if (n_axes == 1)
            H5Tget_array_dims2(field, extent);
        err = io_h5_check_values(&source->file, source->object, source->thing);
        if (!err && (n_axes != 1 || io_h5_shape(source->object, shape) != 1))
            err = io_fail("%s: %s is not a two-axis array: cells x dimensions", source->path, source->thing);
    }
    if (!err)
        err = io_check_sizes(source->path, source->thing, shape[0], (int64_t)extent[0]);
    if (!err) {
        matrix->n_cells = shape[0];
        matrix->n_dims = (int64_t)extent[0];
        matrix->source_bytes = 2 * IO_PIECE;
        source->field = source->key;
        source->values = compound_values;
    }
    io_h5_close_id(field);
    io_h5_close_id(whole);
    return err;
}

/* ---- which of them
 * ------------------------------------------------------------------------------------------------------------------------- */

static int find_key(struct io_h5ad_source *source)
{
    char nearest[1024];
    struct io_strings names = {0};
    const char *path = source->path;
    if (!io_h5_exists(source->file.id, "obsm"))
        return io_fail("%s: has no obsm: %s", path,
                       io_h5_exists(source->file.id, "obs") ? "compute an embedding first (scanpy: sc.pp.pca)"
                                                            : "is it an AnnData file?");
    hid_t obsm = H5Oopen(source->file.id, "obsm", H5P_DEFAULT);
    if (obsm < 0)
        return io_h5_fail_link(&source->file, source->file.id, "obsm", "obsm");
    if (H5Iget_type(obsm) == H5I_DATASET) {
        source->object = obsm;
        return 0;
    }
    int err = 0;
    if (!io_h5_exists(obsm, source->key)) {
        err = io_h5_links(obsm, &names);
        io_suggest(nearest, sizeof nearest, source->key, &names);
        err = io_fail("%s: obsm has no \"%s\"%s", path, source->key, nearest);
        io_strings_close(&names);
    } else {
        source->object = H5Oopen(obsm, source->key, H5P_DEFAULT);
        if (source->object < 0)
            err = io_h5_fail_link(&source->file, obsm, source->key, source->thing);
    }
    io_h5_close_id(obsm);
    return err;
}

static int open_object(struct io_h5ad_source *source, struct io_matrix *matrix)
{
    char encoding[64], older[16];
    int err = find_key(source);
    if (err)
        return err;
    if (H5Iget_type(source->object) == H5I_DATASET) {
        hid_t type = H5Dget_type(source->object);
        int compound = H5Tget_class(type) == H5T_COMPOUND && strncmp(source->thing, "obsm", 4) == 0 &&
                       io_h5_type(source->file.id, "obsm") == H5O_TYPE_DATASET;
        io_h5_close_id(type);
        return compound ? compound_open(source, matrix) : dense_open(source, matrix);
    }
    io_h5_text_attribute(source->object, "encoding-type", encoding, sizeof encoding);
    io_h5_text_attribute(source->object, "h5sparse_format", older, sizeof older);
    if (strcmp(encoding, "dataframe") == 0)
        return io_h5ad_frame_open(source, matrix);
    if (strcmp(encoding, "csr_matrix") == 0 || strcmp(older, "csr") == 0)
        return io_h5ad_sparse_open(source, matrix, 0);
    if (strcmp(encoding, "csc_matrix") == 0 || strcmp(older, "csc") == 0)
        return io_h5ad_sparse_open(source, matrix, 1);
    return io_fail("%s: %s is stored as \"%s\", which is not understood: an array, a data frame or a csr or csc matrix is needed",
                   source->path, source->thing, encoding[0] ? encoding : "a group without encoding-type");
}

int io_h5ad_read_here(struct io_matrix *matrix, struct io_sink *sink)
{
    struct io_h5ad_source *source = matrix->state;
    struct io_h5_quiet quiet;
    struct io_builder dims = {0};
    io_h5_quiet_begin(&quiet);
    int err = source->values(source, matrix->n_cells, matrix->n_dims, sink);
    if (!err && !matrix->skip_names)
        err = io_h5ad_cell_names(&source->file, &matrix->cells);
    if (!err && matrix->cells.count > 0 && matrix->cells.count != matrix->n_cells)
        err = io_fail("%s: obs has %" PRId64 " names and %s %" PRId64 " rows: the file is damaged", source->path,
                      matrix->cells.count, source->thing, matrix->n_cells);
    for (int64_t i = 0; !err && !matrix->skip_names && i < source->columns.count; i++)
        err = io_builder_add(&dims, source->columns.at[i], strlen(source->columns.at[i]));
    if (!err)
        err = io_builder_finish(&dims, &matrix->dims);
    io_builder_close(&dims);
    if (!err)
        err = io_h5_still_whole(&source->file);
    err = io_h5_settle(err, source->path);
    io_h5_quiet_end(&quiet);
    return err;
}

static void h5ad_close(struct io_source *base)
{
    struct io_h5ad_source *source = (struct io_h5ad_source *)base;
    io_h5_close_id(source->object);
    io_h5_close(&source->file);
    io_strings_close(&source->columns);
    free(source->path);
    free(source->key);
    free(source);
}

int io_h5ad_open_here(struct io_matrix *matrix, const char *path, const char *key)
{
    struct io_h5_quiet quiet;
    struct io_h5ad_source *source = calloc(1, sizeof *source);
    if (!source)
        return io_fail_memory(path, "its description", (int64_t)sizeof *source);
    source->source = (struct io_source){NULL, h5ad_close};
    source->object = source->file.id = H5I_INVALID_HID;
    source->path = io_copy_text(path);
    source->key = io_copy_text(key);
    snprintf(source->thing, sizeof source->thing, "obsm/\"%s\"", key);
    io_h5_quiet_begin(&quiet);
    int err = source->path && source->key ? io_h5_open(&source->file, source->path) : -1;
    if (!err)
        err = open_object(source, matrix);
    int64_t n_obs = err ? -1 : io_h5ad_count_cells(&source->file);
    if (n_obs >= 0 && n_obs != matrix->n_cells)
        err = io_fail("%s: %s has %" PRId64 " rows, but obs has %" PRId64 " cells: the file is damaged", path, source->thing,
                      matrix->n_cells, n_obs);
    err = io_h5_settle(err, path);
    if (err) {
        h5ad_close(&source->source);
        io_h5_quiet_end(&quiet);
        return -1;
    }
    io_h5_quiet_end(&quiet);
    if (n_obs >= 0) /* names, of which the usual barcode has 18 characters */
        matrix->source_bytes = io_sum(matrix->source_bytes, io_product(48, matrix->n_cells));
    matrix->state = source;
    return 0;
}
