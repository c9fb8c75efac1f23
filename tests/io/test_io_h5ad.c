/* SPDX-License-Identifier: BSD-3-Clause */
/* Embeddings of .h5ad files in every layout, and the sentences about those that cannot be read. */
#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>

#include "io_testing.h"

static void check_values(const char *file, const char *key, double (*expected)(int64_t, int64_t))
{
    struct io_matrix matrix;
    float *values = read_matrix(&matrix, file, key);
    assert_int_equal(matrix.n_cells, N);
    assert_int_equal(matrix.n_dims, D);
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < D; j++)
            if (values[i * D + j] != (float)expected(i, j))
                fail_msg("%s: (%d, %d) is %g, not %g", key, (int)i, (int)j, values[i * D + j], expected(i, j));
    assert_int_equal(matrix.cells.count, N);
    assert_string_equal(matrix.cells.at[0], "cell_0");
    assert_string_equal(matrix.cells.at[N - 1], "cell_59");
    free(values);
    io_matrix_close(&matrix);
}

static double sparse_value(int64_t i, int64_t j)
{
    return (i + j) % 3 == 0 ? value(i, j) : 0;
}

static void dense_arrays_of_every_type(void **state)
{
    (void)state;
    static const char *const keys[] = {"X_pca", "X_f8", "X_f2", "X_f2_big", "X_f4_big", "X_gzip", "X_chunked"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_values(DATA("layouts.h5ad"), keys[i], value);
    check_values(DATA("layouts.h5ad"), "X_i2", whole_value);
    check_values(DATA("layouts.h5ad"), "X_u8", whole_value);
}

static void p40_p97_data_frames_keep_their_names(void **state)
{
    (void)state;
    struct io_matrix matrix;
    check_values(DATA("layouts.h5ad"), "X_frame", value);
    float *values = read_matrix(&matrix, DATA("layouts.h5ad"), "X_frame");
    assert_int_equal(matrix.dims.count, 3);
    assert_string_equal(matrix.dims.at[2], "w");
    free(values);
    io_matrix_close(&matrix);

    values = read_matrix(&matrix, DATA("layouts.h5ad"), "X_frame_nullable");
    assert_int_equal(matrix.n_dims, 2);
    assert_true(isnan(values[2 * 4])); /* masked; the core refuses it by row and column */
    assert_true(values[2 * 5] == 5 && values[2 * 59 + 1] == 59);
    free(values);
    io_matrix_close(&matrix);

    assert_sentence(try_open(DATA("layouts.h5ad"), "X_frame_text"), "layouts.h5ad|X_frame_text|\"who\" holds text");
    assert_sentence(try_open(DATA("layouts.h5ad"), "X_frame_cat"), "\"u\" is stored as \"categorical\"|numbers");
    assert_sentence(try_open(DATA("damaged.h5ad"), "X_frame_gone"), "\"u\" of column-order is not there");
}

static void p97_sparse_matrices_become_dense(void **state)
{
    (void)state;
    check_values(DATA("layouts.h5ad"), "X_csr", sparse_value);
    check_values(DATA("layouts.h5ad"), "X_csc", sparse_value);
    check_values(DATA("older_07.h5ad"), "X_old_csr", sparse_value);
}

static void damaged_sparse_matrices(void **state)
{
    (void)state;
    static const struct {
        const char *key, *sentence;
    } open_fails[] = {{"X_falls", "indptr[7] is 3|60 values|damaged"},
                      {"X_indptr_short", "indptr has 60 entries, 61 are needed"},
                      {"X_indptr_end", "indptr[60] is 59"},
                      {"X_indices_short", "60 values and 59 indices"}};
    for (size_t i = 0; i < sizeof open_fails / sizeof *open_fails; i++)
        assert_sentence(try_open(DATA("damaged.h5ad"), open_fails[i].key), open_fails[i].sentence);
    static const char *const read_fails[][2] = {{"X_index", "index 3 of value 0 is not below 3"},
                                                {"X_negative", "index -1 of value 0"}};
    for (size_t i = 0; i < 2; i++) {
        struct io_matrix matrix;
        float values[N * D];
        assert_works(io_matrix_open(&matrix, DATA("damaged.h5ad"), read_fails[i][0]));
        assert_sentence(io_matrix_read(&matrix, values), read_fails[i][1]);
        assert_int_equal(matrix.cells.count, 0);
        io_matrix_close(&matrix);
    }
}

static void older_files(void **state)
{
    (void)state;
    check_values(DATA("older_07.h5ad"), "X_pca", value);
    check_values(DATA("older_06.h5ad"), "X_pca", value);
    struct io_matrix matrix;
    float *values = read_matrix(&matrix, DATA("older_06.h5ad"), "X_umap");
    assert_int_equal(matrix.n_dims, 2);
    assert_true(values[2 * 59 + 1] == (float)value(59, 1));
    free(values);
    io_matrix_close(&matrix);
    assert_sentence(try_open(DATA("older_06.h5ad"), "X_pce"), "nearest: \"X_pca\"");
}

static void entries_that_are_no_embedding(void **state)
{
    (void)state;
    static const struct {
        const char *file, *key, *sentence;
    } cases[] = {{DATA("layouts.h5ad"), "X_bool", "X_bool|holds booleans"},
                 {DATA("layouts.h5ad"), "X_one_axis", "has 1 axis|two: cells x dimensions"},
                 {DATA("layouts.h5ad"), "X_three_axes", "has 3 axes"},
                 {DATA("layouts.h5ad"), "X_empty", "is 60 x 0"},
                 {DATA("layouts.h5ad"), "X_pcs", "obsm has no \"X_pcs\"|nearest: \"X_pca\"|there are "},
                 {DATA("older_07.h5ad"), "harmony", "obsm has no \"harmony\"|all: \"X_old_csr\", \"X_pca\""},
                 {DATA("damaged.h5ad"), "X_lzf", "damaged.h5ad|X_lzf|lzf (filter 32000)|gzip"},
                 {DATA("damaged.h5ad"), "X_short", "59 rows|60 cells"},
                 {DATA("damaged.h5ad"), "X_unwritten", "claims 200000000000 bytes|stores 0"},
                 {DATA("damaged.h5ad"), "X_holes", "claims 200000000000 bytes|stores 0"},
                 {DATA("damaged.h5ad"), "X_huge", "claims 20000000000000 bytes|compressed"},
                 {DATA("damaged.h5ad"), "X_huger", "no machine can hold"},
                 {DATA("damaged.h5ad"), "X_unknown", "\"awkward-array\""},
                 {DATA("damaged.h5ad"), "X_virtual", "other files"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_sentence(try_open(cases[i].file, cases[i].key), cases[i].sentence);
}

static void files_that_are_no_anndata(void **state)
{
    (void)state;
    assert_sentence(try_open(in_scratch("none.h5ad"), "X_pca"), "none.h5ad|No such file");
    put_text(in_scratch("text.h5ad"), "this is text, and not a short one: it is longer than the signature");
    assert_sentence(try_open(in_scratch("text.h5ad"), "X_pca"), "text.h5ad|no HDF5 file");
    put_text(in_scratch("empty.h5ad"), "");
    assert_sentence(try_open(in_scratch("empty.h5ad"), "X_pca"), "empty.h5ad");
    assert_int_equal(mkdir(in_scratch("folder.h5ad"), 0777), 0);
    assert_sentence(try_open(in_scratch("folder.h5ad"), "X_pca"), "folder.h5ad|not a regular file");
    assert_sentence(try_open("x.parquet", "X_pca"), "x.parquet|ending|.h5ad");
}

/* Whatever is cut off, the answer is a sentence: never a crash, never values. */
static void truncated_files(void **state)
{
    (void)state;
    for (int part = 1; part < 40; part++) {
        struct io_labels labels;
        copy_file(DATA("layouts.h5ad"), in_scratch("short.h5ad"), part / 40.0);
        assert_sentence(try_open(in_scratch("short.h5ad"), "X_pca"), "short.h5ad");
        assert_sentence(io_labels_h5ad(&labels, in_scratch("short.h5ad"), "cat", 0), "short.h5ad");
    }
    assert_sentence(try_open(in_scratch("short.h5ad"), "X_pca"), "truncated|copy it again");
}

/* Numbers that no reader expects, in files that are whole as HDF5: reading fails or not, but stays within the memory it has
   (which the sanitizers watch). Bytes changed anywhere would be a test of HDF5, which 1.10.8 does not pass. */
static void odd_numbers_in_datasets(void **state)
{
    (void)state;
    static const char *const datasets[] = {"obsm/X_old_csr/indptr", "obsm/X_old_csr/indices", "obs/batch", "obs/loose"};
    static const int64_t odd[] = {-2, -1, 0, 3, 4, 59, 60, 61, 127, 1 << 20, INT32_MAX, INT32_MIN};
    int failed = 0;
    for (size_t d = 0; d < sizeof datasets / sizeof *datasets; d++)
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
            for (hsize_t at = 0; at < 60; at += 59) {
                struct io_matrix matrix;
                struct io_labels labels;
                float values[N * D];
                hsize_t one = 1;
                copy_file(DATA("older_07.h5ad"), in_scratch("odd.h5ad"), 1);
                hid_t file = H5Fopen(in_scratch("odd.h5ad"), H5F_ACC_RDWR, H5P_DEFAULT);
                hid_t dataset = H5Dopen2(file, datasets[d], H5P_DEFAULT);
                hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &one, NULL);
                assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &one, NULL) >= 0);
                assert_true(H5Dwrite(dataset, H5T_NATIVE_INT64, memory, space, H5P_DEFAULT, &odd[k]) >= 0);
                H5Sclose(memory);
                H5Sclose(space);
                H5Dclose(dataset);
                assert_true(H5Fclose(file) >= 0);
                int err = io_matrix_open(&matrix, in_scratch("odd.h5ad"), "X_old_csr");
                if (!err)
                    err = io_matrix_read(&matrix, values);
                io_matrix_close(&matrix);
                failed += err != 0;
                failed += io_labels_h5ad(&labels, in_scratch("odd.h5ad"), d == 3 ? "loose" : "batch", 0) != 0;
                for (int64_t i = 0; i < labels.n_cells; i++)
                    assert_in_range(labels.level[i] + 1, 0, labels.n_levels);
                io_labels_close(&labels);
            }
    assert_in_range(failed, 50, 90);
}

static void locked_by_a_writer(void **state)
{
    (void)state;
    copy_file(DATA("layouts.h5ad"), in_scratch("locked.h5ad"), 1);
    int fd = open(in_scratch("locked.h5ad"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    const char *setting = getenv("HDF5_USE_FILE_LOCKING");
    if (setting && strcmp(setting, "FALSE") == 0) {
        close(fd);
        print_message("skipped: HDF5_USE_FILE_LOCKING is FALSE\n");
        skip();
    }
    assert_sentence(try_open(in_scratch("locked.h5ad"), "X_pca"), "locked.h5ad|locked|writing");
    close(fd);
    assert_works(try_open(in_scratch("locked.h5ad"), "X_pca"));
}

static void names_can_be_left_out(void **state)
{
    (void)state;
    struct io_matrix matrix;
    float values[N * D];
    assert_works(io_matrix_open(&matrix, DATA("layouts.h5ad"), "X_frame"));
    matrix.skip_names = 1;
    assert_works(io_matrix_read(&matrix, values));
    assert_int_equal(matrix.cells.count, 0);
    assert_int_equal(matrix.dims.count, 0);
    assert_true(values[N * D - 1] == (float)value(N - 1, D - 1));
    io_matrix_close(&matrix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_arrays_of_every_type),
        cmocka_unit_test(p40_p97_data_frames_keep_their_names),
        cmocka_unit_test(p97_sparse_matrices_become_dense),
        cmocka_unit_test(damaged_sparse_matrices),
        cmocka_unit_test(older_files),
        cmocka_unit_test(entries_that_are_no_embedding),
        cmocka_unit_test_teardown(files_that_are_no_anndata, empty_scratch),
        cmocka_unit_test_teardown(truncated_files, empty_scratch),
        cmocka_unit_test_teardown(odd_numbers_in_datasets, empty_scratch),
        cmocka_unit_test_teardown(locked_by_a_writer, empty_scratch),
        cmocka_unit_test(names_can_be_left_out),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
