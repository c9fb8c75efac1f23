/* SPDX-License-Identifier: BSD-3-Clause */
/* Selecting and sorting in place: no two entries are the same cell, so the order is complete. */
#include "neighbours.h"

static int nearer(const struct uni_near_cell *a, const struct uni_near_cell *b)
{
    return a->square < b->square || (a->square == b->square && a->cell < b->cell);
}

/* Cuts a[low .. high] around an entry of it: a[low .. *left] is nearer than a[*right .. high], and what lies between is in its
 * place. */
static void cut(struct uni_near_cell *a, int64_t low, int64_t high, int64_t *left, int64_t *right)
{
    struct uni_near_cell pivot = a[low + (high - low) / 2];
    int64_t i = low, j = high;
    while (i <= j) {
        while (nearer(&a[i], &pivot))
            i++;
        while (nearer(&pivot, &a[j]))
            j--;
        if (i <= j) {
            struct uni_near_cell swap = a[i];
            a[i++] = a[j];
            a[j--] = swap;
        }
    }
    *left = j;
    *right = i;
}

void uni_near_select(struct uni_near_cell *a, int64_t n, int64_t m)
{
    int64_t low = 0, high = n - 1, left, right;
    while (low < high) {
        cut(a, low, high, &left, &right);
        if (m - 1 <= left)
            high = left;
        else if (m - 1 >= right)
            low = right;
        else
            return;
    }
}

static void insert(struct uni_near_cell *a, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct uni_near_cell cell = a[i];
        int64_t j = i;
        for (; j > 0 && nearer(&cell, &a[j - 1]); j--)
            a[j] = a[j - 1];
        a[j] = cell;
    }
}

/* The smaller part by recursion, so that it is never deeper than log2 n. */
void uni_near_sort(struct uni_near_cell *a, int64_t n)
{
    while (n > 16) {
        int64_t left, right;
        cut(a, 0, n - 1, &left, &right);
        if (left + 1 < n - right) {
            uni_near_sort(a, left + 1);
            a += right;
            n -= right;
        } else {
            uni_near_sort(a + right, n - right);
            n = left + 1;
        }
    }
    insert(a, n);
}
