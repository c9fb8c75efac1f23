/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables as people and programs write them, and as they are written. */
#include <zlib.h>

#include "io_testing.h"

/* What a table holds, as one text: header of the names | dims | names | values. */
static int read_table(const char *name, const char *text, char *result)
{
    struct io_matrix matrix;
    put_text(in_scratch(name), text);
    result[0] = 0;
    int err = io_matrix_open(&matrix, in_scratch(name), NULL);
    float *values = err ? NULL : malloc((size_t)(matrix.n_cells * matrix.n_dims) * sizeof *values);
    if (!err)
        err = io_matrix_read(&matrix, values);
    if (!err) {
        sprintf(result, "%s |", matrix.cell_header);
        for (int64_t j = 0; j < matrix.dims.count; j++)
            sprintf(result + strlen(result), " %s", matrix.dims.at[j]);
        strcat(result, " |");
        for (int64_t i = 0; i < matrix.cells.count; i++)
            sprintf(result + strlen(result), " %s", matrix.cells.at[i]);
        for (int64_t i = 0; i < matrix.n_cells; i++)
            for (int64_t j = 0; j < matrix.n_dims; j++)
                sprintf(result + strlen(result), "%s %g", j ? "" : " |", values[i * matrix.n_dims + j]);
    }
    free(values);
    io_matrix_close(&matrix);
    return err;
}

static void shapes_of_tables(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *result;
    } cases[] = {
        {"t.tsv", "cell\tPC1\tPC2\na\t1\t2\nb\t3\t4.5\n", "cell | PC1 PC2 | a b | 1 2 | 3 4.5"},
        {"t.tsv", "PC1\tPC2\n1\t2\n3\t4\n", " | PC1 PC2 | | 1 2 | 3 4"},
        {"t.csv", "PC1,PC2\r\n1,2\r\n3,4\r\n", " | PC1 PC2 | | 1 2 | 3 4"},
        {"t.csv", "PC1,PC2\n1,2\n3,4", " | PC1 PC2 | | 1 2 | 3 4"},
        {"t.csv", "PC1,PC2\n1,2\n3,4\n\n\r\n\n", " | PC1 PC2 | | 1 2 | 3 4"},
        {"t.csv",
         "\xef\xbb\xbf"
         "cell,PC1\na,1\n",
         "cell | PC1 | a | 1"},
        {"t.csv",
         "\xef\xbb\xbf"
         "\"cell,\nid\",PC1\na,1\n",
         "cell,\nid | PC1 | a | 1"},
        {"t.csv", "\"cell\",\"PC,1\",\"P\"\"C\"\n\"a \"\"b\"\"\",\"1\",2\n\"c,\nd\",3,4\n",
         "cell | PC,1 P\"C | a \"b\" c,\nd | 1 2 | 3 4"},
        {"t.tsv", "PC1\tPC2\na\t1\t2\nb\t3\t4\n", " | PC1 PC2 | a b | 1 2 | 3 4"}, /* R: no header over the row names */
        {"t.tsv", "\"PC1\"\t\"PC2\"\n\"a\"\t1\t2\n", " | PC1 PC2 | a | 1 2"},      /* and its quotes */
        {"t.tsv", "who\tPC1\na\t1\n", "who | PC1 | a | 1"},                        /* text, so names */
        {"t.tsv", "Cell ID\tPC1\n17\t1\n", "Cell ID | PC1 | 17 | 1"},              /* named so, so names */
        {"t.csv", ",0,1\nAAAC-1,1e-3,-2\n", " | 0 1 | AAAC-1 | 0.001 -2"},         /* pandas */
        {"t.csv", "Unnamed: 0,x\n0,5\n", "Unnamed: 0 | x | 0 | 5"},
        {"t.tsv", "5\" pipe\tPC2\n1\t2\n", " | 5\" pipe PC2 | | 1 2"}, /* a quote that opens nothing */
        {"t.tsv", "a\tb\n nan \t-inf\n", " | a b | | nan -inf"},
        {"t.tsv", "x\n1\n2\n", " | x | | 1 | 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char result[512];
        assert_works(read_table(cases[i].name, cases[i].text, result));
        assert_string_equal(result, cases[i].result);
    }
}

static void tables_that_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *sentence;
    } cases[] = {
        {"t.tsv", "", "is empty"},
        {"t.tsv", "\n\n", "is empty"},
        {"t.tsv", "\nPC1\tPC2\n1\t2\n", "blank line"},
        {"t.tsv", "PC1\tPC2\n", "no data"},
        {"t.tsv", "cell\na\n", "\"cell\") and no other"},
        {"t.tsv", "PC1\tPC2\n1\t2\n3\n5\t6\n", "line 3 has 1 fields, the header has 2"},
        {"t.tsv", "PC1\tPC2\n1\t2\n3\t4\t5\n", "line 3 has 3 fields, the header has 2"},
        {"t.tsv", "PC1\tPC2\n1\t2\n\n5\t6\n", "line 3 has 1 fields"},
        {"t.tsv", "PC1\tPC2\n1\t2\n3\tfour\n", "line 3, column 2 (\"PC2\") holds \"four\", a number is needed"},
        {"t.tsv", "cell\tPC1\tPC2\na\t1\t2\nb\t3\t1,5\n", "line 3, column 3 (\"PC2\") holds \"1,5\""},
        {"t.tsv", "PC1\tPC2\n1\t2\n3\t\n", "line 3, column 2 (\"PC2\") holds nothing"},
        {"t.tsv", "PC1\tPC2\n1\tNA\n", "line 2, column 2|\"NA\""},
        {"t.csv", "a,b\n\"x\ny\",1\n\"x\ny\",z\n", "line 4, column 2|\"z\""}, /* line breaks in quotes are lines too */
        {"t.csv", "PC1\tPC2\n1\t2\n", "header line has no comma but a tab|.tsv"},
        {"t.tsv", "PC1,PC2\n1,2\n", "header line has no tab but a comma|.csv"},
        {"t.csv", "a,b\n\"x,1\n2,3\n", "quote opened in line 2 is never closed"},
        {"t.csv", "a,b\n\"x\"y,1\n", "line 2, column 1: text behind a closing quote"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char result[512];
        int err = read_table(cases[i].name, cases[i].text, result);
        assert_sentence(err, cases[i].name);
        assert_sentence(err, cases[i].sentence);
    }
    static const char wide[] = "a\tb\n1\t2\n", utf16[] = {'a', 0, '\t', 0, 'b', 0, '\n', 0};
    put_file(in_scratch("u.tsv"), utf16, sizeof utf16);
    assert_sentence(try_open(in_scratch("u.tsv"), NULL), "u.tsv|zero bytes|UTF-8");
    put_text(in_scratch("u.tsv"), wide);
    assert_works(try_open(in_scratch("u.tsv"), NULL));
    assert_sentence(try_open(in_scratch("none.tsv"), NULL), "none.tsv|No such file");
    assert_int_equal(mkdir(in_scratch("f.tsv"), 0777), 0);
    assert_sentence(try_open(in_scratch("f.tsv"), NULL), "f.tsv|is a folder");
}

/* ---- in and out
 * ------------------------------------------------------------------------------------------------------------------ */

enum { ROWS = 3000, COLUMNS = 7 };

static float *make_values(void)
{
    float *values = malloc(ROWS * COLUMNS * sizeof *values);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (float)sin(i) * powf(10, (float)(i % 60 - 30));
    return values;
}

static void written_tables_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"t.tsv", "t.csv", "t.tsv.gz", "t.csv.gz"};
    static const char *const dims[] = {"PC,1", "a\tb", "\"q\"", "d", "e", "f", ""};
    struct io_strings columns = {COLUMNS, (const char **)dims, NULL}, cells = {ROWS, malloc(ROWS * sizeof(char *)), NULL};
    char(*text)[16] = malloc(ROWS * sizeof *text);
    float *values = make_values();
    for (int i = 0; i < ROWS; i++) {
        snprintf(text[i], sizeof *text, i % 3 ? "cell%d" : "c,\t\"%d\"", i);
        cells.at[i] = text[i];
    }
    for (size_t k = 0; k < 4; k++) {
        struct io_matrix matrix;
        struct io_output output = {.target = in_scratch(names[k]),
                                   .values = values,
                                   .n_cells = ROWS,
                                   .n_dims = COLUMNS,
                                   .cells = &cells,
                                   .dims = &columns,
                                   .cell_header = "CellID"};
        assert_works(io_output_check(&output));
        assert_works(io_output_write(&output));
        float *read = read_matrix(&matrix, in_scratch(names[k]), NULL);
        assert_int_equal(matrix.n_cells, ROWS);
        assert_memory_equal(read, values, ROWS * COLUMNS * sizeof *read);
        assert_string_equal(matrix.cell_header, "CellID");
        for (int i = 0; i < ROWS; i++)
            assert_string_equal(matrix.cells.at[i], text[i]);
        for (int j = 0; j < COLUMNS; j++)
            assert_string_equal(matrix.dims.at[j], dims[j]);
        io_matrix_close(&matrix);
        free(read);
    }
    size_t plain, zipped;
    free(get_file(in_scratch("t.tsv"), &plain));
    char *head = get_file(in_scratch("t.tsv.gz"), &zipped);
    assert_memory_equal(head, "\x1f\x8b", 2);
    assert_true(zipped < plain);
    free(head);
    assert_int_equal(count_files(0), 4);
    free(values);
    free(text);
    free(cells.at);
}

static void tables_without_names(void **state)
{
    (void)state;
    float values[4] = {1, 2.5f, 1e-7f, -0.1f};
    struct io_output output = {.target = in_scratch("t.tsv"), .values = values, .n_cells = 2, .n_dims = 2};
    size_t count;
    assert_works(io_output_write(&output));
    char *text = get_file(in_scratch("t.tsv"), &count);
    assert_string_equal(text, "PC1\tPC2\n1\t2.5\n1.00000001e-07\t-0.100000001\n");
    free(text);
}

static void truncated_gzip(void **state)
{
    (void)state;
    float *values = make_values();
    struct io_output output = {.target = in_scratch("t.tsv.gz"), .values = values, .n_cells = ROWS, .n_dims = COLUMNS};
    assert_works(io_output_write(&output));
    for (int part = 1; part < 10; part++) {
        copy_file(in_scratch("t.tsv.gz"), in_scratch("cut.tsv.gz"), part / 10.0);
        assert_sentence(try_open(in_scratch("cut.tsv.gz"), NULL), "cut.tsv.gz|truncated");
    }
    size_t count;
    char *bytes = get_file(in_scratch("t.tsv.gz"), &count);
    bytes[count / 2] ^= 0x10;
    put_file(in_scratch("bad.tsv.gz"), bytes, count);
    assert_int_equal(try_open(in_scratch("bad.tsv.gz"), NULL), -1);
    free(bytes);
    free(values);
}

/* A text far larger than the reader's buffer, whose lines and quotes fall across its edges. */
static void long_tables(void **state)
{
    (void)state;
    char *text = malloc(8 << 20), *at = text;
    at += sprintf(at, "name,x,y\n");
    int rows = 0;
    for (; at - text < (7 << 20); rows++)
        at += sprintf(at, rows % 5 ? "n%d,%d,0.5\n" : "\"n,\n%d\",%d,0.5\n", rows, rows);
    put_text(in_scratch("t.csv"), text);
    free(text);
    struct io_matrix matrix;
    float *values = read_matrix(&matrix, in_scratch("t.csv"), NULL);
    assert_int_equal(matrix.n_cells, rows);
    for (int i = 0; i < rows; i++) {
        char expected[32];
        sprintf(expected, i % 5 ? "n%d" : "n,\n%d", i);
        assert_string_equal(matrix.cells.at[i], expected);
        assert_true(values[2 * i] == (float)i && values[2 * i + 1] == 0.5f);
    }
    free(values);
    io_matrix_close(&matrix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shapes_of_tables, empty_scratch),
        cmocka_unit_test_teardown(tables_that_cannot_be_read, empty_scratch),
        cmocka_unit_test_teardown(written_tables_read_back, empty_scratch),
        cmocka_unit_test_teardown(tables_without_names, empty_scratch),
        cmocka_unit_test_teardown(truncated_gzip, empty_scratch),
        cmocka_unit_test_teardown(long_tables, empty_scratch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
