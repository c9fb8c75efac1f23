/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that uni_diagnose makes of an embedding before and after, against plain loops. */
#include "product.h"
#include "testing.h"

#include <math.h>

/* Cells with labels, an embedding and any other one. */
struct sample {
    struct made_data data;
    float *after;
    struct uni_batch batches[2], types;
    int n_batches;
};

static const char *const type_names[] = {"T0", "T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9"};

static struct uni_batch types_of(const struct made_data *data)
{
    return (struct uni_batch){.name = "type", .n_cells = data->n, .n_levels = data->n_types, .level = data->type};
}

static void sample_make(struct sample *s, int several)
{
    static int32_t other[4000];
    uint64_t state = 11;
    made_case(&s->data, &problem_cases[8], 5); /* types lost from some levels */
    int64_t n = s->data.n, d = s->data.d;
    s->after = malloc((size_t)(n * d) * sizeof *s->after);
    for (int64_t i = 0; i < n * d; i++)
        s->after[i] = s->data.Z[i] * 0.9f + 0.3f * (float)s->data.level[i / d] + (float)(0.1 * made_normal(&state));
    for (int64_t i = 0; i < n; i++) {
        if (i % 97 == 0)
            s->data.type[i] = -1;
        other[i] = i % 50 == 7 ? -1 : (int32_t)(made_random(&state) % 4);
    }
    s->batches[0] = batch_of(&s->data);
    s->batches[1] = (struct uni_batch){.name = "chip", .n_cells = n, .n_levels = 4, .level = other};
    s->n_batches = several ? 2 : 1;
    s->types = types_of(&s->data);
    s->types.level_names = type_names;
}

static struct uni_matrix matrix_over(const struct sample *s, const float *values)
{
    return (struct uni_matrix){.data = values, .dtype = UNI_FLOAT32, .n_cells = s->data.n, .n_dims = s->data.d};
}

static struct uni_diagnosis *diagnose(const struct sample *s, struct uni_harmony *run, int64_t threads)
{
    struct uni_diagnosis *found;
    struct uni_matrix before = matrix_over(s, s->data.Z), after = matrix_over(s, s->after);
    if (uni_diagnose(&found, run, &before, &after, s->batches, s->n_batches, &s->types, threads) != UNI_OK)
        fail_msg("%s", uni_last_error());
    return found;
}

static void sample_free(struct sample *s)
{
    made_free(&s->data);
    free(s->after);
}

/* ---- plain loops ----------------------------------------------------------------------------------------------------------- */

static int takes_part(const struct sample *s, int64_t i)
{
    for (int v = 0; v < s->n_batches; v++)
        if (s->batches[v].level[i] < 0)
            return 0;
    return 1;
}

static int same_group(const struct sample *s, int64_t i, int64_t j)
{
    for (int v = 0; v < s->n_batches; v++)
        if (s->batches[v].level[i] != s->batches[v].level[j])
            return 0;
    return 1;
}

static double moved(const struct sample *s, int64_t i)
{
    double sum = 0;
    for (int64_t j = 0; j < s->data.d; j++) {
        double x = (double)s->after[i * s->data.d + j] - (double)s->data.Z[i * s->data.d + j];
        sum += x * x;
    }
    return sqrt(sum);
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Cells for which member() is the label; label -2: all that take part. */
struct subset {
    const int32_t *level;
    int32_t label;
};

static int is_in(const struct sample *s, const struct subset *of, int64_t i)
{
    return takes_part(s, i) && (of->label == -2 || of->level[i] == of->label);
}

static void assert_lengths(const struct sample *s, struct subset of, int64_t cells, double median, double p999, double most,
                           double rms)
{
    double *x = calloc((size_t)s->data.n, sizeof *x), squares = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < s->data.n; i++)
        if (is_in(s, &of, i)) {
            x[n++] = moved(s, i);
            squares += x[n - 1] * x[n - 1];
        }
    qsort(x, (size_t)n, sizeof *x, ascending);
    assert_int_equal(cells, n);
    assert_near(median, x[(n - 1) / 2], 1e-5 * x[n - 1]); /* at least half of n is (n + 1) / 2, from 1 */
    assert_near(p999, x[(int64_t)ceil(0.999 * (double)n) - 1], 1e-5 * x[n - 1]);
    if (!isnan(most))
        assert_near(most, x[n - 1], 1e-5 * x[n - 1]);
    if (!isnan(rms))
        assert_near(rms, sqrt(squares / (double)n), 1e-5 * x[n - 1]);
    free(x);
}

/* Centre of the cells that are of i's group, and of type t unless that is -2. Returns their number. */
static int64_t centre_beside(double *centre, const struct sample *s, const float *values, int64_t i, int32_t t)
{
    int64_t n = 0, d = s->data.d;
    memset(centre, 0, (size_t)d * sizeof *centre);
    for (int64_t k = 0; k < s->data.n; k++) {
        if (!takes_part(s, k) || !same_group(s, i, k) || (t != -2 && s->data.type[k] != t))
            continue;
        n++;
        for (int64_t j = 0; j < d; j++)
            centre[j] += (double)values[k * d + j];
    }
    for (int64_t j = 0; n && j < d; j++)
        centre[j] /= (double)n;
    return n;
}

/* Sum of squares around the centres of groups of ten cells and more, and its degrees of freedom. */
static double squares_within(const struct sample *s, const float *values, struct subset of, int by_type, double *freedom)
{
    double sum = 0, centre[64];
    int64_t d = s->data.d;
    *freedom = 0;
    for (int64_t i = 0; i < s->data.n; i++) {
        if (!is_in(s, &of, i))
            continue;
        int64_t n = centre_beside(centre, s, values, i, by_type ? s->data.type[i] : -2);
        if (n < UNI_FEWEST)
            continue;
        *freedom += 1 - 1 / (double)n;
        for (int64_t j = 0; j < d; j++)
            sum += ((double)values[i * d + j] - centre[j]) * ((double)values[i * d + j] - centre[j]);
    }
    return sum;
}

static void assert_levels(const struct sample *s, const struct uni_diagnosis *found)
{
    double all = (double)(found->n_cells - found->n_skipped), freedom;
    int64_t row = 0;
    for (int v = 0; v < s->n_batches; v++)
        for (int32_t l = 0; l < s->batches[v].n_levels; l++, row++) {
            const struct uni_level_diagnosis *level = &found->levels[row];
            struct subset of = {s->batches[v].level, l};
            assert_int_equal(level->variable, v);
            assert_int_equal(level->level, l);
            assert_lengths(s, of, level->cells, level->length_median, level->length_999, level->length_max, level->length_rms);
            assert_near(level->distance, level->length_median / (1 - (double)level->cells / all), 1e-9 * level->distance);
            double before = squares_within(s, s->data.Z, of, 0, &freedom);
            assert_near(level->spread, sqrt(before / freedom), 1e-6 * level->spread);
            assert_near(level->spread_kept, sqrt(squares_within(s, s->after, of, 0, &freedom) / before), 1e-6);
        }
    assert_int_equal(found->n_levels, row);
}

/* ---- types by plain loops -------------------------------------------------------------------------------------------------- */

static int64_t first_cell(const struct sample *s, int64_t group_of, int32_t t)
{
    for (int64_t i = 0; i < s->data.n; i++)
        if (takes_part(s, i) && same_group(s, i, group_of) && s->data.type[i] == t)
            return i;
    return -1;
}

static double between(const double *a, const double *b, int64_t d)
{
    double sum = 0;
    for (int64_t j = 0; j < d; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* Weighted square of the distance of two types in the groups that have ten of both, less what chance adds; NaN without one. */
static double apart(const struct sample *s, const float *values, int32_t t, int32_t u)
{
    double sum = 0, weights = 0, a[64], b[64], variance[2], freedom;
    for (int side = 0; side < 2; side++) {
        double squares = squares_within(s, values, (struct subset){s->data.type, side ? u : t}, 1, &freedom);
        variance[side] = squares / freedom;
    }
    for (int64_t i = 0; i < s->data.n; i++) {
        if (!takes_part(s, i) || s->data.type[i] != t || first_cell(s, i, t) != i)
            continue;
        double n = (double)centre_beside(a, s, values, i, t), m = (double)centre_beside(b, s, values, i, u);
        if (n < UNI_FEWEST || m < UNI_FEWEST)
            continue;
        weights += n * m / (n + m);
        sum += n * m / (n + m) * (between(a, b, s->data.d) - variance[0] / n - variance[1] / m);
    }
    return weights > 0 ? sum / weights : NAN;
}

static void assert_nearest(const struct sample *s, const struct uni_type_diagnosis *type, int32_t t)
{
    double least = INFINITY, before = NAN, after = NAN;
    int32_t nearest = -1;
    for (int32_t u = 0; u < s->data.n_types; u++) {
        double was = u == t ? NAN : apart(s, s->data.Z, t, u), is = u == t ? NAN : fmax(apart(s, s->after, t, u), 0);
        if (was > 0 && is / was < least)
            least = is / was, nearest = u, before = sqrt(was), after = sqrt(is);
    }
    assert_int_equal(type->nearest, nearest);
    if (nearest < 0)
        return;
    assert_near(type->nearest_before, before, 1e-6 * before);
    assert_near(type->nearest_after, after, 1e-6 * before);
}

static void assert_moved(const struct sample *s, const struct uni_type_diagnosis *type, int32_t t)
{
    double centre[64], sum[64] = {0}, n = 0, square = 0;
    for (int64_t i = 0; i < s->data.n; i++) {
        if (!takes_part(s, i) || s->data.type[i] != t || centre_beside(centre, s, s->data.Z, i, t) < UNI_FEWEST)
            continue;
        n++;
        for (int64_t j = 0; j < s->data.d; j++)
            sum[j] += (double)s->after[i * s->data.d + j] - (double)s->data.Z[i * s->data.d + j];
    }
    for (int64_t j = 0; j < s->data.d; j++)
        square += sum[j] / n * (sum[j] / n);
    assert_near(type->moved, sqrt(square), 1e-6 * type->length_999);
}

static void assert_presence(const struct sample *s, const struct uni_type_diagnosis *type, int32_t t)
{
    for (int v = 0; v < s->n_batches; v++) {
        int64_t present = 0;
        for (int32_t l = 0; l < s->batches[v].n_levels; l++) {
            int64_t cells = 0;
            for (int64_t i = 0; i < s->data.n; i++)
                cells += takes_part(s, i) && s->batches[v].level[i] == l && s->data.type[i] == t;
            present += cells >= UNI_FEWEST;
        }
        assert_int_equal(type->levels[v], present);
    }
}

static void assert_types(const struct sample *s, const struct uni_diagnosis *found)
{
    double freedom;
    assert_int_equal(found->n_types, s->data.n_types);
    for (int32_t t = 0; t < s->data.n_types; t++) {
        const struct uni_type_diagnosis *type = &found->types[t];
        struct subset of = {s->data.type, t};
        assert_string_equal(type->name, type_names[t]);
        assert_lengths(s, of, type->cells, type->length_median, type->length_999, NAN, NAN);
        double before = squares_within(s, s->data.Z, of, 1, &freedom);
        assert_near(type->spread, sqrt(before / freedom), 1e-6 * type->spread);
        assert_near(type->removed, 1 - squares_within(s, s->after, of, 1, &freedom) / before, 1e-6);
        assert_moved(s, type, t);
        assert_presence(s, type, t);
        assert_nearest(s, type, t);
    }
}

static void numbers_of_cells_are_those_of_plain_loops(void **state)
{
    (void)state;
    for (int several = 0; several < 2; several++) {
        struct sample s;
        sample_make(&s, several);
        struct uni_diagnosis *found = diagnose(&s, NULL, 0);
        int64_t part = 0;
        for (int64_t i = 0; i < s.data.n; i++)
            part += takes_part(&s, i);
        assert_int_equal(found->n_skipped, s.data.n - part);
        assert_int_equal(found->n_clusters, 0);
        assert_null(found->observed);
        assert_lengths(&s, (struct subset){NULL, -2}, part, found->length_median, found->length_999, found->length_max,
                       found->length_rms);
        assert_levels(&s, found);
        assert_types(&s, found);
        uni_diagnosis_close(found);
        sample_free(&s);
    }
}

/* ---- threads, layouts ------------------------------------------------------------------------------------------------------ */

#define assert_same(a, b, member) assert_memory_equal(&(a)->member, &(b)->member, sizeof(a)->member)

static void assert_same_diagnosis(const struct uni_diagnosis *a, const struct uni_diagnosis *b)
{
    assert_int_equal(a->n_findings, b->n_findings);
    assert_same(a, b, length_median);
    assert_same(a, b, length_rms);
    assert_same(a, b, length_999);
    assert_same(a, b, length_max);
    for (int64_t l = 0; l < a->n_levels; l++) {
        assert_same(&a->levels[l], &b->levels[l], length_median);
        assert_same(&a->levels[l], &b->levels[l], length_rms);
        assert_same(&a->levels[l], &b->levels[l], length_999);
        assert_same(&a->levels[l], &b->levels[l], length_max);
        assert_int_equal(a->levels[l].cells, b->levels[l].cells);
        assert_same(&a->levels[l], &b->levels[l], spread);
        assert_same(&a->levels[l], &b->levels[l], spread_kept);
    }
    for (int64_t t = 0; t < a->n_types; t++) {
        assert_same(&a->types[t], &b->types[t], moved);
        assert_same(&a->types[t], &b->types[t], spread);
        assert_same(&a->types[t], &b->types[t], removed);
        assert_same(&a->types[t], &b->types[t], nearest);
        assert_same(&a->types[t], &b->types[t], nearest_after);
    }
    for (int64_t f = 0; f < a->n_findings; f++)
        assert_string_equal(a->findings[f].text, b->findings[f].text);
}

/* Large enough for slices that are cut, and in both number types and orders. */
static void same_bytes_for_any_threads_and_layout(void **state)
{
    (void)state;
    struct sample s;
    uint64_t random = 3;
    made_case(&s.data, &(struct problem_case){"large", 30000, 6, 20, 3, 4, 3, 1.5, 0}, 9);
    int64_t n = s.data.n, d = s.data.d;
    s.after = malloc((size_t)(n * d) * sizeof *s.after);
    double *turned = malloc((size_t)(n * d) * sizeof *turned);
    for (int64_t i = 0; i < n * d; i++)
        s.after[i] = s.data.Z[i] + (float)made_normal(&random);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++)
            turned[j * n + i] = (double)s.after[i * d + j];
    s.batches[0] = batch_of(&s.data);
    s.n_batches = 1;
    s.types = types_of(&s.data);
    struct uni_diagnosis *one = diagnose(&s, NULL, 1), *three = diagnose(&s, NULL, 3), *other;
    struct uni_matrix before = matrix_over(&s, s.data.Z), after = {turned, UNI_FLOAT64, n, d, 8, 8 * n};
    assert_int_equal(uni_diagnose(&other, NULL, &before, &after, s.batches, 1, &s.types, 2), UNI_OK);
    assert_same_diagnosis(one, three);
    assert_same_diagnosis(one, other);
    uni_diagnosis_close(one);
    uni_diagnosis_close(three);
    uni_diagnosis_close(other);
    free(turned);
    sample_free(&s);
}

/* Cells x 1 whose rank is their length but for a factor, and their levels in turn, one cell in 11 without. */
static void assert_ranks(int64_t n, int32_t n_levels, int64_t threads)
{
    float *before = calloc((size_t)n, sizeof *before), *after = calloc((size_t)n, sizeof *after);
    int32_t *level = calloc((size_t)n, sizeof *level);
    int64_t taken = 0, middle[2] = {0, 0}, cells = 0;
    struct uni_diagnosis *found;
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = i * 7919 % n; /* a prime that divides no n here: every rank once */
        after[i] = (float)(rank + 1) / 1024;
        level[i] = rank % 11 == 3 ? -1 : (int32_t)(rank % n_levels);
    }
    for (int64_t rank = 0; rank < n; rank++) {
        taken += rank % 11 != 3;
        cells += rank % 11 != 3 && rank % n_levels == 0;
    }
    for (int64_t rank = 0, seen = 0, seen_there = 0; rank < n; rank++) {
        if (rank % 11 == 3)
            continue;
        middle[0] = ++seen == (taken + 1) / 2 ? rank : middle[0];
        if (rank % n_levels == 0)
            middle[1] = ++seen_there == (cells + 1) / 2 ? rank : middle[1];
    }
    struct uni_matrix a = {before, UNI_FLOAT32, n, 1, 0, 0}, b = {after, UNI_FLOAT32, n, 1, 0, 0};
    struct uni_batch batch = {.name = "batch", .n_cells = n, .n_levels = n_levels, .level = level};
    assert_int_equal(uni_diagnose(&found, NULL, &a, &b, &batch, 1, NULL, threads), UNI_OK);
    assert_int_equal(found->n_skipped, n - taken);
    assert_int_equal(found->levels[0].cells, cells);
    assert_true(found->length_median == (double)(middle[0] + 1) / 1024);
    assert_true(found->levels[0].length_median == (double)(middle[1] + 1) / 1024);
    assert_true(found->length_max == (double)((n - 1) % 11 == 3 ? n - 1 : n) / 1024);
    uni_diagnosis_close(found);
    free(before);
    free(after);
    free(level);
}

/* Whatever way the lengths are put in order: by one thread or counted by all, sorts in one share or many. */
static void ranks_are_right_for_few_cells_and_many(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 9, 4096, 4097, 70000, (1 << 20) * 11 / 10 + 100, 2400000};
    for (int i = 0; i < 8; i++)
        for (int64_t threads = 1; threads <= 4; threads += 3) {
            assert_ranks(sizes[i], 1, threads);
            assert_ranks(sizes[i], 2, threads);
            assert_ranks(sizes[i], 1000, threads);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_cells_are_those_of_plain_loops),
        cmocka_unit_test(same_bytes_for_any_threads_and_layout),
        cmocka_unit_test(ranks_are_right_for_few_cells_and_many),
    };
    return cmocka_run_group_tests_name("diagnostics", tests, NULL, NULL);
}
