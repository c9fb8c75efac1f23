/* SPDX-License-Identifier: BSD-3-Clause */
/* What an .h5ad's uns/KEY says, as texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

/* Groups in groups; entries; elements of an entry: what is more is no report on a run. */
enum { DEPTH = 2, ENTRIES = 4096, ELEMENTS = 100000 };

struct reading {
    const struct io_h5_file *file;
    struct io_builder names, texts;
};

static int add(struct reading *r, const char *name, const char *text, size_t length)
{
    return io_builder_add(&r->names, name, strlen(name)) || io_builder_add(&r->texts, text, length) ? -1 : 0;
}

static int add_scalar(struct reading *r, hid_t dataset, const char *name)
{
    hid_t type = H5Dget_type(dataset), memory = H5Tcopy(type);
    char number[IO_FLOAT_TEXT];
    int err = 0;
    double value;
    if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0) {
        char *text = NULL;
        if (H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) >= 0 && text)
            err = add(r, name, text, strlen(text));
        H5free_memory(text);
    } else if (H5Tget_class(type) == H5T_STRING && H5Tget_size(type) <= IO_PIECE) {
        size_t width = H5Tget_size(type);
        char *text = calloc(1, width + 1);
        if (!text)
            err = io_fail_memory(r->file->path, name, (int64_t)width);
        else if (H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0)
            err = add(r, name, text, strnlen(text, width));
        free(text);
    } else if ((H5Tget_class(type) == H5T_FLOAT || H5Tget_class(type) == H5T_INTEGER) &&
               H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) >= 0)
        err = add(r, name, number, io_format_label(number, value));
    io_h5_close_id(memory);
    io_h5_close_id(type);
    return err;
}

/* All elements, a line each. */
static int add_vector(struct reading *r, hid_t group, const char *link, const char *name)
{
    struct io_h5_vector vector;
    char number[IO_FLOAT_TEXT], *lines = NULL;
    size_t size = 0;
    int more = 0;
    if (io_h5_vector_open(&vector, r->file, group, link, NULL))
        return 0; /* of a kind that no run's report has */
    FILE *out = vector.count <= ELEMENTS ? open_memstream(&lines, &size) : NULL;
    while (out && (more = io_h5_vector_next(&vector)) > 0)
        for (int64_t i = 0; i < vector.n_piece; i++) {
            const char *text;
            size_t length;
            io_h5_vector_text(&vector, i, number, &text, &length);
            if (vector.first + i)
                fputc('\n', out);
            fwrite(text, 1, length, out);
        }
    int whole = out && !ferror(out) && more == 0;
    int err = out && (fclose(out) || !whole) ? io_fail("%s: %s cannot be read", r->file->path, vector.thing) : 0;
    if (!err && whole)
        err = add(r, name, lines, size);
    io_h5_vector_close(&vector);
    free(lines);
    return err;
}

static int add_group(struct reading *r, hid_t group, const char *above, int depth)
{
    struct io_strings links = {0};
    int err = io_h5_links(group, &links);
    for (int64_t i = 0; !err && i < links.count && r->names.count < ENTRIES; i++) {
        char name[512];
        H5O_type_t kind = io_h5_type(group, links.at[i]);
        if (snprintf(name, sizeof name, "%s%s%s", above, *above ? "/" : "", links.at[i]) >= (int)sizeof name)
            continue;
        hid_t object = kind == H5O_TYPE_UNKNOWN ? H5I_INVALID_HID : H5Oopen(group, links.at[i], H5P_DEFAULT);
        io_h5_expected(); /* a link may lead nowhere */
        int64_t shape[3];
        if (object >= 0 && kind == H5O_TYPE_GROUP && depth < DEPTH)
            err = add_group(r, object, name, depth + 1);
        else if (object >= 0 && kind == H5O_TYPE_DATASET && io_h5_check_values(r->file, object, name) == 0) {
            int n_axes = io_h5_shape(object, shape);
            hid_t space = H5Dget_space(object);
            int scalar = H5Sget_simple_extent_type(space) == H5S_SCALAR;
            io_h5_close_id(space);
            err = scalar ? add_scalar(r, object, name) : n_axes == 1 ? add_vector(r, group, links.at[i], name) : 0;
        }
        io_h5_close_id(object);
    }
    io_strings_close(&links);
    return err;
}

static int read_uns(struct io_uns *uns, const struct io_h5_file *file, const char *key)
{
    struct reading r = {.file = file};
    char place[512];
    int err = 0;
    if (snprintf(place, sizeof place, "uns/%s", key) < (int)sizeof place && io_h5_exists(file->id, place) &&
        io_h5_type(file->id, place) == H5O_TYPE_GROUP) {
        hid_t group = H5Gopen2(file->id, place, H5P_DEFAULT);
        err = group < 0 ? io_fail("%s: %s cannot be opened: %s", file->path, place, io_h5_reason()) : add_group(&r, group, "", 0);
        io_h5_close_id(group);
    }
    if (!err)
        err = io_builder_finish(&r.names, &uns->names) || io_builder_finish(&r.texts, &uns->texts) ? -1 : 0;
    io_builder_close(&r.names);
    io_builder_close(&r.texts);
    return err;
}

/* The keys of obsm as names, and no texts. An obsm of records has fields. */
static int read_keys(struct io_uns *uns, const struct io_h5_file *file)
{
    int err = 0;
    if (!io_h5_exists(file->id, "obsm"))
        return 0;
    hid_t obsm = H5Oopen(file->id, "obsm", H5P_DEFAULT);
    if (H5Iget_type(obsm) == H5I_GROUP)
        err = io_h5_links(obsm, &uns->names);
    else if (H5Iget_type(obsm) == H5I_DATASET) {
        hid_t type = H5Dget_type(obsm);
        if (H5Tget_class(type) == H5T_COMPOUND)
            err = io_h5_fields(type, &uns->names);
        io_h5_close_id(type);
    }
    io_h5_close_id(obsm);
    return err;
}

/* ---- through a child process
 * -----------------------------------------------------------------------------------------------------------------------------
 */

struct wanted {
    const char *path, *key; /* key NULL: the keys of obsm */
};

static int serve(struct io_child *child, void *job)
{
    const struct wanted *wanted = job;
    struct io_uns uns = {0};
    struct io_h5_quiet quiet;
    struct io_h5_file file;
    io_h5_quiet_begin(&quiet);
    int err = io_h5_open(&file, wanted->path);
    if (!err)
        err = wanted->key ? read_uns(&uns, &file, wanted->key) : read_keys(&uns, &file);
    if (!err)
        err = io_h5_still_whole(&file);
    io_h5_close(&file);
    err = io_h5_settle(err, wanted->path);
    io_h5_quiet_end(&quiet);
    if (!io_child_answer(child, err) && !err && !io_child_send_strings(child, &uns.names))
        io_child_send_strings(child, &uns.texts);
    io_uns_close(&uns);
    return 0;
}

static int fetch(struct io_uns *uns, struct wanted wanted)
{
    struct io_child child = {.fd = -1};
    int64_t bytes;
    memset(uns, 0, sizeof *uns);
    int err = io_h5_look(wanted.path, &bytes);
    if (!err)
        err = io_child_start(&child, wanted.path, NULL, bytes, serve, &wanted);
    if (!err)
        err = io_child_result(&child);
    if (!err)
        err = io_child_receive_strings(&child, &uns->names) || io_child_receive_strings(&child, &uns->texts) ? -1 : 0;
    if (!err && wanted.key && uns->names.count != uns->texts.count)
        err = io_fail("%s: uns/\"%s\" has %lld names for %lld entries: the file is damaged", wanted.path, wanted.key,
                      (long long)uns->names.count, (long long)uns->texts.count);
    if (!err)
        err = io_child_finish(&child, err);
    io_child_end(&child);
    if (err)
        io_uns_close(uns);
    return err;
}

int io_uns_h5ad(struct io_uns *uns, const char *path, const char *key)
{
    return fetch(uns, (struct wanted){path, key});
}

int io_h5ad_keys(struct io_strings *keys, const char *path)
{
    struct io_uns uns;
    int err = fetch(&uns, (struct wanted){path, NULL});
    *keys = uns.names;
    io_strings_close(&uns.texts);
    return err;
}

void io_uns_close(struct io_uns *uns)
{
    io_strings_close(&uns->names);
    io_strings_close(&uns->texts);
}

const char *io_uns_text(const struct io_uns *uns, const char *name)
{
    for (int64_t i = 0; i < uns->names.count; i++)
        if (strcmp(uns->names.at[i], name) == 0)
            return uns->texts.at[i];
    return NULL;
}
