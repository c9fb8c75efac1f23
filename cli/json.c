/* SPDX-License-Identifier: BSD-3-Clause */
#include "json.h"

#include <math.h>

int json_utf8(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    int n = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static void quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = json_utf8(s);
        if (!n)
            fputs("\\ufffd", out), n = 1;
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n;
    }
    fputc('"', out);
}

/* Comma, line break, indentation and key of the next value. Arrays of plain values stay on their line only through the caller. */
static void before(struct json *j, const char *key)
{
    if (j->depth > 0) {
        if (j->filled[j->depth])
            fputc(',', j->out);
        fprintf(j->out, j->depth <= 2 ? "\n%*s" : " ", 2 * j->depth, "");
    }
    j->filled[j->depth] = 1;
    if (key) {
        quoted(j->out, key);
        fputs(": ", j->out);
    }
}

void json_open(struct json *j, const char *key, char bracket)
{
    before(j, key);
    fputc(bracket, j->out);
    if (j->depth + 1 < (int)sizeof j->filled)
        j->depth++;
    j->filled[j->depth] = 0;
}

void json_close(struct json *j, char bracket)
{
    int filled = j->filled[j->depth] != 0;
    j->depth--;
    if (filled && j->depth < 2)
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->out);
    if (!j->depth)
        fputc('\n', j->out);
}

void json_text(struct json *j, const char *key, const char *text)
{
    before(j, key);
    if (text)
        quoted(j->out, text);
    else
        fputs("null", j->out);
}

void json_real(struct json *j, const char *key, double value)
{
    before(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.12g", value);
    else
        fputs("null", j->out);
}

void json_whole(struct json *j, const char *key, int64_t value)
{
    before(j, key);
    fprintf(j->out, "%lld", (long long)value);
}

void json_bool(struct json *j, const char *key, int value)
{
    before(j, key);
    fputs(value ? "true" : "false", j->out);
}
