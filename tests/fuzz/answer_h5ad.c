/* SPDX-License-Identifier: BSD-3-Clause */
/* answer_h5ad FILE...: reads each as the program does, in a child, and prints what it said. Ends with 1 where something else came
   of it. `run` gives it the files that HDF5 crashed on. */
#include "fuzzing.h"
#include "h5ad_looks.h"

static int is_at_work_for_ever(int failed)
{
    return failed && strstr(io_error(), "still at work");
}

/* Returns whether HDF5 does not end on it, as it would not the next time. */
static int read_key(const char *path, const char *key)
{
    struct io_matrix matrix;
    int failed = fails(io_matrix_open(&matrix, path, key));
    if (!failed && io_product(matrix.n_cells, matrix.n_dims) <= MOST_VALUES) {
        float *values = io_room(matrix.n_cells * matrix.n_dims, sizeof *values);
        REQUIRE(values);
        failed = fails(io_matrix_read(&matrix, values));
        free(values);
    }
    printf("%s\n", failed ? io_error() : "read");
    int for_ever = is_at_work_for_ever(failed);
    io_matrix_close(&matrix);
    return for_ever;
}

static int read_column(const char *path, const char *column)
{
    struct io_labels labels;
    int failed = fails(io_labels_h5ad(&labels, path, column, 0));
    io_labels_close(&labels);
    return is_at_work_for_ever(failed);
}

/* What the target asked that the file is of, then what is asked most. */
static void answer(const char *path)
{
    int last = 0;
    FILE *file = fopen(path, "rb");
    if (file && fseek(file, -1, SEEK_END) == 0)
        last = fgetc(file);
    if (file)
        fclose(file);
    struct look look = look_of(last < 0 ? 0 : (unsigned)last);
    struct io_output output = {.target = "/dev/shm/answer-out.h5ad", .source = path, .key = "X_new", .overwrite = 1};
    if (look.key ? read_key(path, look.key) : read_column(path, look.column))
        return;
    if (read_key(path, "X_pca") || read_column(path, "batch"))
        return;
    fails(io_output_check(&output));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char path[64], *real = realpath(argv[i], NULL);
        fuzz_path(path, ".h5ad");
        unlink(path);
        if (!real || symlink(real, path))
            return 1;
        free(real);
        answer(path);
        unlink(path);
    }
    return 0;
}
