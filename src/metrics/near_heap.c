/* SPDX-License-Identifier: BSD-3-Clause */
/* Heaps of the best so far. No two entries of cells are equal, so that what is kept does not depend on the order in which they
 * come. */
#include "neighbours.h"

static int nearer(const struct uni_near_cell *a, const struct uni_near_cell *b)
{
    return a->square < b->square || (a->square == b->square && a->cell < b->cell);
}

/* Puts a cell at or below place i of n, where all below i is in order. */
static void sink(struct uni_near_cell *a, int64_t n, int64_t i, struct uni_near_cell cell)
{
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && nearer(&a[child], &a[child + 1]))
            child++;
        if (!nearer(&cell, &a[child]))
            break;
        a[i] = a[child];
    }
    a[i] = cell;
}

void uni_near_add(struct uni_near_cell *a, int64_t *n, int64_t k, struct uni_near_cell cell)
{
    if (*n == k) {
        if (nearer(&cell, &a[0]))
            sink(a, k, 0, cell);
        return;
    }
    int64_t i = (*n)++;
    for (; i > 0 && nearer(&a[(i - 1) / 2], &cell); i = (i - 1) / 2)
        a[i] = a[(i - 1) / 2];
    a[i] = cell;
}

void uni_near_sort(struct uni_near_cell *a, int64_t n)
{
    for (int64_t last = n - 1; last > 0; last--) {
        struct uni_near_cell cell = a[last];
        a[last] = a[0];
        sink(a, last, 0, cell);
    }
}

void uni_high_add(float *a, int64_t *n, int64_t k, float x)
{
    int64_t i = 0;
    if (*n < k) {
        for (i = (*n)++; i > 0 && x < a[(i - 1) / 2]; i = (i - 1) / 2)
            a[i] = a[(i - 1) / 2];
        a[i] = x;
        return;
    }
    if (!(x > a[0]))
        return;
    for (int64_t child; (child = 2 * i + 1) < k; i = child) {
        child += child + 1 < k && a[child + 1] < a[child];
        if (x <= a[child])
            break;
        a[i] = a[child];
    }
    a[i] = x;
}
