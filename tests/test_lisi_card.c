/* SPDX-License-Identifier: BSD-3-Clause */
/* LISI with backend auto, and a card that is none: when it is asked, and that the CPU does all that it does not. This program's
 * uni_cuda_describe and uni_cuda_near are those below (see CMakeLists.txt). */
#include "../src/backend.h"
#include "../src/error.h"
#include "../src/near_device.h"
#include "lisi_given.h"
#include "made_data.h"
#include "testing.h"

#include <math.h>

/* More than one batch, and 10^9 pairs. */
enum { N = 61000, SAMPLE = 16394 };
_Static_assert(SAMPLE > (int)UNI_NEAR_BATCH && (int64_t)N * SAMPLE >= 1000000000 && (int64_t)N * (SAMPLE - 1) < 1000000000,
               "pairs");

/* ---- the card ---- */

static struct {
    int is_there, is_usable, is_old;  /* is_old: says that it is usable, and then is not */
    int fails_to_open, fails_at_find; /* at which, 0: at none */
    volatile int *cancels;            /* at the first */
    int asked, opened, closed, finds;
    int64_t R;
} card;

static int card_open(void **state, int64_t device, const float *panels, int64_t n_panels, int64_t D, int64_t R)
{
    (void)device, (void)panels, (void)n_panels, (void)D;
    card.R = R;
    if (card.fails_to_open)
        return uni_fail(UNI_MEMORY, "too little memory");
    card.opened++;
    *state = &card;
    return UNI_OK;
}

/* Lists that say nothing, so that the CPU looks itself. */
static int card_find(void *state, const float *query, int64_t M, struct uni_near_listed *list)
{
    (void)state, (void)query;
    if (++card.finds == card.fails_at_find)
        return uni_fail(UNI_DEVICE, "it broke");
    for (int64_t i = 0; i < M * card.R; i++)
        list[i] = (struct uni_near_listed){.score = -3e38f, .cell = (uint32_t)(i % card.R)};
    if (card.cancels)
        *card.cancels = 1;
    return UNI_OK;
}

static void card_close(void *state)
{
    card.closed += state != NULL;
}

int __wrap_uni_cuda_describe(struct uni_backend_info *info, int64_t device, int *present);
int __wrap_uni_cuda_describe(struct uni_backend_info *info, int64_t device, int *present)
{
    (void)device;
    card.asked++;
    *present = card.is_there;
    *info = (struct uni_backend_info){.name = "cuda", .usable = card.is_usable, .detail = "it is old"};
    return card.is_there;
}

int __wrap_uni_cuda_near(const struct uni_near_device **near, int64_t device);
int __wrap_uni_cuda_near(const struct uni_near_device **near, int64_t device)
{
    static const struct uni_near_device made = {card_open, card_find, card_close};
    (void)device;
    *near = &made;
    return card.is_old ? uni_fail(UNI_BACKEND, "older than it said") : UNI_OK;
}

/* ---- what is asked ---- */

struct told {
    int64_t done;
    int wrong;
};

static void hear(int64_t done, int64_t n_sampled, void *user)
{
    struct told *t = user;
    t->wrong += done <= t->done || done > n_sampled || n_sampled != SAMPLE;
    t->done = done;
}

struct cells {
    struct made_data data;
    double *expected, *out;
};

static int cells_open(void **state)
{
    static struct cells c;
    made_fixture(&c.data, N, 1);
    c.expected = calloc(SAMPLE, sizeof *c.expected);
    c.out = calloc(SAMPLE, sizeof *c.out);
    struct uni_matrix m = cells_of(c.data.Z, N, 1);
    struct uni_batch b = labels_of(c.data.level, N, 2);
    struct uni_lisi_options o = every_cell(30);
    o.sample = SAMPLE;
    o.backend = UNI_BACKEND_CPU;
    *state = &c;
    return uni_lisi(&m, &b, 1, &o, c.expected, NULL, NULL);
}

static int cells_close(void **state)
{
    struct cells *c = *state;
    made_free(&c->data);
    free(c->expected);
    free(c->out);
    return 0;
}

static int run(struct cells *c, struct uni_lisi_options o, char *warning)
{
    struct told told = {0};
    struct uni_matrix m = cells_of(c->data.Z, N, 1);
    struct uni_batch b = labels_of(c->data.level, N, 2);
    o.warning = warning;
    o.progress = hear;
    o.progress_user = &told;
    memset(warning, 'x', UNI_LISI_WARNING);
    int status = uni_lisi(&m, &b, 1, &o, c->out, NULL, NULL);
    assert_int_equal(told.wrong, 0);
    assert_int_equal(card.opened, card.closed);
    return status;
}

static struct uni_lisi_options sampled(int64_t sample, double perplexity)
{
    struct uni_lisi_options o = every_cell(perplexity);
    o.sample = sample;
    return o;
}

static void asked_where_there_is_work_for_it(void **state)
{
    char warning[UNI_LISI_WARNING];
    struct cells *c = *state;
    memset(&card, 0, sizeof card);
    card.is_there = card.is_usable = 1;
    struct uni_lisi_options o = sampled(SAMPLE - 1, 30);
    struct uni_matrix m = cells_of(NULL, N, 1);
    struct uni_batch b = labels_of(c->data.level, N, 2);
    struct uni_lisi_plan plan;
    assert_int_equal(uni_lisi_plan(&plan, &m, &b, 1, &o), UNI_OK);
    assert_int_equal(card.asked, 0);
    o = sampled(SAMPLE, 30);
    assert_int_equal(uni_lisi_plan(&plan, &m, &b, 1, &o), UNI_OK);
    assert_int_equal(card.asked, 1);
    int64_t bytes = plan.bytes;
    o.backend = UNI_BACKEND_CPU;
    assert_int_equal(uni_lisi_plan(&plan, &m, &b, 1, &o), UNI_OK);
    assert_true(bytes >= plan.bytes);
    assert_int_equal(card.asked, 1);
    assert_int_equal(run(c, sampled(SAMPLE, 30), warning), UNI_OK);
    assert_int_equal(card.finds, 2);
    assert_string_equal(warning, "");
    assert_memory_equal(c->out, c->expected, SAMPLE * sizeof *c->out);
}

static void what_it_does_not_do_the_cpu_does(void **state)
{
    static const struct {
        int is_there, is_usable, is_old, fails_to_open, fails_at_find;
        double perplexity;
        const char *warning;
    } cases[] = {
        {0, 0, 0, 0, 0, 30, ""},
        {1, 0, 0, 0, 0, 30, "backend cuda cannot be used, so the CPU is: it is old"},
        {1, 1, 1, 0, 0, 30, "backend cuda cannot be used, so the CPU is: older than it said"},
        {1, 1, 0, 0, 0, 90, "backend cuda does not find 269 neighbours, which perplexity 90 takes, so the CPU is used"},
        {1, 1, 0, 1, 0, 30, "backend cuda cannot take this, so the CPU does: too little memory"},
        {1, 1, 0, 0, 1, 30, "backend cuda cannot take this, so the CPU does: it broke"},
        {1, 1, 0, 0, 2, 30, "backend cuda cannot take this, so the CPU does: it broke"},
    };
    char warning[UNI_LISI_WARNING];
    struct cells *c = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(&card, 0, sizeof card);
        card.is_there = cases[i].is_there;
        card.is_usable = cases[i].is_usable;
        card.is_old = cases[i].is_old;
        card.fails_to_open = cases[i].fails_to_open;
        card.fails_at_find = cases[i].fails_at_find;
        assert_int_equal(run(c, sampled(SAMPLE, cases[i].perplexity), warning), UNI_OK);
        assert_string_equal(warning, cases[i].warning);
        assert_int_equal(card.finds, cases[i].fails_at_find);
        if (cases[i].perplexity == 30)
            assert_memory_equal(c->out, c->expected, SAMPLE * sizeof *c->out);
    }
}

static void asked_for_by_name_or_cancelled_it_is_not_replaced(void **state)
{
    char warning[UNI_LISI_WARNING];
    volatile int cancel = 0;
    struct cells *c = *state;
    struct uni_lisi_options o = sampled(SAMPLE, 30);
    memset(&card, 0, sizeof card);
    card.is_there = card.is_usable = card.fails_at_find = 1;
    o.backend = UNI_BACKEND_CUDA;
    assert_int_equal(run(c, o, warning), UNI_DEVICE);
    assert_string_equal(uni_last_error(), "it broke");
    assert_true(isnan(c->out[0]) && isnan(c->out[SAMPLE - 1]));
    memset(&card, 0, sizeof card);
    card.is_there = card.is_usable = 1;
    card.cancels = &cancel;
    o.cancel = &cancel;
    o.backend = UNI_BACKEND_AUTO;
    assert_int_equal(run(c, o, warning), UNI_STOPPED);
    assert_int_equal(card.finds, 1);
    assert_string_equal(warning, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_where_there_is_work_for_it),
        cmocka_unit_test(what_it_does_not_do_the_cpu_does),
        cmocka_unit_test(asked_for_by_name_or_cancelled_it_is_not_replaced),
    };
    return cmocka_run_group_tests_name("lisi and a card", tests, cells_open, cells_close);
}
