/* SPDX-License-Identifier: BSD-3-Clause */
/* The option table, every range, and what the options do that other tests do not show: tau, callbacks, stopping, plans. */
#include "differences.h"
#include "product.h"
#include "testing.h"

#include <math.h>

/* Sets one field through `set`, opens G(60,3) with K = 4, and expects the option's name and the texts in the sentence. */
static void refuse_options(struct uni_options options, const char *const *texts, int line)
{
    struct made_data data;
    struct uni_harmony *run = NULL;
    made_fixture(&data, 60, 3);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    if (options.n_clusters == 0)
        options.n_clusters = 4;
    int status = uni_open(&run, &m, &batch, 1, &options);
    if (status != UNI_OPTION)
        print_error("line %d: status %s: %s\n", line, uni_status_name(status), uni_last_error());
    _assert_int_equal((uint64_t)status, UNI_OPTION, __FILE__, line);
    _assert_true(run == NULL, "run == NULL", __FILE__, line);
    for (; *texts; texts++) {
        if (!strstr(uni_last_error(), *texts))
            print_error("\"%s\" is not in: %s\n", *texts, uni_last_error());
        _assert_true(strstr(uni_last_error(), *texts) != NULL, "sentence", __FILE__, line);
    }
    made_free(&data);
}

#define REFUSE(assignment, ...)                                                                                                  \
    do {                                                                                                                         \
        struct uni_options o = defaults();                                                                                       \
        assignment;                                                                                                              \
        refuse_options(o, (const char *const[]){__VA_ARGS__, NULL}, __LINE__);                                                   \
    } while (0)

static void p49_p50_p51_values_out_of_range_are_refused(void **state)
{
    (void)state;
    double sigma[] = {0.1, 0.2, 0.3, -0.4};
    REFUSE(o.sigma = 0, "sigma", "0", "> 0");
    REFUSE(o.sigma = -0.1, "sigma", "-0.1", "> 0");
    REFUSE(o.sigma = NAN, "sigma", "nan", "> 0");
    REFUSE(o.sigma = INFINITY, "sigma", "inf");
    REFUSE((o.cluster_sigma = sigma, o.n_cluster_sigma = 3), "sigma", "3", "4 clusters");
    REFUSE((o.cluster_sigma = sigma, o.n_cluster_sigma = 4), "sigma", "-0.4", "cluster 4", "> 0");
    REFUSE(o.theta.value[0] = -3, "theta", "-3", ">= 0");
    REFUSE(o.theta.value[0] = NAN, "theta", "nan");
    REFUSE(o.theta.value[0] = INFINITY, "theta", "inf");
    REFUSE(o.theta.n = 0, "theta", "0 values");
    REFUSE(o.theta.n = -1, "theta", "-1");
    REFUSE(o.theta.n = 3, "theta", "3 values", "1 batch variable");
    REFUSE(o.theta.n = 1000, "theta", "1000 values");
    REFUSE(o.tau.value[0] = -1, "tau", "-1", ">= 0");
    REFUSE(o.tau.n = 2, "tau", "2 values");
    REFUSE((o.lambda.n = 1, o.lambda.value[0] = 0), "lambda", "0", "> 0");
    REFUSE((o.lambda.n = 1, o.lambda.value[0] = -1), "lambda", "-1", "> 0");
    REFUSE((o.lambda.n = 1, o.lambda.value[0] = NAN), "lambda", "nan");
    REFUSE(o.lambda.n = 3, "lambda", "3 values");
    REFUSE(o.alpha = 0, "alpha", "0", "> 0");
    REFUSE(o.alpha = -1, "alpha", "-1");
    REFUSE(o.alpha = INFINITY, "alpha", "inf");
    REFUSE(o.alpha = NAN, "alpha", "nan");
    REFUSE(o.cutoff = -0.1, "cutoff", "-0.1", "0 to 1");
    REFUSE(o.cutoff = 1.1, "cutoff", "1.1", "0 to 1");
    REFUSE(o.cutoff = NAN, "cutoff", "nan");
    REFUSE(o.block_size = 0, "block-size", "0");
    REFUSE(o.block_size = 1.5, "block-size", "1.5");
    REFUSE(o.block_size = NAN, "block-size", "nan");
    REFUSE(o.max_rounds = -1, "max-rounds", "-1");
    REFUSE(o.sweeps = 0, "sweeps", "0");
    REFUSE(o.window = 0, "window", "0");
    REFUSE(o.n_clusters = -2, "clusters", "-2");
    REFUSE(o.sweep_tol = NAN, "sweep-tol", "nan");
    REFUSE(o.stop = (enum uni_stop)5, "stop", "5", "change", "objective");
    REFUSE(o.update = (enum uni_update)5, "update", "5");
    REFUSE(o.missing = (enum uni_missing)5, "missing", "5");
    REFUSE(o.precision = (enum uni_precision)5, "precision", "5");
    REFUSE(o.backend = (enum uni_backend_kind)5, "backend", "5");
    REFUSE(o.seed = -1, "seed", "-1");
    REFUSE(o.threads = -1, "threads", "-1"); /* P79 */
    REFUSE(o.size = 8, "uni_options_init");
}

static void what_is_not_built_is_refused(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_harmony *run;
    struct uni_options options = defaults();
    struct uni_backend_info info;
    int cuda = 0;
    for (int i = 0; uni_backend_at(i, &info); i++) {
        assert_true(i > 0 || (strcmp(info.name, "cpu") == 0 && info.usable && strlen(info.detail) > 0));
        cuda |= strcmp(info.name, "cuda") == 0;
    }
    made_fixture(&data, 60, 3);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    options.backend = UNI_BACKEND_CUDA;
    if (!cuda) {
        assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_BACKEND);
        assert_non_null(strstr(uni_last_error(), "cuda"));
        assert_null(run);
    }
    made_free(&data);
}

/* Every row: its default is accepted as text, read back as it is written, and is what uni_options_init gives. */
static void the_table_describes_the_options(void **state)
{
    (void)state;
    char text[200];
    int n = 0;
    for (const struct uni_option *row; (row = uni_option_at(n)); n++) {
        struct uni_options options = defaults(), same = defaults();
        assert_true(strlen(row->name) > 2 && strlen(row->range) > 2 && strlen(row->help) > 10);
        assert_true((row->kind == UNI_KIND_CHOICE) == (row->choices != NULL));
        assert_int_equal(uni_options_get(&options, row->name, text, sizeof text), UNI_OK);
        assert_string_equal(text, row->initial);
        assert_int_equal(uni_options_set(&options, row->name, text), UNI_OK);
        assert_int_equal(uni_options_get(&options, row->name, text, sizeof text), UNI_OK);
        assert_string_equal(text, row->initial);
        assert_int_equal(uni_options_set(&options, row->name, "no such value"), UNI_OPTION);
        assert_non_null(strstr(uni_last_error(), row->name));
        assert_non_null(strstr(uni_last_error(), "no such value"));
        options.tol = same.tol = 0; /* automatic is a NaN, which need not have the same bits */
        assert_memory_equal(&options, &same, sizeof same);
    }
    assert_true(n >= 20);
    assert_null(uni_option_at(n));
    assert_null(uni_option_at(-1));
}

/* The defaults as the method's description has them. */
static void p60_defaults_are_the_documented_ones(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"clusters", "auto"}, {"sigma", "0.1"},     {"theta", "2"},         {"tau", "0"},           {"lambda", "auto"},
        {"alpha", "0.2"},     {"cutoff", "1e-05"},  {"max-rounds", "10"},   {"sweeps", "4"},        {"window", "3"},
        {"stop", "change"},   {"tol", "auto"},      {"sweep-tol", "0.001"}, {"block-size", "0.05"}, {"update", "blocks"},
        {"seed", "0"},        {"missing", "error"}, {"precision", "half"}};
    struct uni_options options = defaults();
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char text[64];
        assert_int_equal(uni_options_get(&options, expected[i][0], text, sizeof text), UNI_OK);
        assert_string_equal(text, expected[i][1]);
    }
}

static void options_are_set_from_text(void **state)
{
    (void)state;
    struct uni_options options = defaults();
    char text[64];
    assert_int_equal(uni_options_set(&options, "theta", "2,0.5,1e-3"), UNI_OK);
    assert_int_equal(options.theta.n, 3);
    assert_true(options.theta.value[1] == 0.5 && options.theta.value[2] == 1e-3);
    assert_int_equal(uni_options_get(&options, "theta", text, sizeof text), UNI_OK);
    assert_string_equal(text, "2,0.5,0.001");
    assert_int_equal(uni_options_set(&options, "stop", "objective"), UNI_OK);
    assert_int_equal(options.stop, UNI_STOP_OBJECTIVE);
    assert_int_equal(uni_options_set(&options, "clusters", "77"), UNI_OK);
    assert_int_equal(options.n_clusters, 77);
    assert_int_equal(uni_options_set(&options, "clusters", "auto"), UNI_OK);
    assert_int_equal(options.n_clusters, 0);
    assert_int_equal(uni_options_set(&options, "lambda", "1"), UNI_OK);
    assert_int_equal(options.lambda.n, 1);
    assert_int_equal(uni_options_set(&options, "lambda", "auto"), UNI_OK);
    assert_int_equal(options.lambda.n, 0);
    assert_int_equal(uni_options_set(&options, "force", "yes"), UNI_OK);
    assert_int_equal(options.force, 1);
    assert_int_equal(uni_options_set(&options, "tol", "-1"), UNI_OK);
    assert_true(options.tol == -1);
}

static void a_bad_text_leaves_the_options_alone(void **state)
{
    (void)state;
    static const char *const bad[][3] = {{"theta", "2,", "theta"},
                                         {"theta", "2,,3", "theta"},
                                         {"theta", "-1", "theta"},
                                         {"theta", "", "theta"},
                                         {"theta", "1,1,1,1,1,1,1,1,1", "8"},
                                         {"sigma", "0", "> 0"},
                                         {"sigma", "0.1x", "0.1x"},
                                         {"sigma", "0,1", "sigma"},
                                         {"clusters", "1.5", "1.5"},
                                         {"clusters", "-1", "-1"},
                                         {"clusters", "1e30", "1e30"},
                                         {"stop", "chang", "change"},
                                         {"stop", "changes", "change"},
                                         {"force", "maybe", "yes"},
                                         {"sigma", "nan", "sigma"},
                                         {"sigma", "inf", "sigma"},
                                         {"threads", "0", "threads"},
                                         {"seed", "-1", "seed"},
                                         {"cutoff", "2", "0 to 1"},
                                         {"thta", "2", "thta"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct uni_options options = defaults(), before;
        options.tol = 0.5; /* a NaN would not compare */
        before = options;
        if (uni_options_set(&options, bad[i][0], bad[i][1]) != UNI_OPTION)
            print_error("%s accepted \"%s\"\n", bad[i][0], bad[i][1]);
        assert_int_equal(uni_options_set(&options, bad[i][0], bad[i][1]), UNI_OPTION);
        assert_non_null(strstr(uni_last_error(), bad[i][2]));
        assert_memory_equal(&options, &before, sizeof before);
    }
}

/* theta (1 - exp(-(N / (K tau))^2)); the slip squares the exponential instead. */
static void p77_tau_formula(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_fixture(&data, 60, 3);
    options.n_clusters = 2, options.tau.value[0] = 10;
    product_run_data(&p, &data, &options);
    assert_int_equal(p.B, 2);
    assert_near(p.theta[0], 1.789202, 5e-7);
    assert_near(p.theta[1], 1.789202, 5e-7);
    product_close(&p);
    options.tau.value[0] = 0;
    product_run_data(&p, &data, &options);
    assert_true(p.theta[0] == 2);
    assert_near(p.sigma[1], 0.1, 1e-15);
    product_close(&p);
    made_free(&data);
}

/* O / N is exactly 1 with one cluster: a pair is left out at a cutoff of 1, as the rule is O / N > cutoff. */
static void the_cutoff_itself_is_left_out(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_fixture(&data, 60, 3);
    options.cutoff = 1;
    options.n_clusters = 1;
    product_run_data(&p, &data, &options);
    for (int i = 0; i < 180; i++)
        assert_true(p.Zcorr[i] == (double)data.Z[i]);
    assert_int_equal(p.summary->rounds[0].skipped_clusters, 1);
    assert_int_equal(p.summary->rounds[0].pruned_pairs, 2);
    product_close(&p);
    options.cutoff = 0.999;
    product_run_data(&p, &data, &options);
    assert_int_equal(p.summary->rounds[0].pruned_pairs, 0);
    assert_true(p.Zcorr[0] != (double)data.Z[0]);
    product_close(&p);
    made_free(&data);
}

static void p56_rounds_are_as_many_as_asked(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 21);
    options.tol = -1, options.max_rounds = 7;
    product_run_data(&p, &data, &options);
    assert_int_equal(p.summary->n_rounds, 7);
    assert_int_equal(p.summary->reason, UNI_ROUND_LIMIT);
    assert_string_equal(p.summary->reason_text, "round limit");
    product_close(&p);
    options.tol = 0.5;
    product_run_data(&p, &data, &options);
    assert_int_equal(p.summary->n_rounds, 2); /* the change halves each round, and round 1 never counts */
    assert_int_equal(p.summary->reason, UNI_CONVERGED);
    assert_string_equal(p.summary->reason_text, "converged");
    assert_true(p.summary->rounds[0].change == 1);
    assert_true(p.summary->rounds[1].change < 0.5);
    product_close(&p);
    options.tol = 2; /* above the 1 of round 1 */
    product_run_data(&p, &data, &options);
    assert_int_equal(p.summary->n_rounds, 2);
    product_close(&p);
    made_free(&data);
}

static void p60_inner_tolerance_matters_with_many_sweeps(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 22);
    options.sweeps = 20;
    options.sweep_tol = 10;
    product_run_data(&p, &data, &options);
    assert_int_equal(p.summary->rounds[0].sweeps, 5);
    product_close(&p);
    options.sweep_tol = 1e-9;
    product_run_data(&p, &data, &options);
    assert_true(p.summary->rounds[0].sweeps > 5);
    product_close(&p);
    options.sweep_tol = -1;
    product_run_data(&p, &data, &options);
    for (int64_t r = 0; r < p.summary->n_rounds; r++)
        assert_int_equal(p.summary->rounds[r].sweeps, 20);
    assert_int_equal(p.summary->n_objectives,
                     1 + 20 * p.summary->n_rounds); /* P57: a row for every sweep that a rule may look at */
    product_close(&p);
    made_free(&data);
}

static void p57_terms_add_up(void **state)
{
    (void)state;
    struct made_data data;
    struct product with, without;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 23);
    product_run_data(&without, &data, &options);
    options.terms = 1;
    product_run_data(&with, &data, &options);
    for (int64_t i = 0; i < with.summary->n_objectives; i++) {
        const struct uni_objective *o = &with.summary->objectives[i];
        assert_near(o->distance + o->entropy + o->diversity, o->total, 1e-6 * o->distance);
    }
    assert_true(isnan(without.summary->objectives[0].distance) && isnan(without.summary->objectives[0].entropy));
    for (int64_t r = 0; r < with.summary->n_rounds; r++)
        assert_near(with.summary->rounds[r].objective, without.summary->rounds[r].objective,
                    1e-4 * with.summary->objectives[0].distance);
    assert_memory_equal(with.Zcorr, without.Zcorr, (size_t)(with.n * with.d) * sizeof(double));
    product_close(&with);
    product_close(&without);
    made_free(&data);
}

struct calls {
    int64_t n, stop_at, max_rounds;
    double objective[64], change[64], seconds;
};

static int note_progress(const struct uni_progress *progress, void *user)
{
    struct calls *calls = user;
    assert_int_equal(progress->round, calls->n);
    assert_int_equal(progress->max_rounds, calls->max_rounds);
    assert_true(progress->seconds >= calls->seconds);
    calls->seconds = progress->seconds;
    calls->objective[calls->n] = progress->objective;
    calls->change[calls->n++] = progress->change;
    return progress->round == calls->stop_at;
}

static void progress_is_reported_every_round(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct calls calls = {.stop_at = -1, .max_rounds = 10};
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 24);
    options.progress = note_progress, options.progress_user = &calls;
    product_run_data(&p, &data, &options);
    assert_int_equal(calls.n, p.summary->n_rounds + 1);
    assert_true(calls.objective[0] == p.summary->objectives[0].total);
    for (int64_t r = 0; r < p.summary->n_rounds; r++) {
        assert_true(calls.objective[r + 1] == p.summary->rounds[r].objective);
        assert_true(calls.change[r + 1] == p.summary->rounds[r].change);
    }
    product_close(&p);
    made_free(&data);
}

/* Stopped after r rounds is the same as limited to r rounds, every array included. */
static void a_stopped_run_can_be_read(void **state)
{
    (void)state;
    struct made_data data;
    made_case(&data, &problem_cases[0], 25);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    for (int64_t stop = 1; stop <= 3; stop++) {
        struct product stopped, limited;
        struct calls calls = {.stop_at = stop, .max_rounds = 10};
        struct uni_options options = defaults();
        struct uni_harmony *run;
        options.tol = -1, options.progress = note_progress, options.progress_user = &calls;
        assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_OK);
        assert_int_equal(uni_run(run), UNI_STOPPED);
        assert_true(strlen(uni_last_error()) > 0);
        product_read(&stopped, run);
        assert_int_equal(stopped.summary->reason, UNI_STOPPED_BY_CALLER);
        assert_int_equal(stopped.summary->n_rounds, stop);
        options = defaults();
        options.tol = -1, options.max_rounds = stop;
        product_run_data(&limited, &data, &options);
        assert_same_bytes(&stopped, &limited);
        product_close(&stopped);
        product_close(&limited);
    }
    made_free(&data);
}

static void stopped_before_the_first_round_is_the_input(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_harmony *run;
    struct calls calls = {.stop_at = 0, .max_rounds = 10};
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 26);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    options.progress = note_progress, options.progress_user = &calls;
    assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_OK);
    assert_int_equal(uni_run(run), UNI_STOPPED);
    float *Z = malloc((size_t)(data.n * data.d) * sizeof *Z);
    assert_int_equal(uni_read(run, UNI_CORRECTED, Z), UNI_OK);
    assert_memory_equal(Z, data.Z, (size_t)(data.n * data.d) * sizeof *Z);
    free(Z);
    uni_close(run);
    made_free(&data);
}

static void a_plan_says_what_the_run_has(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_plan plan, bigger;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[3], 27);
    struct uni_batch batch = batch_of(&data);
    options.threads = 2;
    assert_int_equal(uni_plan(&plan, data.n, data.d, &batch, 1, &options), UNI_OK);
    product_run_data(&p, &data, &options);
    assert_int_equal(plan.n_cells, p.summary->n_cells);
    assert_int_equal(plan.n_dims, p.summary->n_dims);
    assert_int_equal(plan.n_levels, p.summary->n_levels);
    assert_int_equal(plan.n_clusters, p.summary->n_clusters);
    assert_int_equal(plan.bytes, p.summary->bytes);
    assert_int_equal(plan.bytes_card, 0);
    assert_int_equal(p.summary->bytes_card, 0);
    assert_string_equal(plan.note, "");
    assert_int_equal(plan.threads, 2);
    options.precision = UNI_SINGLE; /* 2 more bytes per cell and cluster, padding apart */
    assert_int_equal(uni_plan(&bigger, data.n, data.d, &batch, 1, &options), UNI_OK);
    assert_true(bigger.bytes - plan.bytes >= 2 * data.n * plan.n_clusters);
    product_close(&p);
    made_free(&data);
}

static void names_and_errors(void **state)
{
    (void)state;
    static const char *const names[] = {"ok", "memory", "input", "option", "backend", "device", NULL, "numeric", "stopped"};
    for (int i = 0; i < 9; i++)
        if (names[i])
            assert_string_equal(uni_status_name(i), names[i]);
        else
            assert_string_not_equal(uni_status_name(i), "unknown");
    assert_string_equal(uni_status_name(9), "unknown");
    assert_string_equal(uni_status_name(-1), "unknown");
    assert_string_equal(uni_version(), "0.1.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p49_p50_p51_values_out_of_range_are_refused),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(the_table_describes_the_options),
        cmocka_unit_test(p60_defaults_are_the_documented_ones),
        cmocka_unit_test(options_are_set_from_text),
        cmocka_unit_test(a_bad_text_leaves_the_options_alone),
        cmocka_unit_test(p77_tau_formula),
        cmocka_unit_test(the_cutoff_itself_is_left_out),
        cmocka_unit_test(p56_rounds_are_as_many_as_asked),
        cmocka_unit_test(p60_inner_tolerance_matters_with_many_sweeps),
        cmocka_unit_test(p57_terms_add_up),
        cmocka_unit_test(progress_is_reported_every_round),
        cmocka_unit_test(a_stopped_run_can_be_read),
        cmocka_unit_test(stopped_before_the_first_round_is_the_input),
        cmocka_unit_test(a_plan_says_what_the_run_has),
        cmocka_unit_test(names_and_errors),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
