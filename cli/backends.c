/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli.h"
#include "unisono.h"

enum { HELP = 1 };
static const struct argument table[] = {{"help", 'h', HELP, NULL, NULL, NULL, "show this"}, {NULL, 0, 0, NULL, NULL, NULL, NULL}};

void backends_help(FILE *out)
{
    fprintf(out, "usage: unisono backends\n\nPrints a line for every backend of this build: its name, whether this machine can "
                 "run it, and "
                 "on what or why not.\n\n");
    arguments_help(out, table);
}

static int set(void *user, const struct argument *option, const char *value)
{
    if (!option)
        return say_usage("backends takes no operand, so %s is one too many", value);
    *(int *)user = 1;
    return EXIT_DONE;
}

int backends_main(int argc, char **argv)
{
    int help = 0;
    int status = arguments_read(table, argc, argv, set, &help);
    if (status != EXIT_DONE)
        return status;
    if (help) {
        backends_help(stdout);
        return EXIT_DONE;
    }
    struct uni_backend_info info;
    for (int i = 0; uni_backend_at(i, &info); i++)
        printf("%-6s  %-10s  %s\n", info.name, info.usable ? "usable" : "not usable", info.detail);
    return EXIT_DONE;
}
