/* SPDX-License-Identifier: BSD-3-Clause */
/* A label column of a table, put in the order of the embedding's cells. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io_internal.h"

enum { UNNAMED, NAMED, PERHAPS }; /* is the first column one of cell names? PERHAPS: only if its values are such names */

struct column {
    struct io_table table;
    int64_t field; /* of the column */
    struct io_encoder levels;
    int32_t *level;          /* (n_rows) in the table's order */
    struct io_encoder names; /* of the first column */
    int64_t n_rows, room;
    int first;        /* UNNAMED ... */
    int64_t repeated; /* first row whose name was there before, -1 */
    int in_order;     /* so far every row has the name of the cell in its place */
};

static int find_column(struct column *column, const char *name)
{
    const struct io_strings *header = &column->table.header;
    const char *path = column->table.lines.path;
    char nearest[1024];
    column->field = -1;
    for (int64_t i = 0; i < header->count; i++) {
        if (strcmp(header->at[i], name) != 0)
            continue;
        if (column->field >= 0)
            return io_fail("%s: has two columns \"%s\" (%" PRId64 " and %" PRId64 "), rename one", path, name, column->field + 1,
                           i + 1);
        column->field = i;
    }
    if (column->field >= 0)
        return 0;
    io_suggest(nearest, sizeof nearest, name, header);
    return io_fail("%s: has no column \"%s\"%s", path, name, nearest);
}

static int add_row(struct column *column, const struct io_field *label)
{
    if (column->n_rows == column->room) {
        int64_t room = column->room ? column->room * 2 : 4096;
        int32_t *level = io_room_grown(column->level, room, sizeof *level);
        if (!level)
            return io_fail_memory(column->table.lines.path, "labels", room * (int64_t)sizeof *level);
        column->level = level;
        column->room = room;
    }
    int32_t level = -1;
    if (label->length > 0 && (level = io_encoder_add(&column->levels, label->text, label->length)) < 0)
        return -1;
    column->level[column->n_rows++] = level;
    return 0;
}

static int names_cell(const struct io_field *name, const struct io_strings *cells, int64_t cell)
{
    return cell < cells->count && strlen(cells->at[cell]) == name->length &&
           memcmp(cells->at[cell], name->text, name->length) == 0;
}

static int read_rows(struct column *column, const struct io_strings *cells)
{
    const struct io_lines *lines = &column->table.lines;
    int found;
    while ((found = io_table_next(&column->table)) > 0) {
        int64_t row = column->n_rows;
        if (add_row(column, &lines->field[column->field]))
            return -1;
        if (column->first == UNNAMED)
            continue;
        int32_t name = io_encoder_add(&column->names, lines->field[0].text, lines->field[0].length);
        if (name < 0)
            return -1;
        if (name != row && column->repeated < 0)
            column->repeated = row;
        column->in_order &= names_cell(&lines->field[0], cells, row);
    }
    return found;
}

/* Decides PERHAPS: a column that names most of the cells is one of names, and what does not fit in it is then an error rather
   than a reason to take the rows as they come. */
static void decide(struct column *column, const struct io_strings *cells)
{
    int64_t known = 0;
    if (column->first != PERHAPS)
        return;
    for (int64_t i = 0; i < cells->count; i++)
        known += io_encoder_find(&column->names, cells->at[i], strlen(cells->at[i])) >= 0;
    column->first = known * 2 > cells->count ? NAMED : UNNAMED;
}

/* What one side has and the other has not; cell, row: the first of each, or -1. */
static int fail_foreign(const struct column *column, const struct io_strings *cells, int64_t cell, int64_t row)
{
    const char *path = column->table.lines.path;
    char foreign[300] = "", lacking[300] = "";
    if (row >= 0)
        snprintf(foreign, sizeof foreign, "names a cell \"%.200s\" (data row %" PRId64 ") that the embedding does not have",
                 io_encoder_text(&column->names, (int32_t)row), row + 1);
    if (cell >= 0)
        snprintf(lacking, sizeof lacking, "has no row for cell \"%.200s\" (cell %" PRId64 " of the embedding)", cells->at[cell],
                 cell + 1);
    return io_fail("%s: %s%s%s: the cell names of both sides must be the same", path, foreign,
                   row >= 0 && cell >= 0 ? " and " : "", lacking);
}

/* Puts the levels in the order of cells. */
static int align(struct column *column, const struct io_strings *cells)
{
    const char *path = column->table.lines.path;
    int64_t lacking = -1, foreign = -1;
    int32_t *level = io_room(cells->count, sizeof *level);
    char *used = io_room_zeroed(column->n_rows, 1);
    int err = level && used ? 0 : io_fail_memory(path, "labels", cells->count * (int64_t)sizeof *level);
    if (!err && column->repeated >= 0)
        err = io_fail("%s: the cell names in its first column are not unique (data row %" PRId64
                      " repeats one), so labels cannot be "
                      "aligned by name",
                      path, column->repeated + 1);
    for (int64_t i = 0; !err && i < cells->count; i++) {
        int32_t row = io_encoder_find(&column->names, cells->at[i], strlen(cells->at[i]));
        if (row < 0) {
            lacking = lacking < 0 ? i : lacking;
            continue;
        }
        if (used[row])
            err = io_fail("%s: the embedding has the cell name \"%.200s\" twice, so labels cannot be aligned by name", path,
                          cells->at[i]);
        used[row] = 1;
        level[i] = column->level[row];
    }
    for (int64_t row = 0; !err && row < column->n_rows && foreign < 0; row++)
        foreign = used[row] ? -1 : row;
    if (!err && (lacking >= 0 || foreign >= 0))
        err = fail_foreign(column, cells, lacking, foreign);
    free(used);
    if (err) {
        free(level);
        return err;
    }
    free(column->level);
    column->level = level;
    column->n_rows = cells->count;
    return 0;
}

int io_labels_table(struct io_labels *labels, const char *path, const char *name, const struct io_strings *cells, int force)
{
    struct column column = {.repeated = -1, .in_order = 1};
    memset(labels, 0, sizeof *labels);
    int err = io_table_open(&column.table, path);
    if (err)
        return err;
    if (cells && cells->count > 0)
        column.first = column.table.usual_names ? NAMED : PERHAPS;
    err = find_column(&column, name);
    if (!err)
        err = read_rows(&column, cells);
    if (!err)
        decide(&column, cells);
    /* Where both sides have the same names in the same order, names that repeat do no harm: nothing is looked up. */
    if (!err && column.first == NAMED && !(column.in_order && column.n_rows == cells->count))
        err = align(&column, cells);
    int32_t continuous = err || force ? -1 : io_encoder_continuous(&column.levels);
    if (continuous >= 0) {
        int64_t cell = 0;
        while (column.level[cell] != continuous)
            cell++;
        err = io_fail_continuous(path, name, io_encoder_text(&column.levels, continuous), cell);
    }
    if (!err)
        err = io_labels_finish(labels, name, &column.levels, &column.level, column.n_rows, 1);
    io_encoder_close(&column.levels);
    io_encoder_close(&column.names);
    free(column.level);
    io_table_close(&column.table);
    return err;
}
