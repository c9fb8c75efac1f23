/* SPDX-License-Identifier: BSD-3-Clause */
/* answer_h5ad FILE...: reads each as the program does, in a child, and prints one line: what it said. Ends with 1 where something
   else came of it. `run` gives it the files that HDF5 crashed on. */
#include "fuzzing.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char path[64], *real = realpath(argv[i], NULL);
        struct io_matrix matrix;
        struct io_labels labels;
        struct io_output output = {.target = "/dev/shm/answer-out.h5ad", .source = path, .key = "X_new", .overwrite = 1};
        fuzz_path(path, ".h5ad");
        unlink(path);
        if (!real || symlink(real, path))
            return 1;
        free(real);
        int read = fails(io_matrix_open(&matrix, path, "X_pca"));
        if (!read && io_product(matrix.n_cells, matrix.n_dims) <= MOST_VALUES) {
            float *values = io_room(matrix.n_cells * matrix.n_dims, sizeof *values);
            REQUIRE(values);
            read = fails(io_matrix_read(&matrix, values));
            free(values);
        }
        printf("%s\n", read ? io_error() : "read");
        io_matrix_close(&matrix);
        if (read && strstr(io_error(), "still at work")) { /* which it would be again */
            unlink(path);
            continue;
        }
        fails(io_labels_h5ad(&labels, path, "batch", 0));
        io_labels_close(&labels);
        fails(io_output_check(&output));
        unlink(path);
    }
    return 0;
}
