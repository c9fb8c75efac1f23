/* SPDX-License-Identifier: BSD-3-Clause */
#include "agreement.h"
#include "testing.h"

#include <math.h>

static double larger(double a, double b)
{
    return b <= a ? a : isnan(b) ? INFINITY : b;
}

static double table_difference(const double *a, const double *b, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        worst = larger(worst, fabs(a[i] - b[i]) / (1 + fabs(b[i])));
    return worst;
}

static double correction_difference(const struct product *p, const struct ref_run *run)
{
    double moved = 0, all = 0;
    for (int64_t pair = 0; pair < p->B * p->K; pair++)
        for (int64_t j = pair * p->d; j < (pair + 1) * p->d; j++) {
            moved += run->O[pair] * (p->W[j] - run->W[j]) * (p->W[j] - run->W[j]);
            all += run->O[pair] * run->W[j] * run->W[j];
        }
    return sqrt(moved / all);
}

/* What an objective's error is measured by: the total itself passes through zero. */
static double term_sizes(const struct ref_objective *o)
{
    return fabs(o->distance) + fabs(o->entropy) + fabs(o->diversity);
}

/* One round of the oracle against the product's record of it. */
static void compare_round(struct agreement *a, const struct uni_round *own, const struct ref_run *run)
{
    double before = fabs(run->round_objective_before) / term_sizes(&run->objectives[run->n_objectives - 1]);
    a->change = larger(a->change, fabs(own->change - run->change));
    if (run->p.K > 1 || run->round == 1)
        a->change = larger(a->change, before * fabs(own->objective_change - run->objective_change));
    a->pruned = (int64_t)larger((double)a->pruned, fabs((double)(own->pruned_pairs - run->pruned_pairs)));
    a->skipped = (int64_t)larger((double)a->skipped, fabs((double)(own->skipped_clusters - run->skipped_clusters)));
    if (own->sweeps != run->sweeps_done)
        a->same_sweeps = 0;
}

static const struct ref_objective *objective_at(const struct ref_run *run, int64_t round, int64_t sweep)
{
    for (int64_t i = 0; i < run->n_objectives; i++)
        if (run->objectives[i].round == round && run->objectives[i].sweep == sweep)
            return &run->objectives[i];
    return NULL;
}

/* The product need not record a sweep that no rule looks at; what it records must be the oracle's, and each round's last be
   there. allowed: absolute, taken off the error of the distance and of the total. One cluster: see agree. */
static void compare_objectives(struct agreement *a, const struct uni_summary *s, const struct ref_run *run)
{
    for (int64_t i = 0; i < s->n_objectives; i++) {
        const struct uni_objective *own = &s->objectives[i];
        const struct ref_objective *ref = objective_at(run, own->round, own->sweep);
        if (!ref || (own->round == 0) != (i == 0)) {
            a->same_sweeps = 0;
            return;
        }
        int last_of_round = i + 1 == s->n_objectives || s->objectives[i + 1].round > own->round;
        if (last_of_round && own->round > 0 && own->sweep != s->rounds[own->round - 1].sweeps)
            a->same_sweeps = 0;
        if (run->p.K == 1 && own->round > 1)
            continue;
        double unit = term_sizes(ref);
        a->objective = larger(a->objective, fabs(own->total - ref->total) / unit);
        a->terms = larger(a->terms, fabs(own->distance - ref->distance) / unit);
        a->terms = larger(a->terms, fabs(own->entropy - ref->entropy) / unit);
        a->terms = larger(a->terms, fabs(own->diversity - ref->diversity) / unit);
    }
}

/* Of what a cell loses by its covariates, at their unit spread; in parts of the largest slope. */
static double slope_difference(const struct product *p, const struct ref_run *run)
{
    int64_t shape[3], count = run->p.n_covariates * p->K * p->d;
    assert_int_equal(uni_shape(p->run, UNI_SLOPES, shape), UNI_OK);
    assert_true(shape[0] == run->p.n_covariates && shape[1] == p->K && shape[2] == p->d);
    float *slope = malloc((size_t)count * sizeof *slope + 1);
    assert_non_null(slope);
    assert_int_equal(uni_read(p->run, UNI_SLOPES, slope), UNI_OK);
    double *wide = widen(slope, count), worst = largest_difference(wide, run->slope, count);
    free(slope);
    free(wide);
    return count ? worst / largest_magnitude(run->slope, count) : 0;
}

struct agreement agree_on(const struct product *p, const struct ref_problem *problem, int follow_sweeps)
{
    struct agreement a = {.same_sweeps = 1};
    struct ref_run *run = ref_open(problem);
    int more = 1;
    while (more && run->round < p->summary->n_rounds) {
        const struct uni_round *own = &p->summary->rounds[run->round];
        if (follow_sweeps)
            run->p.sweeps = own->sweeps, run->p.sweep_tol = -1;
        more = ref_round(run);
        compare_round(&a, own, run);
    }
    a.rounds_product = p->summary->n_rounds;
    a.rounds_oracle = more ? run->round + 1 : run->round; /* one more at least, where it would go on */
    a.corrected = compare_corrected(p->Zcorr, run->Zcorr, problem->Z, p->n, p->d);
    a.R = largest_difference(p->R, run->R, p->n * p->K);
    /* One cluster of centred data has its centroid at the origin: its direction is rounding, and only dist depends on it. */
    a.Y = p->K == 1 ? 0 : largest_difference(p->Y, run->Y, p->K * p->d);
    a.O = table_difference(p->O, run->O, p->B * p->K);
    a.E = table_difference(p->E, run->E, p->B * p->K);
    a.lambda = table_difference(p->lambda, run->lambda, p->B * p->K);
    a.theta = largest_difference(p->theta, run->theta, p->B);
    a.W = correction_difference(p, run);
    a.slope = slope_difference(p, run);
    compare_objectives(&a, p->summary, run);
    ref_close(run);
    return a;
}

struct agreement agree(const struct product *p, const struct made_data *data, const struct uni_options *options,
                       int follow_sweeps)
{
    struct ref_problem problem = problem_of(p, data, options);
    struct agreement a = agree_on(p, &problem, follow_sweeps);
    free((double *)(uintptr_t)problem.Z);
    return a;
}

void assert_agreement(const struct agreement *a, double scale)
{
    assert_int_equal(a->rounds_product, a->rounds_oracle);
    assert_true(a->same_sweeps);
    assert_at_most(a->corrected.rms, 3e-4 * scale);
    assert_at_most(a->corrected.worst, 2e-2 * scale);
    assert_at_most(a->W, 3e-4 * scale);
    assert_at_most(a->slope, 2e-3 * scale);
    assert_at_most(a->R, 2e-2 * scale);
    assert_at_most(a->Y, 2e-3 * scale);
    assert_at_most(a->O, 2e-3 * scale);
    assert_at_most(a->E, 2e-3 * scale);
    assert_at_most(a->lambda, 2e-3 * scale);
    assert_at_most(a->theta, 1e-12);
    /* Where a base is near 1, half precision is off by up to 2^-12, and the distance, read back as -sigma ln base, by sigma times
       that: by 0.05 of the objective's scale at worst, if all cells are near a centroid. On the recorded data it is 5e-5. */
    assert_at_most(a->objective, 4e-4 * scale);
    assert_at_most(a->terms, 4e-4 * scale);
    assert_at_most(a->change, 2e-3 * scale);
}
