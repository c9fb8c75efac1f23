/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "report.h"

/* Okabe and Ito 2008 without their yellow and black, of which each is lost on one of the two grounds, with two that stay apart
   from the others in the common kinds of colour blindness. The second eight are darker or lighter, which every eye sees; every
   eight levels the shape changes as well. */
const char *const report_colour[REPORT_COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
                                                   "#7a5fb5", "#8a8577", "#5b86a8", "#a1752a", "#7cc7a8", "#9a3f73",
                                                   "#2f8aa5", "#ec9a72", "#b3a3dc", "#5f5a50"};

const char *report_clip(char clipped[REPORT_NAME], const char *name)
{
    size_t length = strnlen(name, REPORT_NAME);
    if (length < REPORT_NAME) {
        memcpy(clipped, name, length + 1);
        return clipped;
    }
    length = REPORT_NAME - 4; /* room for the three bytes of an ellipsis */
    while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    memcpy(clipped, name, length);
    memcpy(clipped + length, "\xe2\x80\xa6", 4);
    return clipped;
}
