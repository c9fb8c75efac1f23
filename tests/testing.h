/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka with what it needs, and checks of real numbers that print both sides when they fail. A NaN fails every one of them. */
#ifndef TESTS_TESTING_H
#define TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_at_most(value, limit) check_at_most((value), (limit), #value, __FILE__, __LINE__)
#define assert_at_least(value, limit) check_at_least((value), (limit), #value, __FILE__, __LINE__)
#define assert_near(value, expected, tolerance) check_near((value), (expected), (tolerance), #value, __FILE__, __LINE__)

static inline void check_at_most(double value, double limit, const char *what, const char *file, int line)
{
    if (value <= limit)
        return;
    print_error("%s is %.9g, above %.9g\n", what, value, limit);
    _fail(file, line);
}

static inline void check_at_least(double value, double limit, const char *what, const char *file, int line)
{
    if (value >= limit)
        return;
    print_error("%s is %.9g, below %.9g\n", what, value, limit);
    _fail(file, line);
}

static inline void check_near(double value, double expected, double tolerance, const char *what, const char *file, int line)
{
    if (value - expected <= tolerance && expected - value <= tolerance)
        return;
    print_error("%s is %.9g, not %.9g within %.3g\n", what, value, expected, tolerance);
    _fail(file, line);
}

#endif
