/* SPDX-License-Identifier: BSD-3-Clause */
/* What a caller may have set in his thread that would change our numbers or our sentences: rounding, subnormals flushed to zero,
 * traps, a locale. Every public function that computes or writes text begins with OWN_SURROUNDINGS, and gives the caller's back
 * however it returns. Threads that it starts inherit the floating-point environment, so a pool that is opened inside has ours. */
#ifndef UNI_SURROUNDINGS_H
#define UNI_SURROUNDINGS_H

#include <fenv.h>
#include <locale.h>

struct uni_surroundings {
    fenv_t floats; /* exception flags included */
    locale_t locale;
};

/* Keeps the caller's, and sets round to nearest, subnormals, no traps and the C locale. */
void uni_enter(struct uni_surroundings *callers);
void uni_leave(struct uni_surroundings *callers);

#define OWN_SURROUNDINGS                                                                                                         \
    __attribute__((cleanup(uni_leave))) struct uni_surroundings callers;                                                         \
    uni_enter(&callers)

#endif
