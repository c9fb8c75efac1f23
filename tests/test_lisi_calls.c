/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of uni_lisi that do not go well, that are given up, and that tell how far they are. */
#include "lisi_given.h"
#include "made_data.h"
#include "testing.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

static void assert_refused(int status, const struct uni_matrix *m, const struct uni_batch *b, int n,
                           const struct uni_lisi_options *o, const char *words)
{
    assert_int_equal(uni_lisi(m, b, n, o, NULL, NULL, NULL), status);
    if (!strstr(uni_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", uni_last_error(), words);
}

static void p120_bad_input_is_one_sentence(void **state)
{
    (void)state;
    struct made_data data;
    made_fixture(&data, 200, 3);
    struct uni_matrix m = cells_of(data.Z, 200, 3), other = m;
    struct uni_batch b = labels_of(data.level, 200, 2), c = b;
    struct uni_lisi_options o = every_cell(1), none = {0};
    assert_refused(UNI_OPTION, &m, &b, 1, &o, "perplexity is 1; it must be a number > 1");
    o.perplexity = NAN;
    assert_refused(UNI_OPTION, &m, &b, 1, &o, "perplexity is nan");
    o = every_cell(30);
    o.sample = -3;
    assert_refused(UNI_OPTION, &m, &b, 1, &o, "sample is -3");
    o = every_cell(30);
    o.backend = UNI_BACKEND_CUDA + 1;
    assert_refused(UNI_OPTION, &m, &b, 1, &o, "backend is 3");
    o.backend = UNI_BACKEND_CPU, o.device = -1;
    assert_refused(UNI_OPTION, &m, &b, 1, &o, "device is -1");
    assert_refused(UNI_OPTION, &m, &b, 1, &none, "uni_lisi_options_init");
    o = every_cell(30);
    assert_refused(UNI_INPUT, &m, &b, 0, &o, "0 labellings");
    other.n_cells = 4;
    assert_refused(UNI_INPUT, &other, &b, 1, &o, "4 cells; LISI needs at least 5");
    other = cells_of(data.Z, 10, 200);
    assert_refused(UNI_INPUT, &other, &b, 1, &o,
                   "\"batch\" has 200 labels for an embedding of 10x200 (cells x dimensions): cells must");
    data.level[17] = 2;
    assert_refused(UNI_INPUT, &m, &b, 1, &o, "level 2 at cell 18");
    data.level[17] = 0;
    c.level = NULL;
    assert_refused(UNI_INPUT, &m, &c, 1, &o, "level is NULL");
    data.Z[4 * 3 + 1] = NAN;
    assert_refused(UNI_INPUT, &m, &b, 1, &o, "row 5, column 2");
    data.Z[4 * 3 + 1] = 0;
    for (int i = 0; i < 200; i++)
        data.level[i] = -1;
    assert_refused(UNI_INPUT, &m, &b, 1, &o, "no label for any of the 200 cells");
    made_free(&data);
}

static void *cancel_soon(void *flag)
{
    usleep(50000);
    *(volatile int *)flag = 1;
    return NULL;
}

static void cancelled_in_the_middle(void **state)
{
    (void)state;
    enum { N = 1000000, D = 20 };
    float *Z = calloc((size_t)((int64_t)N * D), sizeof *Z);
    int32_t *level = calloc((size_t)(N), sizeof *level);
    double *out = calloc((size_t)(N), sizeof *out);
    uint64_t random = 1;
    volatile int cancel = 0;
    struct uni_matrix m = cells_of(Z, N, D);
    struct uni_batch b = labels_of(level, N, 1);
    struct uni_lisi_options o = every_cell(30);
    pthread_t thread;
    for (int64_t i = 0; i < (int64_t)N * D; i++)
        Z[i] = (float)(made_random(&random) >> 40);
    o.cancel = &cancel;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, (void *)(uintptr_t)&cancel), 0);
    assert_int_equal(uni_lisi(&m, &b, 1, &o, out, NULL, NULL), UNI_STOPPED);
    assert_true(isnan(out[0]) && isnan(out[N - 1]));
    pthread_join(thread, NULL);
    free(Z);
    free(level);
    free(out);
}

struct told {
    pthread_t thread;
    int64_t times, done, n;
    int wrong;
};

static void hear(int64_t done, int64_t n_sampled, void *user)
{
    struct told *t = user;
    t->wrong += !pthread_equal(t->thread, pthread_self()) || fegetround() != FE_UPWARD || done <= t->done || done > n_sampled ||
                n_sampled != t->n;
    t->done = done;
    t->times++;
}

static void progress_rises_in_the_caller_s_thread_and_surroundings(void **state)
{
    (void)state;
    enum { N = 6000, D = 10, SAMPLE = 5000 };
    struct made_data data;
    made_fixture(&data, N, D);
    struct uni_matrix m = cells_of(data.Z, N, D);
    struct uni_batch b = labels_of(data.level, N, 2);
    struct uni_lisi_options o = every_cell(30);
    double *silent = calloc(SAMPLE, sizeof *silent), *out = calloc(SAMPLE, sizeof *out);
    o.sample = SAMPLE;
    assert_int_equal(uni_lisi(&m, &b, 1, &o, silent, NULL, NULL), UNI_OK);
    for (int64_t threads = 1; threads <= 3; threads += 2) {
        struct told told = {.thread = pthread_self(), .n = SAMPLE};
        o.threads = threads;
        o.progress = hear;
        o.progress_user = &told;
        fesetround(FE_UPWARD);
        int status = uni_lisi(&m, &b, 1, &o, out, NULL, NULL);
        fesetround(FE_TONEAREST);
        assert_int_equal(status, UNI_OK);
        assert_int_equal(told.wrong, 0);
        assert_true(told.times > 0 && told.times <= 200);
        assert_true(threads > 1 || told.done > SAMPLE * 0.95);
        assert_memory_equal(out, silent, SAMPLE * sizeof *out);
    }
    free(silent);
    free(out);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p120_bad_input_is_one_sentence),
        cmocka_unit_test(cancelled_in_the_middle),
        cmocka_unit_test(progress_rises_in_the_caller_s_thread_and_surroundings),
    };
    return cmocka_run_group_tests_name("calls of lisi", tests, NULL, NULL);
}
