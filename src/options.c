/* SPDX-License-Identifier: BSD-3-Clause */
/* The option table: name, kind, default, range and help line of every option. Nothing else in the project repeats them. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "method.h"
#include "surroundings.h"

struct row {
    struct uni_option public;
    size_t offset;
    double low, high; /* allowed values; open: low itself is not */
    int open;
};

#define AT(field) offsetof(struct uni_options, field)
#define INT UNI_KIND_INT
#define REAL UNI_KIND_REAL
#define VALUES UNI_KIND_VALUES
#define CHOICE UNI_KIND_CHOICE
#define FLAG UNI_KIND_FLAG

static const struct row table[] = {
    {{"clusters", INT, "auto", NULL, "auto, or 1 to 100000", "number of clusters; auto: cells / 30, at least 1, at most 100"},
     AT(n_clusters),
     1,
     100000,
     0},
    {{"sigma", REAL, "0.1", NULL, "> 0, at most 1e6", "softness of the clustering; smaller is harder"}, AT(sigma), 0, 1e6, 1},
    {{"theta", VALUES, "2", NULL, ">= 0, at most 1000", "strength of the mixing, one value or one per batch variable; 0: none"},
     AT(theta),
     0,
     1000,
     0},
    {{"tau", VALUES, "0", NULL, ">= 0, at most 1e9", "spares levels of fewer than about tau cells a cluster; 0: off"},
     AT(tau),
     0,
     1e9,
     0},
    {{"lambda", VALUES, "auto", NULL, "auto, or > 0, at most 1e12",
      "ridge penalty, larger corrects less; auto: alpha times the expected cells"},
     AT(lambda),
     0,
     1e12,
     1},
    {{"alpha", REAL, "0.2", NULL, "> 0, at most 1e6", "of the automatic lambda"}, AT(alpha), 0, 1e6, 1},
    {{"cutoff", REAL, "1e-05", NULL, "0 to 1", "a batch with at most this share of its cells in a cluster is left alone there"},
     AT(cutoff),
     0,
     1,
     0},
    {{"max-rounds", INT, "10", NULL, "0 to 100000", "rounds of clustering and correction, at most"},
     AT(max_rounds),
     0,
     100000,
     0},
    {{"sweeps", INT, "4", NULL, "1 to 10000", "sweeps over the cells in a round, at most"}, AT(sweeps), 1, 10000, 0},
    {{"window", INT, "3", NULL, "1 to 1000", "sweeps averaged before sweep-tol is consulted"}, AT(window), 1, 1000, 0},
    {{"stop", CHOICE, "change", "change|objective", "change or objective",
      "what must settle for the run to stop: the correction or the objective"},
     AT(stop),
     0,
     0,
     0},
    {{"tol", REAL, "auto", NULL, "auto, or a number; negative never stops early",
      "relative change that counts as settled; auto: 0.03 for change, 0.01 for objective"},
     AT(tol),
     -HUGE_VAL,
     HUGE_VAL,
     0},
    {{"sweep-tol", REAL, "0.001", NULL, "a number; negative never stops early",
      "relative change of the objective that ends a round's sweeps"},
     AT(sweep_tol),
     -HUGE_VAL,
     HUGE_VAL,
     0},
    {{"block-size", REAL, "0.05", NULL, "0.001 to 1", "share of the cells that is updated at once in a sweep"},
     AT(block_size),
     0.001,
     1,
     0},
    {{"update", CHOICE, "blocks", "blocks|jacobi", "blocks or jacobi", "how a sweep updates the cells"}, AT(update), 0, 0, 0},
    {{"flavor", CHOICE, "harmony2", "harmony2|harmony1", "harmony2 or harmony1",
      "harmony1: the method of 2019, with its penalty and defaults"},
     AT(flavor),
     0,
     0,
     0},
    {{"compat", CHOICE, "none", "none|r-2.0.4", "none or r-2.0.4", "r-2.0.4: as the R package where it differs; slower"},
     AT(compat),
     0,
     0,
     0},
    {{"combine", FLAG, "no", NULL, "yes or no", "several batch variables as one, of the joint levels that occur"},
     AT(combine),
     0,
     1,
     0},
    {{"overcorrect", REAL, "1", NULL, "1 to 1.9", "factor of the correction between the first three rounds, never of the result"},
     AT(overcorrect),
     1,
     1.9,
     0},
    {{"seed", INT, "0", NULL, "0 to 2^53", "of the starting centroids and the blocks"}, AT(seed), 0, 9007199254740992.0, 0},
    {{"missing", CHOICE, "error", "error|skip|level", "error, skip or level",
      "cells without a label: refuse, leave uncorrected, or take as a level of their own"},
     AT(missing),
     0,
     0,
     0},
    {{"force", FLAG, "no", NULL, "yes or no", "accept labels that look like a mistake, such as a level for every cell"},
     AT(force),
     0,
     1,
     0},
    {{"precision", CHOICE, "half", "half|single", "half or single",
      "of the stored base assignments; single takes twice the memory"},
     AT(precision),
     0,
     0,
     0},
    {{"terms", FLAG, "no", NULL, "yes or no", "split the objective into distance and entropy"}, AT(terms), 0, 1, 0},
    {{"backend", CHOICE, "auto", "auto|cpu|cuda", "auto, cpu or cuda", "what computes"}, AT(backend), 0, 0, 0},
    {{"device", INT, "0", NULL, "0 to 1023", "of several cards the one that backend cuda uses; `unisono backends` lists them, from 0"},
     AT(device),
     0,
     1023,
     0},
    {{"threads", INT, "auto", NULL, "auto, or 1 to 4096", "auto: the CPUs that this process may use"}, AT(threads), 1, 4096, 0},
};
enum { ROWS = sizeof table / sizeof *table };

static int auto_allowed(const struct row *row)
{
    return strncmp(row->public.range, "auto,", 5) == 0 && row->public.kind != UNI_KIND_CHOICE;
}

static void *field(const struct uni_options *options, const struct row *row)
{
    return (char *)(uintptr_t)options + row->offset;
}

const struct uni_option *uni_option_at(int i)
{
    return i >= 0 && i < ROWS ? &table[i].public : NULL;
}

static int number(const char *text, char **end, double *value)
{
    *value = strtod(text, end);
    return *end != text && !isnan(*value);
}

static int refuse(const struct row *row, const char *text)
{
    return uni_fail(UNI_OPTION, "%s is \"%s\"; it must be %s", row->public.name, text, row->public.range);
}

static int in_range(const struct row *row, double value)
{
    return value <= row->high && (row->open ? value > row->low : value >= row->low) && (isfinite(value) || row->low == -HUGE_VAL);
}

static int set_values(struct uni_values *values, const struct row *row, const char *text)
{
    struct uni_values read = {0};
    const char *at = text;
    if (!(auto_allowed(row) && strcmp(text, "auto") == 0)) {
        for (;; at++) {
            char *end;
            double value;
            if (read.n == UNI_MAX_VARIABLES)
                return uni_fail(UNI_OPTION, "%s is \"%s\": more than %d values; give one, or one per batch variable",
                                row->public.name, text, UNI_MAX_VARIABLES);
            if (!number(at, &end, &value) || !in_range(row, value) || (*end && *end != ','))
                return refuse(row, text);
            read.value[read.n++] = value;
            at = end;
            if (!*at)
                break;
        }
    }
    *values = read;
    return UNI_OK;
}

static int set_choice(int *choice, const struct row *row, const char *text)
{
    size_t length = strlen(text);
    int i = 0;
    for (const char *at = row->public.choices; *at; i++) {
        size_t word = strcspn(at, "|");
        if (word == length && memcmp(at, text, word) == 0) {
            *choice = i;
            return UNI_OK;
        }
        at += word + (at[word] == '|');
    }
    return refuse(row, text);
}

static int set_flag(int *flag, const struct row *row, const char *text)
{
    static const char *const yes[] = {"yes", "true", "1"}, *const no[] = {"no", "false", "0"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *flag = strcmp(text, yes[i]) == 0;
            return UNI_OK;
        }
    }
    return refuse(row, text);
}

static int set_number(void *where, const struct row *row, const char *text)
{
    char *end;
    double value;
    int automatic = auto_allowed(row) && strcmp(text, "auto") == 0;
    if (!automatic && (!number(text, &end, &value) || *end || !in_range(row, value)))
        return refuse(row, text);
    if (row->public.kind == UNI_KIND_REAL)
        *(double *)where = automatic ? NAN : value;
    else if (!automatic && value != floor(value))
        return refuse(row, text);
    else
        *(int64_t *)where = automatic ? 0 : (int64_t)value;
    return UNI_OK;
}

static int set_row(struct uni_options *options, const struct row *row, const char *text)
{
    void *where = field(options, row);
    switch (row->public.kind) {
    case UNI_KIND_VALUES:
        return set_values(where, row, text);
    case UNI_KIND_CHOICE:
        return set_choice(where, row, text);
    case UNI_KIND_FLAG:
        return set_flag(where, row, text);
    default:
        return set_number(where, row, text);
    }
}

static const struct row *find(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(table[i].public.name, name) == 0)
            return &table[i];
    uni_fail(UNI_OPTION, "there is no option \"%s\"; uni_option_at lists those that are", name);
    return NULL;
}

void uni_options_init(struct uni_options *options, size_t size)
{
    OWN_SURROUNDINGS;
    memset(options, 0, size);
    options->size = size;
    for (int i = 0; i < ROWS; i++)
        if (table[i].offset < size)
            (void)set_row(options, &table[i], table[i].public.initial);
}

/* What a method has as its defaults beside the option that names it. */
static const struct {
    const char *name, *text, *also, *value;
} follow[] = {
    {"flavor", "harmony1", "stop", "objective"}, {"flavor", "harmony1", "tol", "1e-4"},
    {"flavor", "harmony1", "sweeps", "20"},      {"flavor", "harmony1", "sweep-tol", "1e-5"},
    {"compat", "r-2.0.4", "stop", "objective"},  {"compat", "r-2.0.4", "tol", "1e-2"},
};

int uni_options_set(struct uni_options *options, const char *name, const char *text)
{
    OWN_SURROUNDINGS;
    const struct row *row = find(name);
    int err = row ? set_row(options, row, text) : UNI_OPTION;
    for (size_t i = 0; !err && i < sizeof follow / sizeof *follow; i++)
        if (strcmp(name, follow[i].name) == 0 && strcmp(text, follow[i].text) == 0)
            err = set_row(options, find(follow[i].also), follow[i].value);
    return err;
}

/* The shortest decimal that reads back as the same number. */
static size_t write_number(double value, char *text, size_t size)
{
    char number[32] = "";
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod(number, NULL) == value)
            break;
    }
    return (size_t)snprintf(text, size, "%s", number);
}

static void write_values(const struct uni_values *values, char *text, size_t size)
{
    size_t used = 0;
    for (int64_t i = 0; i < values->n && used + 2 < size; i++) {
        if (i)
            text[used++] = ',';
        used += write_number(values->value[i], text + used, size - used);
    }
    if (values->n == 0)
        snprintf(text, size, "auto");
}

int uni_options_get(const struct uni_options *options, const char *name, char *text, size_t size)
{
    OWN_SURROUNDINGS;
    const struct row *row = find(name);
    if (!row)
        return UNI_OPTION;
    const void *where = field(options, row);
    if (row->public.kind == UNI_KIND_VALUES) {
        write_values(where, text, size);
    } else if (row->public.kind == UNI_KIND_REAL) {
        double value = *(const double *)where;
        if (isnan(value))
            snprintf(text, size, "auto");
        else
            write_number(value, text, size);
    } else if (row->public.kind == UNI_KIND_INT) {
        int64_t value = *(const int64_t *)where;
        if (value == 0 && auto_allowed(row))
            snprintf(text, size, "auto");
        else
            snprintf(text, size, "%lld", (long long)value);
    } else if (row->public.kind == UNI_KIND_FLAG) {
        snprintf(text, size, "%s", *(const int *)where ? "yes" : "no");
    } else {
        const char *at = row->public.choices;
        for (int i = *(const int *)where; i > 0; i--)
            at += strcspn(at, "|") + 1;
        snprintf(text, size, "%.*s", (int)strcspn(at, "|"), at);
    }
    return UNI_OK;
}

static int check_values(const struct row *row, const struct uni_values *values, int n_variables)
{
    if (values->n == 0 && auto_allowed(row))
        return UNI_OK;
    if (values->n != 1 && values->n != n_variables)
        return uni_fail(UNI_OPTION, "%s has %lld values for %d batch variable%s; give one value, or one per variable",
                        row->public.name, (long long)values->n, n_variables, n_variables == 1 ? "" : "s");
    for (int64_t i = 0; i < values->n; i++)
        if (!in_range(row, values->value[i]))
            return uni_fail(UNI_OPTION, "%s is %g; it must be %s", row->public.name, values->value[i], row->public.range);
    return UNI_OK;
}

static int check_row(const struct row *row, const struct uni_options *options, int n_variables)
{
    const void *where = field(options, row);
    double value;
    if (row->public.kind == UNI_KIND_VALUES)
        return check_values(row, where, n_variables);
    if (row->public.kind == UNI_KIND_CHOICE) {
        int n = 1;
        for (const char *at = row->public.choices; *at; at++)
            n += *at == '|';
        value = *(const int *)where;
        return value >= 0 && value < n
                   ? UNI_OK
                   : uni_fail(UNI_OPTION, "%s is %d; it must be %s", row->public.name, (int)value, row->public.range);
    }
    if (row->public.kind == UNI_KIND_FLAG)
        return UNI_OK;
    value = row->public.kind == UNI_KIND_REAL ? *(const double *)where : (double)*(const int64_t *)where;
    if (auto_allowed(row) && (row->public.kind == UNI_KIND_REAL ? isnan(value) : value == 0))
        return UNI_OK;
    return in_range(row, value) ? UNI_OK
                                : uni_fail(UNI_OPTION, "%s is %g; it must be %s", row->public.name, value, row->public.range);
}

int uni_options_check(const struct uni_options *options, int n_variables)
{
    if (options->size != sizeof *options)
        return uni_fail(UNI_OPTION,
                        "the options say that they have %zu bytes, this library's have %zu; call uni_options_init first",
                        options->size, sizeof *options);
    for (int i = 0; i < ROWS; i++) {
        int err = check_row(&table[i], options, n_variables);
        if (err)
            return err;
    }
    return UNI_OK;
}

double uni_value_of(const struct uni_values *values, int variable)
{
    return values->n == 1 ? values->value[0] : values->value[variable];
}
