/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds obsm/KEY and uns/KEY to a clone of an .h5ad, whose obsm becomes a group if it is none. The source itself is never opened
 * for writing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "h5.h"

/* ---- checks
 * -----------------------------------------------------------------------------------------------------------------------------
 */

static int check_place(const struct io_h5_file *file, const struct io_output *output, const char *place)
{
    char path[600];
    const char *key = output->key;
    if (!io_h5_exists(file->id, place))
        return 0;
    if (strcmp(place, "obsm") == 0 && io_h5_type(file->id, place) == H5O_TYPE_DATASET)
        return io_h5ad_older_check(file, key, output->overwrite);
    if (io_h5_type(file->id, place) != H5O_TYPE_GROUP)
        return io_fail("%s: %s is no group, nothing can be added to it: open and save the file with a current anndata first, or "
                       "write .npy or .tsv",
                       file->path, place);
    snprintf(path, sizeof path, "%s/%s", place, key);
    if (!output->overwrite && io_h5_exists(file->id, path))
        return io_fail("%s: has %s/\"%s\" already (-f overwrites it, --key-added names another)", file->path, place, key);
    return 0;
}

static int check_key(const char *target, const char *key)
{
    if (!key || !*key || strlen(key) > 200 || strchr(key, '/') || strcmp(key, ".") == 0 || strcmp(key, "..") == 0)
        return io_fail("%s: \"%.200s\" cannot be a key: it needs 1 to 200 characters and no slash", target, key ? key : "");
    return 0;
}

/* What the source must be for the output to be added to it. */
static int check_source(const struct io_h5_file *file, const struct io_output *output)
{
    int64_t n_cells = io_h5ad_count_cells(file);
    if (n_cells < 0)
        return io_fail("%s: has no obs: is it an AnnData file?", file->path);
    if (output->n_cells > 0 && n_cells != output->n_cells)
        return io_fail("%s: obs has %" PRId64 " cells, the result has %" PRId64 ": the file was changed meanwhile", file->path,
                       n_cells, output->n_cells);
    if (output->into_obs)
        return io_h5ad_obs_check(file, output);
    if (check_place(file, output, "obsm"))
        return -1;
    return check_place(file, output, "uns");
}

static int answer_check(struct io_child *child, void *job)
{
    const struct io_output *output = job;
    struct io_h5_quiet quiet;
    struct io_h5_file file;
    io_h5_quiet_begin(&quiet);
    int err = io_h5_open(&file, output->source);
    if (!err)
        err = check_source(&file, output);
    io_h5_close(&file);
    err = io_h5_settle(err, output->source);
    io_h5_quiet_end(&quiet);
    return io_child_answer(child, err);
}

int io_h5ad_check(const struct io_output *output)
{
    const char *source = output->source;
    if (!source || io_format_of(source) != IO_H5AD)
        return io_fail(
            "%s: an .h5ad output is a copy of an .h5ad input, and %s is none: name an output that ends in .npy, .tsv or .csv",
            output->target, source ? source : "the input");
    int err = io_target_check(output->target, output->overwrite || io_same_file(source, output->target));
    for (int64_t j = 0; !err && output->into_obs && j < output->dims->count; j++)
        err = check_key(output->target, output->dims->at[j]);
    if (!err && !output->into_obs)
        err = check_key(output->target, output->key);
    return err ? err : io_h5ad_in_child(source, NULL, answer_check, (void *)(uintptr_t)output);
}

/* ---- clone
 * -------------------------------------------------------------------------------------------------------------------------------
 */

static int copy_bytes(int from, const struct io_target *out, const char *source)
{
    for (;;) {
        ssize_t done = read(from, out->buffer, IO_PIECE);
        if (done == 0)
            return 0;
        if (done < 0 && errno != EINTR)
            return io_fail("%s: reading failed: %s", source, strerror(errno));
        for (ssize_t written = 0, part; written < done; written += part) {
            part = write(out->fd, out->buffer + written, (size_t)(done - written));
            if (part < 0 && errno == EINTR)
                part = 0;
            if (part < 0)
                return io_fail("%s: writing failed: %s", out->name, strerror(errno));
        }
    }
}

/* Shares the blocks where the file system can; else the kernel copies; else we do. */
static int clone_into(const struct io_target *out, const char *source)
{
    int err = 0, from = open(source, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return io_fail("%s: cannot be opened: %s", source, strerror(errno));
    if (ioctl(out->fd, FICLONE, from) != 0) {
        ssize_t done;
        do
            done = copy_file_range(from, NULL, out->fd, NULL, (size_t)1 << 30, 0);
        while (done > 0 || (done < 0 && errno == EINTR));
        if (done < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM))
            err = copy_bytes(from, out, source); /* both files stand where copy_file_range left them */
        else if (done < 0)
            err = io_fail("%s: writing failed: %s", out->name, strerror(errno));
    }
    close(from);
    return err;
}

/* ---- additions
 * -----------------------------------------------------------------------------------------------------------------------------
 */

static int write_entry(hid_t group, const char *name, const struct io_entry *entry)
{
    hsize_t count = (hsize_t)entry->count;
    if (entry->text) {
        hid_t type = H5Tcopy(H5T_C_S1);
        H5Tset_size(type, H5T_VARIABLE);
        H5Tset_cset(type, H5T_CSET_UTF8);
        int err = io_h5ad_make_array(group, name, type, type, 0, NULL, &entry->text, "string");
        io_h5_close_id(type);
        return err;
    }
    int n_axes = entry->count > 0;
    const char *encoding = n_axes ? "array" : "numeric-scalar";
    if (!entry->integer)
        return io_h5ad_make_array(group, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, n_axes, &count, entry->values, encoding);
    int64_t *whole = io_room(io_sum(entry->count, 1), sizeof *whole);
    if (!whole)
        return io_h5_no_memory();
    for (hsize_t i = 0; i < (n_axes ? count : 1); i++)
        whole[i] = (int64_t)entry->values[i];
    int err = io_h5ad_make_array(group, name, H5T_STD_I64LE, H5T_NATIVE_INT64, n_axes, &count, whole, encoding);
    free(whole);
    return err;
}

/* An entry "trace/objective" goes to a group "trace", made by the first entry that needs it. */
static int write_entries(hid_t group, const struct io_output *output)
{
    int err = 0;
    for (int64_t i = 0; !err && i < output->n_entries; i++) {
        const struct io_entry *entry = &output->entries[i];
        const char *slash = strchr(entry->name, '/');
        char outer[128];
        if (!slash) {
            err = write_entry(group, entry->name, entry);
            continue;
        }
        snprintf(outer, sizeof outer, "%.*s", (int)(slash - entry->name), entry->name);
        hid_t inner = H5Lexists(group, outer, H5P_DEFAULT) > 0 ? H5Gopen2(group, outer, H5P_DEFAULT)
                                                               : io_h5ad_make_group(group, outer, "dict", "0.1.0");
        err = inner < 0 ? -1 : write_entry(inner, slash + 1, entry);
        io_h5_close_id(inner);
    }
    return err;
}

/* Opens obsm or uns, making it if it is not there, and clears the key. */
static hid_t open_place(hid_t file, const char *place, const char *key)
{
    hid_t group = H5Lexists(file, place, H5P_DEFAULT) > 0 ? H5Gopen2(file, place, H5P_DEFAULT)
                                                          : io_h5ad_make_group(file, place, "dict", "0.1.0");
    if (group >= 0 && H5Lexists(group, key, H5P_DEFAULT) > 0 && H5Ldelete(group, key, H5P_DEFAULT) < 0)
        group = io_h5_close_id(group);
    return group;
}

/* HDF5's reason is lost by the calls that tidy up, so it is asked for first. */
static int add_to(hid_t file, const struct io_output *output, char *why, size_t size)
{
    hsize_t shape[2] = {(hsize_t)output->n_cells, (hsize_t)output->n_dims};
    hid_t obsm = H5I_INVALID_HID, uns = H5I_INVALID_HID, group = H5I_INVALID_HID;
    int err =
        io_h5_exists(file, "obsm") && io_h5_type(file, "obsm") == H5O_TYPE_DATASET ? io_h5ad_older_convert(file, output->key) : 0;
    if (!err)
        err = (obsm = open_place(file, "obsm", output->key)) < 0 ? -1 : 0;
    if (!err)
        err = (uns = open_place(file, "uns", output->key)) < 0 ? -1 : 0;
    if (!err)
        err = io_h5ad_make_array(obsm, output->key, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, shape, output->values, "array");
    if (!err)
        err = (group = io_h5ad_make_group(uns, output->key, "dict", "0.1.0")) < 0 ? -1 : 0;
    if (!err)
        err = write_entries(group, output);
    if (err)
        snprintf(why, size, "%s", io_h5_reason());
    io_h5_close_id(group);
    io_h5_close_id(uns);
    io_h5_close_id(obsm);
    return err;
}

static int add(const struct io_target *out, const struct io_output *output)
{
    char why[256] = "";
    hid_t file = H5Fopen(out->temp, H5F_ACC_RDWR, H5P_DEFAULT);
    if (file < 0)
        return io_fail("%s: the copy of %s cannot be opened: %s", out->name, output->source, io_h5_reason());
    struct io_h5_file clone = {.id = file, .path = out->name, .bytes = INT64_MAX - IO_PIECE};
    int err = output->into_obs ? io_h5ad_obs_add(&clone, output, why, sizeof why) : add_to(file, output, why, sizeof why);
    /* What HDF5 keeps back is written here, and so may fail here. */
    if (H5Fclose(file) < 0 && !err) {
        snprintf(why, sizeof why, "%s", io_h5_reason());
        err = -1;
    }
    const char *place = output->into_obs ? "obs" : "obsm", *key = output->into_obs ? output->dims->at[0] : output->key;
    return err ? io_fail("%s: writing %s/\"%s\" failed: %s", out->name, place, key, why) : 0;
}

/* At most what the additions take: values, texts, and for each dataset its headers and a part of HDF5's heaps. */
static int64_t room_of(const struct io_output *output)
{
    int64_t bytes = io_product(output->n_cells, io_product(output->n_dims, sizeof(float)));
    for (int64_t i = 0; i < output->n_entries; i++) {
        const struct io_entry *entry = &output->entries[i];
        bytes = io_sum(bytes, entry->text ? (int64_t)strlen(entry->text) : io_product(entry->count, 8));
    }
    int64_t datasets = io_sum(output->n_entries + 1, output->into_obs ? output->n_dims : 0);
    return io_sum(bytes, io_sum(io_product(datasets, 8192), IO_PIECE / 4));
}

struct addition {
    const struct io_output *output;
    const struct io_target *out;
};

static int answer_write(struct io_child *child, void *job)
{
    const struct addition *addition = job;
    const struct io_output *output = addition->output;
    struct io_h5_quiet quiet;
    struct io_h5_file file;
    int64_t room = room_of(output);
    io_h5_quiet_begin(&quiet);
    /* Open while it is copied: HDF5's lock keeps writers away. */
    int err = io_h5_open(&file, output->source);
    if (!err)
        room = io_sum(room, io_h5ad_older_bytes(file.id));
    io_child_allow(child, 0, io_sum(file.bytes, room));
    if (!err)
        err = clone_into(addition->out, output->source);
    if (!err)
        err = io_h5_still_whole(&file);
    io_h5_close(&file);
    if (!err)
        err = io_h5_reserve(addition->out, room);
    if (!err)
        err = add(addition->out, output);
    err = io_h5_settle(err, addition->out->name);
    io_h5_quiet_end(&quiet);
    return io_child_answer(child, err);
}

int io_h5ad_write(const struct io_output *output)
{
    struct io_target out;
    int err = io_h5ad_check(output);
    if (err)
        return err;
    if (io_target_begin(&out, output->target, output->overwrite || io_same_file(output->source, output->target)))
        return -1;
    struct addition addition = {output, &out};
    err = io_h5ad_in_child(output->source, out.temp, answer_write, &addition);
    if (!err)
        err = io_stamp_check(&output->source_was, output->source);
    if (!err)
        return io_target_commit(&out);
    io_target_abandon(&out);
    return err;
}
