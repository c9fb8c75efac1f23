/* SPDX-License-Identifier: BSD-3-Clause */
/* The last sentence, and the sentences that several files share. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io_internal.h"

static _Thread_local char sentence[2048];

const char *io_error(void)
{
    return sentence;
}

char *io_printable(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        /* 0xc2 0x80 to 0x9f is UTF-8 for control characters that some terminals obey too. */
        if (*at < 0x20 || *at == 0x7f)
            *at = '?';
        else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
            at[0] = at[1] = '?';
    }
    return text;
}

int io_fail(const char *format, ...)
{
    /* The arguments may hold the last sentence itself. */
    char text[sizeof sentence];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    io_printable(text);
    memcpy(sentence, text, sizeof sentence);
    return -1;
}

int io_fail_memory(const char *path, const char *thing, int64_t bytes)
{
    return io_fail("%s: no memory for %s (%" PRId64 " bytes)", path, thing, bytes);
}

int io_check_sizes(const char *path, const char *thing, int64_t n_cells, int64_t n_dims)
{
    if (n_cells < 1 || n_dims < 1)
        return io_fail("%s: %s is %" PRId64 " x %" PRId64 " (cells x dimensions), so there is nothing to integrate", path, thing,
                       n_cells, n_dims);
    if (n_cells > INT64_MAX / 16 / n_dims)
        return io_fail("%s: %s claims to be %" PRId64 " x %" PRId64 ", which no machine can hold: the file is damaged", path,
                       thing, n_cells, n_dims);
    return 0;
}

static int ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcasecmp(path + length - tail, ending) == 0;
}

enum io_format io_format_of(const char *path)
{
    if (ends_in(path, ".h5ad"))
        return IO_H5AD;
    if (ends_in(path, ".npy"))
        return IO_NPY;
    if (ends_in(path, ".tsv") || ends_in(path, ".csv") || ends_in(path, ".tsv.gz") || ends_in(path, ".csv.gz"))
        return IO_TABLE;
    return IO_UNKNOWN;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

enum { LONGEST = 64 }; /* of a name, for the nearest ones */

/* Levenshtein's distance of the first LONGEST characters, capitals apart; more than `limit` where it is that. A name that holds the
 * other is as near as one typo. */
static int distance(const char *a, const char *b, int limit)
{
    int row[LONGEST + 1], la = (int)strnlen(a, LONGEST), lb = (int)strnlen(b, LONGEST), longer = la > lb ? la - lb : lb - la;
    if (la > 2 && lb > 2 && strcasecmp(a, b) != 0 && (strcasestr(a, b) || strcasestr(b, a)))
        return 1;
    if (longer > limit)
        return longer;
    for (int j = 0; j <= lb; j++)
        row[j] = j;
    for (int i = 1; i <= la; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= lb; j++) {
            int best = corner + (lower(a[i - 1]) != lower(b[j - 1]));
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[lb];
}

static void append(char *text, size_t size, const char *before, const char *name)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s\"%.100s\"", before, name);
}

void io_suggest(char *text, size_t size, const char *wanted, const struct io_strings *names)
{
    enum { NEAREST = 3, FEW = 12, LOOKED_AT = 10000, CHARACTERS = 1000000 };
    int limit = (int)strnlen(wanted, LONGEST) / 2, shown = 0, far[NEAREST];
    const char *near[NEAREST]; /* nearest first; of equally near ones the first */
    int64_t left = CHARACTERS; /* a file of one long name that ten thousand columns have takes no time */
    text[0] = 0;
    for (int64_t i = 0; i < names->count && i < LOOKED_AT && left > 0; i++) {
        int d = distance(wanted, names->at[i], limit), place = shown;
        left -= (int64_t)strlen(names->at[i]);
        while (place > 0 && far[place - 1] > d)
            place--;
        if (d > limit || place == NEAREST)
            continue;
        shown += shown < NEAREST;
        for (int k = shown - 1; k > place; k--) {
            near[k] = near[k - 1];
            far[k] = far[k - 1];
        }
        near[place] = names->at[i];
        far[place] = d;
    }
    for (int k = 0; k < shown; k++)
        append(text, size, k ? ", " : "; nearest: ", near[k]);
    if (names->count > FEW) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "; there are %" PRId64 " names", names->count);
        return;
    }
    for (int64_t i = 0; i < names->count; i++)
        append(text, size, i ? ", " : "; all: ", names->at[i]);
    if (names->count == 0)
        snprintf(text, size, "; it has none");
}
