/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "unisono.h"

static const double redraw_every = 0.25; /* seconds */
enum { COLUMNS = 80 };

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
    if (!p->redraws)
        return;
    snprintf(p->stage, sizeof p->stage, "%s %.60s", doing, what);
    draw(p, p->stage);
    p->stage_began = p->drawn;
}

void progress_cells(int64_t done, int64_t n_cells, void *user)
{
    struct progress *p = user;
    char line[256];
    double seconds = seconds_wall();
    if (!p->redraws || seconds - p->drawn < redraw_every)
        return;
    seconds -= p->stage_began;
    snprintf(line, sizeof line, "%.30s  %lld of %lld cells  %.0f s, %.0f s left", p->stage, (long long)done, (long long)n_cells,
             seconds, seconds / (double)done * (double)(n_cells - done));
    line[COLUMNS - 1] = 0;
    draw(p, line);
}

void progress_part(struct progress *p, const char *part, long long number, long long count)
{
    p->part = part;
    p->part_number = number;
    p->part_count = count;
}

static void put_line(const struct progress *p, const struct uni_progress *u)
{
    long long round = (long long)u->round, most = (long long)u->max_rounds;
    if (p->part)
        fprintf(stderr, "%s, %lld of %lld: ", p->part, p->part_number, p->part_count);
    if (round == 0)
        fprintf(stderr, "start: objective %.6g, %.2f s\n", u->objective, u->seconds);
    else
        fprintf(stderr, "round %lld of at most %lld: objective %.6g, change %.3g, %.2f s\n", round, most, u->objective, u->change,
                u->seconds);
}

int progress_round(const struct uni_progress *u, void *user)
{
    struct progress *p = user;
    char line[512], part[64] = "";
    long long round = (long long)u->round, most = (long long)u->max_rounds;
    if (p->lines)
        put_line(p, u);
    if (p->lines || !p->redraws || seconds_wall() - p->drawn < redraw_every)
        return 0;
    if (p->part)
        snprintf(part, sizeof part, "%.16s %lld/%lld  ", p->part, p->part_number, p->part_count);
    if (round == 0)
        snprintf(line, sizeof line, "%sround 0/%lld  objective %.5g  %.0f s", part, most, u->objective, u->seconds);
    else
        snprintf(line, sizeof line, "%sround %lld/%lld  objective %.5g  %.0f s, at most %.0f s left", part, round, most,
                 u->objective, u->seconds, u->seconds / (double)round * (double)(most - round));
    line[COLUMNS - 1] = 0;
    draw(p, line);
    return 0;
}
