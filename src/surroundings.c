/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "surroundings.h"

void uni_enter(struct uni_surroundings *callers)
{
    fegetenv(&callers->floats);
    fesetenv(FE_DFL_ENV);                                                  /* flushing to zero is off in it, too */
    callers->locale = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* a static object in the C library: nothing to free */
}

void uni_leave(struct uni_surroundings *callers)
{
    uselocale(callers->locale);
    fesetenv(&callers->floats);
}
