/* SPDX-License-Identifier: BSD-3-Clause */
/* What the stand-ins of failing_calls.c ask before each call: fate.c. */
#ifndef TESTS_FAULTS_FATE_H
#define TESTS_FAULTS_FATE_H

#include <errno.h>

enum kind { ALLOCATE, OPEN, READ, WRITE, SYNC, RENAME, TRUNCATE, CLOSE, THREAD, PROCESS, LOOK, N_KINDS };
enum how { ONCE, STAY, SHORT, SIGNAL, STOP };

/* Not the program's: it has functions of its own. */
#pragma GCC visibility push(hidden)
extern const int fate_reasons[N_KINDS]; /* errno of each kind */
extern enum how fate_how;
extern _Thread_local int fate_inside
    __attribute__((tls_model("initial-exec"))); /* a function of libc that calls another counts once */

extern _Thread_local int fate_awake __attribute__((tls_model("initial-exec"))); /* the thread is in the program's own function */

/* What becomes of this call: 0 nothing, else SHORT, SIGNAL or failure (-1). */
int fate(enum kind kind, const char *function);
/* The function of this name that the program would have without this library. */
void *fate_next(void **kept, const char *name);
/* In a child that was just forked: it counts for itself. number: what the parent took from fate_child before. */
long fate_child(void);
void fate_begin_child(long number);
#pragma GCC visibility pop

/* Calls the real function once fate has let it. While it runs nothing that it calls is counted. */
#define REAL(name, ...)                                                                                                          \
    __extension__({                                                                                                              \
        static void *real;                                                                                                       \
        __typeof__(&name) function = (__typeof__(&name))fate_next(&real, #name);                                                 \
        fate_inside++;                                                                                                           \
        __typeof__(name(__VA_ARGS__)) result = function(__VA_ARGS__);                                                            \
        fate_inside--;                                                                                                           \
        result;                                                                                                                  \
    })

#define FAILS(kind, value, ...)                                                                                                  \
    if (fate(kind, __func__)) {                                                                                                  \
        __VA_ARGS__;                                                                                                             \
        errno = fate_how == SIGNAL ? EINTR : fate_reasons[kind];                                                                 \
        return value;                                                                                                            \
    }

#endif
