/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of the processor that an input may take: not of the clock, which goes on while others have the machine. A processor may
   be slow all the same: what took too long is tried again with FUZZ_PATIENCE times as much. */
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <sys/time.h>

#include "fuzzing.h"

static void too_long(int signal)
{
    static const char words[] = FUZZ_TOO_LONG "\n";
    (void)signal;
    if (write(STDERR_FILENO, words, sizeof words - 1) > 0)
        __sanitizer_print_stack_trace();
    abort();
}

static void allow(int milliseconds)
{
    struct itimerval limit = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000}};
    setitimer(ITIMER_PROF, &limit, NULL);
}

int fuzz_bounded(const uint8_t *data, size_t size, int milliseconds)
{
    static int ready;
    struct sigaction action = {.sa_handler = too_long};
    const char *patience = getenv("FUZZ_PATIENCE");
    if (!ready++)
        sigaction(SIGPROF, &action, NULL);
    allow(milliseconds * (patience ? atoi(patience) : 1));
    int result = fuzz_input(data, size);
    allow(0);
    return result;
}
