/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka, the committed data, a folder of the test's own, and checks of the sentences that failures leave. */
#ifndef TESTS_IO_TESTING_H
#define TESTS_IO_TESTING_H

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "io.h"

#define DATA(name) TEST_DATA "/" name

enum { N = 60, D = 3 }; /* of the committed files */

/* make_h5ad.py's values. */
static inline double whole_value(int64_t i, int64_t j)
{
    return (double)((7 * i + 13 * j) % 101);
}

static inline double value(int64_t i, int64_t j)
{
    return whole_value(i, j) / 8 - 5;
}

/* A failure whose sentence holds each of the parts, '|' between them, and is one sentence. */
#define assert_sentence(result, parts) check_sentence((result), (parts), __FILE__, __LINE__)

static inline void check_sentence(int result, const char *parts, const char *file, int line)
{
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", parts);
    if (result != -1) {
        print_error("returned %d, a failure with \"%s\" was expected\n", result, parts);
        _fail(file, line);
    }
    for (char *part; (part = strsep(&rest, "|"));)
        if (!strstr(io_error(), part) || strchr(io_error(), '\n')) {
            print_error("\"%s\"\n    should hold \"%s\"\n", io_error(), part);
            _fail(file, line);
        }
}

#define assert_works(result) check_works((result), __FILE__, __LINE__)

static inline void check_works(int result, const char *file, int line)
{
    if (result == 0)
        return;
    print_error("returned %d: %s\n", result, io_error());
    _fail(file, line);
}

/* ---- a folder ------------------------------------------------------------------------------------------------------------- */

static char scratch[64];

static inline const char *in_scratch(const char *name)
{
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", scratch, name);
    return path[turn];
}

static inline int make_scratch(void **state)
{
    (void)state;
    snprintf(scratch, sizeof scratch, "io-scratch-XXXXXX");
    return mkdtemp(scratch) ? 0 : -1;
}

/* Files in the folder, hidden ones too; remove: deletes them. */
static inline int count_files(int remove_them)
{
    int count = 0;
    DIR *folder = opendir(scratch);
    if (!folder)
        return -1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (remove_them && unlink(in_scratch(entry->d_name)))
            rmdir(in_scratch(entry->d_name));
    }
    closedir(folder);
    return count;
}

static inline int empty_scratch(void **state)
{
    (void)state;
    count_files(1);
    return 0;
}

static inline int remove_scratch(void **state)
{
    empty_scratch(state);
    return rmdir(scratch);
}

static inline void put_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static inline void put_text(const char *path, const char *text)
{
    put_file(path, text, strlen(text));
}

/* The whole file, with a 0 behind it. To be freed. */
static inline char *get_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *count = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*count + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    bytes[*count] = 0;
    fclose(file);
    return bytes;
}

static inline void copy_file(const char *from, const char *to, double share)
{
    size_t count;
    char *bytes = get_file(from, &count);
    put_file(to, bytes, (size_t)((double)count * share));
    free(bytes);
}

static inline void assert_same_bytes(const char *a, const char *b)
{
    size_t n_a, n_b;
    char *x = get_file(a, &n_a), *y = get_file(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(x, y, n_a);
    free(x);
    free(y);
}

/* Opens and reads; to be closed by the caller, as the values are to be freed. */
static inline float *read_matrix(struct io_matrix *matrix, const char *path, const char *key)
{
    assert_works(io_matrix_open(matrix, path, key));
    float *values = malloc((size_t)(matrix->n_cells * matrix->n_dims) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < matrix->n_cells * matrix->n_dims; i++)
        values[i] = 12345; /* what is not written shows */
    assert_works(io_matrix_read(matrix, values));
    return values;
}

static inline int try_open(const char *path, const char *key)
{
    struct io_matrix matrix;
    int err = io_matrix_open(&matrix, path, key);
    if (err)
        assert_null(matrix.state);
    io_matrix_close(&matrix);
    return err;
}

#endif
