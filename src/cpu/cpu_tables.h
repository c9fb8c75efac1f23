/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of tables over clusters: penalties, and what leaves and comes back. Included by cpu_kernels.c after a vec_....h. */
#ifndef UNI_CPU_TABLES_H
#define UNI_CPU_TABLES_H

INLINE vd wide(const float *at)
{
    return __builtin_convertvector(load(at), vd);
}

/* In float32; what is left after a subtraction may be a hair below zero. */
INLINE vf narrow(vd x)
{
    return larger(__builtin_convertvector(x, vf), splat(0));
}

/* ln((a E + b) / (O + E + b)) */
INLINE vf log_penalty(const struct uni_shape *s, vd O, vd E)
{
    vf o = narrow(O), e = narrow(E);
    return log_ratio(UNI_PENALTY_TOP(s->a, s->b, e), UNI_PENALTY_BOTTOM(s->b, o, e));
}

/* Keeps the base-2 logarithms x of penalties at k; those of padding are the lowest. Returns the larger of x and most. */
INLINE vf keep_logarithms(const struct uni_shape *s, float *P, int64_t k, vf x, vf most)
{
    if (k + WIDTH > s->K)
        x = choose(first_lanes(s->K - k), x, splat(-HUGE_VALF));
    store(P + k, x);
    return larger(most, x);
}

/* P = 2^(P - most), not below 2^-100: a cell may have no other cluster, and must not lose it to an underflow. */
INLINE void penalties_of_logarithms(const struct uni_shape *s, float *P, vf most)
{
    vf highest = splat(largest_across(most));
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf x = load(P + k) - highest;
        store(P + k, choose(x < -1e30f, splat(0), exp2_below(larger(x, splat(-100)))));
    }
}

static void leave(const struct uni_shape *s, float *P, double *O, const float *mass, const double *r, double share, double theta)
{
    vf most = splat(-HUGE_VALF);
    const float scale = (float)theta * 1.44269504088896f;
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vd left = *(const vd_at *)(O + k) - wide(mass + k);
        *(vd_at *)(O + k) = left;
        most = keep_logarithms(s, P, k, log_penalty(s, left, *(const vd_at *)(r + k) * share) * scale, most);
    }
    penalties_of_logarithms(s, P, most);
}

/* The base-2 logarithm of variable v's penalties */
INLINE vf log_penalty_of(const struct uni_shape *s, const double *const *O, const double *r, const double *share,
                         const double *theta, int v, int64_t k)
{
    return log_penalty(s, *(const vd_at *)(O[v] + k), *(const vd_at *)(r + k) * share[v]) * ((float)theta[v] * 1.44269504088896f);
}

/* log2 of the sum of the penalties, the largest taken out */
INLINE vf log_of_sum(const struct uni_shape *s, const double *const *O, const double *r, const double *share, const double *theta,
                     int V, int64_t k)
{
    vf most = splat(-HUGE_VALF), sum = splat(0);
    for (int v = 0; v < V; v++)
        most = larger(most, log_penalty_of(s, O, r, share, theta, v, k));
    for (int v = 0; v < V; v++) {
        vf x = log_penalty_of(s, O, r, share, theta, v, k) - most;
        sum += choose(x < -125.0f, splat(0), exp2_below(x));
    }
    return most + natural_log(sum) * 1.44269504088896f;
}

static void penalty(const struct uni_shape *s, float *P, const double *const *O, const double *r, const double *share,
                    const double *theta, int V)
{
    vf most = splat(-HUGE_VALF);
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf x = splat(0);
        if (s->add)
            x = log_of_sum(s, O, r, share, theta, V, k);
        for (int v = 0; !s->add && v < V; v++)
            x += log_penalty_of(s, O, r, share, theta, v, k);
        most = keep_logarithms(s, P, k, x, most);
    }
    penalties_of_logarithms(s, P, most);
}

static void come_back(const struct uni_shape *s, float *mass, double *O, double *came, const float *P)
{
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf m = load(mass + k) * load(P + k);
        vd m_wide = __builtin_convertvector(m, vd);
        store(mass + k, m);
        *(vd_at *)(O + k) += m_wide;
        *(vd_at *)(came + k) += m_wide;
    }
}

static void move(double *to, const float *mass, double sign, int64_t n)
{
    for (int64_t k = 0; k < n; k += WIDTH)
        *(vd_at *)(to + k) += wide(mass + k) * sign;
}

static void add_moments(const struct uni_shape *s, double *total, const float *S)
{
    for (int64_t i = 0; i < s->D * s->Kv; i += WIDTH)
        *(vd_at *)(total + i) += wide(S + i);
}

static double log_dot(const struct uni_shape *s, const float *O, const float *P, const float *weight)
{
    double sum = 0;
    for (int64_t k = 0; k < s->Kv; k += WIDTH) {
        vf part = load(weight + k) * load(O + k) * natural_log(larger(load(P + k), splat(1e-37f)));
        sum += add_across(choose(load(O + k) > 0.0f, part, splat(0)));
    }
    return sum;
}

#endif
