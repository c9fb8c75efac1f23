/* SPDX-License-Identifier: BSD-3-Clause */
/* Output files are whole or absent, whatever goes wrong. What is in an .h5ad is checked here by our own reader, and by anndata in
   check_anndata.py. */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "io_testing.h"

static float values[N * D];
static const double trace[] = {3, 2, 1};
static const struct io_entry entries[] = {{.name = "version", .text = "0.1.0 \xc3\xa9"},
                                          {.name = "theta", .values = (const double[]){2}, .count = 0},
                                          {.name = "seed", .values = (const double[]){7}, .count = 0, .integer = 1},
                                          {.name = "trace/objective", .values = trace, .count = 3},
                                          {.name = "trace/sweep", .values = trace, .count = 3, .integer = 1}};

static struct io_output output_of(const char *source, const char *target)
{
    for (int i = 0; i < N * D; i++)
        values[i] = (float)i / 3;
    return (struct io_output){.target = target,
                              .source = source,
                              .key = "X_pca_harmony",
                              .values = values,
                              .n_cells = N,
                              .n_dims = D,
                              .entries = entries,
                              .n_entries = sizeof entries / sizeof *entries};
}

static void check_result(const char *path, const char *key)
{
    struct io_matrix matrix;
    float *read = read_matrix(&matrix, path, key);
    assert_memory_equal(read, values, sizeof values);
    free(read);
    io_matrix_close(&matrix);
    read = read_matrix(&matrix, path, "X_pca"); /* what was there is there */
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            assert_true(read[i * D + j] == (float)value(i, j));
    free(read);
    io_matrix_close(&matrix);
}

static void h5ad_to_a_new_file(void **state)
{
    (void)state;
    struct io_output output = output_of(DATA("layouts.h5ad"), in_scratch("out.h5ad"));
    size_t before, after;
    char *source = get_file(DATA("layouts.h5ad"), &before);
    assert_works(io_output_check(&output));
    assert_int_equal(count_files(0), 0);
    assert_works(io_output_write(&output));
    check_result(in_scratch("out.h5ad"), "X_pca_harmony");
    assert_int_equal(count_files(0), 1);
    char *same = get_file(DATA("layouts.h5ad"), &after);
    assert_int_equal(before, after);
    assert_memory_equal(source, same, before);
    free(source);
    free(same);

    /* the same again gives the same bytes */
    output.target = in_scratch("again.h5ad");
    assert_works(io_output_write(&output));
    assert_same_bytes(in_scratch("out.h5ad"), in_scratch("again.h5ad"));
}

static void h5ad_in_place(void **state)
{
    (void)state;
    copy_file(DATA("layouts.h5ad"), in_scratch("a.h5ad"), 1);
    assert_int_equal(chmod(in_scratch("a.h5ad"), 0640), 0);
    struct io_output output = output_of(in_scratch("a.h5ad"), in_scratch("a.h5ad"));
    struct stat info;
    assert_works(io_output_check(&output)); /* overwrite concerns the key only */
    assert_works(io_output_write(&output));
    check_result(in_scratch("a.h5ad"), "X_pca_harmony");
    assert_int_equal(stat(in_scratch("a.h5ad"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(count_files(0), 1);

    assert_sentence(io_output_check(&output), "a.h5ad|obsm/\"X_pca_harmony\" already|-f|--key-added");
    assert_sentence(io_output_write(&output), "a.h5ad|obsm/\"X_pca_harmony\" already");
    for (int i = 0; i < N * D; i++)
        values[i] = -values[i];
    output.overwrite = 1;
    assert_works(io_output_write(&output));
    check_result(in_scratch("a.h5ad"), "X_pca_harmony");
}

static void h5ad_without_obsm_and_uns(void **state)
{
    (void)state;
    copy_file(DATA("older_07.h5ad"), in_scratch("a.h5ad"), 1);
    struct io_output output = output_of(in_scratch("a.h5ad"), in_scratch("b.h5ad"));
    assert_works(io_output_write(&output)); /* it has no uns */
    check_result(in_scratch("b.h5ad"), "X_pca_harmony");
}

static void h5ad_outputs_that_cannot_be(void **state)
{
    (void)state;
    struct io_output output = output_of(DATA("layouts.h5ad"), in_scratch("out.h5ad"));
    output.n_cells = N - 1;
    assert_sentence(io_output_check(&output), "60 cells|59");
    output.n_cells = N;
    output.key = "a/b";
    assert_sentence(io_output_check(&output), "\"a/b\" cannot be a key");
    output.key = "";
    assert_sentence(io_output_check(&output), "cannot be a key");
    output = output_of("x.npy", in_scratch("out.h5ad"));
    assert_sentence(io_output_check(&output), "out.h5ad|x.npy is none");
    output = output_of(in_scratch("none.h5ad"), in_scratch("out.h5ad"));
    assert_sentence(io_output_check(&output), "none.h5ad|No such file");
    assert_sentence(io_output_write(&output), "none.h5ad|No such file");
    put_text(in_scratch("text.h5ad"), "no HDF5 here, whatever the name says");
    output.source = in_scratch("text.h5ad");
    assert_sentence(io_output_write(&output), "text.h5ad|no HDF5 file");
    copy_file(DATA("layouts.h5ad"), in_scratch("text.h5ad"), 0.7);
    assert_sentence(io_output_write(&output), "text.h5ad|truncated");
    assert_int_equal(count_files(0), 1);
}

static void a_source_that_is_being_written(void **state)
{
    (void)state;
    copy_file(DATA("layouts.h5ad"), in_scratch("a.h5ad"), 1);
    struct io_output output = output_of(in_scratch("a.h5ad"), in_scratch("b.h5ad"));
    int fd = open(in_scratch("a.h5ad"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_sentence(io_output_write(&output), "a.h5ad|locked");
    close(fd);
    assert_int_equal(count_files(0), 1);
}

/* ---- targets of any format
 * -------------------------------------------------------------------------------------------------------- */

static void targets_that_exist(void **state)
{
    (void)state;
    static const char *const names[] = {"t.npy", "t.tsv", "t.csv.gz", "t.h5ad"};
    for (size_t i = 0; i < 4; i++) {
        struct io_output output = output_of(DATA("layouts.h5ad"), in_scratch(names[i]));
        size_t count;
        put_text(in_scratch(names[i]), "old");
        assert_sentence(io_output_check(&output), "exists already|-f");
        assert_sentence(io_output_write(&output), "exists already|-f");
        char *old = get_file(in_scratch(names[i]), &count);
        assert_string_equal(old, "old");
        free(old);
        assert_int_equal(chmod(in_scratch(names[i]), 0600), 0);
        output.overwrite = 1;
        assert_works(io_output_check(&output));
        assert_works(io_output_write(&output));
        struct stat info;
        assert_int_equal(stat(in_scratch(names[i]), &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
    }
    assert_int_equal(count_files(0), 4);
}

static void targets_that_cannot_be(void **state)
{
    (void)state;
    struct io_output output = output_of(DATA("layouts.h5ad"), in_scratch("none/t.npy"));
    assert_sentence(io_output_check(&output), "none/t.npy|No such file");
    output.target = "/dev/null.npy/x.npy";
    assert_sentence(io_output_check(&output), "x.npy");
    assert_int_equal(mkdir(in_scratch("f.npy"), 0777), 0);
    output.target = in_scratch("f.npy");
    output.overwrite = 1;
    assert_sentence(io_output_check(&output), "is a folder");
    output.target = in_scratch("t.txt");
    assert_sentence(io_output_check(&output), "ending");
    assert_int_equal(mkfifo(in_scratch("p.npy"), 0600), 0);
    output.target = in_scratch("p.npy");
    assert_sentence(io_output_check(&output), "not a regular file");
}

static void symbolic_links_are_followed(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(mkdir(in_scratch("deep"), 0777), 0);
    put_text(in_scratch("deep/real.npy"), "old");
    assert_int_equal(symlink("deep/real.npy", in_scratch("one.npy")), 0);
    assert_int_equal(symlink("one.npy", in_scratch("two.npy")), 0);
    assert_int_equal(symlink("deep/later.npy", in_scratch("dangling.npy")), 0);
    assert_int_equal(symlink("loop.npy", in_scratch("loop.npy")), 0);
    struct io_output output = output_of(NULL, in_scratch("two.npy"));
    output.overwrite = 1;
    assert_works(io_output_write(&output));
    assert_int_equal(lstat(in_scratch("two.npy"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(in_scratch("deep/real.npy"), &info), 0);
    assert_int_equal(info.st_size, 128 + sizeof values);
    output.target = in_scratch("dangling.npy");
    assert_works(io_output_write(&output));
    assert_int_equal(lstat(in_scratch("deep/later.npy"), &info), 0);
    output.target = in_scratch("loop.npy");
    assert_sentence(io_output_write(&output), "loop.npy");
    unlink(in_scratch("deep/real.npy"));
    unlink(in_scratch("deep/later.npy"));
}

static void read_only_places(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        print_message("skipped: root may write everywhere\n");
        skip();
    }
    struct io_output output = output_of(DATA("layouts.h5ad"), in_scratch("closed/t.npy"));
    assert_int_equal(mkdir(in_scratch("closed"), 0555), 0);
    assert_sentence(io_output_check(&output), "no file can be made in the folder|Permission denied");
    copy_file(DATA("layouts.h5ad"), in_scratch("a.h5ad"), 1);
    assert_int_equal(chmod(in_scratch("a.h5ad"), 0444), 0);
    output = output_of(in_scratch("a.h5ad"), in_scratch("a.h5ad"));
    assert_sentence(io_output_check(&output), "a.h5ad|cannot be written|Permission denied");
    output.target = in_scratch("b.h5ad"); /* beside it works */
    assert_works(io_output_write(&output));
}

/* ---- no space
 * ------------------------------------------------------------------------------------------------------------------------ */

/* Files cannot become larger than so many bytes: what a full disk does, at the same calls. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

enum { MANY = 20000 };

static void no_space(void **state)
{
    (void)state;
    static const char *const names[] = {"t.npy", "t.tsv", "t.csv.gz"};
    float *many = calloc(MANY * D, sizeof *many);
    for (int i = 0; i < MANY * D; i++)
        many[i] = (float)sin(i);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < 3; i++)
        for (rlim_t limit = 0; limit <= 150000; limit += 50000) {
            struct io_output output = {
                .target = in_scratch(names[i]), .values = many, .n_cells = MANY, .n_dims = D, .overwrite = 1};
            size_t count;
            put_text(in_scratch(names[i]), "old");
            limit_files(limit);
            int err = io_output_write(&output);
            limit_files(RLIM_INFINITY);
            assert_sentence(err, names[i]);
            assert_sentence(err, strerror(EFBIG));
            assert_int_equal(strncmp(io_error(), scratch, strlen(scratch)), 0); /* the name as it was given */
            char *old = get_file(in_scratch(names[i]), &count);
            assert_string_equal(old, "old");
            free(old);
        }
    assert_int_equal(count_files(0), 3);
    free(many);
}

/* HDF5 writes at several moments, some of them when the file is closed: it is stopped at each. */
static void no_space_for_hdf5(void **state)
{
    (void)state;
    struct stat source, whole;
    copy_file(DATA("layouts.h5ad"), in_scratch("a.h5ad"), 1);
    struct io_output output = output_of(in_scratch("a.h5ad"), in_scratch("b.h5ad"));
    assert_works(io_output_write(&output));
    assert_int_equal(stat(in_scratch("b.h5ad"), &whole), 0);
    assert_int_equal(stat(in_scratch("a.h5ad"), &source), 0);
    assert_int_equal(unlink(in_scratch("b.h5ad")), 0);
    output.target = in_scratch("a.h5ad");
    signal(SIGXFSZ, SIG_IGN);
    int failed = 0;
    for (off_t limit = 0; limit < whole.st_size; limit += limit < source.st_size - 5000 ? 20000 : 100) {
        limit_files((rlim_t)limit);
        int err = io_output_write(&output);
        limit_files(RLIM_INFINITY);
        assert_sentence(err, "a.h5ad");
        assert_sentence(err, strerror(EFBIG));
        assert_int_equal(strncmp(io_error(), scratch, strlen(scratch)), 0);
        failed++;
        assert_int_equal(count_files(0), 1);
        assert_same_bytes(in_scratch("a.h5ad"), DATA("layouts.h5ad"));
    }
    assert_true(failed > 20);
    assert_int_equal(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
    assert_works(io_output_write(&output));
    check_result(in_scratch("a.h5ad"), "X_pca_harmony");
}

/* ---- signals
 * ----------------------------------------------------------------------------------------------------------------------- */

static void die_tidily(int number)
{
    io_remove_unfinished();
    _exit(128 + number);
}

static void a_signal_leaves_nothing(void **state)
{
    (void)state;
    fflush(NULL); /* what is buffered must not be printed by both */
    pid_t child = fork();
    if (child == 0) {
        struct io_npz *out;
        signal(SIGTERM, die_tidily);
        if (io_npz_begin(&out, in_scratch("a.npz")) || io_npz_add(out, "x", values, 'f', 1, (int64_t[]){N * D}))
            _exit(1);
        raise(SIGTERM);
        _exit(2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    assert_int_equal(count_files(0), 0);
}

static void a_child_keeps_its_parents_files(void **state)
{
    (void)state;
    struct io_npz *out;
    assert_works(io_npz_begin(&out, in_scratch("a.npz")));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        io_remove_unfinished();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(count_files(0), 1);
    assert_works(io_npz_end(&out));
    assert_int_equal(count_files(0), 1);
    io_remove_unfinished(); /* nothing is unfinished */
    assert_int_equal(count_files(0), 1);
}

/* Killed at any moment of a write, with no chance to tidy up: the target is the old file or the new one. */
static void kill_9_leaves_old_or_new(void **state)
{
    (void)state;
    copy_file(DATA("layouts.h5ad"), in_scratch("old.h5ad"), 1);
    struct io_output output = output_of(in_scratch("old.h5ad"), in_scratch("new.h5ad"));
    assert_works(io_output_write(&output));
    fflush(NULL);
    int olds = 0, news = 0;
    for (int i = 0; i < 40; i++) {
        size_t n_old, n_new, n_now;
        copy_file(DATA("layouts.h5ad"), in_scratch("a.h5ad"), 1);
        output = output_of(in_scratch("a.h5ad"), in_scratch("a.h5ad"));
        pid_t child = fork();
        if (child == 0)
            _exit(io_output_write(&output) ? 1 : 0);
        usleep((useconds_t)(i * i * 25));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        char *old = get_file(in_scratch("old.h5ad"), &n_old), *new = get_file(in_scratch("new.h5ad"), &n_new);
        char *now = get_file(in_scratch("a.h5ad"), &n_now);
        int is_old = n_now == n_old && memcmp(now, old, n_old) == 0, is_new = n_now == n_new && memcmp(now, new, n_new) == 0;
        free(old);
        free(new);
        free(now);
        assert_true(is_old || is_new);
        olds += is_old;
        news += is_new;
    }
    print_message("killed: %d old, %d new\n", olds, news);
    assert_true(olds > 0);
}

/* ---- a new .h5ad
 * ---------------------------------------------------------------------------------------------------------------------- */

static void a_new_file(void **state)
{
    (void)state;
    static const char *const batches[] = {"b1", "b2, \xc3\xa9"}, *const types[] = {"t1", "t2", "t3"};
    static const struct io_strings batch_names = {2, (const char **)batches, NULL}, type_names = {3, (const char **)types, NULL};
    int32_t batch[N], type[N];
    for (int i = 0; i < N; i++) {
        batch[i] = i % 2;
        type[i] = i == 7 ? -1 : i % 3;
        for (int j = 0; j < D; j++)
            values[i * D + j] = (float)value(i, j);
    }
    struct io_new_h5ad made = {.n_cells = N,
                               .n_dims = D,
                               .values = values,
                               .key = "X_pca",
                               .n_columns = 2,
                               .column = (const char *const[]){"batch", "cell type"},
                               .level = (const int32_t *const[]){batch, type},
                               .level_names = (const struct io_strings *const[]){&batch_names, &type_names}};
    struct io_labels labels;
    assert_works(io_h5ad_create(in_scratch("new.h5ad"), &made, 0));
    check_result(in_scratch("new.h5ad"), "X_pca");
    assert_works(io_labels_h5ad(&labels, in_scratch("new.h5ad"), "cell type", 0));
    assert_memory_equal(labels.level, type, sizeof type);
    assert_string_equal(labels.names.at[2], "t3");
    io_labels_close(&labels);
    assert_sentence(io_h5ad_create(in_scratch("new.h5ad"), &made, 0), "exists already");
    assert_sentence(io_h5ad_create(in_scratch("new.npy"), &made, 0), "must end in .h5ad");
    assert_works(io_h5ad_create(in_scratch("same.h5ad"), &made, 0));
    assert_same_bytes(in_scratch("new.h5ad"), in_scratch("same.h5ad"));
    signal(SIGXFSZ, SIG_IGN);
    limit_files(3000);
    int err = io_h5ad_create(in_scratch("full.h5ad"), &made, 0);
    limit_files(RLIM_INFINITY);
    assert_sentence(err, "full.h5ad|File too large");
    assert_int_equal(count_files(0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(h5ad_to_a_new_file, empty_scratch),
        cmocka_unit_test_teardown(h5ad_in_place, empty_scratch),
        cmocka_unit_test_teardown(h5ad_without_obsm_and_uns, empty_scratch),
        cmocka_unit_test_teardown(h5ad_outputs_that_cannot_be, empty_scratch),
        cmocka_unit_test_teardown(a_source_that_is_being_written, empty_scratch),
        cmocka_unit_test_teardown(targets_that_exist, empty_scratch),
        cmocka_unit_test_teardown(targets_that_cannot_be, empty_scratch),
        cmocka_unit_test_teardown(symbolic_links_are_followed, empty_scratch),
        cmocka_unit_test_teardown(read_only_places, empty_scratch),
        cmocka_unit_test_teardown(no_space, empty_scratch),
        cmocka_unit_test_teardown(no_space_for_hdf5, empty_scratch),
        cmocka_unit_test_teardown(a_signal_leaves_nothing, empty_scratch),
        cmocka_unit_test_teardown(a_child_keeps_its_parents_files, empty_scratch),
        cmocka_unit_test_teardown(kill_9_leaves_old_or_new, empty_scratch),
        cmocka_unit_test_teardown(a_new_file, empty_scratch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
