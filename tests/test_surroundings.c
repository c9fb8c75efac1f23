/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call finds in its thread and its process is there afterwards, however the call ends; and whatever of it the caller has
 * set, results and sentences have the same bytes: rounding, subnormals flushed to zero, traps, raised flags, locales, blocked
 * signals. */
#define _GNU_SOURCE
#include "found.h"
#include "product.h"
#include "testing.h"

#include <locale.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_SANITIZER 1
#else
#define WITH_SANITIZER 0
#endif

/* ---- outcomes: what a caller does, and how it ends ------------------------------------------------------------------------- */

static struct made_data data, tiny, large, spoiled, types;
static struct found expected; /* by a callback, too */
static int in_callback;       /* was everything as the caller has it, whenever he was called? */

/* What a call left, for comparing: status, sentence and numbers. */
struct answer {
    size_t bytes;
    unsigned char at[1 << 16];
};
static struct answer answer;

static void add(const void *bytes, size_t size)
{
    assert_true(answer.bytes + size <= sizeof answer.at);
    memcpy(answer.at + answer.bytes, bytes, size);
    answer.bytes += size;
}

static void add_status(int status, int wanted)
{
    if (status != wanted)
        print_error("%s, not %s: %s\n", uni_status_name(status), uni_status_name(wanted), status ? uni_last_error() : "");
    assert_int_equal(status, wanted);
    if (status)
        add(uni_last_error(), strlen(uni_last_error()));
}

static int note_progress(const struct uni_progress *progress, void *user)
{
    in_callback &= found_float_control() == expected.float_control && uselocale((locale_t)0) == expected.thread_locale;
    return progress->round == *(const int *)user;
}

static const int never = -1, after_two = 2, before_the_first = 0, always_cancelled = 1;

static struct uni_options few_rounds(void)
{
    struct uni_options options = defaults();
    options.max_rounds = 3, options.tol = -1, options.threads = 3, options.n_clusters = 4, options.terms = 1;
    options.progress = note_progress, options.progress_user = (void *)(uintptr_t)&never;
    return options;
}

/* Opens, runs, reads everything and looks at the diagnostics; a step that fails ends it. */
static void go(const struct made_data *from, const struct uni_options *options, int opens, int runs)
{
    static const enum uni_array read[] = {UNI_CORRECTED, UNI_CENTROIDS, UNI_OBSERVED, UNI_EXPECTED, UNI_LAMBDA, UNI_CORRECTION};
    struct uni_matrix m = matrix_of(from);
    struct uni_batch batch = batch_of(from);
    struct uni_harmony *run;
    struct uni_diagnosis *diagnosis = NULL;
    double room[1200];
    add_status(uni_open(&run, &m, &batch, 1, options), opens);
    if (!run)
        return;
    add_status(uni_run(run), runs);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        int64_t shape[3];
        assert_int_equal(uni_shape(run, read[i], shape), UNI_OK);
        size_t size = (size_t)(shape[0] * shape[1] * shape[2]) * (i >= 2 && i <= 4 ? sizeof(double) : sizeof(float));
        assert_true(size <= sizeof room);
        if (uni_read(run, read[i], room) == UNI_OK)
            add(room, size);
        else
            add(uni_last_error(), strlen(uni_last_error()));
    }
    if (uni_diagnose(&diagnosis, run, NULL, NULL, &batch, 1, NULL, 2) == UNI_OK && diagnosis->n_clusters > 0)
        add(diagnosis->observed, sizeof(double));
    uni_diagnosis_close(diagnosis);
    for (int64_t i = 0; i < uni_summary(run)->n_warnings; i++)
        add(uni_summary(run)->warnings[i], strlen(uni_summary(run)->warnings[i]));
    uni_close(run);
}

static void success(void)
{
    struct uni_options options = few_rounds();
    go(&data, &options, UNI_OK, UNI_OK);
}

/* Most of these numbers are subnormal in float32: flushed to zero they would be nothing. */
static void success_on_tiny_numbers(void)
{
    struct uni_options options = few_rounds();
    go(&tiny, &options, UNI_OK, UNI_OK);
}

static void everything_at_its_default(void)
{
    struct uni_options options = defaults();
    options.progress = note_progress, options.progress_user = (void *)(uintptr_t)&never;
    go(&data, &options, UNI_OK, UNI_OK);
}

static void fewer_clusters_than_asked_for(void)
{
    struct uni_options options = few_rounds();
    options.n_clusters = 99;
    go(&data, &options, UNI_OK, UNI_OK);
}

static void no_rounds(void)
{
    struct uni_options options = few_rounds();
    options.max_rounds = 0;
    go(&data, &options, UNI_OK, UNI_OK);
}

static void bad_numbers(void)
{
    struct uni_options options = few_rounds();
    go(&spoiled, &options, UNI_INPUT, 0);
}

static void bad_option(void)
{
    struct uni_options options = few_rounds();
    options.sigma = -0.125; /* the sentence has a point in any locale */
    go(&data, &options, UNI_OPTION, 0);
}

static void no_such_backend(void)
{
    struct uni_options options = few_rounds();
    options.backend = UNI_BACKEND_CUDA;
    go(&data, &options, UNI_BACKEND, 0);
}

static void stopped(void)
{
    struct uni_options options = few_rounds();
    options.progress_user = (void *)(uintptr_t)&after_two;
    go(&data, &options, UNI_OK, UNI_STOPPED);
    options.progress_user = (void *)(uintptr_t)&before_the_first;
    go(&data, &options, UNI_OK, UNI_STOPPED);
}

static int wish;

static int wish_to_end(const struct uni_progress *progress, void *user)
{
    (void)user;
    wish = progress->round == 1;
    return 0;
}

static void cancelled(void)
{
    struct uni_options options = few_rounds();
    options.cancel = &always_cancelled;
    go(&data, &options, UNI_STOPPED, 0);
    wish = 0;
    options.cancel = &wish, options.progress = wish_to_end;
    go(&data, &options, UNI_OK, UNI_STOPPED);
}

/* The address space ends where it is: what needs room of its own cannot be had. */
static void out_of_memory(void)
{
    if (WITH_SANITIZER)
        return; /* its allocator ends the program instead */
    struct uni_options options = few_rounds();
    struct rlimit before, low = {1 << 20, 0};
    struct uni_matrix m = matrix_of(&large);
    struct uni_batch batch = batch_of(&large);
    struct uni_harmony *run = NULL;
    options.n_clusters = 400;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    low.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    int status = uni_open(&run, &m, &batch, 1, &options);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    add_status(status, UNI_MEMORY);
    assert_null(run);
}

static void options_as_text(void)
{
    static const char *const given[][2] = {{"sigma", "0.1"}, {"tol", "1e-4"}, {"theta", "0.3"}, {"lambda", "2.7"}};
    static const char *const bad[] = {"0,1", "x", "-1.5"};
    struct uni_options options = defaults();
    char text[100];
    add(&options, sizeof options);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        add_status(uni_options_set(&options, given[i][0], given[i][1]), UNI_OK);
        add_status(uni_options_get(&options, given[i][0], text, sizeof text), UNI_OK);
        add(text, strlen(text));
    }
    add(&options, sizeof options);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        add_status(uni_options_set(&options, "sigma", bad[i]), UNI_OPTION);
    add_status(uni_options_set(&options, "sigm", "1"), UNI_OPTION);
}

static void plan(void)
{
    struct uni_options options = few_rounds();
    struct uni_batch batch = batch_of(&data);
    struct uni_plan p;
    add_status(uni_plan(&p, data.n, data.d, &batch, 1, &options), UNI_OK);
    add(&p.bytes, sizeof p.bytes);
    options.alpha = 0;
    add_status(uni_plan(&p, data.n, data.d, &batch, 1, &options), UNI_OPTION);
}

static void scores(void)
{
    struct uni_lisi_options options;
    struct uni_lisi_plan p;
    struct uni_lisi_score score;
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    double values[60];
    uni_lisi_options_init(&options, sizeof options);
    options.threads = 3;
    add_status(uni_lisi_plan(&p, &m, &batch, 1, &options), UNI_OK);
    add(p.note, strlen(p.note)); /* it has a fraction */
    add_status(uni_lisi(&m, &batch, 1, &options, values, NULL, &score), UNI_OK);
    add(values, sizeof values);
    add(&score.mean, sizeof score.mean);
    options.perplexity = 0.5;
    add_status(uni_lisi(&m, &batch, 1, &options, values, NULL, NULL), UNI_OPTION);
    options.perplexity = 5, options.cancel = &always_cancelled;
    add_status(uni_lisi(&m, &batch, 1, &options, values, NULL, NULL), UNI_STOPPED);
}

static void picture(void)
{
    struct uni_matrix m = matrix_of(&data);
    float place[120];
    add_status(uni_tsne(place, &m, NULL, 5, 2, NULL), UNI_OK);
    add(place, sizeof place);
    add_status(uni_tsne(place, &m, NULL, 0.5, 2, NULL), UNI_OPTION);
    add_status(uni_tsne(place, &m, NULL, 5, 2, &always_cancelled), UNI_STOPPED);
}

static void diagnosis_of_an_embedding(void)
{
    struct uni_matrix m = matrix_of(&data), other = matrix_of(&types);
    struct uni_batch batch = batch_of(&data), type = batch_of(&types);
    struct uni_diagnosis *d;
    add_status(uni_diagnose(&d, NULL, &m, &other, &batch, 1, &type, 2), UNI_OK);
    add(&d->length_rms, sizeof d->length_rms);
    add(&d->levels[0].spread_kept, sizeof(double));
    for (int64_t i = 0; i < d->n_findings; i++)
        add(d->findings[i].text, strlen(d->findings[i].text));
    uni_diagnosis_close(d);
    batch.level = NULL;
    add_status(uni_diagnose(&d, NULL, &m, &other, &batch, 1, &type, 2), UNI_INPUT);
}

static void (*const outcomes[])(void) = {success,
                                         success_on_tiny_numbers,
                                         everything_at_its_default,
                                         fewer_clusters_than_asked_for,
                                         no_rounds,
                                         bad_numbers,
                                         bad_option,
                                         no_such_backend,
                                         stopped,
                                         cancelled,
                                         out_of_memory,
                                         options_as_text,
                                         plan,
                                         scores,
                                         picture,
                                         diagnosis_of_an_embedding};
enum { N_OUTCOMES = sizeof outcomes / sizeof *outcomes };

/* ---- surroundings ---------------------------------------------------------------------------------------------------------- */

static struct answer usually[N_OUTCOMES];

/* Every outcome under what has been set up: all as found, the same answer as usually. */
static void check_all(const char *what)
{
    for (int i = 0; i < N_OUTCOMES; i++) {
        struct found after;
        answer.bytes = 0;
        in_callback = 1;
        found_now(&expected);
        srand(7);
        outcomes[i]();
        int next = rand();
        found_as(&after, &expected);
        srand(7);
        if (next != rand())
            fail_msg("%s, outcome %d: numbers were drawn from the C library's generator", what, i);
        assert_found(&after, &expected, what, i);
        if (!in_callback)
            fail_msg("%s, outcome %d: the callback had not the caller's own", what, i);
        if (answer.bytes != usually[i].bytes || memcmp(answer.at, usually[i].at, answer.bytes) != 0)
            fail_msg("%s, outcome %d: another answer (%zu bytes, usually %zu)", what, i, answer.bytes, usually[i].bytes);
    }
}

static void usual_surroundings(void **state)
{
    (void)state;
    check_all("as usual");
}

static void p71_any_rounding_mode(void **state)
{
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(fesetround(modes[i]), 0);
        check_all("another rounding mode");
    }
    fesetround(FE_TONEAREST);
}

static void subnormals_flushed_to_zero(void **state)
{
    (void)state;
    if (!flush_to_zero(1))
        skip();
    check_all("subnormals are flushed to zero");
    flush_to_zero(0);
}

/* Flags that an earlier computation raised are still raised, and no new one is. */
static void exception_flags(void **state)
{
    (void)state;
    feclearexcept(FE_ALL_EXCEPT);
    check_all("no flag is raised");
    feraiseexcept(FE_DIVBYZERO | FE_UNDERFLOW);
    check_all("two flags are raised");
    feclearexcept(FE_ALL_EXCEPT);
}

/* As Fortran programs do to find their own errors: what is no error of ours must not end the program. */
static void exceptions_that_trap(void **state)
{
    (void)state;
    feclearexcept(FE_ALL_EXCEPT);
    if (!trap_exceptions(1))
        skip();
    check_all("exceptions trap");
    trap_exceptions(0);
}

static void a_locale_with_a_decimal_comma(void **state)
{
    (void)state;
    const char *name = comma_locale();
    if (!name) {
        print_message("skipped: this machine has no locale with a decimal comma, and no localedef to make one\n");
        skip();
    }
    assert_non_null(setlocale(LC_ALL, name));
    check_all("the process has a decimal comma");
    setlocale(LC_ALL, "C");
    locale_t own = newlocale(LC_ALL_MASK, name, (locale_t)0);
    assert_true(own != (locale_t)0);
    uselocale(own);
    check_all("the thread has a decimal comma");
    uselocale(LC_GLOBAL_LOCALE);
    freelocale(own);
}

static void note_signal(int signal)
{
    (void)signal;
}

static void signals_blocked_or_handled(void **state)
{
    (void)state;
    sigset_t all, before;
    struct sigaction handled = {.sa_handler = note_signal, .sa_flags = SA_RESTART}, old[2];
    sigaction(SIGINT, &handled, &old[0]);
    sigaction(SIGTERM, &handled, &old[1]);
    check_all("handlers are installed");
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    raise(SIGUSR1); /* pending all the while */
    check_all("all signals are blocked");
    assert_int_equal(sigpending(&all), 0);
    assert_true(sigismember(&all, SIGUSR1));
    signal(SIGUSR1, SIG_IGN); /* which takes it back */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGUSR1, SIG_DFL);
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
}

static int make_data(void **state)
{
    (void)state;
    for (int fd = 3; fd < 64; fd++)
        close(fd); /* what the test's starter left open is his, and he may go on writing */
    setenv("UNISONO_CUDA_PLUGIN", "", 1); /* a card's driver has threads and files of its own */
    made_fixture(&data, 60, 3);
    made_fixture(&tiny, 60, 3);
    made_fixture(&spoiled, 60, 3);
    made_fixture(&large, 30000, 10);
    made_fixture(&types, 60, 3);
    spoiled.Z[17] = NAN;
    for (int64_t i = 0; i < 60; i++)
        types.level[i] = i / 30;
    for (int64_t i = 0; i < 180; i++) {
        tiny.Z[i] = scalbnf(tiny.Z[i], -130);
        types.Z[i] += 0.25f * (float)(i % 4);
    }
    for (int i = 0; i < N_OUTCOMES; i++) {
        answer.bytes = 0;
        found_now(&expected);
        outcomes[i]();
        usually[i] = answer;
    }
    return 0;
}

static int free_data(void **state)
{
    (void)state;
    made_free(&data);
    made_free(&tiny);
    made_free(&spoiled);
    made_free(&large);
    made_free(&types);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_surroundings),         cmocka_unit_test(p71_any_rounding_mode),
        cmocka_unit_test(subnormals_flushed_to_zero), cmocka_unit_test(exception_flags),
        cmocka_unit_test(exceptions_that_trap),       cmocka_unit_test(a_locale_with_a_decimal_comma),
        cmocka_unit_test(signals_blocked_or_handled),
    };
    return cmocka_run_group_tests_name("surroundings", tests, make_data, free_data);
}
