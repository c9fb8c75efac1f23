/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked of a file whose bytes are anything: an embedding, or a column of obs. The file's last byte says which. HDF5 does
 * not look at what is behind a file's end, so that a seed with a byte more (make_seeds.c) is the same file and another question;
 * and what is made of it by changes elsewhere is asked the same. */
#ifndef TESTS_FUZZ_H5AD_LOOKS_H
#define TESTS_FUZZ_H5AD_LOOKS_H

/* The first two are in every file that is made, all in ../data/older_07.h5ad. */
enum { MADE_LOOKS = 2, LOOKS = 4 };

struct look {
    const char *key, *column; /* one of them */
};

static inline struct look look_of(unsigned last_byte)
{
    static const struct look looks[LOOKS] = {{"X_pca", 0}, {0, "batch"}, {"X_old_csr", 0}, {0, "loose"}};
    return looks[last_byte % LOOKS];
}

#endif
