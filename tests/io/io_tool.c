/* SPDX-License-Identifier: BSD-3-Clause */
/* Drives io from check_anndata.py.

    io_tool add SOURCE TARGET KEY     obsm/KEY = obsm/X_pca + 1, uns/KEY with every kind of entry; overwrites
    io_tool create TARGET             60 x 3, columns batch and type (cell 8 has none)
    io_tool npz TARGET                arrays a (2 x 3 float32), b (4 float64), c (2 x 2 x 2 int32): 0, 1, 2, ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"

static int add(const char *source, const char *target, const char *key)
{
    static const double numbers[] = {0.5, 1.5, 2.5}, whole[] = {1, 2, 3}, seven[] = {7};
    static const struct io_entry entries[] = {{.name = "version", .text = "0.1.0 \xc3\xa9"},
                                              {.name = "theta", .values = numbers},
                                              {.name = "seed", .values = seven, .integer = 1},
                                              {.name = "lambda", .values = numbers, .count = 2},
                                              {.name = "trace/objective", .values = numbers, .count = 3},
                                              {.name = "trace/sweep", .values = whole, .count = 3, .integer = 1}};
    struct io_matrix matrix;
    int err = io_matrix_open(&matrix, source, "X_pca");
    float *values = err ? NULL : malloc((size_t)(matrix.n_cells * matrix.n_dims) * sizeof *values);
    if (!err)
        err = io_matrix_read(&matrix, values);
    for (int64_t i = 0; !err && i < matrix.n_cells * matrix.n_dims; i++)
        values[i] += 1;
    struct io_output output = {.target = target,
                               .source = source,
                               .key = key,
                               .values = values,
                               .n_cells = matrix.n_cells,
                               .n_dims = matrix.n_dims,
                               .entries = entries,
                               .n_entries = 6,
                               .overwrite = 1};
    io_matrix_close(&matrix);
    if (!err)
        err = io_output_write(&output);
    free(values);
    return err;
}

static int create(const char *target)
{
    enum { N = 60, D = 3 };
    static const char *const batches[] = {"b1", "b2"}, *const types[] = {"t1", "t2, \xc3\xa9", "t3"};
    static const struct io_strings batch_names = {2, (const char **)batches, NULL}, type_names = {3, (const char **)types, NULL};
    static float values[N * D];
    static int32_t batch[N], type[N];
    for (int i = 0; i < N; i++) {
        batch[i] = i % 2;
        type[i] = i == 7 ? -1 : i % 3;
        for (int j = 0; j < D; j++)
            values[i * D + j] = (float)(i * D + j);
    }
    struct io_new_h5ad made = {.n_cells = N,
                               .n_dims = D,
                               .values = values,
                               .key = "X_pca",
                               .n_columns = 2,
                               .column = (const char *const[]){"batch", "type"},
                               .level = (const int32_t *const[]){batch, type},
                               .level_names = (const struct io_strings *const[]){&batch_names, &type_names}};
    return io_h5ad_create(target, &made, 1);
}

static int npz(const char *target)
{
    static const float a[] = {0, 1, 2, 3, 4, 5};
    static const double b[] = {0, 1, 2, 3};
    static const int32_t c[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct io_npz *out;
    int err = io_npz_begin(&out, target);
    if (!err)
        err = io_npz_add(out, "a", a, 'f', 2, (int64_t[]){2, 3});
    if (!err)
        err = io_npz_add(out, "b", b, 'd', 1, (int64_t[]){4});
    if (!err)
        err = io_npz_add(out, "c", c, 'i', 3, (int64_t[]){2, 2, 2});
    if (!err)
        return io_npz_end(&out);
    io_npz_abandon(&out);
    return err;
}

int main(int argc, char **argv)
{
    int err = 1;
    if (argc == 5 && strcmp(argv[1], "add") == 0)
        err = add(argv[2], argv[3], argv[4]);
    else if (argc == 3 && strcmp(argv[1], "create") == 0)
        err = create(argv[2]);
    else if (argc == 3 && strcmp(argv[1], "npz") == 0)
        err = npz(argv[2]);
    else
        fprintf(stderr, "io_tool: see its source for what it does\n");
    if (err < 0)
        fprintf(stderr, "%s\n", io_error());
    return err ? 1 : 0;
}
