/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"

/* Every call in here may be made from a signal handler. */
static void end_by_signal(int number)
{
    io_remove_unfinished();
    if (isatty(STDERR_FILENO)) {
        ssize_t ignored = write(STDERR_FILENO, "\n", 1); /* below the progress line */
        (void)ignored;
    }
    _exit(128 + number);
}

void signals_install(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_by_signal;
    sigfillset(&action.sa_mask);
    for (int i = 0; i < 3; i++) {
        /* What was ignored at the start stays ignored: nohup, and jobs in the background of a script. */
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    /* A closed pipe and a file past the size limit are errors of writing, and said so. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}
