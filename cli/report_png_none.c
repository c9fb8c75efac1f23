/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of report_png.c where the build had no librsvg: --png is refused before anything is read. */
#include "report.h"

const int report_has_png = 0;

int report_png(const char *target, const char *svg)
{
    (void)svg;
    return say_failed("--png %s: this build has no librsvg", target);
}
