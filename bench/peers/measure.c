/* SPDX-License-Identifier: BSD-3-Clause */
/* measure SECONDS REPORT COMMAND...    runs the command, killed after SECONDS, and writes to REPORT
 *
 *     {"status": 0, "wall": seconds, "cpu": seconds, "rss": bytes}       status: 128 + signal where a signal ended it
 *
 * A program of its own, because the peak memory of a child is never below what its parent held as it started it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile pid_t child;

static void end_child(int signal_number)
{
    (void)signal_number;
    if (child > 0)
        kill(child, SIGKILL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    struct rusage used;
    int status;
    if (argc < 4)
        return 2;
    signal(SIGALRM, end_child);
    signal(SIGTERM, end_child);
    signal(SIGINT, end_child);
    double start = now();
    child = fork();
    if (child < 0)
        return 2;
    if (child == 0) {
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    alarm((unsigned)atoi(argv[1]));
    while (wait4(child, &status, 0, &used) < 0)
        ;
    double wall = now() - start, cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                                       1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    FILE *out = fopen(argv[2], "w");
    if (!out)
        return 2;
    fprintf(out, "{\"status\": %d, \"wall\": %.6f, \"cpu\": %.6f, \"rss\": %lld}\n",
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), wall, cpu, (long long)used.ru_maxrss * 1024);
    return fclose(out) ? 2 : 0;
}
