/* SPDX-License-Identifier: BSD-3-Clause */
/* Text files, plain or gzip, as records of fields. Quotes as RFC 4180 has them, in .tsv too, because R writes them there. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <zlib.h>

#include "io_internal.h"

enum { LONGEST_RECORD = 1 << 28 }; /* a file that is no table must not be read into memory whole */

char io_table_separator(const char *path)
{
    size_t length = strlen(path);
    if (length > 3 && strcasecmp(path + length - 3, ".gz") == 0)
        length -= 3;
    return length >= 4 && strncasecmp(path + length - 4, ".csv", 4) == 0 ? ',' : '\t';
}

int io_lines_open(struct io_lines *lines, const char *path)
{
    struct stat info;
    memset(lines, 0, sizeof *lines);
    lines->path = path;
    lines->separator = io_table_separator(path);
    lines->next_line = 1;
    if (stat(path, &info))
        return io_fail("%s: cannot be opened: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return io_fail("%s: is a folder, a table is needed", path);
    lines->file = gzopen(path, "rbe");
    if (!lines->file)
        return io_fail("%s: cannot be opened: %s", path, strerror(errno ? errno : ENOMEM));
    gzbuffer(lines->file, IO_PIECE / 4);
    return 0;
}

void io_lines_close(struct io_lines *lines)
{
    if (lines->file)
        gzclose(lines->file);
    free(lines->buffer);
    free(lines->field);
    memset(lines, 0, sizeof *lines);
}

/* Reads more text behind end; begin becomes 0. Sets at_end when there is none. */
static int refill(struct io_lines *lines)
{
    size_t left = lines->end - lines->begin;
    if (lines->begin > 0)
        memmove(lines->buffer, lines->buffer + lines->begin, left);
    lines->begin = 0;
    lines->end = left;
    if (lines->room - left < IO_PIECE / 2) {
        size_t room = lines->room ? lines->room * 2 : IO_PIECE;
        if (left > LONGEST_RECORD)
            return io_fail("%s: line %" PRId64 " is longer than %d bytes: is this a table, and are all quotes closed?",
                           lines->path, lines->next_line, LONGEST_RECORD);
        char *buffer = realloc(lines->buffer, room);
        if (!buffer)
            return io_fail_memory(lines->path, "a line", (int64_t)room);
        lines->buffer = buffer;
        lines->room = room;
    }
    int count = gzread(lines->file, lines->buffer + left, (unsigned)(lines->room - left)), number = 0;
    if (count > 0 && memchr(lines->buffer + left, 0, (size_t)count))
        return io_fail("%s: holds zero bytes, so it is no table of text (is it UTF-16? UTF-8 is needed)", lines->path);
    const char *reason = gzerror(lines->file, &number);
    /* zlib tells of a truncated file by Z_BUF_ERROR, and only at its end. */
    if (count < 0 || (number != Z_OK && number != Z_STREAM_END))
        return io_fail("%s: cannot be decompressed, it is %s (%s)", lines->path, number == Z_BUF_ERROR ? "truncated" : "damaged",
                       number == Z_ERRNO ? strerror(errno) : reason);
    lines->at_end = count == 0;
    lines->end += (size_t)count;
    return 0;
}

/* Length of the record at begin without its line end, when a quote is in it; -1 when the text ends before the record does.
   newlines: how many of them lie inside quotes. */
static int64_t quoted_record(const struct io_lines *lines, int64_t *newlines)
{
    enum { START, PLAIN, INSIDE, CLOSED } state = START; /* CLOSED: behind a quote that may yet turn out to be half of "" */
    *newlines = 0;
    for (size_t i = lines->begin; i < lines->end; i++) {
        char c = lines->buffer[i];
        if (state == INSIDE) {
            *newlines += c == '\n';
            state = c == '"' ? CLOSED : INSIDE;
        } else if (c == '\n') {
            return (int64_t)(i - lines->begin);
        } else if (c == '"' && state != PLAIN) {
            state = INSIDE;
        } else {
            state = c == lines->separator ? START : PLAIN;
        }
    }
    return lines->at_end && state != INSIDE ? (int64_t)(lines->end - lines->begin) : -1;
}

/* Finds the record at begin, reading on as needed. Returns 1, 0 at the end of the file, or -1. */
static int find_record(struct io_lines *lines, size_t *length, int64_t *newlines)
{
    size_t seen = 0;
    if (!lines->buffer && refill(lines))
        return -1;
    for (;;) {
        char *start = lines->buffer + lines->begin;
        size_t left = lines->end - lines->begin;
        char *newline = left > seen ? memchr(start + seen, '\n', left - seen) : NULL;
        if (newline || (lines->at_end && left > 0)) {
            *length = newline ? (size_t)(newline - start) : left;
            *newlines = 0;
            if (!memchr(start, '"', *length))
                return 1;
            int64_t whole = quoted_record(lines, newlines);
            if (whole >= 0) {
                *length = (size_t)whole;
                return 1;
            }
            if (lines->at_end)
                return io_fail("%s: a quote opened in line %" PRId64 " is never closed", lines->path, lines->next_line);
            /* more text is needed; the quotes are then looked at from the start again */
        } else if (lines->at_end) {
            return 0;
        } else {
            seen = left;
        }
        if (refill(lines))
            return -1;
    }
}

/* Takes the quotes off a field in place; at is its opening quote. Returns what follows the closing one, NULL when that is more
 * text. */
static char *unquote(char *at, char *end, char separator, struct io_field *field)
{
    char *to = at + 1;
    field->text = to;
    for (at++; at < end; at++) {
        if (*at == '"') {
            if (at + 1 < end && at[1] == '"')
                at++;
            else
                break;
        }
        *to++ = *at;
    }
    field->length = (size_t)(to - field->text);
    at++;
    return at >= end ? end : *at == separator ? at : NULL;
}

static int split(struct io_lines *lines, char *at, char *end)
{
    lines->n_fields = 0;
    for (;;) {
        if (lines->n_fields == lines->field_room) {
            int64_t room = lines->field_room ? lines->field_room * 2 : 64;
            struct io_field *field = io_room_grown(lines->field, room, sizeof *field);
            if (!field)
                return io_fail_memory(lines->path, "a line's fields", room * (int64_t)sizeof *field);
            lines->field = field;
            lines->field_room = room;
        }
        struct io_field *field = &lines->field[lines->n_fields++];
        char *next;
        if (at < end && *at == '"') {
            next = unquote(at, end, lines->separator, field);
            if (!next)
                return io_fail("%s: line %" PRId64 ", column %" PRId64 ": text behind a closing quote", lines->path, lines->line,
                               lines->n_fields);
        } else {
            next = memchr(at, lines->separator, (size_t)(end - at));
            next = next ? next : end;
            *field = (struct io_field){at, (size_t)(next - at)};
        }
        if (next == end)
            return 0;
        at = next + 1;
    }
}

/* Hands out a blank line as one empty field. */
static int blank(struct io_lines *lines)
{
    static char nothing[1];
    lines->blanks--;
    lines->line++;
    lines->n_fields = 0;
    int err = split(lines, nothing, nothing);
    return err ? -1 : 1;
}

int io_lines_next(struct io_lines *lines)
{
    size_t length;
    int64_t newlines;
    if (lines->again) {
        lines->again = 0;
        return 1;
    }
    for (;;) {
        int found = find_record(lines, &length, &newlines);
        if (found <= 0)
            return found;
        char *start = lines->buffer + lines->begin, *end = start + length;
        if (lines->next_line == 1 && length >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0) {
            lines->begin += 3; /* the mark that Windows programs put before UTF-8 */
            continue;
        }
        if (end > start && end[-1] == '\r')
            end--;
        if (end > start && lines->blanks > 0)
            return blank(lines); /* the record found stays for the calls to come */
        int line_end = lines->begin + length < lines->end;
        if (end == start)
            lines->blanks++;
        else
            lines->line = lines->next_line;
        lines->begin += length + (size_t)line_end;
        lines->next_line += 1 + newlines;
        if (end > start)
            return split(lines, start, end) ? -1 : 1;
    }
}
