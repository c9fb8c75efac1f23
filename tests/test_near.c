/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours with a card's lists: the lines that a card runs (cuda_near_block.h), compiled as C, beside the search without them.
 */
#include "../src/cuda/cuda_near_block.h"
#include "made_data.h"
#include "../src/cpu/cpu_kernels.h"
#include "../src/metrics/neighbours.h"
#include "testing.h"

#include <math.h>

/* ---- a card of C ---- */

struct card {
    struct near_work work;
    float *panels;
    char *shared;
};

static int card_open(void **state, int64_t device, const float *panels, int64_t n_panels, int64_t D, int64_t R)
{
    struct card *c = calloc(1, sizeof *c);
    size_t floats = (size_t)(n_panels * (D + 1) * UNI_NEAR_PANEL);
    assert_int_equal(device, 3);
    assert_true(R == UNI_NEAR_MOST / 2 || R == UNI_NEAR_MOST);
    c->panels = aligned_alloc(64, floats * 4); /* its own, to the byte: a sanitizer sees what goes beyond */
    memcpy(c->panels, panels, floats * 4);
    c->work =
        (struct near_work){.panels = c->panels, .n_panels = n_panels, .D = (int)D, .R = (int)R, .stride = near_stride(n_panels)};
    c->shared = aligned_alloc(64, (size_t)(near_shared_bytes((int)D, (int)R) + 63) / 64 * 64);
    *state = c;
    return UNI_OK;
}

static int card_find(void *state, const float *query, int64_t M, struct uni_near_listed *list)
{
    struct card *c = state;
    int64_t blocks = (M + NEAR_QUERIES - 1) / NEAR_QUERIES;
    c->work.query = query;
    c->work.M = M;
    c->work.list = list;
    c->work.kept = malloc((size_t)(blocks * NEAR_QUERIES * 2 * c->work.R) * sizeof *c->work.kept);
    for (int64_t b = 0; b < blocks; b++)
        near_block_work(&c->work, b, c->shared);
    free(c->work.kept);
    return UNI_OK;
}

static void card_close(void *state)
{
    struct card *c = state;
    free(c->panels);
    free(c->shared);
    free(c);
}

static int fails_to_find(void *state, const float *query, int64_t M, struct uni_near_listed *list)
{
    (void)state, (void)query, (void)M, (void)list;
    return UNI_DEVICE;
}

static const struct uni_near_device card = {card_open, card_find, card_close}, failing = {card_open, fails_to_find, card_close};

/* ---- what is asked of both ---- */

struct asked {
    int64_t n, d, k, n_queries;
    int64_t copies; /* so many cells are the first again */
    int wide;
};

struct answers {
    int64_t k;
    struct uni_near_cell *near; /* (queries, k) */
    int64_t *times;             /* (queries) that each was answered */
};

static void keep(void *context, int64_t i, const struct uni_near_cell *near, int thread)
{
    struct answers *a = context;
    (void)thread;
    memcpy(a->near + i * a->k, near, (size_t)a->k * sizeof *near);
    a->times[i]++;
}

static void *make_cells(const struct asked *q)
{
    uint64_t state = (uint64_t)(q->n * 31 + q->d);
    float *Z = malloc((size_t)(q->n * q->d) * 8);
    double *wide = (double *)(void *)Z;
    for (int64_t i = 0; i < q->n; i++)
        for (int64_t j = 0; j < q->d; j++) {
            double x = made_normal(&state) + 6 * (double)(i % 5 == j % 5);
            if (i < q->copies)
                x = (double)j;
            if (q->wide)
                wide[i * q->d + j] = x;
            else
                Z[i * q->d + j] = (float)x;
        }
    return Z;
}

/* How often the search looks at a panel itself. */
static _Atomic int64_t scans;
static void (*find_near)(const struct uni_near *);

static void counting(const struct uni_near *near)
{
    scans++;
    find_near(near);
}

static int find(struct answers *a, const struct asked *q, const void *Z, const struct uni_near_device *device)
{
    int64_t *query = malloc((size_t)q->n_queries * sizeof *query);
    struct uni_neighbours search = {0};
    struct uni_matrix m = {.data = Z, .dtype = q->wide ? UNI_FLOAT64 : UNI_FLOAT32, .n_cells = q->n, .n_dims = q->d};
    m.col_stride = q->wide ? 8 : 4, m.row_stride = q->d * m.col_stride;
    for (int64_t i = 0; i < q->n_queries; i++)
        query[i] = i * q->n / q->n_queries;
    struct uni_near_job job = {
        .plain = &m, .k = q->k, .n_queries = q->n_queries, .query = query, .threads = 2, .device = device, .device_number = 3};
    *a = (struct answers){q->k, calloc((size_t)(q->n_queries * q->k), sizeof *a->near),
                          calloc((size_t)q->n_queries, sizeof *a->times)};
    int err = uni_neighbours_open(&search, &job);
    if (!err) {
        assert_int_equal(search.R > 0, device != NULL);
        struct uni_cpu_kernels counted = *search.kernels;
        find_near = counted.find_near;
        counted.find_near = counting;
        search.kernels = &counted;
        scans = 0;
        err = uni_neighbours_find(&search, keep, a);
    }
    uni_neighbours_close(&search);
    free(query);
    return err;
}

static void answers_free(struct answers *a)
{
    free(a->near);
    free(a->times);
}

static void a_card_s_lists_change_nothing(void **state)
{
    static const struct asked all[] = {
        {1000, 50, 89, 300, 0, 0},  {1000, 50, 89, 1000, 0, 1}, /* several blocks, the last not full; panels odd and even */
        {777, 1, 30, 64, 0, 0},     {777, 33, 15, 65, 0, 0},
        {90, 3, 89, 90, 0, 0},      {129, 2, 1, 5, 0, 1},      /* fewer cells than a list has entries */
        {1500, 70, 200, 100, 0, 0}, {640, 8, 239, 640, 0, 0},  /* long lists */
        {1000, 5, 60, 500, 400, 0}, {500, 4, 89, 500, 500, 1}, /* more copies of a cell than a list has entries */
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct answers without, with;
        void *Z = make_cells(&all[i]);
        assert_int_equal(find(&without, &all[i], Z, NULL), UNI_OK);
        assert_int_equal(find(&with, &all[i], Z, &card), UNI_OK);
        assert_true(all[i].copies ? scans > 0 : scans == 0); /* lists suffice, but for copies */
        for (int64_t q = 0; q < all[i].n_queries; q++) {
            assert_int_equal(with.times[q], 1);
            for (int64_t j = q * all[i].k; j < (q + 1) * all[i].k; j++) {
                assert_int_equal(with.near[j].cell, without.near[j].cell);
                assert_true(with.near[j].square == without.near[j].square);
            }
        }
        answers_free(&without);
        answers_free(&with);
        free(Z);
    }
}

/* Not by way of the search, which would look at all cells itself where a list is wrong. */
static void lists_hold_the_highest_scores(void **state)
{
    enum { D = 40, M = 70, CELLS = 700, PANELS = (CELLS + UNI_NEAR_PANEL - 1) / UNI_NEAR_PANEL, R = UNI_NEAR_MOST / 2 };
    static float panels[PANELS * (D + 1) * UNI_NEAR_PANEL], query[M * D];
    static struct uni_near_listed list[M * R];
    uint64_t random = 5;
    void *opened;
    (void)state;
    for (int i = 0; i < M * D; i++)
        query[i] = (float)made_normal(&random);
    for (int i = 0; i < PANELS * (D + 1) * UNI_NEAR_PANEL; i++)
        panels[i] = (float)made_normal(&random);
    for (int cell = CELLS; cell < PANELS * UNI_NEAR_PANEL; cell++)
        panels[(PANELS - 1) * (D + 1) * UNI_NEAR_PANEL + cell % UNI_NEAR_PANEL] = -HUGE_VALF;
    assert_int_equal(card_open(&opened, 3, panels, PANELS, D, R), UNI_OK);
    assert_int_equal(card_find(opened, query, M, list), UNI_OK);
    card_close(opened);
    for (int q = 0; q < M; q++) {
        int higher = 0, ties = 0;
        for (int cell = 0; cell < CELLS; cell++) {
            const float *own = panels + cell / UNI_NEAR_PANEL * (D + 1) * UNI_NEAR_PANEL + cell % UNI_NEAR_PANEL;
            double score = (double)*own, last = (double)list[q * R + R - 1].score;
            for (int d = 0; d < D; d++)
                score += (double)query[q * D + d] * (double)own[(d + 1) * UNI_NEAR_PANEL];
            higher += score > last + 1e-4;
            ties += fabs(score - last) <= 1e-4;
            for (int i = 0; i < R; i++)
                if ((int)list[q * R + i].cell == cell)
                    assert_near(list[q * R + i].score, score, 1e-4);
        }
        assert_true(higher <= R && higher + ties >= R);
        for (int i = 1; i < R; i++)
            assert_true(list[q * R + i].score <= list[q * R + i - 1].score && list[q * R + i].cell != list[q * R + i - 1].cell);
    }
}

static void a_card_that_fails_is_said(void **state)
{
    const struct asked q = {300, 5, 20, 100, 0, 0};
    struct answers a;
    (void)state;
    void *Z = make_cells(&q);
    assert_int_equal(find(&a, &q, Z, &failing), UNI_DEVICE);
    answers_free(&a);
    free(Z);
}

/* Every tile is looked at, once. */
static void the_order_of_tiles_leaves_none_out(void **state)
{
    (void)state;
    for (int64_t panels = 1; panels < 700; panels++) {
        int64_t tiles = (panels + 1) / 2, stride = near_stride(panels), tile = 0, seen = 0;
        do {
            tile = (tile + stride) % tiles;
            seen++;
        } while (tile);
        assert_int_equal(seen, tiles);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_s_lists_change_nothing),
        cmocka_unit_test(lists_hold_the_highest_scores),
        cmocka_unit_test(a_card_that_fails_is_said),
        cmocka_unit_test(the_order_of_tiles_leaves_none_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
