/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "unisono.h"

static const double redraw_every = 0.25; /* seconds */

void progress_open(struct progress *p, int level)
{
    p->lines = level > 0;
    p->redraws = level == 0 && isatty(STDERR_FILENO);
    p->shown = 0;
    p->drawn = -1e9;
}

void progress_clear(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}

static void draw(struct progress *p, const char *line)
{
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    p->shown = 1;
    p->drawn = seconds_wall();
}

void progress_stage(struct progress *p, const char *doing, const char *what)
{
    char line[80];
    if (!p->redraws)
        return;
    snprintf(line, sizeof line, "%s %.60s", doing, what);
    draw(p, line);
}

int progress_round(const struct uni_progress *u, void *user)
{
    struct progress *p = user;
    char line[160];
    long long round = (long long)u->round, most = (long long)u->max_rounds;
    if (p->lines) {
        if (round == 0)
            fprintf(stderr, "start: objective %.6g, %.2f s\n", u->objective, u->seconds);
        else
            fprintf(stderr, "round %lld of at most %lld: objective %.6g, change %.3g, %.2f s\n", round, most, u->objective,
                    u->change, u->seconds);
        return 0;
    }
    if (!p->redraws || seconds_wall() - p->drawn < redraw_every)
        return 0;
    if (round == 0)
        snprintf(line, sizeof line, "round 0/%lld  objective %.5g  %.0f s", most, u->objective, u->seconds);
    else
        snprintf(line, sizeof line, "round %lld/%lld  objective %.5g  %.0f s, at most %.0f s left", round, most, u->objective,
                 u->seconds, u->seconds / (double)round * (double)(most - round));
    draw(p, line);
    return 0;
}
