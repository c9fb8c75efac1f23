/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>

#include "cli.h"
#include "io.h"

static void say_line(const char *prefix, const char *format, va_list arguments)
{
    char text[4096]; /* the longest sentence, io_error()'s, has half of that */
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "%s%s\n", prefix, io_printable(text));
}

int say_failed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("unisono: ", format, arguments);
    va_end(arguments);
    return EXIT_FAILED;
}

int say_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("unisono: ", format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

void say_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("unisono: warning: ", format, arguments);
    va_end(arguments);
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("unisono: ", format, arguments);
    va_end(arguments);
}

const char *say_bytes(char text[32], double bytes)
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    int u = 0;
    while (bytes >= 999.5 && u < 5) {
        bytes /= 1000;
        u++;
    }
    snprintf(text, 32, u == 0 || bytes >= 99.95 ? "%.0f %s" : bytes >= 9.995 ? "%.1f %s" : "%.2f %s", bytes, unit[u]);
    return text;
}
