/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening HDF5 files and asking what is in them, with sentences for what goes wrong. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "h5.h"

/* HDF5 tidies up in an exit handler, and dies there of a file that it could not write. All that is ours is closed before. Has no
   effect when the process used HDF5 already. */
static void no_exit_handler(void)
{
    H5dont_atexit();
}

static int plugins;

void io_allow_plugins(int yes)
{
    plugins = yes;
}

int io_h5_plugins_allowed(void)
{
    return plugins;
}

/* A file must not bring others into play: neither code that a filter is loaded from, nor files that its links name. */
static void refuse_strangers(void)
{
    H5PLset_loading_state(plugins ? H5PL_ALL_PLUGIN : 0);
    H5Lunregister(H5L_TYPE_EXTERNAL); /* fails when that has been done */
}

/* What failed since io_h5_quiet_begin, and why the last one did. */
static _Thread_local struct {
    int64_t count;
    int of_system; /* one did for want of memory, or by the disk: it says nothing about the file */
    char reason[256];
} failures;

/* From the innermost message outwards: the first one, or the first that carries the system's number. */
static herr_t look_for_reason(unsigned depth, const H5E_error2_t *error, void *unused)
{
    (void)unused;
    const char *number = error->desc ? strstr(error->desc, "errno = ") : NULL;
    if (depth == 0 && error->maj_num == H5E_RESOURCE)
        snprintf(failures.reason, sizeof failures.reason, "%s", strerror(ENOMEM));
    else if (depth == 0)
        snprintf(failures.reason, sizeof failures.reason, "%s", error->desc ? error->desc : "");
    failures.of_system |= number != NULL || error->maj_num == H5E_RESOURCE;
    if (!number)
        return 0;
    snprintf(failures.reason, sizeof failures.reason, "%s", strerror(atoi(number + 8)));
    return 1;
}

/* HDF5 calls this as a function of its fails, when it still knows why: closing what was open makes it forget. */
static herr_t keep_failure(hid_t stack, void *unused)
{
    (void)unused;
    failures.count++;
    failures.reason[0] = 0;
    H5Ewalk2(stack, H5E_WALK_UPWARD, look_for_reason, NULL);
    return 0;
}

void io_h5_quiet_begin(struct io_h5_quiet *quiet)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, no_exit_handler);
    H5Eget_auto2(H5E_DEFAULT, &quiet->print, &quiet->user);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    refuse_strangers();
    memset(&failures, 0, sizeof failures);
    io_fail("%s", ""); /* what was said before is not said of this */
    H5Eset_auto2(H5E_DEFAULT, keep_failure, NULL);
}

void io_h5_quiet_end(const struct io_h5_quiet *quiet)
{
    H5Eset_auto2(H5E_DEFAULT, quiet->print, quiet->user);
}

const char *io_h5_reason(void)
{
    return failures.reason[0] ? failures.reason : "HDF5 gives no reason, as where there is no memory";
}

int io_h5_no_memory(void)
{
    failures.count++;
    failures.of_system = 1;
    snprintf(failures.reason, sizeof failures.reason, "%s", strerror(ENOMEM));
    return -1;
}

void io_h5_expected(void)
{
    if (!failures.of_system)
        failures.count = 0;
}

int io_h5_settle(int err, const char *path)
{
    int unsaid = err ? !*io_error() || (failures.of_system && !strstr(io_error(), io_h5_reason())) : failures.count > 0;
    if (unsaid)
        return io_fail("%s: HDF5 failed on it: %s", path, io_h5_reason());
    return err;
}

int io_h5_look(const char *path, int64_t *bytes)
{
    struct stat info;
    *bytes = 0;
    if (stat(path, &info))
        return io_fail("%s: cannot be opened: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return io_fail("%s: is not a regular file", path);
    *bytes = info.st_size;
    return 0;
}

int io_h5_open(struct io_h5_file *file, const char *path)
{
    *file = (struct io_h5_file){H5I_INVALID_HID, path, 0};
    if (io_h5_look(path, &file->bytes))
        return -1;
    file->id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file->id >= 0)
        return 0;
    const char *why = io_h5_reason();
    failures.count = failures.of_system = 0; /* what follows says it all */
    if (strcmp(why, strerror(EAGAIN)) == 0)
        return io_fail("%s: is locked: another program has it open for writing; close it there, then run again", path);
    if (strstr(why, "already open for write"))
        return io_fail(
            "%s: is marked as open for writing: another program is at work on it, or one died (h5clear -s repairs that)", path);
    if (strstr(why, "truncated"))
        return io_fail("%s: is truncated, the rest of the file is missing (%s): copy it again", path, why);
    if (strstr(why, "signature") || strstr(why, "file is not"))
        return io_fail("%s: is no HDF5 file, so it cannot be an .h5ad", path);
    return io_fail("%s: cannot be opened: %s", path, why);
}

int io_h5_still_whole(const struct io_h5_file *file)
{
    void *handle = NULL;
    struct stat info;
    if (H5Fget_vfd_handle(file->id, H5P_DEFAULT, &handle) < 0 || !handle || fstat(*(int *)handle, &info))
        return io_fail("%s: its size cannot be looked at again: %s", file->path, strerror(errno));
    if (info.st_size < file->bytes)
        return io_fail("%s: became shorter while it was read, %" PRId64 " bytes instead of %" PRId64 ": copy it again",
                       file->path, (int64_t)info.st_size, file->bytes);
    return 0;
}

void io_h5_close(struct io_h5_file *file)
{
    if (file->id >= 0)
        H5Fclose(file->id);
    file->id = H5I_INVALID_HID;
}

hid_t io_h5_close_id(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
    return H5I_INVALID_HID;
}

int io_h5_exists(hid_t location, const char *path)
{
    char part[1024];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return 0;
    memcpy(part, path, length + 1);
    /* H5Lexists fails, rather than says no, when a step before the last is missing. */
    for (char *at = part + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = 0;
        if (H5Lexists(location, part, H5P_DEFAULT) <= 0 || io_h5_type(location, part) != H5O_TYPE_GROUP)
            return 0;
        *at = '/';
    }
    return H5Lexists(location, part, H5P_DEFAULT) > 0;
}

H5O_type_t io_h5_type(hid_t location, const char *path)
{
    H5O_info_t info;
    if (H5Oget_info_by_name(location, path, &info, H5P_DEFAULT) < 0)
        return H5O_TYPE_UNKNOWN;
    return info.type;
}

int io_h5_fail_link(const struct io_h5_file *file, hid_t location, const char *name, const char *thing)
{
    H5L_info_t info;
    char why[256];
    snprintf(why, sizeof why, "%s", io_h5_reason());
    if (H5Lget_info(location, name, &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_EXTERNAL)
        return io_fail("%s: %s is a link to another file, and such links are not followed: write a file that holds it itself",
                       file->path, thing);
    return io_fail("%s: %s cannot be opened: %s", file->path, thing, why);
}

static herr_t add_link(hid_t group, const char *name, const H5L_info_t *info, void *builder)
{
    (void)group;
    (void)info;
    return io_builder_add(builder, name, strlen(name)) ? -1 : 0;
}

int io_h5_links(hid_t group, struct io_strings *names)
{
    struct io_builder builder = {0};
    memset(names, 0, sizeof *names);
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, add_link, &builder) < 0) {
        io_builder_close(&builder);
        return -1;
    }
    return io_builder_finish(&builder, names);
}

int io_h5_fields(hid_t type, struct io_strings *names)
{
    struct io_builder builder = {0};
    int err = 0, count = H5Tget_nmembers(type);
    for (int i = 0; !err && i < count; i++) {
        char *name = H5Tget_member_name(type, (unsigned)i);
        err = name ? io_builder_add(&builder, name, strlen(name)) : -1;
        H5free_memory(name);
    }
    return io_builder_finish(&builder, names) || err ? -1 : 0;
}

/* ---- attributes
 * ------------------------------------------------------------------------------------------------------------------ */

int io_h5_text_attribute(hid_t object, const char *name, char *text, size_t size)
{
    text[0] = 0;
    if (H5Aexists(object, name) <= 0)
        return 0;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    if (H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1) {
        /* The character set of the file's type, or HDF5 refuses to convert. */
        hid_t memory = H5Tcopy(type);
        size_t width = H5Tget_size(type);
        if (H5Tis_variable_str(type) > 0) {
            char *value = NULL;
            if (H5Aread(attribute, memory, &value) >= 0 && value)
                snprintf(text, size, "%s", value);
            H5free_memory(value);
        } else if (width < 1024) {
            char value[1024] = "";
            if (H5Aread(attribute, memory, value) >= 0)
                snprintf(text, size, "%.*s", (int)width, value);
        }
        io_h5_close_id(memory);
    }
    io_h5_close_id(type);
    io_h5_close_id(space);
    io_h5_close_id(attribute);
    return text[0] != 0;
}

int io_h5_integer_attribute(hid_t object, const char *name, int64_t *values, int most)
{
    if (H5Aexists(object, name) <= 0)
        return -1;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    int found = -1;
    if (H5Tget_class(type) == H5T_INTEGER && count >= 0 && count <= most && H5Aread(attribute, H5T_NATIVE_INT64, values) >= 0)
        found = (int)count;
    io_h5_close_id(type);
    io_h5_close_id(space);
    io_h5_close_id(attribute);
    return found;
}

/* ---- datasets
 * -------------------------------------------------------------------------------------------------------------------- */

int io_h5_shape(hid_t dataset, int64_t shape[3])
{
    hsize_t extent[H5S_MAX_RANK] = {0};
    hid_t plist = H5Dget_create_plist(dataset);
    int is_virtual = H5Pget_layout(plist) == H5D_VIRTUAL; /* to tell its extent, HDF5 may open the files that it names */
    io_h5_close_id(plist);
    if (is_virtual)
        return -1;
    hid_t space = H5Dget_space(dataset);
    int n_axes = H5Sget_simple_extent_dims(space, extent, NULL);
    for (int i = 0; i < 3; i++)
        shape[i] = i < n_axes ? (int64_t)(extent[i] < INT64_MAX ? extent[i] : INT64_MAX) : 1;
    io_h5_close_id(space);
    return n_axes;
}

/* The registered numbers that are met in practice (The HDF Group's list of filters). */
static const char *filter_name(H5Z_filter_t number, const char *own)
{
    switch (number) {
    case H5Z_FILTER_DEFLATE:
        return "gzip";
    case H5Z_FILTER_SZIP:
        return "szip";
    case 32000:
        return "lzf";
    case 32001:
        return "blosc";
    case 32004:
        return "lz4";
    case 32008:
        return "bitshuffle";
    case 32013:
        return "zfp";
    case 32015:
        return "zstd";
    case 32026:
        return "blosc2";
    default:
        return *own ? own : "unknown";
    }
}

static int check_filters(const struct io_h5_file *file, hid_t plist, const char *thing, int n_filters)
{
    for (int i = 0; i < n_filters; i++) {
        char name[64] = "";
        unsigned flags, config;
        size_t n_values = 0;
        H5Z_filter_t number = H5Pget_filter2(plist, (unsigned)i, &flags, &n_values, NULL, sizeof name, name, &config);
        if (number >= 0 && H5Zfilter_avail(number) <= 0)
            return io_fail("%s: %s is compressed with %s (filter %d), which this HDF5 cannot read: write the file anew with "
                           "compression=\"gzip\" or none, or set HDF5_PLUGIN_PATH to a folder with that filter",
                           file->path, thing, filter_name(number, name), (int)number);
    }
    return 0;
}

/* A chunk is read whole, however few of its values are wanted. */
static double chunk_bytes(hid_t plist, hid_t type)
{
    hsize_t chunk[H5S_MAX_RANK];
    int n_axes = H5Pget_layout(plist) == H5D_CHUNKED ? H5Pget_chunk(plist, H5S_MAX_RANK, chunk) : 0;
    double bytes = n_axes > 0 ? (double)H5Tget_size(type) : 0;
    for (int i = 0; i < n_axes; i++)
        bytes *= (double)chunk[i];
    return bytes;
}

/* Sizes as double: they may not fit 64 bits. */
static int check_bytes(const struct io_h5_file *file, hid_t dataset, hid_t plist, const char *thing)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    double wanted = (double)H5Sget_simple_extent_npoints(space) * (double)H5Tget_size(type);
    double stored = (double)H5Dget_storage_size(dataset), chunk = chunk_bytes(plist, type);
    int filtered = H5Pget_nfilters(plist) > 0, err = 0;
    double most = filtered ? (double)io_most_expanded(file->bytes) : (double)file->bytes;
    if (H5Tget_size(type) == 0) /* of which there may be any number */
        err = io_fail("%s: %s holds values of no bytes: it is damaged", file->path, thing);
    else if (filtered && wanted > most)
        err = io_fail("%s: %s claims %.0f bytes of values, more than the file's %" PRId64 " can hold compressed: it is damaged",
                      file->path, thing, wanted, file->bytes);
    else if (!filtered && (stored < wanted || wanted > most))
        err = io_fail("%s: %s claims %.0f bytes of values, but the file (%" PRId64
                      " bytes) stores %.0f of them: it is damaged or was not written to its end",
                      file->path, thing, wanted, file->bytes, stored);
    else if (wanted > 0 && stored > 0 && chunk > most)
        err = io_fail("%s: %s claims chunks of %.0f bytes, more than the file's %" PRId64 " can hold: it is damaged", file->path,
                      thing, chunk, file->bytes);
    io_h5_close_id(type);
    io_h5_close_id(space);
    return err;
}

int io_h5_check_values(const struct io_h5_file *file, hid_t dataset, const char *thing)
{
    hid_t plist = H5Dget_create_plist(dataset);
    H5D_layout_t layout = H5Pget_layout(plist);
    int err = layout >= 0 ? 0 : io_fail("%s: %s cannot be read: %s", file->path, thing, io_h5_reason());
    if (!err && (layout == H5D_VIRTUAL || H5Pget_external_count(plist) > 0))
        err = io_fail("%s: the values of %s lie in other files: write a file that holds them itself", file->path, thing);
    if (!err)
        err = check_filters(file, plist, thing, H5Pget_nfilters(plist));
    if (!err)
        err = check_bytes(file, dataset, plist, thing);
    io_h5_close_id(plist);
    return err;
}
