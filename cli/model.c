/* SPDX-License-Identifier: BSD-3-Clause */
/* --model: the arrays that a result was made of, into one .npz, or into a folder as .npy with the levels' names beside them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "integrate.h"

static const struct part {
    enum uni_array what;
    char kind; /* as io_npy_write has it */
    int axes;
    const char *name;
} parts[] = {
    {UNI_ASSIGNMENTS, 'f', 2, "R"}, {UNI_CENTROIDS, 'f', 2, "Y"},   {UNI_START, 'f', 2, "Y_start"}, {UNI_OBSERVED, 'd', 2, "O"},
    {UNI_EXPECTED, 'd', 2, "E"},    {UNI_LAMBDA, 'd', 2, "lambda"}, {UNI_CORRECTION, 'f', 3, "W"},  {UNI_THETA, 'd', 1, "theta"},
    {UNI_SIGMA, 'd', 1, "sigma"},   {UNI_SLOPES, 'f', 3, "slopes"}, /* the last: only where there are covariates */
};
enum { N_PARTS = sizeof parts / sizeof parts[0], PATH_LONG = 4300 };

static int n_parts(const struct integrate_options *o)
{
    return o->n_regress ? N_PARTS : N_PARTS - 1;
}

static const char levels_name[] = "levels.tsv";

static int is_npz(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".npz");
}

int64_t model_bytes(const struct uni_plan *p)
{
    int64_t assignments = io_product(p->n_cells, io_product(p->n_clusters, sizeof(float)));
    int64_t correction = io_product(io_product(p->n_levels, p->n_clusters), io_product(p->n_dims, sizeof(float)));
    return assignments > correction ? assignments : correction;
}

/* FOLDER/NAMEending, one slash between. */
static const char *inside(char path[PATH_LONG], const char *folder, const char *name, const char *ending)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    snprintf(path, PATH_LONG, "%.*s/%s%s", (int)n, folder, name, ending);
    return path;
}

int model_check(const struct integrate_options *o)
{
    char path[PATH_LONG];
    int folder = is_folder(o->model);
    if (!folder && !is_npz(o->model))
        return say_usage("--model %s: name a file that ends in .npz, or a folder (one that exists, or a name that ends in /)",
                         o->model);
    int status = target_check(o->model, "--model", o->overwrite, folder);
    if (!folder || o->overwrite || access(o->model, F_OK))
        return status;
    for (int i = 0; i < n_parts(o) && status == EXIT_DONE; i++)
        status = target_check(inside(path, o->model, parts[i].name, ".npy"), "--model", 0, 0);
    return status;
}

struct store {
    const char *folder;  /* or NULL */
    struct io_npz *file; /* or NULL */
};

static int store_array(struct store *s, const struct part *part, const void *values, const int64_t *shape)
{
    char path[PATH_LONG];
    int bad = s->file ? io_npz_add(s->file, part->name, values, part->kind, part->axes, shape)
                      : io_npy_write(inside(path, s->folder, part->name, ".npy"), values, part->kind, part->axes, shape);
    return bad ? say_failed("%s", io_error()) : EXIT_DONE;
}

static int store_all(struct store *s, const struct integrate *job)
{
    for (int i = 0; i < n_parts(&job->options); i++) {
        const struct part *part = &parts[i];
        int64_t shape[3];
        if (uni_shape(job->run, part->what, shape))
            return say_failed("%s", uni_last_error());
        int64_t count = io_product(io_product(shape[0], shape[1]), shape[2]);
        void *values = io_room(count, part->kind == 'd' ? sizeof(double) : sizeof(float));
        if (!values)
            return say_failed("--model: no memory for %s", part->name);
        int status =
            uni_read(job->run, part->what, values) ? say_failed("%s", uni_last_error()) : store_array(s, part, values, shape);
        free(values);
        if (status != EXIT_DONE)
            return status;
    }
    return EXIT_DONE;
}

/* A name as a field of a table: a tab or line break in it becomes a space. */
static void put_field(FILE *out, const char *name, char after)
{
    for (; *name; name++)
        fputc(*name == '\t' || *name == '\n' || *name == '\r' ? ' ' : *name, out);
    fputc(after, out);
}

static void put_levels(FILE *out, const struct io_labels *l, int missing_is_level)
{
    for (int64_t i = 0; i < l->n_levels + (l->n_missing > 0 && missing_is_level); i++) {
        put_field(out, l->name, '\t');
        put_field(out, i == l->n_levels ? "(missing)" : i < l->names.count ? l->names.at[i] : "", '\n');
    }
}

/* The rows of O, E, lambda, theta and W in words: variable, level. */
static int store_levels(const struct integrate *job)
{
    const struct integrate_options *o = &job->options;
    char *text = NULL, path[PATH_LONG];
    size_t size = 0;
    int status = EXIT_DONE, joint = o->method.combine && o->n_batches > 1;
    struct io_labels labels;
    FILE *out = open_memstream(&text, &size);
    if (!out || (joint && columns_joint(&labels, job))) {
        if (out)
            fclose(out);
        free(text);
        return say_failed("--model: no memory for %s", levels_name);
    }
    fputs("variable\tlevel\n", out);
    for (int v = 0; v < o->n_batches && !joint; v++)
        put_levels(out, &job->labels[v], o->method.missing == UNI_MISSING_LEVEL);
    if (joint) {
        put_levels(out, &labels, 0);
        io_labels_close(&labels);
    }
    if (fclose(out))
        status = say_failed("--model: no memory for %s", levels_name);
    else if (io_text_write(inside(path, o->model, levels_name, ""), text))
        status = say_failed("%s", io_error());
    free(text);
    return status;
}

static int write_folder(const struct integrate *job, const char *folder)
{
    struct store s = {folder, NULL};
    int made = !mkdir(folder, 0777);
    if (!made && errno != EEXIST)
        return say_failed("--model: cannot make the folder %s: %s", folder, strerror(errno));
    int status = store_all(&s, job);
    if (status == EXIT_DONE)
        status = store_levels(job);
    if (status != EXIT_DONE && made)
        rmdir(folder); /* which leaves it where a file in it is whole */
    return status;
}

int model_write(const struct integrate *job)
{
    const char *target = job->options.model;
    struct store s = {NULL, NULL};
    if (job->summary->n_rounds == 0) {
        if (job->options.level >= 0)
            say_warning("--model: %s, so there is no model to write", job->summary->reason_text);
        return EXIT_DONE;
    }
    if (is_folder(target))
        return write_folder(job, target);
    if (io_npz_begin(&s.file, target))
        return say_failed("%s", io_error());
    int status = store_all(&s, job);
    if (status != EXIT_DONE)
        io_npz_abandon(&s.file);
    else if (io_npz_end(&s.file))
        status = say_failed("%s", io_error());
    return status;
}
