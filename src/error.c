/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

#include "unisono.h"

#ifndef UNI_VERSION
#error "the build gives UNI_VERSION"
#endif

static _Thread_local char sentence[512];

int uni_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return status;
}

const char *uni_last_error(void)
{
    return sentence;
}

const char *uni_version(void)
{
    return UNI_VERSION;
}

const char *uni_status_name(int status)
{
    static const char *const names[] = {"ok",     "memory",        "input",   "option", "backend",
                                        "device", "communication", "numeric", "stopped"};
    return status >= 0 && status < (int)(sizeof names / sizeof *names) ? names[status] : "unknown";
}
