/* SPDX-License-Identifier: BSD-3-Clause */
/* The method's one-number formulas, each in one place, for C and CUDA alike. H = harmony2.md section, P = Patikas, Yao et al.
 * 2026. */
#ifndef UNI_FORMULA_H
#define UNI_FORMULA_H

#include <math.h>

#ifdef __CUDACC__
#define UNI_FORMULA static inline __host__ __device__
#else
#define UNI_FORMULA static inline
#endif

/* theta_l = theta (1 - exp(-(N_l / (K tau))^2)), theta itself where tau is 0 (H 1; the R package's form: the ratio is squared) */
UNI_FORMULA double uni_theta_of_level(double theta, double tau, double level_cells, double clusters)
{
    double ratio = level_cells / (clusters * tau);
    return tau > 0 ? theta * (1 - exp(-ratio * ratio)) : theta;
}

/* Numerator and denominator of the penalty pen = ((a E + b) / (O + E + b))^theta: a = 2, b = 1 (H 3.4); in the method of 2019 a =
   1 and b = 0 (H 5, last lines), where a small b keeps an empty pair from being 0 / 0 */
#define UNI_PENALTY_TOP(a, b, E) ((a) * (E) + (b))
#define UNI_PENALTY_BOTTOM(b, O, E) ((O) + (E) + (b))
#define UNI_PENALTY_SCALE_2019 1.0
#define UNI_PENALTY_ADD_2019 1e-8

/* One pair's part of the objective: sigma theta O ln((O + E + b) / (a E + b)) (H 3.5) */
UNI_FORMULA double uni_diversity_term(double sigma, double theta, double O, double E, double a, double b)
{
    return sigma * theta * O * log(UNI_PENALTY_BOTTOM(b, O, E) / UNI_PENALTY_TOP(a, b, E));
}

/* Is level l corrected in cluster k? O / N_l > cutoff, strictly (H 5) */
UNI_FORMULA int uni_pair_kept(double O, double level_cells, double cutoff)
{
    return level_cells > 0 && O / level_cells > cutoff;
}

/* The automatic ridge penalty: lambda = alpha E (H 1) */
UNI_FORMULA double uni_lambda_auto(double alpha, double E)
{
    return alpha * E;
}

/* Weight of a level in the intercept: q = lambda / (O + lambda); c = sum q S / sum q O (H 5, no subtraction anywhere) */
UNI_FORMULA double uni_intercept_weight(double O, double lambda)
{
    return lambda / (O + lambda);
}

/* W = (S - O c) / (O + lambda) (H 5) */
UNI_FORMULA double uni_correction(double S, double O, double c, double lambda)
{
    return (S - O * c) / (O + lambda);
}

/* The objective is reported times 2000 / n (H 3.5) */
UNI_FORMULA double uni_objective_scale(double cells)
{
    return 2000.0 / cells;
}

#endif
