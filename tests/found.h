/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call finds in its thread and its process, so that it can be held against what is there afterwards. */
#ifndef TESTS_FOUND_H
#define TESTS_FOUND_H

#include <fenv.h>
#include <locale.h>

struct found {
    unsigned long float_control; /* of the unit that computes: rounding, traps, flushing; flags are apart */
    int rounding, flags, traps;
    locale_t thread_locale;
    char text[1 << 15]; /* all else, a line each, for comparing and for showing */
};

void found_now(struct found *now);

/* As found_now; threads that were waited for may take a moment to leave /proc, so that is looked at again until it is as
 * expected. */
void found_as(struct found *now, const struct found *expected);

/* Fails with the first line that differs. */
void assert_found(const struct found *after, const struct found *before, const char *what, int outcome);

unsigned long found_float_control(void);

/* These say whether the machine can. */
int flush_to_zero(int on);
int trap_exceptions(int on);

/* The name of a locale with a decimal comma for setlocale: one of the machine's, or one made with localedef in a folder of its
   own; NULL where there is neither. */
const char *comma_locale(void);

#endif
