/* SPDX-License-Identifier: BSD-3-Clause */
/* One-axis datasets of any type that names and labels come in, read piece by piece. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

enum { MOST_MEMBERS = 4096 };

/* HDF5 takes memory for every string of a piece. Out of one block, given back all at once, this is much faster than malloc and
   H5Dvlen_reclaim; and the sum is bounded by what the file can hold, for a damaged file may have one text a million times. */
struct io_h5_arena {
    struct block {
        struct block *next;
        size_t room;
        char bytes[];
    } * block;                /* the newest, which is the one being filled */
    size_t used, total, most; /* total: of all pieces */
};

static void *arena_take(size_t size, void *user)
{
    struct io_h5_arena *arena = user;
    size = (size + 7) & ~(size_t)7;
    if (size > arena->most || arena->total > arena->most - size)
        return NULL;
    if (!arena->block || arena->block->room - arena->used < size) {
        size_t room = size > IO_PIECE ? size : IO_PIECE;
        struct block *block = malloc(sizeof *block + room);
        if (!block)
            return NULL;
        block->next = arena->block;
        block->room = room;
        arena->block = block;
        arena->used = 0;
    }
    void *taken = arena->block->bytes + arena->used;
    arena->used += size;
    arena->total += size;
    return taken;
}

static void arena_give(void *taken, void *user)
{
    (void)taken;
    (void)user;
}

/* Keeps one block for the next piece. */
static void arena_empty(struct io_h5_arena *arena)
{
    while (arena->block && arena->block->next) {
        struct block *next = arena->block->next;
        free(arena->block);
        arena->block = next;
    }
    arena->used = 0;
}

/* ---- opening
 * ---------------------------------------------------------------------------------------------------------------------- */

static int read_members(struct io_h5_vector *vector, hid_t type)
{
    int count = H5Tget_nmembers(type);
    if (count < 0 || count > MOST_MEMBERS)
        return io_fail("%s: %s is an enumeration with %d members, at most %d are understood", vector->file->path, vector->thing,
                       count, MOST_MEMBERS);
    vector->member = io_room_zeroed(count + 1, sizeof *vector->member);
    if (!vector->member)
        return io_fail_memory(vector->file->path, vector->thing, count);
    hid_t base = H5Tget_super(type);
    for (int i = 0; i < count; i++) {
        char *name = H5Tget_member_name(type, (unsigned)i);
        union {
            int64_t value;
            char bytes[16];
        } raw = {0};
        if (H5Tget_size(base) <= 8 && H5Tget_member_value(type, (unsigned)i, &raw) >= 0)
            H5Tconvert(base, H5T_NATIVE_INT64, 1, &raw, NULL, H5P_DEFAULT);
        /* h5py's booleans; pandas writes them as Python does */
        const char *shown = name && strcmp(name, "FALSE") == 0 ? "False" : name && strcmp(name, "TRUE") == 0 ? "True" : name;
        vector->member[i].value = raw.value;
        snprintf(vector->member[i].name, sizeof vector->member[i].name, "%s", shown ? shown : "?");
        H5free_memory(name);
    }
    vector->n_members = count;
    io_h5_close_id(base);
    return 0;
}

static int set_up_strings(struct io_h5_vector *vector, hid_t type)
{
    vector->memory_type = H5Tcopy(type); /* keeps the character set, which HDF5 does not convert */
    vector->width = H5Tget_size(type);
    vector->kind = H5Tis_variable_str(type) > 0 ? IO_H5_VARIABLE : IO_H5_FIXED;
    vector->space_padded = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
    if (vector->kind == IO_H5_FIXED)
        return 0;
    vector->width = sizeof(char *);
    vector->arena = calloc(1, sizeof *vector->arena);
    if (!vector->arena)
        return io_fail_memory(vector->file->path, vector->thing, (int64_t)sizeof *vector->arena);
    /* Every text is in the file once; rounding up to 8 is what the factor is for. */
    vector->arena->most = (size_t)io_sum(io_product(vector->file->bytes, 2), IO_PIECE);
    vector->transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_vlen_mem_manager(vector->transfer, arena_take, vector->arena, arena_give, vector->arena);
    return 0;
}

static int set_up_type(struct io_h5_vector *vector, hid_t type)
{
    vector->width = 8;
    if (H5Tget_size(type) == 0)
        return io_fail("%s: %s holds values of no bytes: it is damaged", vector->file->path, vector->thing);
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        vector->kind = H5Tget_sign(type) == H5T_SGN_NONE ? IO_H5_UNSIGNED : IO_H5_INTEGER;
        vector->memory_type = H5Tcopy(vector->kind == IO_H5_UNSIGNED ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64);
        return 0;
    case H5T_FLOAT:
        vector->kind = IO_H5_FLOAT;
        vector->memory_type = H5Tcopy(H5T_NATIVE_DOUBLE);
        return 0;
    case H5T_ENUM:
        vector->kind = IO_H5_ENUM;
        vector->memory_type = H5Tcopy(H5T_NATIVE_INT64);
        return read_members(vector, type);
    case H5T_STRING:
        return set_up_strings(vector, type);
    default:
        return io_fail("%s: %s holds values of a type that is neither text nor numbers", vector->file->path, vector->thing);
    }
}

/* A field of a compound dataset is read through a compound type with that one field. */
static int set_up_field(struct io_h5_vector *vector, hid_t type, const char *field)
{
    int index = H5Tget_member_index(type, field);
    if (index < 0)
        return io_fail("%s: %s is not there", vector->file->path, vector->thing);
    hid_t member = H5Tget_member_type(type, (unsigned)index);
    int err = set_up_type(vector, member);
    io_h5_close_id(member);
    if (err)
        return err;
    hid_t wrapped = H5Tcreate(H5T_COMPOUND, vector->width);
    H5Tinsert(wrapped, field, 0, vector->memory_type);
    io_h5_close_id(vector->memory_type);
    vector->memory_type = wrapped;
    return 0;
}

int io_h5_vector_open(struct io_h5_vector *vector, const struct io_h5_file *file, hid_t location, const char *name,
                      const char *field)
{
    int64_t shape[3];
    char within[200] = "";
    memset(vector, 0, sizeof *vector);
    vector->memory_type = vector->dataset = H5I_INVALID_HID;
    vector->transfer = H5P_DEFAULT;
    vector->file = file;
    if (H5Iget_name(location, within, sizeof within) < 0)
        within[0] = 0;
    snprintf(vector->thing, sizeof vector->thing, "%s%s%s%s%s", within + (within[0] == '/'), within[0] && within[1] ? "/" : "",
             name, field ? "/" : "", field ? field : "");
    if (io_h5_exists(location, name) && io_h5_type(location, name) == H5O_TYPE_DATASET)
        vector->dataset = H5Dopen2(location, name, H5P_DEFAULT);
    if (vector->dataset < 0)
        return io_fail("%s: %s is not there, or is no dataset: the file is damaged", file->path, vector->thing);
    hid_t type = H5Dget_type(vector->dataset);
    int err = io_h5_check_values(file, vector->dataset, vector->thing);
    int n_axes = err ? 0 : io_h5_shape(vector->dataset, shape);
    if (!err && n_axes != 1)
        err = io_fail("%s: %s has %d axes, one is needed", file->path, vector->thing, n_axes);
    if (!err)
        err = field ? set_up_field(vector, type, field) : set_up_type(vector, type);
    io_h5_close_id(type);
    if (!err) {
        vector->count = shape[0];
        vector->most = IO_PIECE / 2 / (int64_t)vector->width + 1;
        vector->most = vector->most < vector->count ? vector->most : vector->count;
        vector->piece = io_room(vector->most, vector->width);
        if (!vector->piece)
            err = io_fail_memory(file->path, vector->thing, io_product(vector->most, (int64_t)vector->width));
    }
    if (err)
        io_h5_vector_close(vector);
    return err;
}

void io_h5_vector_close(struct io_h5_vector *vector)
{
    if (vector->arena) {
        arena_empty(vector->arena);
        free(vector->arena->block);
    }
    free(vector->arena);
    free(vector->piece);
    free(vector->member);
    if (vector->transfer != H5P_DEFAULT)
        io_h5_close_id(vector->transfer);
    io_h5_close_id(vector->memory_type);
    io_h5_close_id(vector->dataset);
    memset(vector, 0, sizeof *vector);
    vector->memory_type = vector->dataset = H5I_INVALID_HID;
    vector->transfer = H5P_DEFAULT;
}

int io_h5_vector_next(struct io_h5_vector *vector)
{
    vector->first += vector->n_piece;
    int64_t left = vector->count - vector->first;
    vector->n_piece = left < vector->most ? left : vector->most;
    if (vector->n_piece == 0)
        return 0;
    if (vector->arena)
        arena_empty(vector->arena);
    hsize_t start = (hsize_t)vector->first, count = (hsize_t)vector->n_piece;
    hid_t space = H5Dget_space(vector->dataset), memory = H5Screate_simple(1, &count, NULL);
    herr_t status = H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    if (status >= 0)
        status = H5Dread(vector->dataset, vector->memory_type, memory, space, vector->transfer, vector->piece);
    int err = status < 0 ? io_fail("%s: %s cannot be read: %s", vector->file->path, vector->thing, io_h5_reason()) : 0;
    io_h5_close_id(space);
    io_h5_close_id(memory);
    return err ? -1 : 1;
}

/* ---- elements
 * --------------------------------------------------------------------------------------------------------------------- */

int64_t io_h5_vector_integer(const struct io_h5_vector *vector, int64_t i)
{
    return ((const int64_t *)vector->piece)[i];
}

float io_h5_vector_float(const struct io_h5_vector *vector, int64_t i)
{
    if (vector->kind == IO_H5_FLOAT)
        return (float)((const double *)vector->piece)[i];
    if (vector->kind == IO_H5_UNSIGNED)
        return (float)((const uint64_t *)vector->piece)[i];
    return (float)((const int64_t *)vector->piece)[i];
}

static const char *member_name(const struct io_h5_vector *vector, int64_t value)
{
    for (int i = 0; i < vector->n_members; i++)
        if (vector->member[i].value == value)
            return vector->member[i].name;
    return NULL;
}

static enum io_h5_label number_text(const struct io_h5_vector *vector, int64_t i, char *number)
{
    double real;
    switch (vector->kind) {
    case IO_H5_INTEGER:
    case IO_H5_ENUM:
        sprintf(number, "%" PRId64, io_h5_vector_integer(vector, i));
        return IO_H5_LABEL;
    case IO_H5_UNSIGNED:
        sprintf(number, "%" PRIu64, ((const uint64_t *)vector->piece)[i]);
        return IO_H5_LABEL;
    default:
        real = ((const double *)vector->piece)[i];
        io_format_label(number, real);
        return isnan(real) ? IO_H5_MISSING : real == floor(real) ? IO_H5_LABEL : IO_H5_NOT_WHOLE;
    }
}

enum io_h5_label io_h5_vector_text(const struct io_h5_vector *vector, int64_t i, char *number, const char **text, size_t *length)
{
    enum io_h5_label label = IO_H5_LABEL;
    if (vector->kind == IO_H5_FIXED) {
        *text = (const char *)vector->piece + (size_t)i * vector->width;
        *length = strnlen(*text, vector->width);
        while (vector->space_padded && *length > 0 && (*text)[*length - 1] == ' ')
            --*length;
        return label;
    }
    *text = vector->kind == IO_H5_VARIABLE ? ((char *const *)vector->piece)[i]
            : vector->kind == IO_H5_ENUM   ? member_name(vector, io_h5_vector_integer(vector, i))
                                           : NULL;
    if (!*text && vector->kind == IO_H5_VARIABLE)
        *text = ""; /* HDF5 has no place for an empty string but NULL */
    if (!*text) {
        label = number_text(vector, i, number);
        *text = number;
    }
    *length = strlen(*text);
    return label;
}

int io_h5_read_names(const struct io_h5_file *file, hid_t location, const char *name, const char *field, struct io_builder *names)
{
    struct io_h5_vector vector;
    char values[300], number[IO_FLOAT_TEXT];
    const char *text;
    size_t length;
    int more = 1;
    /* A nullable string array is a group; a masked name reads as the text under its mask. */
    snprintf(values, sizeof values, "%s%s", name, io_h5_type(location, name) == H5O_TYPE_GROUP ? "/values" : "");
    int err = io_h5_vector_open(&vector, file, location, values, field);
    while (!err && (more = io_h5_vector_next(&vector)) > 0)
        for (int64_t i = 0; !err && i < vector.n_piece; i++) {
            io_h5_vector_text(&vector, i, number, &text, &length);
            err = io_builder_add(names, text, length);
        }
    io_h5_vector_close(&vector);
    return err || more < 0 ? -1 : 0;
}
