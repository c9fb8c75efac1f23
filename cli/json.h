/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes JSON: commas, quotes and escapes are this file's business. key is NULL inside an array. */
#ifndef UNI_CLI_JSON_H
#define UNI_CLI_JSON_H

#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    int depth;
    char filled[16]; /* per depth: something stands there, so a comma comes next */
};

void json_open(struct json *, const char *key, char bracket);     /* '{' or '[' */
void json_close(struct json *, char bracket);                     /* '}' or ']' */
void json_text(struct json *, const char *key, const char *text); /* NULL becomes null; bytes that are no UTF-8 become U+FFFD */
void json_real(struct json *, const char *key, double value);     /* NaN and Inf become null */
void json_whole(struct json *, const char *key, int64_t value);
void json_bool(struct json *, const char *key, int value);

/* Length of the UTF-8 sequence at s, 0 when it is none (overlong forms, surrogates and numbers past U+10FFFF are none). */
int json_utf8(const unsigned char *s);

#endif
