/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that mean harm, and what they can do: sizes that do not fit, memory that a file does not account for, ways out of the
   file, and HDF5 crashing of it. What fuzzing found is here too. */
#include <fcntl.h>
#include <hdf5.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "io_internal.h"
#include "io_testing.h"

/* ---- sizes ---- */

static void sizes_at_the_edges(void **state)
{
    (void)state;
    static const int64_t root = INT64_C(3037000499); /* of INT64_MAX, rounded down */
    assert_true(io_product(root, root) == root * root && io_product(root + 1, root + 1) == INT64_MAX);
    assert_true(io_product(INT64_MAX, 1) == INT64_MAX && io_product(INT64_MAX, 0) == 0 && io_product(0, INT64_MAX) == 0);
    assert_true(io_product(INT64_MAX / 2, 2) == INT64_MAX - 1 && io_product(INT64_MAX / 2 + 1, 2) == INT64_MAX);
    assert_true(io_product(1 << 20, INT64_C(1) << 43) == INT64_MAX && io_product(1 << 16, 1 << 16) == INT64_C(1) << 32);
    assert_true(io_product(-1, 1) == INT64_MAX && io_product(1, INT64_MIN) == INT64_MAX && io_product(-1, -1) == INT64_MAX);
    assert_true(io_sum(INT64_MAX, 1) == INT64_MAX && io_sum(INT64_MAX - 1, 1) == INT64_MAX &&
                io_sum(INT64_MAX - 2, 1) == INT64_MAX - 1);
    assert_true(io_sum(-1, 5) == INT64_MAX && io_sum(INT64_MAX, INT64_MAX) == INT64_MAX && io_sum(2, 3) == 5);
    assert_true(io_most_expanded(INT64_MAX) == INT64_MAX && io_most_expanded(0) == 1 << 20);
    int64_t axes[3] = {INT64_C(1) << 31, INT64_C(1) << 31, 2};
    assert_true(io_npy_bytes('d', 3, axes) == INT64_MAX && io_npy_bytes('f', 2, (int64_t[]){3, 5}) == 60);
}

static void room_that_cannot_be(void **state)
{
    (void)state;
    assert_null(io_room(INT64_MAX, 1));
    assert_null(io_room(INT64_MAX / 4, 8));
    assert_null(io_room(-1, 1));
    assert_null(io_room_zeroed((INT64_C(1) << 61) + 1, 8)); /* 8 bytes in 64 bits */
    assert_null(io_room((INT64_C(1) << 32) + 1, (size_t)1 << 32));
    char *some = io_room(0, 8);
    assert_non_null(some);
    assert_null(io_room_grown(some, INT64_MAX / 2, 4)); /* and some is as it was */
    some[0] = 1;
    some = io_room_grown(some, 1000, 4);
    assert_non_null(some);
    assert_int_equal(some[0], 1);
    free(some);
    int *zeros = io_room_zeroed(100, sizeof *zeros);
    assert_true(zeros && zeros[0] == 0 && zeros[99] == 0);
    free(zeros);
}

static void sizes_of_an_embedding(void **state)
{
    (void)state;
    assert_works(io_check_sizes("x", "it", INT64_MAX / 16, 1));
    assert_sentence(io_check_sizes("x", "it", INT64_MAX / 16 + 1, 1), "no machine can hold");
    assert_sentence(io_check_sizes("x", "it", INT64_C(1) << 31, INT64_C(1) << 31), "no machine can hold");
    assert_sentence(io_check_sizes("x", "it", 0, 5), "nothing to integrate");
    assert_sentence(io_check_sizes("x", "it", 5, -1), "nothing to integrate");
}

/* ---- a child ---- */

static int crash(struct io_child *child, void *job)
{
    (void)child;
    signal(*(int *)job, SIG_DFL);
    raise(*(int *)job);
    return 0;
}

static int work_for_ever(struct io_child *child, void *job)
{
    (void)child;
    (void)job;
    struct rlimit second = {1, 2};
    setrlimit(RLIMIT_CPU, &second);
    for (volatile unsigned i = 0;; i++)
        ;
    return 0;
}

static int end_early(struct io_child *child, void *job)
{
    (void)child;
    (void)job;
    return 1;
}

static int after(int (*work)(struct io_child *, void *), void *job)
{
    struct io_child child;
    assert_works(io_child_start(&child, "it.h5ad", NULL, 1000, work, job));
    int err = io_child_result(&child);
    io_child_end(&child);
    io_child_end(&child);
    return err;
}

static void children_that_die(void **state)
{
    (void)state;
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        assert_sentence(after(crash, (void *)(uintptr_t)&crashes[i]), "it.h5ad|HDF5 crashes on it|damaged");
    int killed = SIGKILL;
    assert_sentence(after(crash, &killed), "it.h5ad|was ended|memory");
    assert_sentence(after(work_for_ever, NULL), "it.h5ad|still at work|damaged");
    assert_sentence(after(end_early, NULL), "it.h5ad|ended early");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
}

/* Names as a child would send them whose memory was overwritten. */
static const struct lie {
    int64_t size[2];
    const char *bytes;
    const char *sentence;
} lies[] = {{{-1, 0}, "", "do not fit its size"},
            {{3, 2}, "a", "do not fit its size"},
            {{0, 5}, "abcd", "do not fit its size"},
            {{1, INT64_MAX}, "", "do not fit its size"},
            {{INT64_MAX, INT64_MAX}, "", "do not fit its size"},
            {{2, 4}, "abc", "cannot be told apart"},
            {{1, 4}, "a\0c", "cannot be told apart"},
            {{1, 3}, "abc", "cannot be told apart"}};

static int lie(struct io_child *child, void *job)
{
    const struct lie *lie = job;
    io_child_answer(child, 0);
    io_child_send(child, lie->size, sizeof lie->size);
    return io_child_send(child, lie->bytes, lie->size[1] < 8 ? lie->size[1] : 0);
}

static void children_that_lie(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct io_child child;
        struct io_strings strings;
        assert_works(io_child_start(&child, "it.h5ad", NULL, 1000, lie, (void *)(uintptr_t)&lies[i]));
        assert_works(io_child_result(&child));
        assert_sentence(io_child_receive_strings(&child, &strings), lies[i].sentence);
        assert_null(strings.at);
        io_child_end(&child);
    }
}

enum { READ_OWN, READ_OTHER, MAKE, CONNECT, FORK, EXECUTABLE, SANDBOXED, TRIES };

/* What works of what a hostile file could have it do. */
static int try_all(struct io_child *child, void *job)
{
    int works[TRIES];
    works[SANDBOXED] = prctl(PR_GET_SECCOMP) != 0; /* the filter forbids the question too */
    works[READ_OWN] = open(job, O_RDONLY) >= 0;
    works[READ_OTHER] = open("/etc/passwd", O_RDONLY) >= 0 && open(DATA("older_06.h5ad"), O_RDWR) >= 0;
    works[MAKE] = open("made_by_a_child", O_WRONLY | O_CREAT, 0600) >= 0;
    unlink("made_by_a_child");
    works[CONNECT] = socket(AF_INET, SOCK_STREAM, 0) >= 0;
    works[FORK] = fork();
    if (works[FORK] == 0)
        _exit(0);
    works[FORK] = works[FORK] > 0;
    works[EXECUTABLE] = access("/bin/sh", X_OK) == 0 && execl("/bin/sh", "sh", "-c", "true", NULL) == 0;
    io_child_answer(child, 0);
    return io_child_send(child, works, sizeof works);
}

static void what_a_child_may_do(void **state)
{
    (void)state;
    struct io_child child;
    int works[TRIES];
    char *path = realpath(DATA("older_07.h5ad"), NULL);
    assert_works(io_child_start(&child, path, NULL, 1000, try_all, path));
    if (io_child_result(&child) == 0 && io_child_receive(&child, works, sizeof works) == 0 && works[SANDBOXED]) {
        assert_true(works[READ_OWN]);
        for (int i = READ_OTHER; i < SANDBOXED; i++)
            if (works[i])
                fail_msg("a child may do number %d", i);
        io_child_end(&child);
        free(path);
        return;
    }
    io_child_end(&child);
    free(path);
    print_message("skipped: no seccomp here, or a sanitizer that it would hinder\n");
    skip();
}

/* ---- files ---- */

static hid_t copy_to_change(const char *name)
{
    copy_file(DATA("older_07.h5ad"), in_scratch(name), 1);
    hid_t file = H5Fopen(in_scratch(name), H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

/* HDF5 1.10.8 copies as many bytes as an object of a heap says it has. */
static void damaged_heaps(void **state)
{
    (void)state;
    static const uint64_t odd[] = {0, 1, 17, 4096, 65536, UINT64_C(1) << 31, UINT64_C(1) << 40, UINT64_MAX};
    size_t count;
    char *bytes = get_file(DATA("layouts.h5ad"), &count);
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        char *changed = malloc(count);
        struct io_labels labels;
        struct io_matrix matrix;
        float values[N * D];
        assert_non_null(changed);
        memcpy(changed, bytes, count);
        for (char *at = changed; (at = memmem(at, count - (size_t)(at - changed), "GCOL", 4)); at += 4)
            memcpy(at + 16 + 8, &odd[k], sizeof odd[k]);
        put_file(in_scratch("heaps.h5ad"), changed, count);
        free(changed);
        io_labels_h5ad(&labels, in_scratch("heaps.h5ad"), "text", 0);
        io_labels_close(&labels);
        if (io_matrix_open(&matrix, in_scratch("heaps.h5ad"), "X_pca") == 0 && matrix.n_cells == N && matrix.n_dims == D)
            io_matrix_read(&matrix, values);
        io_matrix_close(&matrix);
    }
    free(bytes);
}

static void links_out_of_the_file(void **state)
{
    (void)state;
    struct io_labels labels;
    hid_t file = copy_to_change("links.h5ad");
    copy_file(DATA("older_07.h5ad"), in_scratch("other.h5ad"), 1);
    char other[PATH_MAX];
    assert_non_null(realpath(in_scratch("other.h5ad"), other));
    assert_true(H5Lcreate_external(other, "/obsm/X_pca", file, "obsm/X_out", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_external(other, "/obs/batch", file, "obs/out", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_soft("/nowhere", file, "obsm/X_nowhere", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_soft("/obsm/X_self", file, "obsm/X_self", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_hard(file, "/", file, "obsm/X_root", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Fclose(file) >= 0);
    assert_sentence(try_open(in_scratch("links.h5ad"), "X_out"), "X_out|link to another file|not followed");
    assert_sentence(io_labels_h5ad(&labels, in_scratch("links.h5ad"), "out", 0), "out is a link to another file");
    assert_sentence(try_open(in_scratch("links.h5ad"), "X_nowhere"), "X_nowhere");
    assert_sentence(try_open(in_scratch("links.h5ad"), "X_self"), "X_self");
    assert_sentence(try_open(in_scratch("links.h5ad"), "X_root"), "X_root|encoding-type");
}

/* A chunk is read whole: this one would be 2 GB, of a file of some kilobytes. */
static void chunks_that_the_file_cannot_hold(void **state)
{
    (void)state;
    hid_t file = copy_to_change("chunks.h5ad"), plist = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t extent[2] = {N, D}, most[2] = {H5S_UNLIMITED, H5S_UNLIMITED}, chunk[2] = {1 << 15, 1 << 14}, origin[2] = {0, 0};
    static const char bytes[64] = "x\x9c";
    H5Pset_chunk(plist, 2, chunk);
    H5Pset_deflate(plist, 6);
    hid_t space = H5Screate_simple(2, extent, most);
    hid_t dataset = H5Dcreate2(file, "obsm/X_chunk", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, origin, sizeof bytes, bytes) >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(plist);
    assert_true(H5Fclose(file) >= 0);
    assert_sentence(try_open(in_scratch("chunks.h5ad"), "X_chunk"), "X_chunk|chunks of 2147483648 bytes|can hold");
}

/* One chunk of 200 MB that is not stored: all values are the fill value, for which nothing of that size is taken or predicted.
   What fuzzing found (h5ad_objects). */
static void chunks_that_are_not_there(void **state)
{
    (void)state;
    struct io_matrix matrix;
    float values[N * D];
    hid_t file = copy_to_change("unstored.h5ad"), plist = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t extent[2] = {N, D}, most[2] = {H5S_UNLIMITED, H5S_UNLIMITED}, chunk[2] = {5000, 5000};
    const double fill = 2.5;
    H5Pset_chunk(plist, 2, chunk);
    H5Pset_deflate(plist, 1); /* without a filter it is refused: the values are not there */
    H5Pset_fill_value(plist, H5T_NATIVE_DOUBLE, &fill);
    hid_t space = H5Screate_simple(2, extent, most);
    H5Dclose(H5Dcreate2(file, "obsm/X_unstored", H5T_IEEE_F64LE, space, H5P_DEFAULT, plist, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(plist);
    assert_true(H5Fclose(file) >= 0);
    assert_works(io_matrix_open(&matrix, in_scratch("unstored.h5ad"), "X_unstored"));
    assert_true(matrix.n_cells == N && matrix.n_dims == D);
    assert_true(matrix.source_bytes < 64 << 20);
    assert_works(io_matrix_read(&matrix, values));
    io_matrix_close(&matrix);
    assert_true(values[0] == 2.5F && values[N * D - 1] == 2.5F);
}

/* Values in a dataset's header, of which the header claims 2^40 times as many as it has. What fuzzing found (h5ad). */
static void more_values_than_a_header_holds(void **state)
{
    (void)state;
    const uint64_t shape[2] = {N, 7}, claimed = UINT64_C(1) << 40;
    const hsize_t extent[2] = {N, 7};
    size_t count;
    hid_t file = copy_to_change("compact.h5ad"), plist = H5Pcreate(H5P_DATASET_CREATE);
    const char *path = in_scratch("compact.h5ad");
    H5Pset_layout(plist, H5D_COMPACT);
    hid_t space = H5Screate_simple(2, extent, NULL);
    H5Dclose(H5Dcreate2(file, "obsm/X_compact", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(plist);
    assert_true(H5Fclose(file) >= 0);
    assert_works(try_open(path, "X_compact"));
    char *bytes = get_file(path, &count), *at = memmem(bytes, count, shape, sizeof shape);
    assert_non_null(at);
    memcpy(at, &claimed, sizeof claimed);
    put_file(path, bytes, count);
    free(bytes);
    assert_sentence(try_open(path, "X_compact"), "X_compact|claims 30786325577728 bytes of values|stores 1680 of them");
}

/* Such values take no room, so that a file could claim any number of them; a piece of so many bytes has how many of them? */
static void texts_of_no_bytes(void **state)
{
    (void)state;
    enum { WIDTH = 4919 };
    struct io_labels labels;
    static char text[N * WIDTH];
    hid_t file = copy_to_change("nothing.h5ad"), type = H5Tcopy(H5T_C_S1);
    hsize_t extent = N;
    H5Tset_size(type, WIDTH);
    hid_t space = H5Screate_simple(1, &extent, NULL);
    hid_t dataset = H5Dcreate2(file, "obs/nothing", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Tclose(type);
    assert_true(H5Fclose(file) >= 0);
    size_t count, changed = 0;
    char *bytes = get_file(in_scratch("nothing.h5ad"), &count);
    static const char of_width[] = {WIDTH & 255, WIDTH >> 8, 0, 0};
    for (size_t i = 0; i + 8 < count; i++)
        if (bytes[i] == 0x13 && !memcmp(bytes + i + 4, of_width, 4)) { /* texts, in the first version of the message */
            memset(bytes + i + 4, 0, 4);
            changed++;
        }
    assert_int_equal(changed, 1);
    put_file(in_scratch("nothing.h5ad"), bytes, count);
    free(bytes);
    assert_sentence(io_labels_h5ad(&labels, in_scratch("nothing.h5ad"), "nothing", 0),
                    "nothing.h5ad|obs/nothing|of no bytes|damaged");
}

/* Every text is the first one, which is half of the file: 60 of them are more than the file accounts for. */
static void one_text_many_times(void **state)
{
    (void)state;
    enum { LONG = 400000 };
    struct io_labels labels;
    hid_t file = copy_to_change("texts.h5ad"), type = H5Tcopy(H5T_C_S1);
    hsize_t extent = N;
    char *text = malloc(LONG + 1), *texts[N] = {text};
    assert_non_null(text);
    memset(text, 'x', LONG);
    text[LONG] = 0;
    H5Tset_size(type, H5T_VARIABLE);
    hid_t space = H5Screate_simple(1, &extent, NULL);
    hid_t dataset = H5Dcreate2(file, "obs/texts", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts) >= 0);
    haddr_t at = H5Dget_offset(dataset);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Tclose(type);
    assert_true(H5Fclose(file) >= 0);
    free(text);
    size_t count;
    char *bytes = get_file(in_scratch("texts.h5ad"), &count);
    for (int i = 1; i < N; i++)
        memcpy(bytes + at + 16 * i, bytes + at, 16); /* length, address of the heap, number in it */
    put_file(in_scratch("texts.h5ad"), bytes, count);
    free(bytes);
    assert_sentence(io_labels_h5ad(&labels, in_scratch("texts.h5ad"), "texts", 0), "texts.h5ad|obs/texts|cannot be read");
}

/* What a terminal obeys does not reach it, nor does a line end within a sentence. */
static void names_with_control_characters(void **state)
{
    (void)state;
    struct io_labels labels;
    hid_t file = copy_to_change("control.h5ad");
    hid_t group = H5Gcreate2(file, "obs/\x1b]0;title\x07\nbatc", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    assert_true(H5Fclose(file) >= 0);
    assert_sentence(io_labels_h5ad(&labels, in_scratch("control.h5ad"), "batches", 0), "?]0;title??batc");
    char text[] = "a\x1b[2J\x7f\t\xc2\x9b\xc3\xa9\xc2";
    assert_string_equal(io_printable(text), "a?[2J???\x3f\xc3\xa9\xc2");
    put_text(in_scratch("type.npy"), "\x93NUMPY\x01");
    assert_sentence(try_open(in_scratch("type.npy"), NULL), "type.npy");
}

/* Of a thousand names, the three nearest; this took a minute when every distance was tried in turn. */
static void nearest_of_many_long_names(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    char nearest[1024], wanted[] = "a_name_of_some_sixty_characters_which_no_column_of_the_file_has";
    struct io_builder builder = {0};
    struct io_strings names;
    for (int i = 0; i < MANY; i++) {
        char name[80];
        int length = snprintf(name, sizeof name, "%d_name_of_some_sixty_characters_which_%d_columns_of_the_file_have", i, i);
        assert_works(io_builder_add(&builder, name, (size_t)length));
    }
    assert_works(io_builder_finish(&builder, &names));
    io_suggest(nearest, sizeof nearest, wanted, &names);
    assert_non_null(strstr(nearest, "nearest: \"0_name"));
    assert_non_null(strstr(nearest, "\", \"1_name"));
    assert_non_null(strstr(nearest, "there are 10000 names"));
    io_strings_close(&names);
}

/* What fuzzing found in tables: a file without a byte. */
static void tables_of_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"no.tsv", "no.csv", "no.tsv.gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_text(in_scratch(names[i]), "");
        assert_sentence(try_open(in_scratch(names[i]), NULL), "is empty");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_at_the_edges),
        cmocka_unit_test(room_that_cannot_be),
        cmocka_unit_test(sizes_of_an_embedding),
        cmocka_unit_test(children_that_die),
        cmocka_unit_test(children_that_lie),
        cmocka_unit_test(what_a_child_may_do),
        cmocka_unit_test_teardown(damaged_heaps, empty_scratch),
        cmocka_unit_test_teardown(links_out_of_the_file, empty_scratch),
        cmocka_unit_test_teardown(chunks_that_the_file_cannot_hold, empty_scratch),
        cmocka_unit_test_teardown(chunks_that_are_not_there, empty_scratch),
        cmocka_unit_test_teardown(more_values_than_a_header_holds, empty_scratch),
        cmocka_unit_test_teardown(one_text_many_times, empty_scratch),
        cmocka_unit_test_teardown(texts_of_no_bytes, empty_scratch),
        cmocka_unit_test_teardown(names_with_control_characters, empty_scratch),
        cmocka_unit_test(nearest_of_many_long_names),
        cmocka_unit_test_teardown(tables_of_nothing, empty_scratch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
