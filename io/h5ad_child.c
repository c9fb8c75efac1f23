/* SPDX-License-Identifier: BSD-3-Clause */
/* .h5ad files through a child process: what it finds, and the values, come over a socket. What comes is checked again here,
   because a child whose memory a damaged file has overwritten may say anything. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

/* ---- values on their way
 * ------------------------------------------------------------------------------------------------------------------------------
 */

enum { BLOCK, SUMS, END, MOST_SUMS = IO_PIECE / 8 };

/* Before the values of a block; before places and values of sums, n_rows of them. */
struct parcel {
    int64_t kind, row, column, n_rows, n_columns;
};

struct wire {
    struct io_sink sink;
    struct io_child *child;
};

static int wire_put(struct io_sink *sink, int64_t row, int64_t column, int64_t n_rows, int64_t n_columns, const float *values)
{
    struct io_child *child = ((struct wire *)sink)->child;
    struct parcel parcel = {BLOCK, row, column, n_rows, n_columns};
    return io_child_send(child, &parcel, sizeof parcel) ||
                   io_child_send(child, values, io_product(io_product(n_rows, n_columns), sizeof *values))
               ? -1
               : 0;
}

static int wire_sum(struct io_sink *sink, int64_t count, const int64_t *at, const float *values)
{
    struct io_child *child = ((struct wire *)sink)->child;
    struct parcel parcel = {SUMS, 0, 0, count, 0};
    return io_child_send(child, &parcel, sizeof parcel) || io_child_send(child, at, io_product(count, sizeof *at)) ||
                   io_child_send(child, values, io_product(count, sizeof *values))
               ? -1
               : 0;
}

/* ---- the child of an open matrix
 * ------------------------------------------------------------------------------------------------------------------------------
 */

struct found {
    int64_t n_cells, n_dims, source_bytes;
};

struct wanted {
    const char *path, *key;
};

static int serve_read(struct io_child *child, struct io_matrix *matrix, int64_t skip_names)
{
    struct wire wire = {{wire_put, wire_sum}, child};
    struct parcel end = {.kind = END};
    matrix->skip_names = skip_names != 0;
    io_strings_close(&matrix->cells);
    io_strings_close(&matrix->dims);
    int err = io_h5ad_read_here(matrix, &wire.sink);
    if (io_child_send(child, &end, sizeof end) || io_child_answer(child, err))
        return -1;
    if (err)
        return 0;
    return io_child_send_strings(child, &matrix->cells) || io_child_send_strings(child, &matrix->dims) ? -1 : 0;
}

static int serve_matrix(struct io_child *child, void *job)
{
    const struct wanted *wanted = job;
    struct io_matrix matrix = {0};
    int64_t skip_names;
    int err = io_h5ad_open_here(&matrix, wanted->path, wanted->key);
    struct found found = {matrix.n_cells, matrix.n_dims, matrix.source_bytes};
    io_child_allow(child, matrix.source_bytes, io_product(io_product(matrix.n_cells, matrix.n_dims), sizeof(float)));
    if (io_child_answer(child, err) || err || io_child_send(child, &found, sizeof found))
        err = -1;
    while (!err && io_child_receive(child, &skip_names, sizeof skip_names) == 0)
        err = serve_read(child, &matrix, skip_names);
    if (matrix.state)
        io_matrix_close(&matrix);
    return 0;
}

/* ---- its parent
 * ------------------------------------------------------------------------------------------------------------------------------
 */

struct remote {
    struct io_source source;
    struct io_child child;
    char *path;
};

static int fail_stray(const struct io_child *child)
{
    return io_fail("%s: values that are not its own came while it was read: it is damaged", child->path);
}

static int take_block(struct io_child *child, const struct io_matrix *matrix, const struct parcel *parcel, float *dst)
{
    int64_t n_dims = matrix->n_dims, rows = parcel->n_rows, columns = parcel->n_columns, row = parcel->row;
    if (rows < 0 || columns < 1 || row < 0 || parcel->column < 0 || rows > matrix->n_cells || row > matrix->n_cells - rows ||
        columns > n_dims || parcel->column > n_dims - columns)
        return fail_stray(child);
    float *to = dst + row * n_dims + parcel->column;
    if (columns == n_dims)
        return io_child_receive(child, to, rows * columns * (int64_t)sizeof *to);
    float *piece = malloc(IO_PIECE);
    int64_t most = IO_PIECE / (int64_t)sizeof *piece, left = rows * columns;
    int err = piece ? 0 : io_fail_memory(child->path, "a piece of it", IO_PIECE);
    for (int64_t i = 0, j = 0; !err && left > 0; left -= most) {
        int64_t count = left < most ? left : most;
        err = io_child_receive(child, piece, count * (int64_t)sizeof *piece);
        for (int64_t k = 0; !err && k < count; k++) {
            to[i * n_dims + j] = piece[k];
            if (++j == columns)
                i++, j = 0;
        }
    }
    free(piece);
    return err;
}

static int take_sums(struct io_child *child, const struct io_matrix *matrix, int64_t count, float *dst)
{
    int64_t n_values = matrix->n_cells * matrix->n_dims;
    if (count < 0 || count > MOST_SUMS)
        return fail_stray(child);
    int64_t *at = io_room(count, sizeof *at);
    float *value = io_room(count, sizeof *value);
    int err = at && value ? 0 : io_fail_memory(child->path, "a piece of it", io_product(count, 12));
    if (!err)
        err = io_child_receive(child, at, count * (int64_t)sizeof *at);
    if (!err)
        err = io_child_receive(child, value, count * (int64_t)sizeof *value);
    for (int64_t i = 0; !err && i < count; i++) {
        if (at[i] < 0 || at[i] >= n_values)
            err = fail_stray(child);
        else
            dst[at[i]] += value[i];
    }
    free(at);
    free(value);
    return err;
}

static int remote_read(struct io_matrix *matrix, float *dst)
{
    struct io_child *child = &((struct remote *)matrix->state)->child;
    int64_t skip_names = matrix->skip_names;
    struct parcel parcel = {.kind = BLOCK};
    int summing = 0, err = io_child_send(child, &skip_names, sizeof skip_names);
    while (!err && !(err = io_child_receive(child, &parcel, sizeof parcel)) && parcel.kind != END) {
        if (parcel.kind == SUMS && !summing++)
            memset(dst, 0, (size_t)(matrix->n_cells * matrix->n_dims) * sizeof *dst);
        err = parcel.kind == SUMS    ? take_sums(child, matrix, parcel.n_rows, dst)
              : parcel.kind == BLOCK ? take_block(child, matrix, &parcel, dst)
                                     : fail_stray(child);
    }
    if (!err)
        err = io_child_result(child);
    if (!err)
        err = io_child_receive_strings(child, &matrix->cells);
    if (!err)
        err = io_child_receive_strings(child, &matrix->dims);
    if (!err && ((matrix->cells.count && matrix->cells.count != matrix->n_cells) ||
                 (matrix->dims.count && matrix->dims.count != matrix->n_dims)))
        err = fail_stray(child);
    return err;
}

static void remote_close(struct io_source *source)
{
    struct remote *remote = (struct remote *)source;
    io_child_end(&remote->child);
    free(remote->path);
    free(remote);
}

int io_h5ad_matrix_open(struct io_matrix *matrix, const char *path, const char *key)
{
    struct wanted wanted = {path, key};
    struct found found;
    int64_t bytes;
    struct remote *remote = io_room_zeroed(1, sizeof *remote);
    if (!remote)
        return io_fail_memory(path, "its description", (int64_t)sizeof *remote);
    *remote = (struct remote){{remote_read, remote_close}, {.fd = -1}, io_copy_text(path)};
    int err = remote->path ? io_h5_look(path, &bytes) : -1;
    if (!err)
        err = io_child_start(&remote->child, remote->path, NULL, bytes, serve_matrix, &wanted);
    if (!err)
        err = io_child_result(&remote->child);
    if (!err)
        err = io_child_receive(&remote->child, &found, sizeof found);
    if (!err)
        err = io_check_sizes(path, key, found.n_cells, found.n_dims);
    if (err) {
        remote_close(&remote->source);
        return -1;
    }
    matrix->n_cells = found.n_cells;
    matrix->n_dims = found.n_dims;
    matrix->source_bytes = found.source_bytes;
    matrix->state = remote;
    return 0;
}

/* ---- labels
 * ------------------------------------------------------------------------------------------------------------------------------
 */

struct wanted_labels {
    const char *path, *column;
    int force;
};

static int serve_labels(struct io_child *child, void *job)
{
    const struct wanted_labels *wanted = job;
    struct io_labels labels;
    int err = io_h5ad_labels_here(&labels, wanted->path, wanted->column, wanted->force);
    if (io_child_answer(child, err) || err)
        err = -1;
    if (!err)
        err = io_child_send(child, &labels.n_cells, sizeof labels.n_cells);
    if (!err)
        err = io_child_send(child, labels.level, io_product(labels.n_cells, sizeof *labels.level));
    if (!err)
        err = io_child_send_strings(child, &labels.names);
    io_labels_close(&labels);
    return 0;
}

static int take_labels(struct io_child *child, struct io_labels *labels)
{
    if (io_child_receive(child, &labels->n_cells, sizeof labels->n_cells))
        return -1;
    if (labels->n_cells < 0 || labels->n_cells > io_most_expanded(child->bytes))
        return fail_stray(child);
    labels->level = io_room(labels->n_cells, sizeof *labels->level);
    if (!labels->level)
        return io_fail_memory(child->path, "labels", io_product(labels->n_cells, sizeof *labels->level));
    if (io_child_receive(child, labels->level, labels->n_cells * (int64_t)sizeof *labels->level) ||
        io_child_receive_strings(child, &labels->names))
        return -1;
    labels->n_levels = labels->names.count;
    for (int64_t i = 0; i < labels->n_cells; i++) {
        if (labels->level[i] < -1 || labels->level[i] >= labels->n_levels)
            return fail_stray(child);
        labels->n_missing += labels->level[i] < 0;
    }
    return 0;
}

int io_labels_h5ad(struct io_labels *labels, const char *path, const char *name, int force)
{
    struct wanted_labels wanted = {path, name, force};
    struct io_child child = {.fd = -1};
    int64_t bytes;
    memset(labels, 0, sizeof *labels);
    int err = (labels->name = io_copy_text(name)) ? io_h5_look(path, &bytes) : -1;
    if (!err)
        err = io_child_start(&child, path, NULL, bytes, serve_labels, &wanted);
    if (!err)
        err = io_child_result(&child);
    if (!err)
        err = take_labels(&child, labels);
    if (!err)
        err = io_child_finish(&child, err);
    io_child_end(&child);
    if (err)
        io_labels_close(labels);
    return err;
}

/* ---- one answer
 * ------------------------------------------------------------------------------------------------------------------------------
 */

int io_h5ad_in_child(const char *path, const char *writes, int (*work)(struct io_child *, void *job), void *job)
{
    struct io_child child = {.fd = -1};
    int64_t bytes;
    int err = io_h5_look(path, &bytes);
    if (!err)
        err = io_child_start(&child, path, writes, bytes, work, job);
    if (!err)
        err = io_child_result(&child);
    if (!err)
        err = io_child_finish(&child, err);
    io_child_end(&child);
    return err;
}
