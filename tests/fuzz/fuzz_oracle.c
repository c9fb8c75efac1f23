/* SPDX-License-Identifier: BSD-3-Clause */
/* The input draws a problem of the library: its options, cells, labels, and weights and covariates by eight bytes each. The
   result must be the oracle's (random_problem.h), where rounding alone does not decide it. */
#include "random_problem.h"

#include "fuzzing.h"

int fuzz_input(const uint8_t *data, size_t size)
{
    uint64_t drawn[4] = {1, 2, 3, 4};
    struct random_problem p;
    double off;
    if (size > sizeof drawn)
        return -1;
    memcpy(drawn, data, size);
    random_problem_draw(&p, &drawn[0], &drawn[1], &drawn[2], &drawn[3]);
    enum verdict verdict = random_problem_try(&p, &off);
    if (verdict == WRONG)
        fprintf(stderr, "%lld cells x %lld, %d variables: off by %g\n", (long long)p.study.data.n, (long long)p.study.data.d,
                p.study.n, off);
    REQUIRE(verdict != WRONG);
    study_close(&p.study);
    return 0;
}
