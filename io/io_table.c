/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables: the header line, embeddings in and out. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>

#include "io_internal.h"

/* Headers that a column of cell names has, letters and digits only: "Cell ID", "cell_id" and "CellID" are one. */
static int is_usual(const char *header)
{
    static const char *const usual[] = {"",          "cell",        "cells",    "cellid",   "cellids", "cellname",
                                        "cellnames", "cellbarcode", "barcode",  "barcodes", "index",   "obsnames",
                                        "rowname",   "rownames",    "unnamed0", "obsid"};
    char plain[24] = "";
    size_t used = 0;
    for (const char *at = header; *at; at++) {
        int letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || (*at & 0x80);
        if (letter && used + 1 < sizeof plain)
            plain[used++] = *at;
    }
    plain[used] = 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcasecmp(plain, usual[i]) == 0)
            return 1;
    return 0;
}

static int keep_header(struct io_table *table, struct io_builder *names, int skip)
{
    const struct io_lines *lines = &table->lines;
    /* R leaves the header of the row names out: one field less than in the data. */
    if (skip && io_builder_add(names, "", 0))
        return -1;
    for (int64_t i = 0; i < lines->n_fields; i++)
        if (io_builder_add(names, lines->field[i].text, lines->field[i].length))
            return -1;
    return 0;
}

/* The header's fields as the buffer has them do not outlive the next record. */
static int read_head(struct io_table *table)
{
    struct io_lines *lines = &table->lines;
    struct io_builder short_names = {0}, long_names = {0};
    double number;
    int found = io_lines_next(lines);
    int64_t n_header = lines->n_fields;
    char other = lines->separator == ',' ? '\t' : ',';
    if (found == 0)
        return io_fail("%s: is empty, a table with a header line is needed", lines->path);
    if (found > 0 && n_header == 1 && lines->field[0].length == 0)
        return io_fail("%s: begins with a blank line, a header line is needed", lines->path);
    if (found > 0 && n_header == 1 && memchr(lines->field[0].text, other, lines->field[0].length))
        return io_fail(
            "%s: the header line has no %s but a %s: rename the file by what separates its columns (.tsv: tab, .csv: comma)",
            lines->path, other == ',' ? "tab" : "comma", other == ',' ? "comma" : "tab");
    int err = found < 0 || keep_header(table, &short_names, 0) || keep_header(table, &long_names, 1) ? -1 : 0;
    if (!err)
        found = io_lines_next(lines);
    if (!err && found == 0)
        err = io_fail("%s: has a header line and no data", lines->path);
    if (!err && found > 0) {
        lines->again = 1;
        err = io_builder_finish(lines->n_fields == n_header + 1 ? &long_names : &short_names, &table->header);
        table->first_is_text =
            lines->field[0].length > 0 && io_parse_number(lines->field[0].text, lines->field[0].length, &number);
    }
    io_builder_close(&short_names);
    io_builder_close(&long_names);
    if (!err && found > 0)
        table->usual_names = is_usual(table->header.at[0]);
    return err || found < 0 ? -1 : 0;
}

int io_table_open(struct io_table *table, const char *path)
{
    memset(table, 0, sizeof *table);
    if (io_lines_open(&table->lines, path) == 0 && read_head(table) == 0)
        return 0;
    io_table_close(table);
    return -1;
}

int io_table_next(struct io_table *table)
{
    struct io_lines *lines = &table->lines;
    int found = io_lines_next(lines);
    if (found > 0 && lines->n_fields != table->header.count)
        return io_fail("%s: line %" PRId64 " has %" PRId64 " fields, the header has %" PRId64, lines->path, lines->line,
                       lines->n_fields, table->header.count);
    return found;
}

void io_table_close(struct io_table *table)
{
    io_lines_close(&table->lines);
    io_strings_close(&table->header);
    memset(table, 0, sizeof *table);
}

/* ---- an embedding
 * --------------------------------------------------------------------------------------------------------------- */

struct table_source {
    struct io_source source;
    char *path;
    int names; /* the first column is one of cell names */
};

static int parse_row(const struct io_table *table, int names, int64_t n_dims, float *dst)
{
    const struct io_lines *lines = &table->lines;
    for (int64_t j = 0; j < n_dims; j++) {
        const struct io_field *field = &lines->field[j + names];
        double value;
        if (io_parse_number(field->text, field->length, &value)) {
            int length = field->length > 40 ? 40 : (int)field->length;
            return io_fail("%s: line %" PRId64 ", column %" PRId64 " (\"%.40s\") holds %s%.*s%s, a number is needed", lines->path,
                           lines->line, j + names + 1, table->header.at[j + names], length ? "\"" : "", length ? length : 7,
                           length ? field->text : "nothing", length ? "\"" : "");
        }
        dst[j] = (float)value;
    }
    return 0;
}

static int keep_names(struct io_matrix *matrix, const struct io_table *table, int names, struct io_builder *cells)
{
    struct io_builder dims = {0};
    int err = io_builder_finish(cells, &matrix->cells);
    for (int64_t j = names; !err && j < table->header.count; j++)
        err = io_builder_add(&dims, table->header.at[j], strlen(table->header.at[j]));
    if (!err)
        err = io_builder_finish(&dims, &matrix->dims);
    if (!err && names)
        snprintf(matrix->cell_header, sizeof matrix->cell_header, "%s", table->header.at[0]);
    io_builder_close(&dims);
    return err;
}

static int table_read(struct io_matrix *matrix, float *dst)
{
    const struct table_source *source = matrix->state;
    struct io_table table;
    struct io_builder cells = {0};
    int64_t i = 0, n_dims = matrix->n_dims;
    int found = 1, err = io_table_open(&table, source->path);
    if (err)
        return err;
    if (table.header.count != n_dims + source->names)
        err = io_fail("%s: changed while it was read", source->path);
    for (; !err && (found = io_table_next(&table)) > 0; i++) {
        if (i == matrix->n_cells)
            break;
        err = parse_row(&table, source->names, n_dims, dst + i * n_dims);
        if (!err && source->names && !matrix->skip_names)
            err = io_builder_add(&cells, table.lines.field[0].text, table.lines.field[0].length);
    }
    if (!err && found < 0)
        err = -1;
    if (!err && (i != matrix->n_cells || found != 0))
        err = io_fail("%s: changed while it was read", source->path);
    if (!err && !matrix->skip_names)
        err = keep_names(matrix, &table, source->names, &cells);
    io_builder_close(&cells);
    io_table_close(&table);
    return err;
}

static void table_source_close(struct io_source *source)
{
    free(((struct table_source *)source)->path);
    free(source);
}

int io_table_matrix_open(struct io_matrix *matrix, const char *path)
{
    struct io_table table;
    int64_t n_cells = 0, name_bytes = 0;
    int found, names, err = io_table_open(&table, path);
    if (err)
        return err;
    names = table.usual_names || table.first_is_text;
    while ((found = io_table_next(&table)) > 0) {
        n_cells++;
        if (names)
            name_bytes += (int64_t)table.lines.field[0].length + 1 + (int64_t)sizeof(char *);
    }
    int64_t n_dims = table.header.count - names;
    if (found < 0)
        err = -1;
    else if (n_dims < 1)
        err = io_fail("%s: has a column of cell names (\"%.40s\") and no other", path, table.header.at[0]);
    else
        err = io_check_sizes(path, "the table", n_cells, n_dims);
    struct table_source *source = err ? NULL : calloc(1, sizeof *source);
    if (!err && !source)
        err = io_fail_memory(path, "its description", (int64_t)sizeof *source);
    if (!err) {
        *source = (struct table_source){{table_read, table_source_close}, io_copy_text(path), names};
        if (!source->path) {
            free(source);
            err = -1;
        }
    }
    if (!err) {
        matrix->n_cells = n_cells;
        matrix->n_dims = n_dims;
        matrix->source_bytes = io_sum((int64_t)table.lines.room + IO_PIECE, io_product(2, name_bytes));
        matrix->state = source;
    }
    io_table_close(&table);
    return err;
}

/* ---- writing
 * -------------------------------------------------------------------------------------------------------------------- */

/* Where text goes: the target itself, or zlib on a second descriptor of it. */
struct sink {
    struct io_target *out;
    gzFile gz;
};

static int put(const struct sink *sink, const char *text, size_t length)
{
    if (!sink->gz)
        return io_target_write(sink->out, text, length);
    if (length == 0 || gzwrite(sink->gz, text, (unsigned)length) == (int)length)
        return 0;
    int number;
    const char *reason = gzerror(sink->gz, &number);
    return io_fail("%s: writing failed: %s", sink->out->name, number == Z_ERRNO ? strerror(errno) : reason);
}

static int put_quoted(const struct sink *sink, const char *text, char separator)
{
    char special[] = {separator, '"', '\n', '\r', 0};
    if (!strpbrk(text, special))
        return put(sink, text, strlen(text));
    int err = put(sink, "\"", 1);
    for (const char *at = text; !err && *at; at++)
        err = put(sink, *at == '"' ? "\"\"" : at, *at == '"' ? 2 : 1);
    return err ? err : put(sink, "\"", 1);
}

static int put_header(const struct sink *sink, const struct io_output *output, char separator, int names)
{
    char plain[32];
    int err = names ? put_quoted(sink, output->cell_header ? output->cell_header : "cell", separator) : 0;
    for (int64_t j = 0; !err && j < output->n_dims; j++) {
        if (j > 0 || names)
            err = put(sink, &separator, 1);
        snprintf(plain, sizeof plain, "PC%" PRId64, j + 1);
        if (!err)
            err =
                put_quoted(sink, output->dims && output->dims->count == output->n_dims ? output->dims->at[j] : plain, separator);
    }
    return err ? err : put(sink, "\n", 1);
}

static int put_rows(const struct sink *sink, const struct io_output *output, char separator, int names)
{
    char *row = io_room(io_sum(output->n_dims, 1), IO_FLOAT_TEXT);
    int err = row ? 0 : io_fail_memory(output->target, "a line", io_product(output->n_dims, IO_FLOAT_TEXT));
    for (int64_t i = 0; !err && i < output->n_cells; i++) {
        const float *value = output->values + i * output->n_dims;
        size_t used = 0;
        if (names)
            err = put_quoted(sink, output->cells->at[i], separator);
        for (int64_t j = 0; j < output->n_dims; j++) {
            if (j > 0 || names)
                row[used++] = separator;
            used += io_format_float(row + used, value[j]);
        }
        row[used++] = '\n';
        if (!err)
            err = put(sink, row, used);
    }
    free(row);
    return err;
}

int io_table_write(const struct io_output *output)
{
    struct io_target out;
    struct sink sink = {&out, NULL};
    size_t length = strlen(output->target);
    int zipped = length > 3 && strcasecmp(output->target + length - 3, ".gz") == 0;
    int names = output->cells && output->cells->count == output->n_cells;
    char separator = io_table_separator(output->target);
    int err = io_target_begin(&out, output->target, output->overwrite);
    if (err)
        return err;
    if (zipped) {
        int fd = dup(out.fd);
        sink.gz = fd >= 0 ? gzdopen(fd, "wb4") : NULL; /* level 4: a third of the time of 6 for 3 % more bytes */
        if (!sink.gz && fd >= 0)
            close(fd);
        if (!sink.gz)
            err = io_fail("%s: zlib cannot be set up: %s", output->target, strerror(errno));
    }
    if (!err)
        err = put_header(&sink, output, separator, names);
    if (!err)
        err = put_rows(&sink, output, separator, names);
    if (sink.gz && gzclose(sink.gz) != Z_OK && !err)
        err = io_fail("%s: writing failed: %s", output->target, strerror(errno));
    if (!err)
        return io_target_commit(&out);
    io_target_abandon(&out);
    return err;
}
