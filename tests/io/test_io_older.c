/* SPDX-License-Identifier: BSD-3-Clause */
/* Output to a copy of an .h5ad of anndata 0.6, whose obsm is one dataset of records. check_anndata.py holds it against anndata.
 */
#include <hdf5.h>

#include "io_testing.h"

static float made[N * D];

static struct io_output output_of(const char *source, const char *target)
{
    for (int i = 0; i < N * D; i++)
        made[i] = (float)i / 3;
    return (struct io_output){
        .target = target, .source = source, .key = "X_pca_harmony", .values = made, .n_cells = N, .n_dims = D};
}

static void check_made(const char *path, const char *key)
{
    struct io_matrix matrix;
    float *read = read_matrix(&matrix, path, key);
    assert_memory_equal(read, made, sizeof made);
    free(read);
    io_matrix_close(&matrix);
}

/* Both keys of older_06.h5ad hold the first dimensions of the same values. */
static void check_original(const char *path, const char *key, int n_dims)
{
    struct io_matrix matrix;
    float *read = read_matrix(&matrix, path, key);
    assert_int_equal(matrix.n_dims, n_dims);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < n_dims; j++)
            assert_true(read[i * n_dims + j] == (float)value(i, j));
    free(read);
    io_matrix_close(&matrix);
}

static void check_double(const char *path, const char *name)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), dataset = H5Dopen2(file, name, H5P_DEFAULT);
    hid_t type = H5Dget_type(dataset);
    assert_true(H5Tequal(type, H5T_IEEE_F64LE) > 0);
    H5Tclose(type);
    H5Dclose(dataset);
    H5Fclose(file);
}

/* anndata 0.6 has obsm as one dataset of records: in the copy it is a group, of the same values. */
static void h5ad_of_records(void **state)
{
    (void)state;
    struct io_labels labels;
    char a[512];
    snprintf(a, sizeof a, "%s", in_scratch("a.h5ad"));
    copy_file(DATA("older_06.h5ad"), a, 1);
    struct io_output output = output_of(a, in_scratch("b.h5ad"));
    assert_works(io_output_check(&output));
    assert_works(io_output_write(&output));
    assert_same_bytes(a, DATA("older_06.h5ad"));
    check_made(in_scratch("b.h5ad"), "X_pca_harmony");
    check_original(in_scratch("b.h5ad"), "X_pca", D);
    check_original(in_scratch("b.h5ad"), "X_umap", 2);
    check_double(in_scratch("b.h5ad"), "obsm/X_umap");
    assert_works(io_labels_h5ad(&labels, in_scratch("b.h5ad"), "batch", 0));
    io_labels_close(&labels);

    output.target = a; /* in place gives the same, which is then like any other file */
    assert_works(io_output_write(&output));
    assert_same_bytes(in_scratch("a.h5ad"), in_scratch("b.h5ad"));
    assert_sentence(io_output_check(&output), "a.h5ad|obsm/\"X_pca_harmony\" already");
    assert_int_equal(count_files(0), 2);

    output.source = DATA("older_06.h5ad"); /* a key that is there already */
    output.target = in_scratch("c.h5ad");
    output.key = "X_umap";
    assert_sentence(io_output_check(&output), "older_06.h5ad|obsm/\"X_umap\" already|-f|--key-added");
    output.overwrite = 1;
    assert_works(io_output_write(&output));
    check_made(in_scratch("c.h5ad"), "X_umap");
    check_original(in_scratch("c.h5ad"), "X_pca", D);
    assert_int_equal(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

/* Replaces obsm by n records of the type, which is closed. */
static void put_records(const char *path, hid_t type, hsize_t n)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate_simple(1, &n, NULL);
    assert_true(H5Ldelete(file, "obsm", H5P_DEFAULT) >= 0);
    hid_t obsm = H5Dcreate2(file, "obsm", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    void *zeros = calloc((size_t)n, H5Tget_size(type));
    assert_true(H5Dwrite(obsm, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
    free(zeros);
    H5Dclose(obsm);
    H5Sclose(space);
    H5Fclose(file);
    H5Tclose(type);
}

static void h5ad_of_records_that_cannot_be(void **state)
{
    (void)state;
    char a[512];
    snprintf(a, sizeof a, "%s", in_scratch("a.h5ad"));
    copy_file(DATA("older_06.h5ad"), a, 1);
    struct io_output output = output_of(a, "b.h5ad");
    hid_t text = H5Tcopy(H5T_C_S1), records = H5Tcreate(H5T_COMPOUND, 12);
    H5Tset_size(text, 8);
    H5Tinsert(records, "X_one", 0, H5T_NATIVE_FLOAT);
    H5Tinsert(records, "X_text", 4, text);
    H5Tclose(text);
    put_records(a, records, N);
    assert_sentence(io_output_check(&output), "a.h5ad|before 0.7|\"X_text\" holds no numbers|.npy");
    put_records(a, H5Tcopy(H5T_NATIVE_FLOAT), N);
    assert_sentence(io_output_check(&output), "a.h5ad|obsm is neither a group nor a list of records");
    records = H5Tcreate(H5T_COMPOUND, 4); /* a field without axes of its own */
    H5Tinsert(records, "X_one", 0, H5T_NATIVE_FLOAT);
    put_records(a, records, N);
    output.target = in_scratch("b.h5ad");
    assert_works(io_output_write(&output));
    assert_int_equal(count_files(0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(h5ad_of_records, empty_scratch),
        cmocka_unit_test_teardown(h5ad_of_records_that_cannot_be, empty_scratch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
