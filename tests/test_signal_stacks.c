/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread with a small stack for signals: the system then refuses the matrix unit, whose state would not fit, and runs go
 * without it. */
#define _GNU_SOURCE
#include "product.h"
#include "testing.h"

#include <signal.h>
#include <string.h>

static char small[2048];

static void runs_without_the_matrix_unit(void **state)
{
    (void)state;
    struct made_data data;
    struct product product;
    struct uni_options options = defaults();
    struct uni_backend_info info;
    const stack_t stack = {.ss_sp = small, .ss_size = sizeof small}, none = {.ss_flags = SS_DISABLE};
    if (sigaltstack(&stack, NULL) != 0)
        skip(); /* too small for this processor already */
    assert_true(uni_backend_at(0, &info));
    assert_null(strstr(info.detail, "amx"));
    made_case(&data, &problem_cases[0], 1);
    product_run_data(&product, &data, &options);
    assert_null(strstr(product.summary->backend, "amx"));
    product_close(&product);
    made_free(&data);
    assert_int_equal(sigaltstack(&none, NULL), 0);
}

static void another_set_by_name_asks_for_nothing(void **state)
{
    (void)state;
    struct uni_backend_info info;
    const stack_t stack = {.ss_sp = small, .ss_size = sizeof small}, none = {.ss_flags = SS_DISABLE};
    setenv("UNISONO_ISA", "plain", 1);
    assert_true(uni_backend_at(0, &info));
    unsetenv("UNISONO_ISA");
    assert_non_null(strstr(info.detail, "plain"));
    if (sigaltstack(&stack, NULL) != 0) /* a process that may use the unit could not any more */
        fail_msg("a set without a matrix unit asked for one");
    assert_int_equal(sigaltstack(&none, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_without_the_matrix_unit),
        cmocka_unit_test(another_set_by_name_asks_for_nothing),
    };
    return cmocka_run_group_tests_name("signal stacks", tests, NULL, NULL);
}
