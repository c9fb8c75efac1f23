/* SPDX-License-Identifier: BSD-3-Clause */
/* Label columns of the obs of an .h5ad, in each layout that anndata has written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

struct column {
    struct io_h5_file file;
    const char *name;
    hid_t obs;         /* group, or dataset of compounds */
    const char *field; /* = name in the latter case */
    int force;
    struct io_encoder levels;
    int32_t *level;
    int64_t n_cells;
};

static int take_level(struct column *column, int64_t n_cells)
{
    column->n_cells = n_cells;
    column->level = io_room(n_cells, sizeof *column->level);
    if (!column->level)
        return io_fail_memory(column->file.path, column->name, io_product(n_cells, sizeof *column->level));
    return 0;
}

/* ---- values: strings, numbers, booleans
 * ------------------------------------------------------------------------------------------------ */

static int encode_piece(struct column *column, const struct io_h5_vector *values, const struct io_h5_vector *mask)
{
    char number[IO_FLOAT_TEXT];
    const char *text, *before = NULL;
    size_t length, length_before = 0;
    int32_t level_before = -1;
    for (int64_t i = 0; i < values->n_piece; i++) {
        int32_t *level = &column->level[values->first + i];
        enum io_h5_label label = io_h5_vector_text(values, i, number, &text, &length);
        if (label == IO_H5_MISSING || (mask && io_h5_vector_integer(mask, i))) {
            *level = -1;
            continue;
        }
        if (label == IO_H5_NOT_WHOLE && !column->force)
            return io_fail_continuous(column->file.path, column->name, number, values->first + i);
        /* Files are often sorted by batch. The text before must be in the vector's memory, not in number. */
        if (before && length == length_before && memcmp(text, before, length) == 0) {
            *level = level_before;
            continue;
        }
        *level = io_encoder_add(&column->levels, text, length);
        if (*level < 0)
            return -1;
        before = text == number ? NULL : text;
        length_before = length;
        level_before = *level;
    }
    return 0;
}

/* values, and the mask of what is missing or NULL. */
static int encode(struct column *column, hid_t location, const char *values_name, const char *mask_name)
{
    struct io_h5_vector values, mask;
    int more = 0;
    memset(&mask, 0, sizeof mask);
    mask.dataset = mask.memory_type = H5I_INVALID_HID;
    int err = io_h5_vector_open(&values, &column->file, location, values_name, column->field);
    if (!err && mask_name)
        err = io_h5_vector_open(&mask, &column->file, location, mask_name, NULL);
    if (!err && mask_name &&
        (mask.count != values.count || mask.kind == IO_H5_FLOAT || mask.kind == IO_H5_FIXED || mask.kind == IO_H5_VARIABLE))
        err = io_fail("%s: %s does not fit its values (%" PRId64 " of them): the file is damaged", column->file.path, mask.thing,
                      values.count);
    /* Pieces of both must be of the same cells. */
    if (!err && mask_name && mask.most < values.most)
        values.most = mask.most;
    if (!err && mask_name)
        mask.most = values.most;
    if (!err)
        err = take_level(column, values.count);
    while (!err && (more = io_h5_vector_next(&values)) > 0) {
        if (mask_name && io_h5_vector_next(&mask) <= 0)
            err = -1;
        if (!err)
            err = encode_piece(column, &values, mask_name ? &mask : NULL);
    }
    io_h5_vector_close(&values);
    io_h5_vector_close(&mask);
    return err || more < 0 ? -1 : 0;
}

/* ---- categoricals
 * ------------------------------------------------------------------------------------------------------------------------ */

/* Categories in their order; they are the levels. */
static int read_categories(struct column *column, hid_t location, const char *name)
{
    struct io_builder texts = {0};
    struct io_strings names = {0};
    int err = io_h5_read_names(&column->file, location, name, NULL, &texts);
    if (!err)
        err = io_builder_finish(&texts, &names);
    for (int64_t i = 0; !err && i < names.count; i++) {
        int32_t level = io_encoder_add(&column->levels, names.at[i], strlen(names.at[i]));
        if (level < 0)
            err = -1;
        else if (level != i)
            err = io_fail("%s: corrupt categorical: column \"%s\" has the category \"%.200s\" twice (%d and %" PRId64 ")",
                          column->file.path, column->name, names.at[i], (int)level + 1, i + 1);
    }
    io_builder_close(&texts);
    io_strings_close(&names);
    return err;
}

static int read_codes(struct column *column, hid_t location, const char *name)
{
    struct io_h5_vector codes;
    int more = 0;
    int err = io_h5_vector_open(&codes, &column->file, location, name, column->field);
    if (!err && codes.kind != IO_H5_INTEGER && codes.kind != IO_H5_UNSIGNED)
        err = io_fail("%s: corrupt categorical: the codes of column \"%s\" are no integers", column->file.path, column->name);
    if (!err)
        err = take_level(column, codes.count);
    while (!err && (more = io_h5_vector_next(&codes)) > 0)
        for (int64_t i = 0; !err && i < codes.n_piece; i++) {
            int64_t code = io_h5_vector_integer(&codes, i);
            if (code < -1 || code >= column->levels.count)
                err = io_fail("%s: corrupt categorical: column \"%s\" has code %" PRId64 " at cell %" PRId64 ", but %" PRId64
                              " categories",
                              column->file.path, column->name, code, codes.first + i + 1, column->levels.count);
            else
                column->level[codes.first + i] = (int32_t)code;
        }
    io_h5_vector_close(&codes);
    return err || more < 0 ? -1 : 0;
}

/* anndata 0.7: codes with an attribute that refers to the categories, in obs/__categories/NAME. Other programs wrote the one or
   the other. Returns the dataset of categories or an invalid id. */
static hid_t referred_categories(const struct column *column, hid_t codes, char *place, size_t size)
{
    hid_t found = H5I_INVALID_HID;
    if (H5Aexists(codes, "categories") > 0) {
        hid_t attribute = H5Aopen(codes, "categories", H5P_DEFAULT), type = H5Aget_type(attribute);
        hobj_ref_t reference;
        if (H5Tequal(type, H5T_STD_REF_OBJ) > 0 && H5Aread(attribute, H5T_STD_REF_OBJ, &reference) >= 0)
            found = H5Rdereference2(codes, H5P_DEFAULT, H5R_OBJECT, &reference);
        io_h5_close_id(type);
        io_h5_close_id(attribute);
    }
    snprintf(place, size, "__categories/%s", column->name);
    if (found < 0 && io_h5_exists(column->obs, place))
        found = H5Oopen(column->obs, place, H5P_DEFAULT);
    return found;
}

/* ---- which layout
 * ------------------------------------------------------------------------------------------------------------------------- */

static int read_group(struct column *column)
{
    char encoding[64];
    hid_t group = H5Gopen2(column->obs, column->name, H5P_DEFAULT);
    io_h5_text_attribute(group, "encoding-type", encoding, sizeof encoding);
    int sorted = 1, err;
    if (strcmp(encoding, "categorical") == 0 ||
        (!encoding[0] && io_h5_exists(group, "codes") && io_h5_exists(group, "categories"))) {
        sorted = 0;
        err = read_categories(column, group, "categories");
        if (!err)
            err = read_codes(column, group, "codes");
    } else if (strncmp(encoding, "nullable-", 9) == 0) {
        err = encode(column, group, "values", "mask");
    } else {
        err = io_fail(
            "%s: column \"%s\" of obs is stored as \"%s\", which is not understood: store it as strings or as a categorical",
            column->file.path, column->name, encoding[0] ? encoding : "a group without encoding-type");
    }
    io_h5_close_id(group);
    return err ? err : sorted;
}

static int read_dataset(struct column *column)
{
    char place[600], name[600];
    hid_t dataset = H5Dopen2(column->obs, column->name, H5P_DEFAULT);
    hid_t categories = referred_categories(column, dataset, place, sizeof place);
    int err, sorted = categories < 0;
    if (sorted) {
        err = encode(column, column->obs, column->name, NULL);
    } else {
        /* A reference leads anywhere; by its absolute name it is opened like the rest. */
        err = H5Iget_name(categories, name, sizeof name) > 0 ? read_categories(column, column->file.id, name)
                                                             : read_categories(column, column->obs, place);
        if (!err)
            err = read_codes(column, column->obs, column->name);
    }
    io_h5_close_id(categories);
    io_h5_close_id(dataset);
    return err ? err : sorted;
}

/* anndata before 0.7: obs is one dataset of compounds; categories, if any, are uns/NAME_categories. */
static int read_field(struct column *column)
{
    char place[600];
    hid_t root = column->file.id;
    column->field = column->name;
    snprintf(place, sizeof place, "uns/%s_categories", column->name);
    if (!io_h5_exists(root, place)) {
        int err = encode(column, root, "obs", NULL);
        return err ? err : 1;
    }
    int err = read_categories(column, root, place);
    return err ? err : read_codes(column, root, "obs");
}

static int fail_unknown(const struct column *column, hid_t type)
{
    char nearest[1024];
    struct io_strings names = {0}, shown = {0};
    struct io_builder builder = {0};
    int err = type >= 0 ? io_h5_fields(type, &names) : io_h5_links(column->obs, &names);
    for (int64_t i = 0; !err && i < names.count; i++)
        if (strcmp(names.at[i], "__categories") != 0 && strcmp(names.at[i], "_index") != 0)
            err = io_builder_add(&builder, names.at[i], strlen(names.at[i]));
    if (!err)
        err = io_builder_finish(&builder, &shown);
    if (!err) {
        io_suggest(nearest, sizeof nearest, column->name, &shown);
        io_fail("%s: obs has no column \"%s\"%s", column->file.path, column->name, nearest);
    }
    io_builder_close(&builder);
    io_strings_close(&names);
    io_strings_close(&shown);
    return -1;
}

/* Returns -1, or whether the levels are to be sorted. */
static int read_column(struct column *column)
{
    const char *path = column->file.path;
    if (!io_h5_exists(column->file.id, "obs"))
        return io_fail("%s: has no obs: is it an AnnData file?", path);
    column->obs = H5Oopen(column->file.id, "obs", H5P_DEFAULT);
    if (column->obs < 0)
        return io_h5_fail_link(&column->file, column->file.id, "obs", "obs");
    if (H5Iget_type(column->obs) == H5I_DATASET) {
        hid_t type = H5Dget_type(column->obs);
        int compound = H5Tget_class(type) == H5T_COMPOUND, result;
        if (!compound)
            result = io_fail("%s: obs is neither a group nor a dataset of records: the file is damaged", path);
        else if (H5Tget_member_index(type, column->name) < 0)
            result = fail_unknown(column, type);
        else
            result = read_field(column);
        io_h5_close_id(type);
        return result;
    }
    if (!io_h5_exists(column->obs, column->name) || strcmp(column->name, "__categories") == 0)
        return fail_unknown(column, H5I_INVALID_HID);
    switch (io_h5_type(column->obs, column->name)) {
    case H5O_TYPE_GROUP:
        return read_group(column);
    case H5O_TYPE_DATASET:
        return read_dataset(column);
    default:
        return io_h5_fail_link(&column->file, column->obs, column->name, column->name);
    }
}

int io_h5ad_labels_here(struct io_labels *labels, const char *path, const char *name, int force)
{
    struct io_h5_quiet quiet;
    struct column column = {.name = name, .obs = H5I_INVALID_HID, .force = force};
    memset(labels, 0, sizeof *labels);
    io_h5_quiet_begin(&quiet);
    int err = io_h5_open(&column.file, path);
    int sorted = err ? -1 : read_column(&column);
    if (sorted >= 0 && io_h5_still_whole(&column.file))
        sorted = -1;
    io_h5_close_id(column.obs);
    io_h5_close(&column.file);
    err = io_h5_settle(sorted < 0 ? -1 : 0, path);
    io_h5_quiet_end(&quiet);
    if (!err)
        err = io_labels_finish(labels, name, &column.levels, &column.level, column.n_cells, sorted);
    io_encoder_close(&column.levels);
    free(column.level);
    return err;
}
