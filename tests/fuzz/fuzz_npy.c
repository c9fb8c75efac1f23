/* SPDX-License-Identifier: BSD-3-Clause */
/* The input is a .npy file. */
#include "fuzzing.h"

int fuzz_input(const uint8_t *data, size_t size)
{
    static char path[64];
    struct io_matrix matrix;
    if (!path[0])
        fuzz_path(path, ".npy");
    fuzz_file(path, data, size);
    if (fails(io_matrix_open(&matrix, path, NULL))) {
        REQUIRE(!matrix.state);
    } else {
        /* No value without a byte in the file: that bounds what is allocated for them. */
        REQUIRE(matrix.n_cells > 0 && matrix.n_dims > 0 && io_product(matrix.n_cells, matrix.n_dims) <= (int64_t)size);
        float *values = io_room(io_product(matrix.n_cells, matrix.n_dims), sizeof *values);
        REQUIRE(values);
        fails(io_matrix_read(&matrix, values));
        free(values);
    }
    io_matrix_close(&matrix);
    unlink(path);
    return 0;
}
