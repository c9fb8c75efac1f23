/* SPDX-License-Identifier: BSD-3-Clause */
/* The product against the R package's results, from the package's own starting centroids, ten rounds forced, every recorded
 * setting of one batch variable. The orders differ (fixed blocks here, new random ones there), so the limits are those of another
 * shuffle: they say that the method is the same, not that the arithmetic is; for that see test_oracle_agreement.c. With
 * UNISONO_TABLE=1 in the environment a table of the outcome is printed, for docs/numerics.md. */
#include "differences.h"
#include "data_npy.h"
#include "lisi_plain.h"
#include "product.h"
#include "recorded.h"
#include "testing.h"

#include <math.h>

struct limits {
    double corr, rms, corr_median, objective, ilisi;
};

static int is(const char *text, const char *one)
{
    return strcmp(text, one) == 0;
}

/* The table "Limits for the acceptance tests" of the specification. block1 and theta0 do not depend on the order of the cells:
   what is left is the half-precision base (3e-4 at most against the oracle) and the package's float32. */
static struct limits limits_of(const struct recorded_name *name)
{
    const char *config = name->config;
    int small = is(name->set, "cell_lines_small"), lines = is(name->set, "cell_lines");
    struct limits l = {0.9995, 0.04, 0.9999, 5e-4, small ? 0.004 : 0.002};
    if (is(config, "k1") || (small && is(config, "theta0")))
        l.corr = 0.999999, l.rms = 1e-4;
    else if (is(config, "block1") || is(config, "theta0"))
        l.corr = 0.999999, l.rms = 4e-4;
    else if (is(config, "k-large"))
        l.corr = 0.995, l.rms = 0.10, l.corr_median = 0.999, l.ilisi = 0.004;
    else if (small)
        l.corr = 0.9998, l.rms = 0.03;
    else if (is(config, "cutoff01"))
        l.corr = 0.9999, l.rms = 0.02;
    else if (lines && (is(config, "tau5") || is(config, "sigma02")))
        l.corr = 0.998, l.rms = 0.07;
    else if (is(config, "sigma02"))
        l.corr = 0.9999, l.rms = 0.01;
    if (is(config, "sigma02"))
        l.objective = 2e-3;
    return l;
}

static float *narrow(const double *values, int64_t count)
{
    float *out = malloc((size_t)count * sizeof *out + 1);
    assert_non_null(out);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)values[i];
    return out;
}

static struct uni_options options_of(const struct ref_problem *p, const float *start)
{
    struct uni_options options = defaults();
    options.centroids = start, options.n_centroids = p->K;
    options.theta.value[0] = p->theta[0], options.tau.value[0] = p->tau[0];
    if (p->lambda[0] > 0)
        options.lambda = (struct uni_values){1, {p->lambda[0]}};
    options.sigma = p->sigma, options.cutoff = p->cutoff, options.block_size = p->block_size;
    options.sweeps = p->sweeps, options.sweep_tol = p->sweep_tol;
    options.tol = -1;
    return options;
}

static void print_row(const struct recorded_name *name, const struct distance *far, double objective, double own, double theirs)
{
    static int rows;
    if (!getenv("UNISONO_TABLE"))
        return;
    if (!rows++)
        printf("| data | config | corr, least | corr, median | rms | objective, round 1 | iLISI | iLISI, R "
               "|\n|---|---|---|---|---|---|---|---|\n");
    printf("| %s | %s | %.6f | %.6f | %.1e | %+.1e | %.4f | %.4f |\n", name->set, name->config, far->corr_least, far->corr_median,
           far->rms, objective, own, theirs);
    fflush(stdout);
}

static void stays_within_the_limits(void **state)
{
    const struct recorded_name *name = *state;
    const struct limits limits = limits_of(name);
    struct recorded recorded;
    struct product product;
    if (!recorded_available())
        skip();
    recorded_open(&recorded, name);
    const struct ref_problem *p = &recorded.problem;
    float *Z = narrow(p->Z, p->n * p->d), *start = narrow(p->start, p->K * p->d);
    struct uni_matrix m = {Z, UNI_FLOAT32, p->n, p->d, 0, 0};
    struct uni_batch batch = {"batch", p->n, p->n_levels[0], p->level[0], NULL};
    struct uni_options options = options_of(p, start);
    product_run(&product, &m, &batch, &options);
    assert_int_equal(product.summary->n_rounds, RECORDED_ROUNDS);
    struct distance far = compare_corrected(product.Zcorr, recorded.Zcorr, p->Z, p->n, p->d);
    double theirs = recorded.total[(int)recorded.sweeps[0]],
           objective = (product.summary->rounds[0].objective - theirs) / fabs(theirs);
    double ilisi = lisi_mean(product.Zcorr, p->level[0], p->n, p->d);
    print_row(name, &far, objective, ilisi, recorded_ilisi(name));
    assert_at_least(far.corr_least, limits.corr);
    assert_at_least(far.corr_median, limits.corr_median);
    assert_at_most(far.rms, limits.rms);
    assert_at_most(fabs(objective), limits.objective);
    assert_near(ilisi, recorded_ilisi(name), limits.ilisi);
    product_close(&product);
    free(Z);
    free(start);
    recorded_close(&recorded);
}

/* The measure itself: harmonypy's numbers for 400 points, and the table's value for an embedding of the package's own. */
static void lisi_is_the_known_one(void **state)
{
    (void)state;
    if (!recorded_available())
        skip();
    static const char *const columns[] = {"label1", "label2"};
    char path[1024];
    double expected[2][400], lisi[400];
    struct npy x;
    assert_int_equal(npy_read(&x, recorded_path("", "lisi", "x.npy")), 0);
    assert_int_equal(x.shape[0], 400);
    FILE *file = fopen(recorded_path("", "lisi", "expected.tsv"), "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "label1\tlabel2"), 0);
    for (int i = 0; i < 400; i++)
        assert_int_equal(fscanf(file, "%lf %lf", &expected[0][i], &expected[1][i]), 2);
    fclose(file);
    for (int c = 0; c < 2; c++) {
        int64_t n;
        snprintf(path, sizeof path, "%s", recorded_path("", "lisi", "meta.tsv"));
        int32_t *label = recorded_labels(path, columns[c], NULL, 0, &n);
        assert_int_equal(n, 400);
        lisi_plain(lisi, x.real, label, 400, 2, 30);
        for (int i = 0; i < 400; i++)
            assert_near(lisi[i], expected[c][i], 3e-6 * expected[c][i]);
        free(label);
    }
    npy_free(&x);
    struct recorded recorded;
    recorded_open(&recorded, &recorded_names[15]);
    assert_near(lisi_mean(recorded.Zcorr, recorded.problem.level[0], recorded.problem.n, recorded.problem.d),
                recorded_ilisi(&recorded_names[15]), 6e-5);
    recorded_close(&recorded);
}

/* Own seeding, default settings: mixing ends where the package's ten seeds end (seeds.tsv: mean iLISI and four standard
 * deviations). */
static void own_start_mixes_as_well(void **state)
{
    (void)state;
    static const struct {
        struct recorded_name name;
        double ilisi, sd;
    } sets[] = {{{"cell_lines", "dynamic"}, 1.7140, 0.0013},
                {{"cell_lines_small", "dynamic"}, 1.7543, 0.0046},
                {{"pbmc_stim", "dynamic"}, 1.7965, 0.0009},
                {{"pbmc_3500", "dynamic"}, 2.2925, 0.0040}};
    if (!recorded_available())
        skip();
    for (int i = 0; i < 4; i++) {
        struct recorded recorded;
        struct product product;
        recorded_open(&recorded, &sets[i].name);
        const struct ref_problem *p = &recorded.problem;
        float *Z = narrow(p->Z, p->n * p->d);
        struct uni_matrix m = {Z, UNI_FLOAT32, p->n, p->d, 0, 0};
        struct uni_batch batch = {"batch", p->n, p->n_levels[0], p->level[0], NULL};
        struct uni_options options = defaults();
        product_run(&product, &m, &batch, &options);
        double ilisi = lisi_mean(product.Zcorr, p->level[0], p->n, p->d);
        if (getenv("UNISONO_TABLE"))
            printf("own start, defaults: %s iLISI %.4f (package, 10 seeds and rounds: %.4f +- %.4f), %lld rounds, %s\n",
                   sets[i].name.set, ilisi, sets[i].ilisi, sets[i].sd, (long long)product.summary->n_rounds,
                   product.summary->reason_text);
        assert_near(ilisi, sets[i].ilisi, 4 * sets[i].sd + 0.01); /* early stop: up to 2.7 % of the mixing, mostly far less */
        product_close(&product);
        free(Z);
        recorded_close(&recorded);
    }
}

int main(void)
{
    static char names[RECORDED_RUNS][96];
    struct CMUnitTest tests[RECORDED_RUNS + 2] = {cmocka_unit_test(lisi_is_the_known_one),
                                                  cmocka_unit_test(own_start_mixes_as_well)};
    int n = 2;
    for (int i = 0; i < RECORDED_RUNS; i++) {
        const struct recorded_name *name = &recorded_names[i];
        if (recorded_two_variables(name))
            continue;
        snprintf(names[i], sizeof names[i], "within_the_limits_%s_%s", name->set, name->config);
        tests[n++] = (struct CMUnitTest){names[i], stays_within_the_limits, NULL, NULL, (void *)(uintptr_t)name};
    }
    return _cmocka_run_group_tests("acceptance", tests, (size_t)n, NULL, NULL);
}
