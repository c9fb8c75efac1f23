/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing .npy, .npz (a zip of them, uncompressed) and text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "io_internal.h"

size_t io_npy_header(char *header, char what, int n_axes, const int64_t *shape)
{
    /* Files are little-endian; so are all machines that this program is built for (checked in io_npy_bytes' callers by the
     * build). */
    const char *type = what == 'f' ? "<f4" : what == 'd' ? "<f8" : "<i4";
    char axes[100] = "";
    size_t used = 0;
    for (int i = 0; i < n_axes; i++)
        used += (size_t)snprintf(axes + used, sizeof axes - used,
                                 n_axes == 1 ? "%" PRId64 ","
                                 : i         ? ", %" PRId64
                                             : "%" PRId64,
                                 shape[i]);
    int length =
        snprintf(header + 10, IO_NPY_HEADER - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, axes);
    size_t total = ((size_t)length + 10 + 1 + 63) / 64 * 64; /* the line end included */
    memset(header + 10 + length, ' ', total - 10 - (size_t)length - 1);
    header[total - 1] = '\n';
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - 10) & 255);
    header[9] = (char)((total - 10) >> 8);
    return total;
}

int64_t io_npy_bytes(char what, int n_axes, const int64_t *shape)
{
    int64_t bytes = what == 'd' ? 8 : 4;
    for (int i = 0; i < n_axes; i++)
        bytes = io_product(bytes, shape[i]);
    return bytes;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the headers written here say little-endian");

int io_npy_write(const char *target, const void *values, char what, int n_axes, const int64_t *shape)
{
    struct io_target out;
    char header[IO_NPY_HEADER];
    size_t length = io_npy_header(header, what, n_axes, shape);
    int err = io_target_begin(&out, target, 1);
    if (!err)
        err = io_target_write(&out, header, length);
    if (!err)
        err = io_target_write(&out, values, (size_t)io_npy_bytes(what, n_axes, shape));
    if (!err)
        return io_target_commit(&out);
    io_target_abandon(&out);
    return err;
}

/* ---- zip: PKWARE's APPNOTE 6.3, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16; sizes always in the 64-bit fields, so that there is
 * one way */

struct member {
    char *name;
    uint32_t crc;
    uint64_t bytes, offset;
};

struct io_npz {
    struct io_target out;
    uint64_t written;
    int n_members, room;
    struct member *member;
};

struct record {
    unsigned char bytes[512];
    size_t used;
};

static void put(struct record *record, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        record->bytes[record->used++] = (unsigned char)(value >> (8 * i));
}

static int put_out(struct io_npz *npz, const void *bytes, uint64_t count)
{
    npz->written += count;
    return io_target_write(&npz->out, bytes, (size_t)count);
}

int io_npz_begin(struct io_npz **npz, const char *target)
{
    *npz = calloc(1, sizeof **npz);
    if (!*npz)
        return io_fail_memory(target, "its table", (int64_t)sizeof **npz);
    if (io_target_begin(&(*npz)->out, target, 1) == 0)
        return 0;
    free(*npz);
    *npz = NULL;
    return -1;
}

/* What local and central headers share: version to extract .. crc, then sizes that refer to the extra field. */
static void put_common(struct record *record, const struct member *member, size_t extra)
{
    put(record, 45, 2); /* version that knows 64-bit sizes */
    put(record, 0, 2);  /* flags */
    put(record, 0, 2);  /* stored */
    put(record, 0, 2);  /* time and date: always the first of 1980, so that the same arrays give the same bytes */
    put(record, 33, 2);
    put(record, member->crc, 4);
    put(record, UINT32_MAX, 4); /* packed and plain size: see the extra field */
    put(record, UINT32_MAX, 4);
    put(record, strlen(member->name), 2);
    put(record, extra, 2);
}

static uint32_t crc_of(uint32_t crc, const void *values, uint64_t count)
{
    const unsigned char *at = values;
    for (uint64_t part; count > 0; at += part, count -= part) {
        part = count < (1u << 30) ? count : (1u << 30);
        crc = (uint32_t)crc32(crc, at, (uInt)part);
    }
    return crc;
}

int io_npz_add(struct io_npz *npz, const char *name, const void *values, char what, int n_axes, const int64_t *shape)
{
    char header[IO_NPY_HEADER], file[128];
    size_t length = io_npy_header(header, what, n_axes, shape);
    uint64_t bytes = (uint64_t)io_npy_bytes(what, n_axes, shape);
    if (npz->n_members == npz->room) {
        int room = npz->room ? npz->room * 2 : 16;
        struct member *grown = io_room_grown(npz->member, room, sizeof *grown);
        if (!grown)
            return io_fail_memory(npz->out.name, "its table", room);
        npz->member = grown;
        npz->room = room;
    }
    if (snprintf(file, sizeof file, "%s.npy", name) >= (int)sizeof file)
        return io_fail("%s: \"%s\" is too long for the name of an array", npz->out.name, name);
    struct member *member = &npz->member[npz->n_members];
    *member = (struct member){.name = io_copy_text(file), .bytes = length + bytes, .offset = npz->written};
    if (!member->name)
        return -1;
    npz->n_members++;
    member->crc = crc_of(crc_of(0, header, length), values, bytes);
    struct record local = {.used = 0};
    put(&local, 0x04034b50, 4);
    put_common(&local, member, 20);
    memcpy(local.bytes + local.used, file, strlen(file));
    local.used += strlen(file);
    put(&local, 1, 2); /* extra field: 64-bit sizes, 16 bytes of them */
    put(&local, 16, 2);
    put(&local, member->bytes, 8);
    put(&local, member->bytes, 8);
    if (put_out(npz, local.bytes, local.used) || put_out(npz, header, length))
        return -1;
    return put_out(npz, values, bytes);
}

static int put_central(struct io_npz *npz, const struct member *member)
{
    struct record central = {.used = 0};
    put(&central, 0x02014b50, 4);
    put(&central, 45 | 3 << 8, 2); /* made by: Unix */
    put_common(&central, member, 28);
    put(&central, 0, 2);              /* comment */
    put(&central, 0, 2);              /* disk */
    put(&central, 0, 2);              /* internal attributes */
    put(&central, 0100644u << 16, 4); /* mode */
    put(&central, UINT32_MAX, 4);     /* offset: see the extra field */
    memcpy(central.bytes + central.used, member->name, strlen(member->name));
    central.used += strlen(member->name);
    put(&central, 1, 2);
    put(&central, 24, 2);
    put(&central, member->bytes, 8);
    put(&central, member->bytes, 8);
    put(&central, member->offset, 8);
    return put_out(npz, central.bytes, central.used);
}

static int put_end(struct io_npz *npz, uint64_t central)
{
    struct record end = {.used = 0};
    uint64_t at = npz->written, count = (uint64_t)npz->n_members;
    put(&end, 0x06064b50, 4); /* 64-bit end of the central directory */
    put(&end, 44, 8);
    put(&end, 45, 2);
    put(&end, 45, 2);
    put(&end, 0, 4);
    put(&end, 0, 4);
    put(&end, count, 8);
    put(&end, count, 8);
    put(&end, at - central, 8);
    put(&end, central, 8);
    put(&end, 0x07064b50, 4); /* its locator */
    put(&end, 0, 4);
    put(&end, at, 8);
    put(&end, 1, 4);
    put(&end, 0x06054b50, 4); /* the old end, which refers to the 64-bit one */
    put(&end, 0, 4);
    put(&end, count, 2);
    put(&end, count, 2);
    put(&end, UINT32_MAX, 4);
    put(&end, UINT32_MAX, 4);
    put(&end, 0, 2);
    return put_out(npz, end.bytes, end.used);
}

int io_npz_end(struct io_npz **npz)
{
    uint64_t central = (*npz)->written;
    int err = 0;
    for (int i = 0; !err && i < (*npz)->n_members; i++)
        err = put_central(*npz, &(*npz)->member[i]);
    if (!err)
        err = put_end(*npz, central);
    if (!err)
        err = io_target_commit(&(*npz)->out);
    io_npz_abandon(npz);
    return err;
}

void io_npz_abandon(struct io_npz **npz)
{
    if (!*npz)
        return;
    io_target_abandon(&(*npz)->out);
    for (int i = 0; i < (*npz)->n_members; i++)
        free((*npz)->member[i].name);
    free((*npz)->member);
    free(*npz);
    *npz = NULL;
}
