/* SPDX-License-Identifier: BSD-3-Clause */
/* One sentence per failure, kept for the thread that failed. */
#ifndef UNI_ERROR_H
#define UNI_ERROR_H

/* Keeps the sentence for uni_last_error() and returns status, so that a check reads `return uni_fail(UNI_INPUT, "...")`. */
int uni_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For functions with `int err = 0; ... done: ... return err;` */
#define TRY(call)                                                                                                                \
    do {                                                                                                                         \
        if ((err = (call)) != 0)                                                                                                 \
            goto done;                                                                                                           \
    } while (0)

#endif
