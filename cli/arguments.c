/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines. Not getopt_long: it accepts any unambiguous beginning of an option, so a script's `--clus` would change its
 * meaning with the next release, and it cannot name the option that was meant.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { WORD_MAX = 63, NAMES_MAX = 128 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance of the first WORD_MAX characters. */
static int edit_distance(const char *a, const char *b)
{
    int row[WORD_MAX + 1];
    int n_a = (int)strnlen(a, WORD_MAX), n_b = (int)strnlen(b, WORD_MAX);
    for (int j = 0; j <= n_b; j++)
        row[j] = j;
    for (int i = 1; i <= n_a; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            int above = row[j];
            row[j] = least(least(above, row[j - 1]) + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[n_b];
}

const char *nearest_word(const char *word, const char *const *words, int n_words)
{
    const char *best = NULL;
    /* Farther than half its letters a word is no misspelling. */
    int best_distance = (int)strnlen(word, WORD_MAX) / 2 + 1;
    for (int i = 0; i < n_words; i++) {
        int distance = edit_distance(word, words[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = words[i];
        }
    }
    return best;
}

static int unknown_option(const struct argument *table, const char *command, const char *name)
{
    const char *names[NAMES_MAX], *best = NULL;
    int n = 0;
    for (const struct argument *a = table; a->name && n < NAMES_MAX; a++)
        names[n++] = a->name;
    if (name[1] == '-')
        best = nearest_word(name + 2, names, n);
    return best ? say_usage("unknown option %s; the nearest is --%s (unisono help %s lists all)", name, best, command)
                : say_usage("unknown option %s; unisono help %s lists all", name, command);
}

/* name: up to its '=' or the end. */
static const struct argument *option_named(const struct argument *table, const char *name)
{
    size_t length = strcspn(name, "=");
    for (const struct argument *a = table; a->name; a++) {
        if (strlen(a->name) == length && !strncmp(a->name, name, length))
            return a;
    }
    return NULL;
}

static const struct argument *option_lettered(const struct argument *table, char letter)
{
    for (const struct argument *a = table; a->name; a++) {
        if (a->letter && a->letter == letter)
            return a;
    }
    return NULL;
}

typedef int (*set_fn)(void *user, const struct argument *option, const char *value);

static int read_long(const struct argument *table, char **argv, int argc, int *i, set_fn set, void *user)
{
    const char *word = argv[*i];
    const struct argument *a = option_named(table, word + 2);
    const char *value = strchr(word, '=');
    if (!a) {
        char name[WORD_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
        return unknown_option(table, argv[0], name);
    }
    if (!a->value)
        return value ? say_usage("--%s takes no value, so %s is wrong", a->name, word) : set(user, a, NULL);
    if (value)
        return set(user, a, value + 1);
    if (*i + 1 >= argc)
        return say_usage("--%s needs a value", a->name);
    return set(user, a, argv[++*i]);
}

/* -q, -o FILE, -oFILE, and letters in one word: -fq. */
static int read_letters(const struct argument *table, char **argv, int argc, int *i, set_fn set, void *user)
{
    for (const char *c = argv[*i] + 1; *c; c++) {
        const struct argument *a = option_lettered(table, *c);
        int status;
        if (!a)
            return unknown_option(table, argv[0], argv[*i]);
        if (!a->value) {
            if ((status = set(user, a, NULL)) != EXIT_DONE)
                return status;
            continue;
        }
        if (c[1])
            return set(user, a, c + 1);
        if (*i + 1 >= argc)
            return say_usage("-%c needs a value", *c);
        return set(user, a, argv[++*i]);
    }
    return EXIT_DONE;
}

int arguments_read(const struct argument *table, int argc, char **argv, set_fn set, void *user)
{
    int operands_only = 0;
    for (int i = 1; i < argc; i++) {
        int status;
        if (operands_only || argv[i][0] != '-' || !argv[i][1])
            status = set(user, NULL, argv[i]);
        else if (!strcmp(argv[i], "--"))
            status = EXIT_DONE, operands_only = 1;
        else if (argv[i][1] == '-')
            status = read_long(table, argv, argc, &i, set, user);
        else
            status = read_letters(table, argv, argc, &i, set, user);
        if (status != EXIT_DONE)
            return status;
    }
    return EXIT_DONE;
}

void arguments_help(FILE *out, const struct argument *table)
{
    int width = 27; /* tables that are printed one below the other mostly line up */
    char left[96];
    for (int print = 0; print < 2; print++) {
        for (const struct argument *a = table; a->name; a++) {
            if (!a->help)
                continue;
            int used = snprintf(left, sizeof left, a->letter ? "-%c, " : "    ", a->letter);
            used += snprintf(left + used, sizeof left - (size_t)used, "--%s%s%s", a->name, a->value ? " " : "",
                             a->value ? a->value : "");
            if (!print) {
                width = used > width ? used : width;
                continue;
            }
            fprintf(out, "  %-*s  %s", width, left, a->help);
            if (a->range)
                fprintf(out, " (%s)", a->range);
            fprintf(out, a->initial ? " [%s]\n" : "\n", a->initial);
        }
    }
}

int argument_whole(const struct argument *option, const char *text, int64_t low, int64_t high, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < low || number > high)
        return say_usage("--%s %s is out of range: it must be a whole number, %s", option->name, text, option->range);
    *value = number;
    return EXIT_DONE;
}

int argument_real(const struct argument *option, const char *text, double low, double high, double *value)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < low || number > high)
        return say_usage("--%s %s is out of range: it must be a number, %s", option->name, text, option->range);
    *value = number;
    return EXIT_DONE;
}
