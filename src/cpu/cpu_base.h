/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of base from products with the centroids. Included by cpu_kernels.c after a vec_....h. */
#ifndef UNI_CPU_BASE_H
#define UNI_CPU_BASE_H

/* Exactly n floats, which need not fill whole vectors. */
INLINE void copy_row(float *dst, const float *src, int64_t n)
{
    if (n < WIDTH) {
        memcpy(dst, src, (size_t)n * sizeof *dst);
        return;
    }
    for (int64_t i = 0; i + WIDTH < n; i += WIDTH)
        store(dst + i, load(src + i));
    store(dst + n - WIDTH, load(src + n - WIDTH));
}

INLINE void tiles_stay_awake(const struct uni_shape *s)
{
#ifdef HAS_TILES
    if (s->tiles)
        tiles_awake();
#else
    (void)s;
#endif
}

/* CELLS rows of z.Yt -> e = 2^(z.Yt / |z| + bias - most), mass = sum e */
INLINE void exponentials_of_rows(const int CELLS, const struct uni_shape *s, float *v, const float *length, const float *bias,
                                 float *most, float *mass, const int shift)
{
    const int64_t Kv = s->Kv; /* stores may alias the shape */
    vf total[4] = {{0}, {0}, {0}, {0}}, scale[4], top[4];
#pragma GCC unroll 4
    for (int c = 0; c < CELLS; c++) {
        scale[c] = splat(length[c]);
        top[c] = splat(0);
        if (shift) {
            vf largest = splat(-HUGE_VALF);
            for (int64_t k = 0; k < Kv; k += WIDTH)
                largest = larger(largest, load(v + c * Kv + k) * scale[c] + load(bias + k));
            top[c] = splat(largest_across(largest));
        }
        most[c] = top[c][0];
    }
    for (int64_t k = 0; k < Kv; k += WIDTH) {
        vf b = load(bias + k);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf x = load(v + c * Kv + k) * scale[c] + b;
            vf e = exp2_below(shift ? x - top[c] : x);
            store(v + c * Kv + k, e);
            total[c] += e;
        }
    }
    v4 masses = add_across4(total[0], total[1], total[2], total[3]);
    for (int c = 0; c < CELLS; c++)
        mass[c] = masses[c];
}

/* base = e times scale, which is BASE_SCALE / sum e; added to sum at the cell's weight */
INLINE void base_of_rows(const int CELLS, const struct uni_shape *s, const float *e, const float *scale, char *base,
                         const float *weight, float *sum, const int single)
{
    const int64_t Kv = s->Kv, whole = s->Kb / WIDTH * WIDTH, row_bytes = s->Kb * (single ? 4 : 2);
    const lanes_t rest = lanes_beyond(s->Kb);
    for (int64_t k = 0; k < Kv; k += WIDTH) {
        vf part = load(sum + k);
#pragma GCC unroll 4
        for (int c = 0; c < CELLS; c++) {
            vf b = load(e + c * Kv + k) * scale[c];
            if (k < whole)
                base_put_whole(base + c * row_bytes, k, b, single);
            else if (rest)
                base_put_part(base + c * row_bytes, k, b, rest, single);
            part += weight ? b * weight[c] : b;
        }
        store(sum + k, part);
    }
}

/* The same of n rows of several parts. */
INLINE void base_of_parts(const struct uni_shape *s, const float *e, int64_t n, struct place *place, const float *scale,
                          char *base, const float *weight, const int single)
{
    const int64_t Kv = s->Kv, row_bytes = s->Kb * (single ? 4 : 2);
    for (int64_t i = 0, rows; i < n;) {
        const struct uni_part *part = next_part(place, n - i, &rows);
        const int64_t end = i + rows;
        for (; i + 4 <= end; i += 4)
            base_of_rows(4, s, e + i * Kv, scale + i, base + i * row_bytes, weight ? weight + i : NULL, part->sum, single);
        for (; i < end; i++)
            base_of_rows(1, s, e + i * Kv, scale + i, base + i * row_bytes, weight ? weight + i : NULL, part->sum, single);
    }
}

/* Exponentials of all rows first, then their base: a row's sum takes its time. */
INLINE void base_of_tile(const struct uni_shape *s, float *v, int64_t n, struct place *place, const float *length,
                         const float *bias, char *base, const float *weight, float *L, const int single, const int shift)
{
    float most[TILE + WIDTH], mass[TILE + WIDTH], scale[TILE + WIDTH];
    const int64_t Kv = s->Kv, row_bytes = s->Kb * (single ? 4 : 2);
    struct ahead ahead = {base + TILE * row_bytes, (4 * row_bytes + 63) / 64};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        fetch(&ahead);
        if (i % 16 == 12)
            tiles_stay_awake(s);
        exponentials_of_rows(4, s, v + i * Kv, length + i, bias, most + i, mass + i, shift);
    }
    for (; i < n; i++)
        exponentials_of_rows(1, s, v + i * Kv, length + i, bias, most + i, mass + i, shift);
    for (i = n; i < n + WIDTH; i++)
        mass[i] = most[i] = 1;
    for (i = 0; i < n; i += WIDTH)
        store(scale + i, BASE_SCALE / load(mass + i));
    base_of_parts(s, v, n, place, scale, base, weight, single);
    for (i = 0; i < n; i += WIDTH)
        store(mass + i, natural_log(load(mass + i)) + load(most + i) * 0.693147180559945f);
    copy_row(L, mass, n);
}

/* Both parts of the objective for R = base: dist = -sigma (ln base + L); base is e over its sum. */
static void fit_of_base(const struct uni_shape *s, const float *e, int64_t n, const float *L, const float *sigma,
                        const float *count, double *fit)
{
    for (int64_t i = 0; i < n; i++) {
        vf weights = splat(0), entropy_part = splat(0), total = splat(0);
        for (int64_t k = 0; k < s->Kv; k += WIDTH)
            total += load(e + i * s->Kv + k);
        float mass = add_across(total);
        for (int64_t k = 0; k < s->Kv; k += WIDTH) {
            vf b = load(e + i * s->Kv + k) / mass, weight = load(sigma + k) * b;
            weights += weight;
            entropy_part += weight * natural_log(larger(b, splat(1e-37f)));
        }
        double part = add_across(entropy_part), counts = count ? (double)count[i] : 1;
        fit[1] += counts * part;
        fit[0] -= counts * (part + (double)add_across(weights) * L[i]);
    }
}

#endif
