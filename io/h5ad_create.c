/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups, arrays and attributes as current anndata writes them (its on-disk format page), and a small .h5ad made of them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "h5.h"

static hid_t text_type(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

/* One string (count 0: a scalar), or a list of them. */
static int text_attribute(hid_t object, const char *name, const char *const *texts, int64_t count)
{
    hsize_t extent = (hsize_t)count;
    hid_t type = text_type(), space = count ? H5Screate_simple(1, &extent, NULL) : H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int err = attribute < 0 || H5Awrite(attribute, type, texts) < 0 ? -1 : 0;
    io_h5_close_id(attribute);
    io_h5_close_id(space);
    io_h5_close_id(type);
    return err;
}

int io_h5ad_text_attribute(hid_t object, const char *name, const char *text)
{
    return text_attribute(object, name, &text, 0);
}

int io_h5ad_encode(hid_t object, const char *type, const char *version)
{
    return io_h5ad_text_attribute(object, "encoding-type", type) || io_h5ad_text_attribute(object, "encoding-version", version)
               ? -1
               : 0;
}

int io_h5ad_list_attribute(hid_t object, const char *name, const char *const *texts, int64_t count)
{
    return text_attribute(object, name, texts, count);
}

hid_t io_h5ad_make_group(hid_t location, const char *name, const char *type, const char *version)
{
    hid_t group = H5Gcreate2(location, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (group >= 0 && io_h5ad_encode(group, type, version))
        group = io_h5_close_id(group);
    return group;
}

int io_h5ad_make_array(hid_t location, const char *name, hid_t file_type, hid_t memory_type, int n_axes, const hsize_t *shape,
                       const void *values, const char *encoding)
{
    /* No times, so that the same result gives the same bytes. */
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(plist, 0);
    hid_t space = n_axes ? H5Screate_simple(n_axes, shape, NULL) : H5Screate(H5S_SCALAR);
    hid_t dataset = H5Dcreate2(location, name, file_type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    int err = dataset < 0 ? -1 : 0;
    if (!err && values && H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        err = -1;
    if (!err)
        err = io_h5ad_encode(dataset, encoding, "0.2.0");
    io_h5_close_id(dataset);
    io_h5_close_id(space);
    io_h5_close_id(plist);
    return err;
}

/* ---- a new file
 * ---------------------------------------------------------------------------------------------------------------------------- */

static int write_texts(hid_t location, const char *name, const char *const *texts, int64_t count)
{
    hsize_t extent = (hsize_t)count;
    hid_t type = text_type();
    int err = io_h5ad_make_array(location, name, type, type, 1, &extent, count ? texts : NULL, "string-array");
    io_h5_close_id(type);
    return err;
}

/* Codes in the smallest signed type that holds them, as pandas has them. */
static int write_codes(hid_t group, const int32_t *level, int64_t n_cells, int64_t n_levels)
{
    hsize_t extent = (hsize_t)n_cells;
    hid_t type = n_levels <= INT8_MAX ? H5T_STD_I8LE : n_levels <= INT16_MAX ? H5T_STD_I16LE : H5T_STD_I32LE;
    return io_h5ad_make_array(group, "codes", type, H5T_NATIVE_INT32, 1, &extent, level, "array");
}

static int write_column(hid_t obs, const char *name, const int32_t *level, int64_t n_cells, const struct io_strings *names)
{
    unsigned char not_ordered = 0, values[2] = {0, 1};
    hid_t group = io_h5ad_make_group(obs, name, "categorical", "0.2.0");
    if (group < 0)
        return -1;
    hid_t type = H5Tenum_create(H5T_STD_I8LE), space = H5Screate(H5S_SCALAR); /* h5py's boolean */
    H5Tenum_insert(type, "FALSE", &values[0]);
    H5Tenum_insert(type, "TRUE", &values[1]);
    hid_t attribute = H5Acreate2(group, "ordered", type, space, H5P_DEFAULT, H5P_DEFAULT);
    int err = attribute < 0 || H5Awrite(attribute, type, &not_ordered) < 0 ? -1 : 0;
    io_h5_close_id(attribute);
    io_h5_close_id(space);
    io_h5_close_id(type);
    if (!err)
        err = write_texts(group, "categories", names->at, names->count);
    if (!err)
        err = write_codes(group, level, n_cells, names->count);
    io_h5_close_id(group);
    return err;
}

/* cell1, cell2, ... */
static int write_index(hid_t obs, int64_t n_cells)
{
    struct io_builder builder = {0};
    struct io_strings names = {0};
    char name[32];
    int err = 0;
    for (int64_t i = 0; !err && i < n_cells; i++)
        err = io_builder_add(&builder, name, (size_t)sprintf(name, "cell%" PRId64, i + 1));
    if (!err)
        err = io_builder_finish(&builder, &names);
    err = err ? io_h5_no_memory() : write_texts(obs, "_index", names.at, n_cells);
    io_builder_close(&builder);
    io_strings_close(&names);
    return err;
}

/* A frame's group with its two attributes beyond the encoding. */
static hid_t make_frame(hid_t file, const char *name, const char *const *columns, int n_columns)
{
    hid_t group = io_h5ad_make_group(file, name, "dataframe", "0.2.0");
    int err = group < 0 ? -1 : io_h5ad_text_attribute(group, "_index", "_index");
    if (!err && n_columns > 0)
        err = text_attribute(group, "column-order", columns, n_columns);
    if (!err && n_columns == 0) { /* numpy's empty list is one of float64 */
        hsize_t none = 0;
        hid_t space = H5Screate_simple(1, &none, NULL);
        hid_t attribute = H5Acreate2(group, "column-order", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT);
        err = attribute < 0 ? -1 : 0;
        io_h5_close_id(attribute);
        io_h5_close_id(space);
    }
    return err ? io_h5_close_id(group) : group;
}

static int fill(hid_t file, const struct io_new_h5ad *made)
{
    static const char *const empty[] = {"layers", "obsp", "uns", "varm", "varp"};
    hsize_t shape[2] = {(hsize_t)made->n_cells, (hsize_t)made->n_dims};
    int err = io_h5ad_encode(file, "anndata", "0.1.0");
    hid_t obs = err ? H5I_INVALID_HID : make_frame(file, "obs", made->column, made->n_columns);
    err = obs < 0 ? -1 : write_index(obs, made->n_cells);
    for (int i = 0; !err && i < made->n_columns; i++)
        err = write_column(obs, made->column[i], made->level[i], made->n_cells, made->level_names[i]);
    io_h5_close_id(obs);
    hid_t var = err ? H5I_INVALID_HID : make_frame(file, "var", NULL, 0);
    if (!err)
        err = var < 0 ? -1 : write_texts(var, "_index", NULL, 0);
    io_h5_close_id(var);
    hid_t obsm = err ? H5I_INVALID_HID : io_h5ad_make_group(file, "obsm", "dict", "0.1.0");
    if (!err)
        err = obsm < 0 ? -1
                       : io_h5ad_make_array(obsm, made->key, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, shape, made->values, "array");
    io_h5_close_id(obsm);
    for (size_t i = 0; !err && i < sizeof empty / sizeof *empty; i++) {
        hid_t group = io_h5ad_make_group(file, empty[i], "dict", "0.1.0");
        err = group < 0 ? -1 : 0;
        io_h5_close_id(group);
    }
    return err;
}

/* HDF5 does not survive a full disk well: some of its state stays, and may bring the process down later. So the blocks are taken
   before it writes; what it does not use goes back when it closes the file. */
int io_h5_reserve(const struct io_target *out, int64_t bytes)
{
    struct stat info;
    if (fstat(out->fd, &info))
        return io_fail("%s: writing failed: %s", out->name, strerror(errno));
    int reason = posix_fallocate(out->fd, info.st_size, (off_t)bytes);
    if (reason == ENOSPC || reason == EFBIG || reason == EDQUOT || reason == EIO)
        return io_fail("%s: there is no room for its %" PRId64 " bytes: %s", out->name, (int64_t)info.st_size + bytes,
                       strerror(reason));
    return 0;
}

static int64_t room_of(const struct io_new_h5ad *made)
{
    int64_t cell =
        io_sum(io_product(made->n_dims, sizeof(float)), (int64_t)made->n_columns * 4 + 64); /* 64: a name and its place */
    int64_t bytes = io_product(made->n_cells, cell);
    for (int i = 0; i < made->n_columns; i++)
        for (int64_t level = 0; level < made->level_names[i]->count; level++)
            bytes = io_sum(bytes, (int64_t)strlen(made->level_names[i]->at[level]) + 64);
    return io_sum(bytes, ((int64_t)made->n_columns + 1) * 32768 + IO_PIECE / 4);
}

static int create(const struct io_target *out, const struct io_new_h5ad *made)
{
    char why[256] = "";
    int err = io_h5_reserve(out, room_of(made));
    if (err)
        return err;
    /* Creating makes the file short again, so it is made, closed, and opened once the blocks are there. */
    hid_t file = H5Fcreate(out->temp, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0 || H5Fclose(file) < 0)
        return io_fail("%s: writing failed: %s", out->name, io_h5_reason());
    err = io_h5_reserve(out, room_of(made));
    if (err)
        return err;
    file = H5Fopen(out->temp, H5F_ACC_RDWR, H5P_DEFAULT);
    err = file < 0 ? -1 : fill(file, made);
    if (err)
        snprintf(why, sizeof why, "%s", io_h5_reason());
    if (file >= 0 && H5Fclose(file) < 0 && !err) {
        snprintf(why, sizeof why, "%s", io_h5_reason());
        err = -1;
    }
    return err ? io_fail("%s: writing failed: %s", out->name, why) : 0;
}

struct creation {
    const struct io_target *out;
    const struct io_new_h5ad *made;
};

static int answer_create(struct io_child *child, void *job)
{
    const struct creation *creation = job;
    struct io_h5_quiet quiet;
    io_h5_quiet_begin(&quiet);
    io_child_allow(child, 0, room_of(creation->made));
    int err = io_h5_settle(create(creation->out, creation->made), creation->out->name);
    io_h5_quiet_end(&quiet);
    return io_child_answer(child, err);
}

int io_h5ad_create(const char *target, const struct io_new_h5ad *made, int overwrite)
{
    struct io_target out;
    struct io_child child = {.fd = -1};
    if (io_format_of(target) != IO_H5AD)
        return io_fail("%s: the name of an AnnData file must end in .h5ad", target);
    if (io_target_begin(&out, target, overwrite))
        return -1;
    struct creation creation = {&out, made};
    int err = io_child_start(&child, out.name, out.temp, 0, answer_create, &creation);
    if (!err)
        err = io_child_result(&child);
    if (!err)
        err = io_child_finish(&child, err);
    io_child_end(&child);
    if (!err)
        return io_target_commit(&out);
    io_target_abandon(&out);
    return err;
}
