/* SPDX-License-Identifier: BSD-3-Clause */
/* unisono: dispatch to the subcommands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "io.h"
#include "unisono.h"

const struct subcommand subcommands[] = {
    {"integrate", integrate_main, integrate_help, "remove batch effects from an embedding"},
    {"simulate", simulate_main, simulate_help, "make a small atlas with a known batch effect"},
    {"score", score_main, score_help, "how well batches mix and cell types stay apart: LISI"},
    {"compare", compare_main, compare_help, "how far batches and cell types are apart, in words"},
    {"report", report_main, report_help, "a page that shows cells before and after, and how the run went"},
    {"selftest", selftest_main, selftest_help, "does this build compute rightly on this machine?"},
    {"backends", backends_main, backends_help, "what this build has, and what this machine can run"},
    {"help", help_main, help_overview, "explain a subcommand"},
    {NULL, NULL, NULL, NULL},
};

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        help_overview(stdout);
        return EXIT_DONE;
    }
    if (!strcmp(word, "--version")) {
        printf("unisono %s\n", uni_version());
        return EXIT_DONE;
    }
    if (word[0] == '-')
        return say_usage("unknown option %s; unisono --help lists the subcommands", word);
    const struct subcommand *command = subcommand_named(word);
    if (!command)
        return subcommand_unknown(word);
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    signals_install();
    /* Whoever sets it means it: HDF5 loads code from there because a file asks for a filter. */
    io_allow_plugins(getenv("HDF5_PLUGIN_PATH") != NULL);
    int status = dispatch(argc, argv);
    /* A full disk or a closed pipe shows only now; an answer that did not arrive is a failure. */
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_DONE)
        status = say_failed("cannot write to standard output: %s", errno ? strerror(errno) : "write error");
    return status;
}
