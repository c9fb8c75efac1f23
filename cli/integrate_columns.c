/* SPDX-License-Identifier: BSD-3-Clause */
/* Columns: batch labels, numbers to regress out, weights, groups to integrate apart. */
#include <stdlib.h>
#include <string.h>

#include "integrate.h"

static int load_labels(struct io_labels *labels, const struct integrate_options *o, const char *column,
                       const struct io_strings *cells)
{
    io_labels_close(labels);
    int bad = o->meta ? io_labels_table(labels, o->meta, column, cells, o->method.force)
                      : io_labels_h5ad(labels, o->input, column, o->method.force);
    return bad ? say_failed("%s", io_error()) : EXIT_DONE;
}

static int load_numbers(double **value, int64_t *n_cells, const struct integrate_options *o, const char *column,
                        const struct io_strings *cells)
{
    free(*value);
    int bad =
        o->meta ? io_numbers_table(value, n_cells, o->meta, column, cells) : io_numbers_h5ad(value, n_cells, o->input, column);
    return bad ? say_failed("%s", io_error()) : EXIT_DONE;
}

static struct uni_batch batch_of(const struct io_labels *l)
{
    return (struct uni_batch){.name = l->name,
                              .n_cells = l->n_cells,
                              .n_levels = l->n_levels,
                              .level = l->level,
                              .level_names = l->names.count ? (const char *const *)l->names.at : NULL};
}

static int load_all(struct integrate *job, const struct io_strings *cells)
{
    const struct integrate_options *o = &job->options;
    struct uni_options *method = &job->options.method;
    int status = EXIT_DONE;
    for (int i = 0; i < o->n_batches && status == EXIT_DONE; i++) {
        status = load_labels(&job->labels[i], o, o->batch[i], cells);
        job->batches[i] = batch_of(&job->labels[i]);
    }
    for (int i = 0; i < o->n_regress && status == EXIT_DONE; i++) {
        struct uni_covariate *x = &job->covariates[i];
        status = load_numbers(&job->numbers[i], &x->n_cells, o, o->regress[i], cells);
        x->name = o->regress[i];
        x->value = job->numbers[i];
    }
    method->covariates = o->n_regress ? job->covariates : NULL;
    method->n_covariates = o->n_regress;
    if (o->weights && status == EXIT_DONE)
        status = load_numbers(&job->numbers[o->n_regress], &method->n_weights, o, o->weights, cells);
    method->weights = o->weights ? job->numbers[o->n_regress] : NULL;
    if (o->within && status == EXIT_DONE)
        status = load_labels(&job->within, o, o->within, cells);
    if (o->label && status == EXIT_DONE)
        status = load_labels(&job->types_read, o, o->label, cells);
    job->types = batch_of(&job->types_read);
    return status;
}

int columns_load(struct integrate *job, const struct io_strings *cells)
{
    double start = seconds_wall();
    int status = load_all(job, cells);
    job->seconds.labels += seconds_wall() - start;
    return status;
}

void columns_close(struct integrate *job)
{
    for (int i = 0; i < UNI_MAX_VARIABLES; i++)
        io_labels_close(&job->labels[i]);
    for (int i = 0; i <= UNI_MAX_VARIABLES; i++)
        free(job->numbers[i]);
    io_labels_close(&job->within);
    io_labels_close(&job->types_read);
}

/* ---- joint levels -------------------------------------------------------------------------------------------------------- */

struct pair {
    int64_t key, cell;
};

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->cell > y->cell) - (x->cell < y->cell);
}

/* Numbers the pairs of a cell's joint level so far and its level of one more variable, in the order of their first cells: joint
   (n) becomes these, -1 stays. first (distinct): those cells. Returns how many there are. */
static int64_t join(int32_t *joint, int64_t *first, struct pair *pairs, const struct io_labels *more, int missing_is_level)
{
    int64_t n = 0, distinct = 0, base = more->n_levels + 1;
    for (int64_t i = 0; i < more->n_cells; i++) {
        int64_t level = more->level[i] < 0 && missing_is_level ? more->n_levels : more->level[i];
        if (joint[i] >= 0 && level >= 0)
            pairs[n++] = (struct pair){joint[i] * base + level, i};
        else
            joint[i] = -1;
    }
    qsort(pairs, (size_t)n, sizeof *pairs, by_key);
    for (int64_t i = 0, at = 0; i < n; i++) { /* every cell's first of the same key */
        at = i == 0 || pairs[i].key != pairs[i - 1].key ? pairs[i].cell : at;
        first[pairs[i].cell] = at;
    }
    for (int64_t i = 0; i < more->n_cells; i++) {
        if (joint[i] < 0)
            continue;
        joint[i] = first[i] == i ? (int32_t)distinct++ : joint[first[i]];
    }
    return distinct;
}

/* The variables' names, or where cell is not -1 those of its levels. */
static void put_names(FILE *out, const struct integrate *job, int64_t cell)
{
    for (int v = 0; v < job->options.n_batches; v++) {
        const struct io_labels *l = &job->labels[v];
        int32_t level = cell < 0 ? 0 : l->level[cell];
        fprintf(out, "%s%s", v ? " | " : "", cell < 0 ? l->name : level < 0 ? "(missing)" : l->names.at[level]);
    }
    fputc(0, out);
}

static int name_levels(struct io_labels *joint, const struct integrate *job)
{
    char *text = NULL;
    size_t size = 0;
    int64_t named = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return -1;
    put_names(out, job, -1);
    for (int64_t i = 0; i < joint->n_cells; i++)
        if (joint->level[i] == named)
            put_names(out, job, i), named++;
    if (fclose(out)) {
        free(text);
        return -1;
    }
    joint->names.bytes = text;
    joint->name = strdup(text);
    joint->names.at = io_room_zeroed(named + 1, sizeof *joint->names.at);
    if (!joint->name || !joint->names.at)
        return -1;
    for (text += strlen(text) + 1; joint->names.count < named; text += strlen(text) + 1)
        joint->names.at[joint->names.count++] = text;
    return 0;
}

int columns_joint(struct io_labels *joint, const struct integrate *job)
{
    int64_t n = job->labels[0].n_cells;
    memset(joint, 0, sizeof *joint);
    struct pair *pairs = io_room(n, sizeof *pairs);
    int64_t *first = io_room(n, sizeof *first);
    joint->level = io_room_zeroed(n, sizeof *joint->level);
    joint->n_cells = n;
    int bad = !pairs || !first || !joint->level;
    for (int v = 0; v < job->options.n_batches && !bad; v++)
        joint->n_levels = join(joint->level, first, pairs, &job->labels[v], job->options.method.missing == UNI_MISSING_LEVEL);
    for (int64_t i = 0; i < n && !bad; i++)
        joint->n_missing += joint->level[i] < 0;
    free(pairs);
    free(first);
    if (bad || name_levels(joint, job)) {
        io_labels_close(joint);
        return -1;
    }
    return 0;
}
