/* SPDX-License-Identifier: BSD-3-Clause */
/* What diagnostics warn of: rows P26, P27, P109 and P116 of user-pain.md; corrections that go too far; and silence about those
 * that do not. */
#include "data_npy.h"
#include "diagnosed.h"
#include "rare_types.h"
#include "recorded.h"
#include "testing.h"

#include <math.h>

static const struct uni_finding *finding(const struct uni_diagnosis *found, enum uni_finding_kind kind)
{
    for (int64_t f = 0; f < found->n_findings; f++)
        if (found->findings[f].kind == kind)
            return &found->findings[f];
    return NULL;
}

static void assert_says(const struct uni_diagnosis *found, enum uni_finding_kind kind, const char *text)
{
    const struct uni_finding *f = finding(found, kind);
    if (!f)
        fail_msg("nothing of kind %d was found", (int)kind);
    else if (!strstr(f->text, text))
        fail_msg("\"%s\" does not say \"%s\"", f->text, text);
}

static void assert_silent(const struct uni_diagnosis *found, const char *about)
{
    if (found->n_findings)
        fail_msg("%s: %s", about, found->findings[0].text);
}

/* ---- the rows of user-pain.md ---------------------------------------------------------------------------------------------- */

static void add(struct made_data *data, int64_t *at, int64_t cells, int type, int level, const double centre[4], double sd,
                uint64_t *state)
{
    for (int64_t i = *at; i < *at + cells; i++) {
        data->type[i] = type, data->level[i] = level;
        for (int j = 0; j < 4; j++)
            data->Z[i * 4 + j] = (float)(centre[j] + sd * made_normal(state));
    }
    *at += cells;
}

static void p26_types_left_alone_are_not_named(void **state)
{
    (void)state;
    static const double t1a[] = {3, 0, 0, 0}, t1b[] = {3, 0, 1, 0}, t2[] = {0, 3, 0, 0};
    for (int64_t K = 2; K <= 20; K *= 3) {
        struct made_data data;
        struct diagnosed x;
        struct uni_options options = defaults();
        uint64_t random = 5;
        int64_t at = 0;
        made_empty(&data, 600, 4, 2);
        data.n_types = 2;
        add(&data, &at, 200, 0, 0, t1a, 0.1, &random);
        add(&data, &at, 200, 0, 1, t1b, 0.1, &random);
        add(&data, &at, 200, 1, 0, t2, 0.1, &random);
        options.n_clusters = K;
        open_diagnosed(&x, &data, &options);
        assert_silent(x.found, "P26");
        assert_int_equal(x.found->types[1].levels[0], 1);
        assert_at_most(x.found->types[1].moved, 1e-4);
        assert_near(x.found->levels[0].uncorrected, 0.5, 1e-3);
        close_diagnosed(&x);
        made_free(&data);
    }
}

static double lone_type_moved(int64_t K, double lambda)
{
    static const double shared_a[] = {3, 0, 0, 0}, shared_b[] = {3, 0, 0.6, 0}, lone[] = {3, 2.4, 0, 0};
    struct made_data data;
    struct diagnosed x;
    struct uni_options options = defaults();
    uint64_t random = 5;
    int64_t at = 0;
    made_empty(&data, 600, 4, 2);
    data.n_types = 2;
    add(&data, &at, 200, 0, 0, shared_a, 0.3, &random);
    add(&data, &at, 200, 0, 1, shared_b, 0.3, &random);
    add(&data, &at, 200, 1, 0, lone, 0.3, &random);
    options.n_clusters = K;
    options.lambda = (struct uni_values){.n = lambda > 0, .value = {lambda}};
    open_diagnosed(&x, &data, &options);
    assert_says(x.found, UNI_LONE_TYPE, "type n1: all of its 200 cells are in donor n0, and they moved by");
    double moved = x.found->types[1].moved;
    close_diagnosed(&x);
    made_free(&data);
    return moved;
}

static void p109_a_lone_type_that_moved_is_named(void **state)
{
    (void)state;
    for (int64_t K = 2; K <= 20; K *= 3) {
        double automatic = lone_type_moved(K, 0), small = lone_type_moved(K, 0.01);
        assert_at_least(small, 1.3 * automatic);
    }
}

static void p27_and_p116_small_levels_are_named(void **state)
{
    (void)state;
    struct made_data data;
    struct diagnosed x;
    struct uni_options options = defaults();
    rare_types(&data, 20000, 3);
    data.n_types = 0;
    data.n_levels = 10;
    for (int64_t i = 0; i < 3; i++)
        data.level[i * 5000 + 17] = 8;
    for (int64_t i = 0; i < 190; i++)
        data.level[i * 100 + 3] = 9;
    open_diagnosed(&x, &data, &options);
    assert_says(x.found, UNI_SMALL_LEVEL, "donor n8: 3 cells, moved ");
    const struct uni_finding *f = finding(x.found, UNI_SMALL_LEVEL);
    assert_int_equal(f->row, 8);
    assert_near(f->value, 3, 0);
    assert_string_equal(f->name, "small_level");
    assert_int_equal(f[1].kind, UNI_SMALL_LEVEL);
    assert_int_equal(f[1].row, 9); /* 190 of 20000 are less than 1 % */
    assert_true(x.found->n_findings < 3 || f[2].kind != UNI_SMALL_LEVEL);
    close_diagnosed(&x);
    made_free(&data);
}

/* ---- too far, and not ------------------------------------------------------------------------------------------------------ */

static void good_runs_raise_no_alarm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct made_data data;
        struct diagnosed x;
        struct uni_options options = defaults();
        made_case(&data, &(struct problem_case){"good", 6000, 20, 0, 4, 8, 2, 0.6, 0}, seed);
        open_diagnosed(&x, &data, &options);
        assert_silent(x.found, "a good run");
        close_diagnosed(&x);
        made_free(&data);
    }
}

static const struct {
    const char *name, *batch, *type;
    int64_t n_levels;
} real_sets[] = {{"cell_lines", "dataset", "cell_type", 3},
                 {"cell_lines_small", "dataset", "cell_type", 3},
                 {"pbmc_stim", "stim", NULL, 2},
                 {"pbmc_3500", "donor", NULL, 3}};

static void real_open(struct made_data *data, int i)
{
    struct npy pcs;
    int64_t n;
    assert_int_equal(npy_read(&pcs, recorded_path(real_sets[i].name, "", "pcs.npy")), 0);
    *data = (struct made_data){.n = pcs.shape[0], .d = pcs.shape[1], .n_levels = real_sets[i].n_levels};
    data->n_types = real_sets[i].type ? 2 : 0;
    data->Z = malloc((size_t)pcs.count * sizeof *data->Z);
    for (int64_t j = 0; j < pcs.count; j++)
        data->Z[j] = (float)pcs.real[j];
    npy_free(&pcs);
    data->level = recorded_labels(recorded_path(real_sets[i].name, "", "meta.tsv"), real_sets[i].batch, NULL, 0, &n);
    assert_int_equal(n, data->n);
    if (real_sets[i].type)
        data->type = recorded_labels(recorded_path(real_sets[i].name, "", "meta.tsv"), real_sets[i].type, NULL, 0, &n);
}

/* One of the levels has both cell lines, the others one each: a strong penalty mixes what only looks like a batch effect. */
static void real_data_raise_no_alarm_and_a_theta_of_20_does(void **state)
{
    (void)state;
    if (!recorded_available())
        skip();
    for (int i = 0; i < 4; i++) {
        struct made_data data;
        struct diagnosed x;
        real_open(&data, i);
        for (int64_t seed = 0; seed < 3; seed++) {
            struct uni_options options = defaults();
            options.seed = seed;
            open_diagnosed(&x, &data, &options);
            assert_silent(x.found, real_sets[i].name);
            close_diagnosed(&x);
        }
        struct uni_options options = defaults();
        options.theta = (struct uni_values){.n = 1, .value = {20}};
        open_diagnosed(&x, &data, &options);
        if (real_sets[i].type) {
            assert_says(x.found, UNI_LEVEL_SHRUNK, "its own spread shrank to 7");
            assert_says(x.found, UNI_TYPES_MERGED, "of their distance within a batch 6");
        } else {
            assert_silent(x.found, real_sets[i].name);
        }
        close_diagnosed(&x);
        made_free(&data);
    }
}

/* Types are a batch's own: what moves a batch may be its types. */
static void a_batch_with_types_of_its_own_is_named(void **state)
{
    (void)state;
    struct made_data data;
    struct diagnosed x;
    struct uni_options options = defaults();
    made_case(&data, &(struct problem_case){"own", 6000, 20, 0, 4, 8, 2, 0.6, 0}, 7);
    for (int64_t i = 0; i < data.n; i++) /* the cells of level 3 become one type, around their centre */
        if (data.level[i] == 3)
            data.type[i] = 8;
    data.n_types = 9;
    open_diagnosed(&x, &data, &options);
    assert_says(x.found, UNI_LONE_LEVEL, "donor n3: no cell type of its is in any other");
    close_diagnosed(&x);
    for (int64_t i = 0; i < data.n; i++) /* two pairs of levels, each with its own types */
        data.type[i] = (int32_t)(data.type[i] % 4 + 4 * (data.level[i] / 2));
    data.n_types = 8;
    open_diagnosed(&x, &data, &options);
    assert_says(x.found, UNI_LONE_LEVEL, " and 1 more: no cell type of theirs is in any other");
    assert_null(finding(x.found, UNI_LONE_TYPE));
    close_diagnosed(&x);
    made_free(&data);
}

/* With a cell or so of a level to a cluster, every cell is its own batch effect. */
static void thin_levels_are_named(void **state)
{
    (void)state;
    struct made_data data;
    struct diagnosed x;
    struct uni_options options = defaults();
    made_case(&data, &(struct problem_case){"thin", 3000, 12, 0, 40, 8, 1, 0.6, 0}, 7);
    options.n_clusters = 100;
    open_diagnosed(&x, &data, &options);
    assert_says(x.found, UNI_THIN_LEVEL, "corrected on less than one cell a cluster");
    const struct uni_finding *f = finding(x.found, UNI_THIN_LEVEL);
    assert_int_equal(f[2].kind, UNI_THIN_LEVEL); /* three are named, the rest is counted */
    assert_at_least((double)f[2].more, 1);
    assert_non_null(strstr(f[2].text, "more like this)"));
    assert_true(x.found->n_findings == 3 + (f - x.found->findings) || f[3].kind != UNI_THIN_LEVEL);
    close_diagnosed(&x);
    made_free(&data);
}

/* Findings that depend on cells alone, from embeddings that are made so. */
static void what_an_embedding_shows_without_a_run(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_diagnosis *found;
    made_case(&data, &(struct problem_case){"plain", 3000, 5, 0, 3, 4, 1, 0, 0}, 2);
    float *after = malloc((size_t)(data.n * data.d) * sizeof *after);
    int64_t far = 0;
    for (int64_t i = 0; i < data.n; i++)
        for (int64_t j = 0; j < data.d; j++) {
            float *z = &data.Z[i * data.d + j], *to = &after[i * data.d + j];
            *to = *z + (data.level[i] == 0 ? 5 : 0.5f);   /* level 0 goes far */
            if (data.level[i] == 1 && far < 10 && j == 0) /* ten cells of level 1 fly off */
                *to += 100, far++;
            if (data.level[i] == 2)
                *to = 0.3f * *z; /* level 2 shrinks to a point nearly */
        }
    struct uni_matrix m = matrix_of(&data), n = m;
    struct uni_batch batch = labels("donor", data.level, data.n, 3), types = labels("type", data.type, data.n, 4);
    n.data = after;
    assert_int_equal(uni_diagnose(&found, NULL, &m, &n, &batch, 1, &types, 0), UNI_OK);
    assert_says(found, UNI_FAR_CELLS, "donor n1: some of its ");
    assert_says(found, UNI_LEVEL_SHRUNK, "donor n2: its own spread shrank to 30 %");
    assert_says(found, UNI_TYPE_SHRUNK, " of the variance between its own cells was removed");
    assert_says(found, UNI_TYPES_MERGED, "of their distance within a batch");
    uni_diagnosis_close(found);
    assert_int_equal(uni_diagnose(&found, NULL, &n, &m, &batch, 1, &types, 0), UNI_OK); /* and the other way round */
    assert_says(found, UNI_LEVEL_TORN, "donor n2: its own spread grew to 333 %");
    assert_says(found, UNI_TYPE_TORN, "the variance between its own cells grew by");
    uni_diagnosis_close(found);
    free(after);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p26_types_left_alone_are_not_named),
        cmocka_unit_test(p109_a_lone_type_that_moved_is_named),
        cmocka_unit_test(p27_and_p116_small_levels_are_named),
        cmocka_unit_test(good_runs_raise_no_alarm),
        cmocka_unit_test(a_batch_with_types_of_its_own_is_named),
        cmocka_unit_test(thin_levels_are_named),
        cmocka_unit_test(what_an_embedding_shows_without_a_run),
        cmocka_unit_test(real_data_raise_no_alarm_and_a_theta_of_20_does),
    };
    return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
