/* SPDX-License-Identifier: BSD-3-Clause */
/* Label columns: the same labels give the same levels, whatever they are stored as. */
#include "io_testing.h"

/* What is expected: names of all levels, '|' between them, and the label of cell i as text (NULL: missing). */
static void check_labels(const struct io_labels *labels, const char *column, const char *names, const char *(*label)(int i))
{
    char joined[512] = "";
    int64_t missing = 0;
    assert_string_equal(labels->name, column);
    assert_int_equal(labels->n_cells, N);
    assert_int_equal(labels->n_levels, labels->names.count);
    for (int64_t i = 0; i < labels->n_levels; i++) {
        strcat(joined, i ? "|" : "");
        strcat(joined, labels->names.at[i]);
    }
    assert_string_equal(joined, names);
    for (int i = 0; i < N; i++) {
        const char *expected = label(i);
        missing += !expected;
        assert_in_range(labels->level[i] + 1, 0, labels->n_levels);
        if (!expected)
            assert_int_equal(labels->level[i], -1);
        else if (labels->level[i] < 0)
            fail_msg("%s: cell %d has no label, not \"%s\"", column, i, expected);
        else
            assert_string_equal(labels->names.at[labels->level[i]], expected);
    }
    assert_int_equal(labels->n_missing, missing);
}

static const char *letter(int i)
{
    static const char *const letters[] = {"z", "a", "m"};
    return letters[i % 3];
}

static const char *letter_but_5th(int i)
{
    return i == 4 ? NULL : letter(i);
}

static const char *letter_thrice(int i)
{
    static const char *const letters[] = {"zzz", "aaa", "mmm"};
    return letters[i % 3];
}

static const char *number(int i)
{
    static const char *const numbers[] = {"9", "10", "11"};
    return numbers[i % 3];
}

static const char *number_but_5th(int i)
{
    return i == 4 ? NULL : number(i);
}

static const char *around_zero(int i)
{
    static const char *const numbers[] = {"-1", "0", "1"};
    return numbers[i % 3];
}

static const char *even(int i)
{
    return i % 2 == 0 ? "True" : "False";
}

static const char *even_but_5th(int i)
{
    return i == 4 ? NULL : even(i);
}

static const char *half(int i)
{
    return i % 2 ? "1.5" : "0.5";
}

static const char *large(int i)
{
    return i % 2 ? "9223372036854775809" : "9223372036854775808";
}

static const char *maybe_x(int i)
{
    return i % 2 ? "" : "x";
}

static void p95_p33_every_type_and_layout(void **state)
{
    (void)state;
    static const struct {
        const char *file, *column, *names;
        const char *(*label)(int);
    } cases[] = {{DATA("layouts.h5ad"), "cat", "z|unused|a|m", letter},
                 {DATA("layouts.h5ad"), "cat_missing", "a|m|z", letter_but_5th},
                 {DATA("layouts.h5ad"), "cat_ordered", "m|z|a", letter},
                 {DATA("layouts.h5ad"), "cat_int", "11|9|10", number},
                 {DATA("layouts.h5ad"), "cat_bool", "False|True", even},
                 {DATA("layouts.h5ad"), "cat_float", "0.5|1.5", half},
                 {DATA("layouts.h5ad"), "text", "a|m|z", letter},
                 {DATA("layouts.h5ad"), "text_fixed", "aaa|mmm|zzz", letter_thrice},
                 {DATA("layouts.h5ad"), "text_nullable", "a|m|z", letter_but_5th},
                 {DATA("layouts.h5ad"), "text_empty", "|x", maybe_x},
                 {DATA("layouts.h5ad"), "text_number", "9|10|11", number},
                 {DATA("layouts.h5ad"), "int", "9|10|11", number},
                 {DATA("layouts.h5ad"), "uint8", "9|10|11", number},
                 {DATA("layouts.h5ad"), "uint64", "9223372036854775808|9223372036854775809", large},
                 {DATA("layouts.h5ad"), "int_negative", "-1|0|1", around_zero},
                 {DATA("layouts.h5ad"), "int_nullable", "9|10|11", number_but_5th},
                 {DATA("layouts.h5ad"), "float_whole", "9|10|11", number_but_5th},
                 {DATA("layouts.h5ad"), "bool", "False|True", even},
                 {DATA("layouts.h5ad"), "bool_nullable", "False|True", even_but_5th},
                 {DATA("older_07.h5ad"), "batch", "z|unused|a|m", letter_but_5th},
                 {DATA("older_07.h5ad"), "loose", "z|unused|a|m", letter_but_5th},
                 {DATA("older_06.h5ad"), "batch", "z|unused|a|m", letter_but_5th},
                 {DATA("older_06.h5ad"), "who", "a|m|z", letter},
                 {DATA("older_06.h5ad"), "n", "9|10|11", number}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct io_labels labels;
        assert_works(io_labels_h5ad(&labels, cases[i].file, cases[i].column, 0));
        check_labels(&labels, cases[i].column, cases[i].names, cases[i].label);
        io_labels_close(&labels);
    }
}

static void p34_spaces_commas_and_unicode(void **state)
{
    (void)state;
    struct io_labels labels;
    assert_works(io_labels_h5ad(&labels, DATA("layouts.h5ad"), "text_unicode", 0));
    assert_int_equal(labels.n_levels, 49);
    assert_string_equal(labels.names.at[labels.level[10]], "E 10.5, rep#2 \xc3\xa9\xf0\x9f\xa7\xac");
    assert_int_equal(labels.level[49], labels.level[0]);
    io_labels_close(&labels);
}

static void p06_continuous_columns(void **state)
{
    (void)state;
    struct io_labels labels;
    assert_sentence(io_labels_h5ad(&labels, DATA("layouts.h5ad"), "S.score", 0),
                    "layouts.h5ad|column \"S.score\" holds numbers that are not whole (first 0.375 at cell 3): a continuous "
                    "variable is no batch; "
                    "--regress S.score takes out what is linear in it, --force makes every distinct value a level");
    assert_null(labels.level);
    assert_works(io_labels_h5ad(&labels, DATA("layouts.h5ad"), "S.score", 1));
    assert_string_equal(labels.names.at[labels.level[2]], "0.375");
    assert_string_equal(labels.names.at[labels.level[0]], "1");
    for (int64_t i = 1; i < labels.n_levels; i++) /* numeric order */
        assert_true(atof(labels.names.at[i - 1]) < atof(labels.names.at[i]));
    io_labels_close(&labels);
}

static void p32_numeric_columns(void **state)
{
    (void)state;
    double *found;
    int64_t n_cells;
    assert_works(io_numbers_h5ad(&found, &n_cells, DATA("layouts.h5ad"), "S.score"));
    assert_int_equal(n_cells, 60);
    for (int64_t i = 0; i < n_cells; i++)
        assert_true(found[i] == (i < 2 ? 1 : (double)i / 8 + 0.125));
    free(found);
    assert_works(io_numbers_h5ad(&found, &n_cells, DATA("layouts.h5ad"), "int_negative"));
    for (int64_t i = 0; i < n_cells; i++)
        assert_true(found[i] == (double)(i % 3 - 1));
    free(found);
    assert_sentence(io_numbers_h5ad(&found, &n_cells, DATA("layouts.h5ad"), "text"),
                    "layouts.h5ad|column \"text\" holds text (\"z\" at cell 1); it must hold a number for every cell");
    assert_null(found);
    assert_sentence(io_numbers_h5ad(&found, &n_cells, DATA("layouts.h5ad"), "float_whole"),
                    "layouts.h5ad|column \"float_whole\" has no number at cell 5; every cell needs one");
    assert_null(found);
}

static void p35_p96_columns_that_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *file, *column, *sentence;
    } cases[] = {{DATA("layouts.h5ad"), "ca", "obs has no column \"ca\"|nearest: \"cat\""},
                 {DATA("layouts.h5ad"), "TEXT", "nearest: \"text\""},
                 {DATA("layouts.h5ad"), "", "obs has no column"},
                 {DATA("layouts.h5ad"), "cat/codes/x", "obs has no column"},
                 {DATA("older_07.h5ad"), "Batsh", "nearest: \"batch\"|all: \"batch\", \"index\", \"loose\""},
                 {DATA("older_06.h5ad"), "whom", "nearest: \"who\""},
                 {DATA("damaged.h5ad"), "code_7", "corrupt categorical|code 7 at cell 6|2 categories"},
                 {DATA("damaged.h5ad"), "code_below", "corrupt categorical|code -2 at cell 1"},
                 {DATA("damaged.h5ad"), "twice", "corrupt categorical|\"a\" twice (1 and 3)"},
                 {DATA("damaged.h5ad"), "codes_float", "corrupt categorical|no integers"},
                 {DATA("damaged.h5ad"), "unknown", "\"awkward-array\"|not understood"},
                 {DATA("damaged.h5ad"), "nothing", "without encoding-type"},
                 {DATA("damaged.h5ad"), "two_axes", "2 axes"},
                 {DATA("damaged.h5ad"), "short_mask", "mask|60"},
                 {DATA("damaged.h5ad"), "lzf", "lzf (filter 32000)"},
                 {DATA("damaged.h5ad"), "complex", "neither text nor numbers"},
                 {"none.h5ad", "cat", "none.h5ad|No such file"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct io_labels labels;
        assert_sentence(io_labels_h5ad(&labels, cases[i].file, cases[i].column, 0), cases[i].sentence);
        assert_null(labels.name);
        assert_null(labels.level);
        io_labels_close(&labels);
    }
}

/* ---- tables
 * -------------------------------------------------------------------------------------------------------------------- */

static void tables_give_the_same_levels(void **state)
{
    (void)state;
    struct io_labels table, file;
    FILE *out = fopen(in_scratch("meta.tsv"), "w");
    fprintf(out, "batch\tnumber\n");
    for (int i = 0; i < N; i++)
        fprintf(out, "%s\t%s\n", i == 4 ? "" : letter(i), number(i));
    fclose(out);
    assert_works(io_labels_table(&table, in_scratch("meta.tsv"), "batch", NULL, 0));
    check_labels(&table, "batch", "a|m|z", letter_but_5th);
    io_labels_close(&table);
    assert_works(io_labels_table(&table, in_scratch("meta.tsv"), "number", NULL, 0));
    assert_works(io_labels_h5ad(&file, DATA("layouts.h5ad"), "int", 0));
    check_labels(&table, "number", "9|10|11", number);
    assert_memory_equal(table.level, file.level, N * sizeof *file.level);
    io_labels_close(&table);
    io_labels_close(&file);
}

static const char *const cell_names[] = {"c1", "c2", "c3", "c4"};
static const struct io_strings cells = {4, (const char **)cell_names, NULL};

static int read_table(const char *name, const char *text, const char *column, const struct io_strings *names, char *result)
{
    struct io_labels labels;
    put_text(in_scratch(name), text);
    int err = io_labels_table(&labels, in_scratch(name), column, names, 0);
    result[0] = 0;
    for (int64_t i = 0; i < labels.n_cells; i++)
        sprintf(result + strlen(result), "%s%s", i ? " " : "", labels.level[i] < 0 ? "-" : labels.names.at[labels.level[i]]);
    io_labels_close(&labels);
    return err;
}

static void p37_rows_are_aligned_by_name(void **state)
{
    (void)state;
    char sorted[64], other[64];
    assert_works(read_table("t.tsv", "cell\tb\nc1\tx\nc2\ty\nc3\t\nc4\tNA\n", "b", &cells, sorted));
    assert_string_equal(sorted, "x y - NA");
    assert_works(read_table("t.tsv", "cell\tb\nc4\tNA\nc3\t\nc2\ty\nc1\tx\n", "b", &cells, other));
    assert_string_equal(other, sorted);
    /* the header says nothing, but the values are the names */
    assert_works(read_table("t.csv", "b,who\nx,c1\n", "b", NULL, other));
    assert_works(read_table("t.csv", "who,b\nc4,NA\nc3,\nc2,y\nc1,x\n", "b", &cells, other));
    assert_string_equal(other, sorted);
    /* R's row names have no header */
    assert_works(
        read_table("t.tsv", "b\tq\n\"c2\"\t\"y\"\t1\n\"c1\"\t\"x\"\t1\n\"c4\"\t\"NA\"\t2\n\"c3\"\t\t3\n", "b", &cells, other));
    assert_string_equal(other, sorted);
    /* names that repeat, the same on both sides: nothing to be put in order */
    static const char *const twice_names[] = {"c1", "c2", "c1"};
    static const struct io_strings twice = {3, (const char **)twice_names, NULL};
    assert_works(read_table("t.tsv", "cell\tb\nc1\tx\nc2\ty\nc1\tz\n", "b", &twice, other));
    assert_string_equal(other, "x y z");
    /* no names on one side: the order of the rows */
    assert_works(read_table("t.tsv", "cell\tb\nc4\tx\nc3\ty\nc2\t\nc1\tNA\n", "b", NULL, other));
    assert_string_equal(other, sorted);
    assert_works(read_table("t.tsv", "b\tq\nx\t4\ny\t3\n\t2\nNA\t1\n", "b", &cells, other));
    assert_string_equal(other, sorted);
}

static void names_that_do_not_fit(void **state)
{
    (void)state;
    char result[64];
    static const char *const twice_names[] = {"c1", "c1"};
    static const struct io_strings twice = {2, (const char **)twice_names, NULL};
    assert_sentence(read_table("t.tsv", "cell\tb\nc4\tx\nforeign\ty\nc2\tx\nc1\ty\n", "b", &cells, result),
                    "t.tsv|\"foreign\" (data row 2)|\"c3\" (cell 3");
    assert_sentence(read_table("t.tsv", "who\tb\nc4\tx\nforeign\ty\nc2\tx\nc1\ty\n", "b", &cells, result),
                    "t.tsv|\"foreign\"|\"c3\"");
    assert_sentence(read_table("t.tsv", "cell\tb\nc1\tx\nc2\ty\nc3\tx\nc4\ty\nforeign\tx\n", "b", &cells, result),
                    "t.tsv|\"foreign\"|data row 5");
    assert_sentence(read_table("t.tsv", "cell\tb\nc1\tx\nc2\ty\nc3\tx\n", "b", &cells, result), "\"c4\"");
    assert_sentence(read_table("t.tsv", "cell\tb\nc1\tx\nc2\ty\nc2\tx\nc3\tx\nc4\ty\n", "b", &cells, result),
                    "not unique|data row 3");
    assert_sentence(read_table("t.tsv", "cell\tb\nc1\tx\n", "b", &twice, result), "\"c1\" twice");
    assert_sentence(read_table("t.tsv", "cell\tb\nc1\tx\nc1\ty\nc1\ty\n", "b", &twice, result), "not unique|data row 2");
}

static void table_columns(void **state)
{
    (void)state;
    char result[64];
    assert_sentence(read_table("t.tsv", "Channel\tn\na\t1\n", "Chanel", NULL, result),
                    "t.tsv|no column \"Chanel\"|nearest: \"Channel\"|all: \"Channel\", \"n\"");
    assert_sentence(read_table("t.tsv", "b\tb\na\t1\n", "b", NULL, result), "two columns \"b\" (1 and 2)");
    assert_sentence(read_table("t.tsv", "b\n1\n2.5\n3\n", "b", NULL, result),
                    "\"b\" holds numbers that are not whole (first 2.5 at cell 2)");
    assert_works(read_table("t.tsv", "b\n1\n2.5\nx\n", "b", NULL, result)); /* not all numbers: labels */
    assert_string_equal(result, "1 2.5 x");
    assert_works(read_table("t.tsv", "b\n1.0\n2.0\n", "b", NULL, result));
    assert_works(
        read_table("t.tsv", "b\nx\n\ny\n\n\n", "b", NULL, result)); /* blank within one column: missing; at the end: nothing */
    assert_string_equal(result, "x - y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p95_p33_every_type_and_layout),
        cmocka_unit_test(p34_spaces_commas_and_unicode),
        cmocka_unit_test(p06_continuous_columns),
        cmocka_unit_test(p32_numeric_columns),
        cmocka_unit_test(p35_p96_columns_that_cannot_be_read),
        cmocka_unit_test_teardown(tables_give_the_same_levels, empty_scratch),
        cmocka_unit_test_teardown(p37_rows_are_aligned_by_name, empty_scratch),
        cmocka_unit_test_teardown(names_that_do_not_fit, empty_scratch),
        cmocka_unit_test_teardown(table_columns, empty_scratch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
