/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the program offer each other. A subcommand takes its own argc, argv (argv[0] is its name) and returns the
 * exit status: EXIT_DONE, EXIT_FAILED after one sentence on stderr, EXIT_USAGE when the command line is wrong. Nothing else
 * exits.
 */
#ifndef UNI_CLI_H
#define UNI_CLI_H

#include <stdint.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* ---- subcommands ------------------------------------------------------------------------------------------------------------
 */

int integrate_main(int argc, char **argv);
int simulate_main(int argc, char **argv);
int compare_main(int argc, char **argv);
int score_main(int argc, char **argv);
int report_main(int argc, char **argv);
int selftest_main(int argc, char **argv);
int backends_main(int argc, char **argv);

void integrate_help(FILE *out);
void simulate_help(FILE *out);
void compare_help(FILE *out);
void score_help(FILE *out);
void report_help(FILE *out);
void selftest_help(FILE *out);
void backends_help(FILE *out);

/* `unisono help [SUBCOMMAND]` and what `unisono` alone answers. */
int help_main(int argc, char **argv);
void help_overview(FILE *out);

struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    void (*help)(FILE *out);
    const char *line;
};
extern const struct subcommand subcommands[]; /* ends with a NULL name */
const struct subcommand *subcommand_named(const char *name);
/* Says that there is no such subcommand and which is nearest. Returns EXIT_USAGE. */
int subcommand_unknown(const char *name);

/* ---- say.c: the only place that writes to stderr, but for the progress line
 * ----------------------------------------------------- */

#define SAY_FORMAT(a, b) __attribute__((format(printf, a, b)))

int say_failed(const char *format, ...) SAY_FORMAT(1, 2); /* returns EXIT_FAILED */
int say_usage(const char *format, ...) SAY_FORMAT(1, 2);  /* returns EXIT_USAGE */
void say_warning(const char *format, ...) SAY_FORMAT(1, 2);
void say(const char *format, ...) SAY_FORMAT(1, 2);

/* "1.53 GB" in powers of ten. */
const char *say_bytes(char text[32], double bytes);

/* ---- arguments.c
 * --------------------------------------------------------------------------------------------------------------- */

/* An option of a subcommand; tables of them end with a NULL name. */
struct argument {
    const char *name;    /* long name without its dashes */
    char letter;         /* short name or 0 */
    int id;              /* the subcommand's own */
    const char *value;   /* what help calls its value; NULL: it takes none */
    const char *range;   /* in words, or NULL */
    const char *initial; /* the default as text, or NULL */
    const char *help;    /* one line; NULL leaves the option out of the help */
};

/* Reads argv[1..]; calls set for every option and, with option NULL, for every operand, in order. set returns an exit status; the
   first that is not EXIT_DONE ends the reading and is returned. */
int arguments_read(const struct argument *table, int argc, char **argv,
                   int (*set)(void *user, const struct argument *option, const char *value), void *user);

/* Prints the rows of a table, aligned. */
void arguments_help(FILE *out, const struct argument *table);

/* The entry that word may be a misspelling of; NULL when none is near. */
const char *nearest_word(const char *word, const char *const *words, int n_words);

/* A number from text, all of it. Return EXIT_DONE, or EXIT_USAGE after naming option, text and range. */
int argument_whole(const struct argument *option, const char *text, int64_t low, int64_t high, int64_t *value);
int argument_real(const struct argument *option, const char *text, double low, double high, double *value);

/* ---- resources.c
 * --------------------------------------------------------------------------------------------------------------- */

/* Bytes this process may still take: the smallest of what the machine, its cgroups and its address space limit leave; -1 unknown.
 */
int64_t memory_available(void);
/* What a limit on address space leaves; -1: there is none. It counts memory that is asked for, used or not. */
int64_t memory_address_space(void);
int64_t memory_peak(void); /* of this process so far */
double seconds_wall(void); /* since some fixed moment */
double seconds_cpu(void);  /* of this process, all threads */

/* ---- targets
 * ------------------------------------------------------------------------------------------------------------------- */

/* Can a file (or, where folder is not 0, a folder) be written at path? what: the option, for the sentence. Returns EXIT_... */
int target_check(const char *path, const char *what, int overwrite, int folder);
int is_folder(const char *path); /* it is one, or its name ends with a slash */

/* ---- signals.c
 * ----------------------------------------------------------------------------------------------------------------- */

/* From here on SIGINT, SIGTERM and SIGHUP remove unfinished files and end the process with 128 + number. */
void signals_install(void);

#endif
