/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer of `unisono score`. */
#include <math.h>

#include "json.h"
#include "score.h"

double score_scaled(const struct score *score)
{
    double levels = (double)score->s.n_levels;
    if (score->s.n_levels < 2)
        return NAN;
    return (score->is_type ? levels - score->s.median : score->s.median - 1) / (levels - 1);
}

static const char *kind(const struct score *score)
{
    return score->is_type ? "cLISI" : "iLISI";
}

static void print_table(const struct score_job *job)
{
    printf("basis\tcolumn\tscore\tlevels\tcells\tmean\tse\tmedian\tscaled\n");
    for (int i = 0; i < job->n_scores; i++) {
        const struct score *s = &job->scores[i];
        printf("%s\t%s\t%s\t%lld\t%lld\t%.6f\t%.6f\t%.6f\t%.6f\n", s->basis, s->column, kind(s), (long long)s->s.n_levels,
               (long long)s->s.n_values, s->s.mean, s->s.standard_error, s->s.median, score_scaled(s));
    }
}

static void print_score(struct json *j, const struct score *s)
{
    json_open(j, NULL, '{');
    json_text(j, "basis", s->basis);
    json_text(j, "column", s->column);
    json_text(j, "score", kind(s));
    json_whole(j, "levels", s->s.n_levels);
    json_whole(j, "missing", s->s.n_missing);
    json_whole(j, "cells", s->s.n_values);
    json_real(j, "mean", s->s.mean);
    json_real(j, "standard_error", s->s.standard_error);
    json_real(j, "median", s->s.median);
    json_real(j, "scaled", score_scaled(s));
    json_close(j, '}');
}

static void print_json(const struct score_job *job)
{
    const struct score_options *o = &job->options;
    struct json j = {.out = stdout};
    json_open(&j, NULL, '{');
    json_text(&j, "program", "unisono");
    json_text(&j, "version", uni_version());
    json_text(&j, "input", o->input);
    json_text(&j, "meta", o->meta);
    json_text(&j, "output", o->output);
    json_whole(&j, "cells", job->plan.n_cells);
    json_whole(&j, "cells_looked_at", job->plan.n_sampled);
    json_whole(&j, "seed", o->lisi.seed);
    json_real(&j, "perplexity", job->plan.perplexity);
    json_whole(&j, "neighbours", job->plan.n_neighbours);
    json_open(&j, "scores", '[');
    for (int i = 0; i < job->n_scores; i++)
        print_score(&j, &job->scores[i]);
    json_close(&j, ']');
    json_open(&j, "notes", '[');
    for (int i = 0; i < job->n_notes; i++)
        json_text(&j, NULL, job->notes[i]);
    json_close(&j, ']');
    json_close(&j, '}');
}

void score_print(const struct score_job *job)
{
    if (job->options.json)
        print_json(job);
    else
        print_table(job);
}
