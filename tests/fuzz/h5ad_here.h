/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads an .h5ad in this process, where the program reads it in a child: so that a fuzzer sees which lines it reaches. */
#ifndef TESTS_FUZZ_H5AD_HERE_H
#define TESTS_FUZZ_H5AD_HERE_H

#include "fuzzing.h"
#include "h5.h"

/* HDF5 keeps the memory that it has been given, instead of asking for it at every file: several times as many inputs. */
static inline void keep_memory(void)
{
    static int kept;
    if (!kept++) {
        H5dont_atexit(); /* it dies there of what it could not write */
        H5set_free_list_limits(-1, -1, -1, -1, -1, -1);
        fuzz_values_ready();
    }
}

/* Files, groups, datasets, attributes and types, whatever file they are of or none. */
static inline ssize_t open_ids(void)
{
    return H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL);
}

struct held {
    hid_t file;
    ssize_t ids;
};

/* HDF5 opens a file that is open already by adding to a count: the half megabyte of a file's cache is made once for an input, and
 * not once for every look at it. And what it was opened with first counts: a buffer for each dataset that is filled with zeros,
 * 64 KB by themselves, need be no larger than what the files have. */
static inline struct held hold_open(const char *path)
{
    enum { BUFFER = 2048 };
    static hid_t access;
    struct io_h5_quiet quiet;
    io_h5_quiet_begin(&quiet);
    if (!access) {
        access = H5Pcreate(H5P_FILE_ACCESS);
        H5Pset_sieve_buf_size(access, BUFFER);
    }
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    io_h5_quiet_end(&quiet);
    return (struct held){file, open_ids()};
}

/* Nothing is open that was not before. Returns whether HDF5 let the file go too: it would take the next of this name for the
 * same. */
static inline int let_go(struct held held)
{
    struct io_h5_quiet quiet;
    REQUIRE(open_ids() == held.ids);
    io_h5_quiet_begin(&quiet);
    if (held.file >= 0)
        H5Fclose(held.file);
    int gone = H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_FILE) == 0;
    io_h5_quiet_end(&quiet);
    return gone;
}

/* Holds what io gives it against the sizes that it gave before. */
struct here_sink {
    struct io_sink sink;
    int64_t n_cells, n_dims, seen;
    float *values; /* or NULL: too many */
};

static inline int here_put(struct io_sink *sink, int64_t row, int64_t column, int64_t n_rows, int64_t n_columns,
                           const float *values)
{
    struct here_sink *here = (struct here_sink *)sink;
    REQUIRE(row >= 0 && column >= 0 && n_rows > 0 && n_columns > 0 && n_rows <= here->n_cells - row &&
            n_columns <= here->n_dims - column);
    here->seen += n_rows * n_columns;
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t j = 0; j < n_columns; j++) {
            float value = values[i * n_columns + j];
            if (here->values)
                here->values[(row + i) * here->n_dims + column + j] = value;
        }
    return 0;
}

static inline int here_sum(struct io_sink *sink, int64_t count, const int64_t *at, const float *values)
{
    struct here_sink *here = (struct here_sink *)sink;
    for (int64_t i = 0; i < count; i++) {
        REQUIRE(at[i] >= 0 && at[i] < here->n_cells * here->n_dims);
        if (here->values)
            here->values[at[i]] += values[i];
    }
    here->seen = here->n_cells * here->n_dims;
    return 0;
}

static inline void read_here(const char *path, const char *key)
{
    enum { MOST_KEPT = 1 << 16 }; /* to be filled with zeros takes long */
    struct io_matrix matrix = {0};
    struct stat info;
    if (fails(io_h5ad_open_here(&matrix, path, key))) {
        REQUIRE(!matrix.state);
        return;
    }
    int64_t count = io_product(matrix.n_cells, matrix.n_dims);
    REQUIRE(matrix.n_cells > 0 && matrix.n_dims > 0 && stat(path, &info) == 0);
    /* What the program allocates for the values follows from these. */
    REQUIRE(count <= io_most_expanded(info.st_size) && matrix.source_bytes <= 8 * io_most_expanded(info.st_size) + (256 << 20));
    struct here_sink here = {{here_put, here_sum}, matrix.n_cells, matrix.n_dims, 0, NULL};
    if (count <= MOST_VALUES) {
        here.values = count <= MOST_KEPT ? io_room_zeroed(count, sizeof *here.values) : NULL;
        if (!fails(io_h5ad_read_here(&matrix, &here.sink))) {
            REQUIRE(here.seen == count || here.seen == 0); /* 0: a sparse matrix without values */
            require_strings(&matrix.cells);
            require_strings(&matrix.dims);
        }
        free(here.values);
    }
    io_matrix_close(&matrix);
}

static inline void labels_here(const char *path, const char *column, int force)
{
    struct io_labels labels;
    if (fails(io_h5ad_labels_here(&labels, path, column, force)))
        require_no_labels(&labels);
    else
        require_labels(&labels);
    io_labels_close(&labels);
}

#endif
