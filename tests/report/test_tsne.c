/* SPDX-License-Identifier: BSD-3-Clause */
/* uni_tsne: what it leaves is held against the definition, computed plainly; and what it promises. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "unisono.h"

enum { N = 300, D = 6, GROUPS = 3 };

static uint32_t state;

static float uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216.0f - 0.5f;
}

/* Groups of cells, far apart. */
static void make(float *x, double apart)
{
    state = 7;
    for (int i = 0; i < N; i++)
        for (int d = 0; d < D; d++)
            x[i * D + d] = uniform() + uniform() + uniform() + (d == i % GROUPS ? (float)apart : 0);
}

static struct uni_matrix matrix_of(const void *data, int64_t n, int64_t d)
{
    return (struct uni_matrix){.data = data, .dtype = UNI_FLOAT32, .n_cells = n, .n_dims = d};
}

static double square(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
}

/* p of all pairs, by bisection on the width of each cell's Gaussian over all other cells. */
static void affinities(double *p, const float *x, double perplexity)
{
    double *wide = calloc(N * D, sizeof *wide);
    for (int k = 0; k < N * D; k++)
        wide[k] = x[k];
    memset(p, 0, N * N * sizeof *p);
    for (int i = 0; i < N; i++) {
        double low = 0, high = 1e6, row[N] = {0};
        for (int step = 0; step < 200; step++) {
            double b = 0.5 * (low + high), sum = 0, entropy = 0;
            for (int j = 0; j < N; j++)
                sum += row[j] = j == i ? 0 : exp(-b * square(wide + i * D, wide + j * D, D));
            for (int j = 0; j < N; j++)
                entropy -= row[j] > 0 ? row[j] / sum * log(row[j] / sum) : 0;
            for (int j = 0; j < N; j++)
                row[j] /= sum;
            *(entropy > log(perplexity) ? &low : &high) = b;
        }
        for (int j = 0; j < N; j++) {
            p[i * N + j] += row[j] / (2 * N);
            p[j * N + i] += row[j] / (2 * N);
        }
    }
    free(wide);
}

/* Kullback and Leibler's divergence, and the mean gradient of a cell relative to what pulls at it. */
static double divergence(const double *p, const float *place, double *left)
{
    double y[2 * N], total = 0, sum = 0;
    for (int k = 0; k < 2 * N; k++)
        y[k] = place[k];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            total += i == j ? 0 : 1 / (1 + square(y + 2 * i, y + 2 * j, 2));
    *left = 0;
    for (int i = 0; i < N; i++) {
        double gradient[2] = {0}, pull = 0;
        for (int j = 0; j < N; j++) {
            double q = 1 / (1 + square(y + 2 * i, y + 2 * j, 2));
            if (i == j)
                continue;
            if (p[i * N + j] > 0)
                sum += p[i * N + j] * log(p[i * N + j] / (q / total));
            for (int k = 0; k < 2; k++)
                gradient[k] += (p[i * N + j] - q / total) * q * (y[2 * i + k] - y[2 * j + k]);
            pull += p[i * N + j] * q * sqrt(square(y + 2 * i, y + 2 * j, 2));
        }
        *left += hypot(gradient[0], gradient[1]) / pull / N;
    }
    return sum;
}

static void it_ends_where_the_gradient_is_small(void **unused)
{
    (void)unused;
    float x[N * D], place[2 * N], noise[2 * N];
    double *p = malloc(N * N * sizeof *p), left, left_of_noise;
    make(x, 0);
    struct uni_matrix m = matrix_of(x, N, D);
    affinities(p, x, 20);
    assert_int_equal(uni_tsne(place, &m, NULL, 20, 2, NULL), UNI_OK);
    for (int k = 0; k < 2 * N; k++)
        noise[k] = 20 * uniform();
    double found = divergence(p, place, &left), chance = divergence(p, noise, &left_of_noise);
    free(p);
    /* Affinities of cells beyond the 60 nearest are left out, which the plain sums here do not do. */
    assert_at_most(left, 0.05);
    assert_at_least(left_of_noise, 0.5);
    assert_true(found > 0 && found < 0.5 * chance);
}

/* The authors' descent: 250 steps with exaggeration 12 and momentum 0.5, 400 with 0.8, gains; steps of N / 12. */
static void descend_plainly(float *place, const double *p, const float *x)
{
    static double y[2 * N], velocity[2 * N], gain[2 * N], gradient[2 * N];
    for (int k = 0; k < 2 * N; k++) {
        y[k] = 1e-4 * (double)x[k / 2 * D + k % 2];
        velocity[k] = 0;
        gain[k] = 1;
    }
    for (int step = 0; step < 650; step++) {
        double total = 0, exaggeration = step < 250 ? 12 : 1, momentum = step < 250 ? 0.5 : 0.8;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                total += i == j ? 0 : 1 / (1 + square(y + 2 * i, y + 2 * j, 2));
        memset(gradient, 0, sizeof gradient);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                double q = 1 / (1 + square(y + 2 * i, y + 2 * j, 2));
                for (int k = 0; k < 2; k++)
                    gradient[2 * i + k] += 4 * (exaggeration * p[i * N + j] - q / total) * q * (y[2 * i + k] - y[2 * j + k]);
            }
        for (int k = 0; k < 2 * N; k++) {
            gain[k] = fmax((gradient[k] > 0) != (velocity[k] > 0) ? gain[k] + 0.2 : gain[k] * 0.8, 0.01);
            velocity[k] = momentum * velocity[k] - N / 12.0 * gain[k] * gradient[k];
            y[k] += velocity[k];
        }
    }
    for (int k = 0; k < 2 * N; k++)
        place[k] = (float)y[k];
}

static void it_ends_as_low_as_the_authors_descent(void **unused)
{
    (void)unused;
    float x[N * D], place[2 * N], theirs[2 * N];
    double *p = malloc(N * N * sizeof *p), left;
    for (int apart = 0; apart <= 4; apart += 2) {
        make(x, apart);
        struct uni_matrix m = matrix_of(x, N, D);
        affinities(p, x, 20);
        assert_int_equal(uni_tsne(place, &m, NULL, 20, 2, NULL), UNI_OK);
        descend_plainly(theirs, p, x);
        double found = divergence(p, place, &left), plain = divergence(p, theirs, &left);
        print_message("groups %d apart: divergence %.4f, by the authors' descent %.4f\n", apart, found, plain);
        assert_at_most(found, (apart ? 1.05 : 1.1) * plain); /* without groups there are many ends */
    }
    free(p);
}

static void groups_stay_together(void **unused)
{
    (void)unused;
    float x[N * D], place[2 * N];
    int alien = 0;
    make(x, 10);
    struct uni_matrix m = matrix_of(x, N, D);
    assert_int_equal(uni_tsne(place, &m, NULL, 30, 1, NULL), UNI_OK);
    for (int i = 0; i < N; i++) {
        double least = INFINITY;
        int nearest = -1;
        for (int j = 0; j < N; j++) {
            double d = hypot(place[2 * i] - place[2 * j], place[2 * i + 1] - place[2 * j + 1]);
            if (j != i && d < least)
                least = d, nearest = j;
        }
        alien += nearest % GROUPS != i % GROUPS;
    }
    assert_int_equal(alien, 0);
}

static void bytes_are_the_same(void **unused)
{
    (void)unused;
    float x[N * D], first[2 * N], place[2 * N], start[2 * N];
    double wide[N * D];
    make(x, 2);
    struct uni_matrix m = matrix_of(x, N, D);
    assert_int_equal(uni_tsne(first, &m, NULL, 30, 1, NULL), UNI_OK);
    for (int threads = 1; threads <= 5; threads += 2) {
        assert_int_equal(uni_tsne(place, &m, NULL, 30, threads, NULL), UNI_OK);
        assert_memory_equal(place, first, sizeof first);
    }
    for (int i = 0; i < N; i++)
        memcpy(start + 2 * i, x + i * D, 2 * sizeof *start);
    assert_int_equal(uni_tsne(place, &m, start, 30, 2, NULL), UNI_OK);
    assert_memory_equal(place, first, sizeof first);
    /* the same values by columns, in double */
    for (int i = 0; i < N; i++)
        for (int d = 0; d < D; d++)
            wide[d * N + i] = x[i * D + d];
    m = (struct uni_matrix){.data = wide, .dtype = UNI_FLOAT64, .n_cells = N, .n_dims = D, .row_stride = 8, .col_stride = 8 * N};
    assert_int_equal(uni_tsne(place, &m, NULL, 30, 2, NULL), UNI_OK);
    assert_memory_equal(place, first, sizeof first);
}

static void small_and_odd_input(void **unused)
{
    (void)unused;
    float x[16 * 3] = {0}, place[32];
    for (int n = 2; n <= 16; n++)
        for (int d = 1; d <= 3; d++)
            for (int equal = 0; equal < 2; equal++) {
                state = 3;
                for (int k = 0; k < n * d; k++)
                    x[k] = equal ? 1 : uniform();
                struct uni_matrix m = matrix_of(x, n, d);
                assert_int_equal(uni_tsne(place, &m, NULL, 30, 1, NULL), UNI_OK);
                for (int k = 0; k < 2 * n; k++)
                    assert_true(isfinite(place[k]));
            }
}

static void errors_are_sentences(void **unused)
{
    (void)unused;
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, place[8] = {0}, start[8] = {0};
    volatile int stop = 1;
    struct uni_matrix m = matrix_of(x, 4, 2), one = matrix_of(x, 1, 2), none = matrix_of(NULL, 4, 2);
    assert_int_equal(uni_tsne(place, &one, NULL, 30, 1, NULL), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), "1 x 2"));
    assert_int_equal(uni_tsne(place, &none, NULL, 30, 1, NULL), UNI_INPUT);
    assert_int_equal(uni_tsne(place, &m, NULL, 0.5, 1, NULL), UNI_OPTION);
    assert_non_null(strstr(uni_last_error(), "0.5"));
    assert_int_equal(uni_tsne(place, &m, NULL, NAN, 1, NULL), UNI_OPTION);
    assert_int_equal(uni_tsne(place, &m, NULL, 30, 1, &stop), UNI_STOPPED);
    assert_true(isnan(place[0]) && isnan(place[7]));
    start[5] = INFINITY;
    assert_int_equal(uni_tsne(place, &m, start, 30, 1, NULL), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), "cell 3"));
    x[3] = NAN;
    assert_int_equal(uni_tsne(place, &m, NULL, 30, 1, NULL), UNI_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_where_the_gradient_is_small),
        cmocka_unit_test(it_ends_as_low_as_the_authors_descent),
        cmocka_unit_test(groups_stay_together),
        cmocka_unit_test(bytes_are_the_same),
        cmocka_unit_test(small_and_odd_input),
        cmocka_unit_test(errors_are_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
