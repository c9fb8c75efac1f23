/* SPDX-License-Identifier: BSD-3-Clause */
#include "recorded.h"
#include "data_npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef UNISONO_SHARED_DEFAULT
#define UNISONO_SHARED_DEFAULT "../shared/data"
#endif

const struct recorded_name recorded_names[RECORDED_RUNS] = {
    {"cell_lines", "block1"},
    {"cell_lines", "cutoff01"},
    {"cell_lines", "dynamic"},
    {"cell_lines", "fixed"},
    {"cell_lines", "iter20"},
    {"cell_lines", "k-large"},
    {"cell_lines", "k-small"},
    {"cell_lines", "one-sweep"},
    {"cell_lines", "sigma02"},
    {"cell_lines", "tau5"},
    {"cell_lines", "theta0"},
    {"cell_lines", "two-cov"},
    {"cell_lines", "two-cov-fixed"},
    {"cell_lines_small", "block1"},
    {"cell_lines_small", "cutoff01"},
    {"cell_lines_small", "dynamic"},
    {"cell_lines_small", "fixed"},
    {"cell_lines_small", "iter20"},
    {"cell_lines_small", "iter20-tight"},
    {"cell_lines_small", "k-large"},
    {"cell_lines_small", "k-small"},
    {"cell_lines_small", "k1"},
    {"cell_lines_small", "one-sweep"},
    {"cell_lines_small", "sigma02"},
    {"cell_lines_small", "tau5"},
    {"cell_lines_small", "theta0"},
    {"cell_lines_small", "two-cov"},
    {"cell_lines_small", "two-cov-fixed"},
    {"pbmc_stim", "block1"},
    {"pbmc_stim", "dynamic"},
    {"pbmc_stim", "fixed"},
    {"pbmc_stim", "iter20"},
    {"pbmc_stim", "k-large"},
    {"pbmc_stim", "k-small"},
    {"pbmc_stim", "sigma02"},
    {"pbmc_stim", "tau5"},
    {"pbmc_3500", "block1"},
    {"pbmc_3500", "dynamic"},
    {"pbmc_3500", "fixed"},
    {"pbmc_3500", "iter20"},
    {"pbmc_3500", "k-large"},
    {"pbmc_3500", "k-small"},
    {"pbmc_3500", "sigma02"},
    {"pbmc_3500", "tau5"},
};

static void broken(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(2);
}

int recorded_two_variables(const struct recorded_name *name)
{
    return strncmp(name->config, "two-cov", 7) == 0;
}

const char *recorded_path(const char *set, const char *folder, const char *file)
{
    static char path[1024];
    const char *root = getenv("UNISONO_SHARED");
    snprintf(path, sizeof path, "%s/%s%s%s%s%s", root ? root : UNISONO_SHARED_DEFAULT, set, *set ? "/" : "", folder,
             *folder ? "/" : "", file);
    return path;
}

int recorded_available(void)
{
    static int told;
    const char *path = recorded_path("", "", "README.md");
    FILE *file = fopen(path, "r");
    if (file)
        fclose(file);
    else if (!told++)
        printf("skipped: no reference data (%s)\n", path);
    return file != NULL;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        broken(path, "cannot be opened");
    size_t size = 0, used = 0;
    char *text = NULL;
    do {
        size += 1 << 16;
        text = realloc(text, size + 1);
        if (!text)
            broken(path, "out of memory");
        used += fread(text + used, 1, size - used, file);
    } while (used == size);
    text[used] = 0;
    fclose(file);
    return text;
}

/* What follows "key": in a JSON text; NULL when the key is missing. */
static const char *json_value(const char *text, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(text, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

/* A number or a list of them; true and false are 1 and 0, null is no number. Returns how many. */
static int json_numbers(const char *text, const char *key, double *out, int max)
{
    const char *at = json_value(text, key);
    int n = 0, list = at && *at == '[';
    for (at += list; at && n < max; n++) {
        char *end;
        at += strspn(at, " \n");
        if (strncmp(at, "null", 4) == 0 || *at == ']')
            break;
        if (strncmp(at, "true", 4) == 0 || strncmp(at, "false", 5) == 0)
            out[n] = *at == 't', at += *at == 't' ? 4 : 5;
        else
            out[n] = strtod(at, &end), at = end;
        if (!list || *at == ']')
            return n + 1;
        at++;
    }
    return n;
}

static double json_number(const char *text, const char *key, const char *path)
{
    double value;
    if (json_numbers(text, key, &value, 1) != 1)
        broken(path, key);
    return value;
}

/* "prefix=value" entries of the list of strings under key, in order, without the prefix; cut out of a copy of the text that is
   kept in *copy. */
static int json_levels(const char *text, const char *key, const char *prefix, char **copy, const char **out, int max)
{
    const char *from = json_value(text, key), *to = strchr(from, ']');
    int n = 0;
    *copy = strndup(from, (size_t)(to - from));
    for (char *at = strtok(*copy, "[]\", \n"); at && n < max; at = strtok(NULL, "[]\", \n"))
        if (strncmp(at, prefix, strlen(prefix)) == 0 && at[strlen(prefix)] == '=')
            out[n++] = at + strlen(prefix) + 1;
    return n;
}

/* Field number `column` of a line of tab-separated text, without line end, into out. */
static void field_of(const char *line, int column, char *out, size_t size)
{
    for (; column > 0; column--)
        line = strchr(line, '\t') + 1;
    size_t length = strcspn(line, "\t\r\n");
    snprintf(out, size, "%.*s", (int)(length < size ? length : size - 1), line);
}

static int column_of(const char *header, const char *column, const char *path)
{
    char name[128];
    int n_columns = 1;
    for (const char *at = header; *at != '\n'; at++)
        n_columns += *at == '\t';
    for (int c = 0; c < n_columns; c++) {
        field_of(header, c, name, sizeof name);
        if (strcmp(name, column) == 0)
            return c;
    }
    broken(path, "has no such column");
    return 0;
}

int32_t *recorded_labels(const char *path, const char *column, const char *const *names, int n_names, int64_t *n)
{
    char *text = read_text(path), *seen[64] = {0}, name[128];
    int c = column_of(text, column, path), n_seen = 0;
    int32_t *codes = NULL;
    *n = 0;
    for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1, ++*n) {
        field_of(line, c, name, sizeof name);
        int code = 0;
        while (code < (names ? n_names : n_seen) && strcmp(name, names ? names[code] : seen[code]) != 0)
            code++;
        if (names && code == n_names)
            broken(path, "label that params.json does not name");
        if (!names && code == n_seen)
            seen[n_seen++] = strdup(name);
        codes = realloc(codes, (size_t)(*n + 1) * sizeof *codes);
        codes[*n] = code;
        if (!strchr(line, '\n'))
            broken(path, "last line without end");
    }
    for (int i = 0; i < n_seen; i++)
        free(seen[i]);
    free(text);
    return codes;
}

double recorded_ilisi(const struct recorded_name *name)
{
    char *text = read_text(recorded_path("", "", "lisi.tsv")), set[64], config[64], value[64];
    double found = NAN;
    for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        field_of(line, 0, set, sizeof set);
        field_of(line, 1, config, sizeof config);
        field_of(line, 3, value, sizeof value);
        if (strcmp(set, name->set) == 0 && strcmp(config, name->config) == 0 && isnan(found))
            found = strtod(value, NULL);
    }
    free(text);
    return found;
}

static void *own(struct recorded *data, void *memory)
{
    if (data->n_owned == 32)
        broken("recorded.c", "more arrays than expected");
    return data->owned[data->n_owned++] = memory;
}

/* A file of the run's folder, or of the set's where folder is "": NULL when it is missing and may be. */
static struct npy load(struct recorded *data, const char *folder, const char *file, int needed)
{
    struct npy array;
    const char *path = recorded_path(data->name->set, folder, file);
    if (npy_read(&array, path) && needed)
        broken(path, "is missing");
    if (array.real)
        own(data, array.real);
    if (array.integer)
        own(data, array.integer);
    return array;
}

static void open_params(struct recorded *data, const char *folder)
{
    struct ref_problem *p = &data->problem;
    char path[1024];
    snprintf(path, sizeof path, "%s", recorded_path(data->name->set, folder, "params.json"));
    char *text = own(data, read_text(path));
    double count[REF_MAX_VARIABLES] = {0}, lambda[REF_MAX_VARIABLES] = {0};
    p->n_variables = json_numbers(text, "level_counts", count, REF_MAX_VARIABLES);
    if (json_numbers(text, "theta", p->theta, REF_MAX_VARIABLES) != p->n_variables)
        broken(path, "theta");
    if (strncmp(json_value(text, "lambda_mode"), "\"fixed\"", 7) == 0) {
        if (json_numbers(text, "lambda", lambda, REF_MAX_VARIABLES) != p->n_variables)
            broken(path, "lambda");
    } else
        p->alpha = json_number(text, "alpha", path);
    for (int v = 0; v < p->n_variables; v++) {
        p->n_levels[v] = (int64_t)count[v];
        p->lambda[v] = lambda[v];
        p->tau[v] = json_number(text, "tau", path);
        data->B += p->n_levels[v];
    }
    p->sigma = json_number(text, "sigma", path);
    p->cutoff = json_number(text, "batch_prop_cutoff", path);
    p->block_size = json_number(text, "block_size", path);
    p->sweeps = (int64_t)json_number(text, "max_iter_cluster", path);
    p->sweep_tol = json_number(text, "epsilon_cluster", path);
    p->max_rounds = (int64_t)json_number(text, "rounds", path);
    p->window = 3;
    p->tol = -1;
    p->add_penalties = 1;
}

static void open_levels(struct recorded *data, const char *folder)
{
    struct ref_problem *p = &data->problem;
    static const char *const columns[] = {"dataset", "cell_type", "stim", "donor"};
    char *text = own(data, read_text(recorded_path(data->name->set, folder, "params.json")));
    int v = 0;
    for (size_t c = 0; c < sizeof columns / sizeof *columns && v < p->n_variables; c++) {
        const char *names[64];
        char *copy;
        int n_names = json_levels(text, "levels", columns[c], &copy, names, 64);
        own(data, copy);
        if (n_names == 0)
            continue;
        int64_t n;
        p->level[v] = own(data, recorded_labels(recorded_path(data->name->set, "", "meta.tsv"), columns[c], names, n_names, &n));
        if (n != p->n || n_names != p->n_levels[v])
            broken(folder, "labels do not fit the cells");
        v++;
    }
    if (v != p->n_variables)
        broken(folder, "a variable without labels");
}

static void open_objective(struct recorded *data, const char *folder)
{
    char *text = read_text(recorded_path(data->name->set, folder, "objective.json"));
    int n = json_numbers(text, "objective_kmeans", data->total, RECORDED_MAX_OBJECTIVES);
    if (n == RECORDED_MAX_OBJECTIVES || json_numbers(text, "objective_kmeans_dist", data->distance, n) != n ||
        json_numbers(text, "objective_kmeans_entropy", data->entropy, n) != n ||
        json_numbers(text, "objective_kmeans_cross", data->cross, n) != n ||
        json_numbers(text, "kmeans_rounds", data->sweeps, RECORDED_ROUNDS) != RECORDED_ROUNDS ||
        json_numbers(text, "would_stop", data->would_stop, RECORDED_ROUNDS) != RECORDED_ROUNDS ||
        json_numbers(text, "pruned_pairs", data->pruned, RECORDED_ROUNDS) != RECORDED_ROUNDS ||
        json_numbers(text, "skipped_clusters", data->skipped, RECORDED_ROUNDS) != RECORDED_ROUNDS)
        broken(folder, "objective.json not understood");
    data->n_objectives = n;
    free(text);
}

void recorded_open(struct recorded *data, const struct recorded_name *name)
{
    char folder[128];
    struct ref_problem *p = &data->problem;
    memset(data, 0, sizeof *data);
    data->name = name;
    snprintf(folder, sizeof folder, "ref-%s", name->config);
    struct npy pcs = load(data, "", "pcs.npy", 1), start = load(data, folder, "y0.npy", 1),
               order = load(data, "", "order.npy", 1);
    p->Z = pcs.real, p->n = pcs.shape[0], p->d = pcs.shape[1];
    p->start = start.real, p->K = start.shape[0];
    p->order = order.integer, p->order_sweeps = order.shape[1];
    if (start.shape[1] != p->d || order.shape[0] != RECORDED_ROUNDS || order.shape[2] != p->n)
        broken(folder, "shapes do not fit");
    open_params(data, folder);
    open_levels(data, folder);
    open_objective(data, folder);
    data->o = load(data, folder, "o.npy", 1).real;
    data->e = load(data, folder, "e.npy", 1).real;
    data->y = load(data, folder, "y.npy", 1).real;
    data->Zcorr = load(data, folder, "zcorr.npy", 1).real;
    data->Zcorr_round1 = load(data, folder, "zcorr_round1.npy", 0).real;
    data->Zcorr_rounds = load(data, folder, "zcorr_rounds.npy", 0).real;
    data->R = load(data, folder, "r.npy", 0).real;
    data->R_init = load(data, folder, "r_init.npy", 0).real;
    data->R_round1 = load(data, folder, "r_round1.npy", 0).real;
    data->R_rounds = load(data, folder, "r_rounds.npy", 0).real;
}

void recorded_close(struct recorded *data)
{
    for (int i = 0; i < data->n_owned; i++)
        free(data->owned[i]);
    memset(data, 0, sizeof *data);
}
