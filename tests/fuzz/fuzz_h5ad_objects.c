/* SPDX-License-Identifier: BSD-3-Clause */
/* The input makes an .h5ad of HDF5's objects (h5ad_made.c), whole as HDF5 and anything as AnnData. Read in this process; of every
   512th input a result is added to a copy, as the program does it (by child processes, which takes as long as fifty other
   inputs), and read again. */
#include "h5ad_here.h"
#include "h5ad_made.h"

enum { SELDOM = 512 };

static void add_result(const char *source)
{
    char target[64];
    static const double number = 3;
    static const struct io_entry entries[] = {{.name = "seed", .values = &number, .integer = 1},
                                              {.name = "params/text", .text = "x"}};
    struct io_matrix matrix, again;
    if (fails(io_matrix_open(&matrix, source, "X_pca"))) {
        io_matrix_close(&matrix);
        return;
    }
    int64_t count = io_product(matrix.n_cells, matrix.n_dims);
    float *values = count <= 4096 ? io_room_zeroed(count, sizeof *values) : NULL;
    fuzz_path(target, "-out.h5ad");
    struct io_output output = {.target = target,
                               .overwrite = 1,
                               .values = values,
                               .n_cells = matrix.n_cells,
                               .n_dims = matrix.n_dims,
                               .source = source,
                               .key = "X_new",
                               .entries = entries,
                               .n_entries = 2};
    if (values && !fails(io_output_write(&output))) {
        REQUIRE(io_matrix_open(&again, target, "X_new") == 0 && again.n_cells == matrix.n_cells && again.n_dims == matrix.n_dims);
        values[0] = 1;
        again.skip_names = 1; /* the source's, which may be anything */
        REQUIRE(io_matrix_read(&again, values) == 0 && values[0] == 0);
        io_matrix_close(&again);
        unlink(target);
    } else {
        REQUIRE(access(target, F_OK) != 0);
    }
    io_matrix_close(&matrix);
    free(values);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static char path[64];
    struct choices choices = {data, data + size};
    if (!path[0])
        fuzz_path(path, ".h5ad");
    keep_memory();
    unsigned how = byte_of(&choices);
    if (make_h5ad(path, &choices, (int)(how % 3)) == 0) {
        struct held held = hold_open(path);
        read_here(path, "X_pca");
        labels_here(path, "batch", how & 4);
        let_go(held);
        if (drawn_of(data, size) % SELDOM == 0)
            add_result(path);
    }
    unlink(path);
    return 0;
}
