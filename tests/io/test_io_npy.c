/* SPDX-License-Identifier: BSD-3-Clause */
/* .npy of every version and type, and the .npy and .npz that are written. */
#include "io_internal.h"
#include "io_testing.h"

/* Writes a .npy as numpy would; values as they are. */
static const char *make_npy(int version, const char *dictionary, const void *values, size_t bytes)
{
    char file[8192] = "\x93NUMPY";
    size_t start = version == 1 ? 10 : 12, length = strlen(dictionary) + 1;
    length += (64 - (start + length) % 64) % 64;
    file[6] = (char)version;
    file[8] = (char)(length & 255);
    file[9] = (char)(length >> 8);
    memset(file + start, ' ', length);
    memcpy(file + start, dictionary, strlen(dictionary));
    file[start + length - 1] = '\n';
    assert_true(start + length + bytes <= sizeof file);
    memcpy(file + start + length, values, bytes);
    put_file(in_scratch("x.npy"), file, start + length + bytes);
    return in_scratch("x.npy");
}

enum { ROWS = 5, COLUMNS = 2 };

static void check(const char *path, int by_columns)
{
    struct io_matrix matrix;
    float *values = read_matrix(&matrix, path, NULL);
    assert_int_equal(matrix.n_cells, ROWS);
    assert_int_equal(matrix.n_dims, COLUMNS);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            assert_true(values[i * COLUMNS + j] == (float)(by_columns ? j * ROWS + i : i * COLUMNS + j));
    free(values);
    io_matrix_close(&matrix);
}

/* 0, 1, 2, ... in a type. */
static size_t fill(char kind, int width, int big, unsigned char *bytes)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800, 0x4880};
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        unsigned char *to = bytes + i * width;
        uint64_t integer = (uint64_t)i;
        float single = (float)i;
        double real = i;
        const void *from = kind != 'f'  ? (const void *)&integer
                           : width == 2 ? (const void *)&halves[i]
                           : width == 4 ? (const void *)&single
                                        : &real;
        memcpy(to, from, (size_t)width);
        for (int k = 0; big && k < width / 2; k++) {
            unsigned char kept = to[k];
            to[k] = to[width - 1 - k];
            to[width - 1 - k] = kept;
        }
    }
    return (size_t)(ROWS * COLUMNS * width);
}

static void every_type_order_and_version(void **state)
{
    (void)state;
    static const char *const types[] = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"};
    unsigned char bytes[ROWS * COLUMNS * 8];
    char dictionary[128];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int big = 0; big < 2; big++)
            for (int by_columns = 0; by_columns < 2; by_columns++)
                for (int version = 1; version <= 3; version++) {
                    int width = types[t][1] - '0';
                    size_t count = fill(types[t][0], width, big, bytes);
                    snprintf(dictionary, sizeof dictionary, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (%d, %d), }",
                             width == 1 ? '|'
                             : big      ? '>'
                                        : '<',
                             types[t], by_columns ? "True" : "False", ROWS, COLUMNS);
                    check(make_npy(version, dictionary, bytes, count), by_columns);
                }
    size_t count = fill('f', 4, 0, bytes);
    check(make_npy(1, "{\"shape\":(5L,2L),\"fortran_order\":False,\"descr\":\"<f4\"}", bytes, count), 0);
}

static void negative_integers(void **state)
{
    (void)state;
    static const int8_t bytes[] = {-128, 127, -1, 0};
    struct io_matrix matrix;
    float *values =
        read_matrix(&matrix, make_npy(1, "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2), }", bytes, 4), NULL);
    assert_true(values[0] == -128 && values[1] == 127 && values[2] == -1 && values[3] == 0);
    free(values);
    io_matrix_close(&matrix);
}

static void headers_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary, *sentence;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (10,), }", "one axis (10 values)|two: cells x dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "0 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2, 1), }", "3 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", "0 x 2"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (5, 2), }", "'|b1' (booleans)"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (5, 2), }", "'|O' (Python objects)"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (5, 2), }", "complex"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (5, 2), }", "'<f16'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (5, 2), }", "records"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (50, 2), }", "50 x 2 values take 400 bytes|has 40|truncated"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }", "take 32 bytes|has 40|damaged"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904), }",
         "no machine can hold"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 2), }", "64 bits"},
        {"{'descr': '<f4', 'fortran_order': False, }", "no shape"},
        {"nonsense", "x.npy"},
    };
    unsigned char bytes[ROWS * COLUMNS * 8];
    size_t count = fill('f', 4, 0, bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_sentence(try_open(make_npy(1, cases[i].dictionary, bytes, count), NULL), cases[i].sentence);
}

static void files_that_are_no_npy(void **state)
{
    (void)state;
    char dictionary[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2), }";
    unsigned char bytes[ROWS * COLUMNS * 8];
    size_t count = fill('f', 4, 0, bytes), whole;
    assert_sentence(try_open(in_scratch("none.npy"), NULL), "none.npy|No such file");
    put_text(in_scratch("text.npy"), "cell\tPC1\tPC2\n");
    assert_sentence(try_open(in_scratch("text.npy"), NULL), "no .npy file");
    assert_sentence(try_open(make_npy(4, dictionary, bytes, count), NULL), "version 4");
    char *file = get_file(make_npy(1, dictionary, bytes, count), &whole);
    for (size_t cut = 0; cut < whole; cut++) {
        put_file(in_scratch("cut.npy"), file, cut);
        assert_sentence(try_open(in_scratch("cut.npy"), NULL), "cut.npy");
    }
    free(file);
}

static void written_npy_reads_back(void **state)
{
    (void)state;
    int64_t shape[3] = {60, 3, 2};
    float values[360];
    double wide[4] = {1, 2.5, -3, 1e300};
    size_t count;
    for (int i = 0; i < 360; i++)
        values[i] = (float)i / 7;
    assert_works(io_npy_write(in_scratch("y.npy"), values, 'f', 2, shape));
    struct io_matrix matrix;
    float *read = read_matrix(&matrix, in_scratch("y.npy"), NULL);
    assert_memory_equal(read, values, 180 * sizeof *read);
    free(read);
    io_matrix_close(&matrix);
    assert_works(io_npy_write(in_scratch("y.npy"), values, 'f', 3, shape));
    char *file = get_file(in_scratch("y.npy"), &count);
    assert_int_equal(count, 128 + 360 * 4);
    assert_memory_equal(file, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (60, 3, 2), }", 71);
    assert_int_equal(file[127], '\n');
    free(file);
    assert_works(io_npy_write(in_scratch("y.npy"), wide, 'd', 1, (int64_t[]){4}));
    file = get_file(in_scratch("y.npy"), &count);
    assert_non_null(strstr(file + 10, "'<f8', 'fortran_order': False, 'shape': (4,), }"));
    assert_memory_equal(file + count - 32, wide, 32);
    free(file);
    assert_int_equal(count_files(0), 1);
}

/* More than one thread's share, cut anywhere; and then the file ends early. */
static void many_values_by_any_threads(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2097151, 2097152, 2097153, 6300001};
    const int64_t most = counts[4];
    float *values = calloc((size_t)most, sizeof *values), *read = calloc((size_t)most + 1, sizeof *read);
    struct io_matrix matrix;
    assert_true(values && read);
    for (int64_t i = 0; i < most; i++)
        values[i] = (float)(i % 1000003);
    for (int c = 0; c < 5; c++) {
        assert_works(io_npy_write(in_scratch("many.npy"), values, 'f', 2, (int64_t[]){counts[c], 1}));
        for (int64_t threads = 0; threads <= 20; threads += threads ? 3 * threads : 1) {
            memset(read, 0xff, (size_t)(most + 1) * sizeof *read);
            assert_works(io_matrix_open(&matrix, in_scratch("many.npy"), NULL));
            matrix.threads = threads;
            assert_works(io_matrix_read(&matrix, read));
            assert_memory_equal(read, values, (size_t)counts[c] * sizeof *read);
            assert_true(isnan(read[counts[c]])); /* and nothing behind */
            io_matrix_close(&matrix);
        }
    }
    for (int64_t threads = 1; threads <= 4; threads += 3) {
        assert_works(io_npy_write(in_scratch("many.npy"), values, 'f', 2, (int64_t[]){most, 1}));
        assert_works(io_matrix_open(&matrix, in_scratch("many.npy"), NULL));
        matrix.threads = threads;
        assert_works(truncate(in_scratch("many.npy"), 128 + most * 4 - 1));
        assert_sentence(io_matrix_read(&matrix, read), "many.npy|became shorter while it was read");
        io_matrix_close(&matrix);
    }
    free(values);
    free(read);
}

/* numpy and zip's own tools read it in check_anndata.py; here: nothing stays of one that was given up, and the same gives the
 * same. */
static void npz(void **state)
{
    (void)state;
    struct io_npz *out;
    int64_t shape[2] = {30, 3};
    float values[90] = {1, 2, 3};
    for (int i = 0; i < 2; i++) {
        assert_works(io_npz_begin(&out, in_scratch(i ? "b.npz" : "a.npz")));
        assert_works(io_npz_add(out, "R", values, 'f', 2, shape));
        assert_works(io_npz_add(out, "blocks", values, 'i', 1, shape));
        assert_works(io_npz_end(&out));
        assert_null(out);
    }
    assert_same_bytes(in_scratch("a.npz"), in_scratch("b.npz"));
    assert_works(io_npz_begin(&out, in_scratch("c.npz")));
    assert_works(io_npz_add(out, "R", values, 'f', 2, shape));
    assert_int_equal(count_files(0), 3);
    io_npz_abandon(&out);
    io_npz_abandon(&out);
    assert_int_equal(count_files(0), 2);
    assert_sentence(io_npz_begin(&out, in_scratch("no/folder.npz")), "folder.npz|No such file");
    assert_null(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_type_order_and_version, empty_scratch),
        cmocka_unit_test_teardown(negative_integers, empty_scratch),
        cmocka_unit_test_teardown(headers_that_do_not_fit, empty_scratch),
        cmocka_unit_test_teardown(files_that_are_no_npy, empty_scratch),
        cmocka_unit_test_teardown(written_npy_reads_back, empty_scratch),
        cmocka_unit_test_teardown(many_values_by_any_threads, empty_scratch),
        cmocka_unit_test_teardown(npz, empty_scratch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
