/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "cli.h"
#include "unisono.h"

const struct subcommand *subcommand_named(const char *name)
{
    for (const struct subcommand *s = subcommands; s->name; s++) {
        if (!strcmp(s->name, name))
            return s;
    }
    return NULL;
}

int subcommand_unknown(const char *name)
{
    const char *names[16];
    int n = 0;
    for (const struct subcommand *s = subcommands; s->name && n < 16; s++)
        names[n++] = s->name;
    const char *best = nearest_word(name, names, n);
    return best ? say_usage("there is no subcommand %s; the nearest is %s (unisono --help lists all)", name, best)
                : say_usage("there is no subcommand %s; unisono --help lists all", name);
}

void help_overview(FILE *out)
{
    fprintf(out, "unisono %s: Harmony v2 batch integration of single-cell embeddings\n\n", uni_version());
    fprintf(out, "usage: unisono SUBCOMMAND ...\n\n");
    for (const struct subcommand *s = subcommands; s->name; s++)
        fprintf(out, "  %-10s  %s\n", s->name, s->line);
    fprintf(out, "\nunisono help SUBCOMMAND explains one; unisono --version names the version.\n\n");
    fprintf(out, "  unisono integrate atlas.h5ad --batch donor -o corrected.h5ad\n");
    fprintf(out, "  unisono integrate pcs.npy --meta cells.tsv --batch donor -o corrected.npy\n\n");
    fprintf(out, "exit status: 0 done, 1 failed, 2 wrong command line, 130 interrupted, 143 terminated\n");
}

int help_main(int argc, char **argv)
{
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        help_overview(stdout);
        return EXIT_DONE;
    }
    if (argc > 2)
        return say_usage("help takes one subcommand, not %d", argc - 1);
    const struct subcommand *s = subcommand_named(argv[1]);
    if (!s)
        return subcommand_unknown(argv[1]);
    s->help(stdout);
    return EXIT_DONE;
}
