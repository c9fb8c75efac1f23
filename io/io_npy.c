/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading .npy, versions 1 to 3. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io_internal.h"

struct npy {
    struct io_source source;
    char *path;
    int fd;
    int64_t begin; /* of the values in the file */
    char kind;     /* 'f', 'i', 'u' */
    int width, swapped, by_columns;
};

enum { SHORT = -1 };

/* 0, SHORT where the file ends before, or errno. */
static int read_bytes(int fd, char *at, size_t count, int64_t offset)
{
    while (count > 0) {
        ssize_t done = pread(fd, at, count < (1u << 30) ? count : (1u << 30), (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : SHORT;
        at += done;
        offset += done;
        count -= (size_t)done;
    }
    return 0;
}

static int say_unread(const struct npy *npy, int why)
{
    if (why == SHORT)
        return io_fail("%s: became shorter while it was read", npy->path);
    return why ? io_fail("%s: reading failed: %s", npy->path, strerror(why)) : 0;
}

static int read_at(const struct npy *npy, void *dst, size_t count, int64_t offset)
{
    return say_unread(npy, read_bytes(npy->fd, dst, count, offset));
}

/* ---- header: a Python dictionary with three keys ----------------------------------------------------------------------------
 */

/* The text behind 'key': in the header, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    for (int i = 0; i < 2; i++) {
        snprintf(quoted, sizeof quoted, i ? "\"%s\"" : "'%s'", key);
        const char *at = strstr(header, quoted);
        if (!at)
            continue;
        at += strlen(quoted);
        while (isspace((unsigned char)*at))
            at++;
        if (*at++ != ':')
            continue;
        while (isspace((unsigned char)*at))
            at++;
        return at;
    }
    return NULL;
}

static int parse_type(struct npy *npy, const char *text)
{
    char type[16] = "";
    if (!text || (*text != '\'' && *text != '"'))
        return io_fail("%s: holds an array of records, an embedding is an array of numbers", npy->path);
    for (size_t i = 0; i + 1 < sizeof type && text[i + 1] && text[i + 1] != *text; i++)
        type[i] = text[i + 1];
    char order = type[0], kind = type[1];
    int width = atoi(type + 2), little = *(const unsigned char *)&(const int){1};
    int known = (kind == 'f' && (width == 2 || width == 4 || width == 8)) ||
                ((kind == 'i' || kind == 'u') && (width == 1 || width == 2 || width == 4 || width == 8));
    if (!known || !strchr("<>=|", order)) {
        const char *what = kind == 'b'   ? " (booleans)"
                           : kind == 'O' ? " (Python objects)"
                           : kind == 'c' ? " (complex numbers)"
                                         : "";
        return io_fail("%s: holds values of type '%s'%s, an embedding needs float16, float32, float64 or integers", npy->path,
                       type, what);
    }
    npy->kind = kind;
    npy->width = width;
    npy->swapped = (order == '>' && little) || (order == '<' && !little);
    return 0;
}

static int parse_shape(const struct npy *npy, const char *text, int64_t shape[2])
{
    int n_axes = 0;
    int64_t value[3] = {0, 0, 0};
    if (!text || *text++ != '(')
        return io_fail("%s: the header has no shape, the file is damaged", npy->path);
    for (; *text && *text != ')'; text++) {
        if (!isdigit((unsigned char)*text)) /* commas, spaces, and the L of Python 2 */
            continue;
        char *end;
        errno = 0;
        long long size = strtoll(text, &end, 10);
        if (errno)
            return io_fail("%s: the shape in the header does not fit 64 bits, the file is damaged", npy->path);
        if (n_axes < 3)
            value[n_axes] = size;
        n_axes++;
        text = end - 1;
    }
    if (n_axes == 1)
        return io_fail("%s: is an array with one axis (%" PRId64 " values), an embedding has two: cells x dimensions", npy->path,
                       value[0]);
    if (n_axes != 2)
        return io_fail("%s: is an array with %d axes, an embedding has two: cells x dimensions", npy->path, n_axes);
    shape[0] = value[0];
    shape[1] = value[1];
    return 0;
}

/* Version, length and text of the header. The caller frees the text. */
static int read_header(struct npy *npy, int64_t file_bytes, char **header)
{
    unsigned char start[12];
    if (file_bytes < 12)
        return io_fail("%s: is no .npy file (it has only %" PRId64 " bytes)", npy->path, file_bytes);
    if (read_at(npy, start, sizeof start, 0))
        return -1;
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return io_fail("%s: is no .npy file (its first bytes are others)", npy->path);
    if (start[6] < 1 || start[6] > 3)
        return io_fail("%s: is of .npy version %d, known are 1 to 3", npy->path, start[6]);
    int64_t length = start[8] | start[9] << 8, begin = 10;
    if (start[6] > 1) {
        length |= (int64_t)start[10] << 16 | (int64_t)start[11] << 24;
        begin = 12;
    }
    if (length > file_bytes - begin || length > (1 << 24))
        return io_fail("%s: the header claims %" PRId64 " bytes and the file has %" PRId64 ": it is truncated or damaged",
                       npy->path, length, file_bytes);
    *header = io_room(length + 1, 1);
    if (!*header)
        return io_fail_memory(npy->path, "its header", length);
    (*header)[length] = 0;
    npy->begin = begin + length;
    return read_at(npy, *header, (size_t)length, begin);
}

static int examine(struct npy *npy, int64_t shape[2])
{
    struct stat info;
    char *header = NULL;
    npy->fd = open(npy->path, O_RDONLY | O_CLOEXEC);
    if (npy->fd < 0)
        return io_fail("%s: cannot be opened: %s", npy->path, strerror(errno));
    if (fstat(npy->fd, &info) || !S_ISREG(info.st_mode))
        return io_fail("%s: is not a regular file", npy->path);
    int err = read_header(npy, info.st_size, &header);
    if (!err)
        err = parse_type(npy, value_of(header, "descr"));
    if (!err)
        err = parse_shape(npy, value_of(header, "shape"), shape);
    if (!err) {
        const char *order = value_of(header, "fortran_order");
        npy->by_columns = order && strncmp(order, "True", 4) == 0;
        err = io_check_sizes(npy->path, "the array", shape[0], shape[1]);
    }
    if (!err) {
        int64_t wanted = io_product(io_product(shape[0], shape[1]), npy->width), found = info.st_size - npy->begin;
        if (wanted != found)
            err = io_fail("%s: %" PRId64 " x %" PRId64 " values take %" PRId64 " bytes, but the file has %" PRId64
                          " after its header: it is %s",
                          npy->path, shape[0], shape[1], wanted, found, found < wanted ? "truncated" : "damaged");
    }
    free(header);
    return err;
}

/* ---- values
 * -------------------------------------------------------------------------------------------------------------------- */

static void swap_bytes(unsigned char *bytes, int64_t count, int width)
{
    for (; count > 0; count--, bytes += width)
        for (int i = 0; i < width / 2; i++) {
            unsigned char kept = bytes[i];
            bytes[i] = bytes[width - 1 - i];
            bytes[width - 1 - i] = kept;
        }
}

#define CONVERT(type, expression)                                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                                                        \
        type value;                                                                                                              \
        memcpy(&value, from + i * (int64_t)sizeof value, sizeof value);                                                          \
        dst[i * step] = (expression);                                                                                            \
    }

/* count values in the file's type to every step-th place of dst. */
static void convert(const struct npy *npy, const unsigned char *from, int64_t count, float *dst, int64_t step)
{
    switch (npy->kind << 4 | npy->width) {
    case 'f' << 4 | 2:
        CONVERT(uint16_t, io_half_to_float(value));
        break;
    case 'f' << 4 | 4:
        CONVERT(float, value);
        break;
    case 'f' << 4 | 8:
        CONVERT(double, (float)value);
        break;
    case 'i' << 4 | 1:
        CONVERT(int8_t, (float)value);
        break;
    case 'i' << 4 | 2:
        CONVERT(int16_t, (float)value);
        break;
    case 'i' << 4 | 4:
        CONVERT(int32_t, (float)value);
        break;
    case 'i' << 4 | 8:
        CONVERT(int64_t, (float)value);
        break;
    case 'u' << 4 | 1:
        CONVERT(uint8_t, (float)value);
        break;
    case 'u' << 4 | 2:
        CONVERT(uint16_t, (float)value);
        break;
    case 'u' << 4 | 4:
        CONVERT(uint32_t, (float)value);
        break;
    default:
        CONVERT(uint64_t, (float)value);
        break;
    }
}

static int read_piece(const struct npy *npy, unsigned char *piece, int64_t first, int64_t count, float *dst, int64_t step)
{
    if (read_at(npy, piece, (size_t)(count * npy->width), npy->begin + first * npy->width))
        return -1;
    if (npy->swapped)
        swap_bytes(piece, count, npy->width);
    convert(npy, piece, count, dst, step);
    return 0;
}

/* ---- many bytes as they are, by several threads: copying out of the page cache to fresh memory is more than one can do at the
 * speed of the memory ---- */

enum { SHARE = 8 << 20, READERS = 8 };

struct readers {
    int fd;
    char *dst;
    int64_t bytes, begin;
    atomic_llong next; /* byte of the next share */
    atomic_int why;    /* one of them could not */
};

static void *read_shares(void *argument)
{
    struct readers *r = argument;
    while (!atomic_load(&r->why)) {
        int64_t first = atomic_fetch_add(&r->next, SHARE);
        if (first >= r->bytes)
            break;
        int why =
            read_bytes(r->fd, r->dst + first, (size_t)(r->bytes - first < SHARE ? r->bytes - first : SHARE), r->begin + first);
        if (why)
            atomic_store(&r->why, why);
    }
    return NULL;
}

/* Threads that the system refuses are done without. */
static int read_all(const struct npy *npy, char *dst, int64_t bytes, int64_t threads)
{
    struct readers r = {.fd = npy->fd, .dst = dst, .bytes = bytes, .begin = npy->begin};
    pthread_t id[READERS];
    sigset_t all, before;
    int n = 0;
    threads = threads < READERS ? threads : READERS;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are the caller's thread's */
    while (n + 1 < threads && (n + 1) * (int64_t)SHARE < bytes && pthread_create(&id[n], NULL, read_shares, &r) == 0)
        n++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    read_shares(&r);
    while (n > 0)
        pthread_join(id[--n], NULL);
    return say_unread(npy, atomic_load(&r.why));
}

static int npy_read(struct io_matrix *matrix, float *dst)
{
    const struct npy *npy = matrix->state;
    int64_t n_cells = matrix->n_cells, n_dims = matrix->n_dims, most = IO_PIECE / npy->width;
    if (npy->kind == 'f' && npy->width == 4 && !npy->swapped && !npy->by_columns)
        return read_all(npy, (char *)dst, n_cells * n_dims * (int64_t)sizeof *dst, matrix->threads);
    unsigned char *piece = malloc(IO_PIECE);
    int err = piece ? 0 : io_fail_memory(npy->path, "its values", IO_PIECE);
    if (!npy->by_columns)
        for (int64_t i = 0, count; !err && i < n_cells * n_dims; i += count) {
            count = n_cells * n_dims - i < most ? n_cells * n_dims - i : most;
            err = read_piece(npy, piece, i, count, dst + i, 1);
        }
    else /* a few thousand rows at a time, so that the scattered writes stay in the cache */
        for (int64_t i = 0, count; !err && i < n_cells; i += count) {
            const int64_t rows = most < 4096 ? most : 4096;
            count = n_cells - i < rows ? n_cells - i : rows;
            for (int64_t j = 0; !err && j < n_dims; j++)
                err = read_piece(npy, piece, j * n_cells + i, count, dst + i * n_dims + j, n_dims);
        }
    free(piece);
    return err;
}

static void npy_close(struct io_source *source)
{
    struct npy *npy = (struct npy *)source;
    if (npy->fd >= 0)
        close(npy->fd);
    free(npy->path);
    free(npy);
}

int io_npy_open(struct io_matrix *matrix, const char *path)
{
    int64_t shape[2] = {0, 0};
    struct npy *npy = calloc(1, sizeof *npy);
    if (!npy)
        return io_fail_memory(path, "its header", (int64_t)sizeof *npy);
    npy->source = (struct io_source){npy_read, npy_close};
    npy->fd = -1;
    npy->path = io_copy_text(path);
    if (!npy->path || examine(npy, shape)) {
        npy_close(&npy->source);
        return -1;
    }
    matrix->n_cells = shape[0];
    matrix->n_dims = shape[1];
    matrix->source_bytes = IO_PIECE;
    matrix->state = npy;
    return 0;
}
