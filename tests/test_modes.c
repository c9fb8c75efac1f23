/* SPDX-License-Identifier: BSD-3-Clause */
/* What holds in every way to run: the plan's bytes are the run's, threads change no bit, taking is reading, a run can be
   cancelled, unused levels change nothing, and levels joined into one variable are that variable. */
#include "study.h"
#include "testing.h"

#include <math.h>

struct mode {
    const char *name;
    int n; /* variables */
    enum study_kind kind;
    int weights, covariates;
    const char *set[3][2]; /* options */
};

static const struct mode modes[] = {
    {"jacobi", 1, STUDY_NESTED, 0, 0, {{"update", "jacobi"}}},
    {"jacobi of three variables in half precision", 3, STUDY_ODD, 0, 0, {{"update", "jacobi"}, {"precision", "half"}}},
    {"jacobi of more sweeps than tables", 2, STUDY_NESTED, 0, 0, {{"update", "jacobi"}, {"sweeps", "40"}}},
    {"harmony1", 1, STUDY_ODD, 0, 0, {{"flavor", "harmony1"}}},
    {"harmony1 of two variables by jacobi", 2, STUDY_CROSSED, 0, 0, {{"flavor", "harmony1"}, {"update", "jacobi"}}},
    {"compat", 1, STUDY_NESTED, 0, 0, {{"compat", "r-2.0.4"}}},
    {"compat of three variables", 3, STUDY_ODD, 0, 0, {{"compat", "r-2.0.4"}, {"block-size", "0.013"}}},
    {"compat by jacobi", 2, STUDY_NESTED, 0, 0, {{"compat", "r-2.0.4"}, {"update", "jacobi"}}},
    {"compat with everything", 2, STUDY_CROSSED, 1, 2, {{"compat", "r-2.0.4"}, {"precision", "half"}}},
    {"weights", 1, STUDY_NESTED, 1, 0, {{"terms", "no"}}},
    {"weights of two variables", 2, STUDY_ODD, 1, 0, {{"terms", "no"}}},
    {"a covariate", 1, STUDY_NESTED, 0, 1, {{"terms", "no"}}},
    {"two covariates of three variables", 3, STUDY_ODD, 0, 2, {{"cutoff", "0.02"}}},
    {"everything by jacobi", 3, STUDY_CROSSED, 1, 2, {{"update", "jacobi"}, {"precision", "half"}}},
    {"combined", 2, STUDY_ODD, 0, 0, {{"combine", "yes"}}},
    {"combined with weights and a covariate", 3, STUDY_NESTED, 1, 1, {{"combine", "yes"}, {"overcorrect", "1.4"}}},
    {"overcorrected", 1, STUDY_NESTED, 0, 0, {{"overcorrect", "1.4"}}},
    {"missing labels", 2, STUDY_NESTED, 1, 1, {{"missing", "skip"}}},
};
enum { MODES = sizeof modes / sizeof *modes };

static struct uni_options open_mode(struct study *s, const struct mode *mode)
{
    struct uni_options o = study_options();
    study_make(s, mode->kind, mode->n);
    if (mode->weights)
        study_weigh(s);
    if (mode->covariates)
        study_covary(s, mode->covariates);
    for (int i = 0; i < 3 && mode->set[i][0]; i++)
        assert_int_equal(uni_options_set(&o, mode->set[i][0], mode->set[i][1]), UNI_OK);
    if (o.missing == UNI_MISSING_SKIP)
        for (int64_t i = 7; i < s->data.n; i += 50)
            s->level[i % 2][i] = -1;
    o.force = 1; /* joint levels of a cell or two */
    o.max_rounds = 3;
    o.tol = -1;
    return o;
}

static void threads_change_no_bit(void **state)
{
    struct study s;
    struct product one, three;
    struct uni_options o = open_mode(&s, *state);
    o.threads = 1;
    study_run(&one, &s, &o);
    o.threads = 3;
    study_run(&three, &s, &o);
    assert_int_equal(three.summary->threads, 3);
    assert_same_bytes(&one, &three);
    for (int64_t i = 0; i < one.n * one.d; i++)
        assert_true(isfinite(one.Zcorr[i]));
    product_close(&one);
    product_close(&three);
    study_close(&s);
}

static void the_plan_says_what_the_run_takes(void **state)
{
    struct study s;
    struct uni_plan plan;
    struct uni_options o = open_mode(&s, *state);
    struct uni_options all = o;
    o.threads = all.threads = 2;
    all.weights = s.weight, all.n_weights = s.weight ? s.data.n : 0;
    all.covariates = s.covariate, all.n_covariates = s.n_covariates;
    assert_int_equal(uni_plan(&plan, s.data.n, s.data.d, s.batch, s.n, &all), UNI_OK);
    struct uni_harmony *run = study_open(&s, o);
    assert_int_equal(uni_summary(run)->bytes, plan.bytes);
    assert_int_equal(uni_summary(run)->n_levels, plan.n_levels);
    assert_int_equal(uni_summary(run)->n_clusters, plan.n_clusters);
    assert_true(plan.bytes >= plan.bytes_open && plan.bytes_open > 0);
    uni_close(run);
    study_close(&s);
}

static void taking_is_reading(void **state)
{
    struct study s;
    struct product p;
    const float *taken;
    struct uni_options o = open_mode(&s, *state);
    study_run(&p, &s, &o);
    assert_int_equal(uni_take(p.run, &taken), UNI_OK);
    for (int64_t i = 0; i < p.n * p.d; i++)
        assert_true((double)taken[i] == p.Zcorr[i]);
    product_close(&p);
    study_close(&s);
}

/* Sets the flag after `when` rounds: what goes on then gives up in its midst. */
struct canceller {
    volatile int flag;
    int64_t when;
};

static int cancel_after(const struct uni_progress *progress, void *user)
{
    struct canceller *c = user;
    c->flag = progress->round >= c->when;
    return 0;
}

static void a_run_can_be_cancelled(void **state)
{
    for (int64_t when = 0; when < 3; when++)
        for (int64_t threads = 1; threads < 3; threads++) {
            struct study s;
            struct canceller canceller = {0, when};
            struct uni_options o = open_mode(&s, *state);
            float *out = malloc((size_t)(s.data.n * s.data.d) * sizeof *out);
            assert_non_null(out);
            o.progress = cancel_after, o.progress_user = &canceller, o.cancel = &canceller.flag;
            o.threads = threads;
            struct uni_harmony *run = study_open(&s, o);
            assert_int_equal(uni_run(run), UNI_STOPPED);
            assert_int_equal(uni_summary(run)->reason, UNI_CANCELLED);
            assert_int_equal(uni_summary(run)->n_rounds, when);
            assert_true(uni_read(run, UNI_CORRECTED, out) != UNI_OK);
            assert_true(isnan(out[0]) && isnan(out[s.data.n * s.data.d - 1]));
            uni_close(run);
            free(out);
            study_close(&s);
        }
}

/* Before, between and behind the used ones, of every variable. */
static void unused_levels_change_nothing(void **state)
{
    struct study s;
    struct product p, padded;
    struct uni_options o = open_mode(&s, *state);
    study_run(&p, &s, &o);
    for (int v = 0; v < s.n; v++) {
        for (int64_t i = 0; i < s.data.n; i++)
            s.level[v][i] = s.level[v][i] < 0 ? -1 : 2 * s.level[v][i] + 1;
        s.batch[v].n_levels = 2 * s.batch[v].n_levels + 1;
    }
    study_run(&padded, &s, &o);
    assert_memory_equal(p.Zcorr, padded.Zcorr, (size_t)(p.n * p.d) * sizeof(double));
    assert_memory_equal(p.R, padded.R, (size_t)(p.n * p.K) * sizeof(double));
    assert_memory_equal(p.block, padded.block, (size_t)p.n * sizeof *p.block);
    assert_int_equal(p.summary->n_levels, padded.summary->n_levels);
    assert_int_equal(p.summary->rounds[2].pruned_pairs, padded.summary->rounds[2].pruned_pairs);
    product_close(&p);
    product_close(&padded);
    study_close(&s);
}

static int stop_after_two(const struct uni_progress *progress, void *user)
{
    (void)user;
    return progress->round == 2;
}

/* Where the caller stops a run it can be read, and is the shorter run. */
static void a_stopped_run_is_the_shorter_run(void **state)
{
    struct study s;
    struct product stopped, two;
    struct uni_options o = open_mode(&s, *state);
    o.progress = stop_after_two;
    struct uni_harmony *run = study_open(&s, o);
    assert_int_equal(uni_run(run), UNI_STOPPED);
    product_read(&stopped, run);
    assert_int_equal(stopped.summary->reason, UNI_STOPPED_BY_CALLER);
    o.progress = NULL;
    o.max_rounds = 2;
    study_run(&two, &s, &o);
    if (o.overcorrect == 1) /* a last round is never overcorrected */
        assert_same_bytes(&stopped, &two);
    product_close(&stopped);
    product_close(&two);
    study_close(&s);
}

/* R, O and the corrected cells of what was read belong together. */
static void what_is_read_belongs_together(void **state)
{
    struct study s;
    struct product p;
    struct uni_options o = open_mode(&s, *state);
    study_run(&p, &s, &o);
    double mass = 0, sum_O = 0, sum_R = 0;
    for (int64_t i = 0; i < p.n; i++) {
        int skipped = o.missing == UNI_MISSING_SKIP && (s.level[0][i] < 0 || s.level[1][i] < 0);
        double row = 0, weight = s.weight ? s.weight[i] : 1;
        for (int64_t k = 0; k < p.K; k++)
            row += p.R[i * p.K + k];
        assert_near(row, skipped ? 0 : 1, 1e-5);
        assert_true(skipped == (p.block[i] < 0));
        mass += skipped ? 0 : weight;
        sum_R += weight * row;
    }
    for (int64_t e = 0; e < p.B * p.K; e++)
        sum_O += p.O[e];
    assert_near(sum_O / (o.combine ? 1 : s.n), mass, 1e-5 * mass);
    assert_near(sum_R, mass, 1e-5 * mass);
    product_close(&p);
    study_close(&s);
}

/* ---- levels joined into one variable --------------------------------------------------------------------------------------- */

/* Codes of the joint levels in the order of their first cells; -1 where one is missing. Returns how many there are. */
static int64_t join(int32_t *joint, const struct study *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->data.n; i++) {
        int64_t before = 0;
        for (before = 0; before < i; before++) {
            int same = 1;
            for (int v = 0; v < s->n; v++)
                same = same && s->level[v][before] == s->level[v][i];
            if (same)
                break;
        }
        joint[i] = before < i ? joint[before] : (int32_t)n++;
    }
    return n;
}

static void combined_is_one_variable_of_joint_levels(void **state)
{
    (void)state;
    for (int mix = 0; mix < 12; mix++) {
        struct study s;
        struct product combined, joined;
        struct uni_options o = study_options();
        study_make(&s, mix % STUDY_KINDS, 2 + mix % 2);
        if (mix / 3 % 2)
            study_weigh(&s);
        if (mix / 6)
            study_covary(&s, 1);
        o.force = 1, o.combine = 1;
        o.theta = (struct uni_values){1, {1.5}}, o.tau = (struct uni_values){1, {2}};
        o.lambda = (struct uni_values){mix % 2, {0.7}};
        study_run(&combined, &s, &o);
        assert_int_equal(combined.summary->n_variables, 1);
        int32_t *joint = malloc((size_t)s.data.n * sizeof *joint), *first = s.level[0];
        assert_non_null(joint);
        int64_t n_levels = join(joint, &s);
        assert_int_equal(combined.B, n_levels);
        s.n = 1;
        s.level[0] = joint;
        s.batch[0] = (struct uni_batch){.n_cells = s.data.n, .n_levels = n_levels, .level = joint};
        for (o.combine = 0; o.combine < 2; o.combine++) { /* combining one variable changes nothing */
            study_run(&joined, &s, &o);
            assert_same_bytes(&combined, &joined);
            assert_memory_equal(combined.theta, joined.theta, (size_t)n_levels * sizeof(double));
            product_close(&joined);
        }
        product_close(&combined);
        free(first);
        study_close(&s);
    }
}

/* Levels a_b and a of one variable, c and b_c of the other: pasted with an underscore, a_b_c is two joint levels. */
static void joint_levels_do_not_collide(void **state)
{
    (void)state;
    static const char *const left[] = {"a_b", "a"}, *const right[] = {"c", "b_c"};
    struct study s;
    struct product p;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    for (int64_t i = 0; i < s.data.n; i++)
        s.level[0][i] = s.level[1][i] = i % 2;
    for (int v = 0; v < 2; v++)
        s.batch[v].n_levels = 2, s.batch[v].level_names = v ? right : left;
    o.combine = 1;
    study_run(&p, &s, &o);
    assert_int_equal(p.B, 2);
    assert_int_equal(p.summary->n_levels, 2);
    product_close(&p);
    study_close(&s);
}

static void combined_options_are_of_one_variable(void **state)
{
    (void)state;
    struct study s;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    o.combine = 1;
    o.theta = (struct uni_values){2, {1, 2}};
    assert_int_equal(study_refused(&s, o), UNI_OPTION);
    assert_non_null(strstr(uni_last_error(), "theta has 2 values for 1 batch variable;"));
    o.theta.n = 1;
    o.lambda = (struct uni_values){2, {1, 2}};
    assert_int_equal(study_refused(&s, o), UNI_OPTION);
    study_close(&s);
}

/* What makes joint levels look like a mistake is said of them, by number: they have no name. */
static void a_joint_level_of_one_cell_is_named_by_its_number(void **state)
{
    (void)state;
    struct study s;
    struct product p;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    for (int64_t i = 0; i < s.data.n; i++)
        s.level[0][i] = i % 4, s.level[1][i] = i == 0;
    o.combine = 1;
    study_run(&p, &s, &o);
    assert_true(product_warns(&p, "1 level of \"the combination of the batch variables\" has a single cell (number 0)"));
    product_close(&p);
    study_close(&s);
}

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction test;
    } in_all[] = {
        {"threads_change_no_bit", threads_change_no_bit},
        {"the_plan_says_what_the_run_takes", the_plan_says_what_the_run_takes},
        {"taking_is_reading", taking_is_reading},
        {"a_run_can_be_cancelled", a_run_can_be_cancelled},
        {"unused_levels_change_nothing", unused_levels_change_nothing},
        {"a_stopped_run_is_the_shorter_run", a_stopped_run_is_the_shorter_run},
        {"what_is_read_belongs_together", what_is_read_belongs_together},
    };
    enum { IN_ALL = sizeof in_all / sizeof *in_all };
    static char names[IN_ALL * MODES][128];
    struct CMUnitTest tests[IN_ALL * MODES + 4] = {cmocka_unit_test(combined_is_one_variable_of_joint_levels),
                                                   cmocka_unit_test(joint_levels_do_not_collide),
                                                   cmocka_unit_test(combined_options_are_of_one_variable),
                                                   cmocka_unit_test(a_joint_level_of_one_cell_is_named_by_its_number)};
    for (int m = 0; m < MODES; m++)
        for (int i = 0; i < IN_ALL; i++) {
            char *name = names[m * IN_ALL + i];
            snprintf(name, sizeof names[0], "%s: %s", modes[m].name, in_all[i].name);
            tests[4 + m * IN_ALL + i] = (struct CMUnitTest){name, in_all[i].test, NULL, NULL, (void *)(uintptr_t)&modes[m]};
        }
    return cmocka_run_group_tests_name("modes", tests, NULL, NULL);
}
