/* SPDX-License-Identifier: BSD-3-Clause */
/* Thousands of small random problems against the oracle: every size, option and oddity of the data at once. A problem is refused
   with a sentence, or its result is finite, its assignments sum to one, and it is the oracle's; none takes more than 2 s of the
   processor. UNISONO_PROBLEMS sets how many, UNISONO_FIRST the number of the first, which a failure names. */
#include "random_problem.h"
#include "testing.h"

#include <math.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
enum { SECONDS = 20 };
#else
enum { SECONDS = 2 }; /* of the processor, not of the clock, which goes on while others have the machine; the usual is 0.01 */
#endif

enum { PROBLEMS = 2000 };

static char too_long[64]; /* what is said then */

static void give_up(int signal)
{
    (void)signal;
    if (write(STDOUT_FILENO, too_long, strlen(too_long)) > 0)
        _exit(1);
    _exit(2);
}

static void allow(int64_t number, int seconds)
{
    struct itimerval limit = {.it_value.tv_sec = seconds};
    snprintf(too_long, sizeof too_long, "problem %lld takes more than %d s\n", (long long)number, SECONDS);
    signal(SIGPROF, give_up);
    assert_int_equal(setitimer(ITIMER_PROF, &limit, NULL), 0);
}

static int64_t from_environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? atoll(text) : otherwise;
}

static void random_problems_agree_with_the_oracle(void **state)
{
    (void)state;
    int64_t first = from_environment("UNISONO_FIRST", 0), count = from_environment("UNISONO_PROBLEMS", PROBLEMS), seen[5] = {0};
    double worst = 0;
    for (int64_t number = first; number < first + count; number++) {
        struct random_problem p;
        double off;
        uint64_t drawn = (uint64_t)number * 0x9E3779B97F4A7C15u + 77;
        random_problem_draw(&p, &drawn, &drawn, &drawn, &drawn);
        allow(number, SECONDS);
        enum verdict verdict = random_problem_try(&p, &off);
        allow(number, 0);
        seen[verdict]++;
        if (verdict == AGREES)
            worst = fmax(worst, off);
        if (verdict == WRONG || verdict == KNIFE_EDGE)
            print_message("problem %lld (%lld cells x %lld, %d variables): off by %g%s\n", (long long)number,
                          (long long)p.study.data.n, (long long)p.study.data.d, p.study.n, off,
                          verdict == WRONG ? "" : ", on a knife edge");
        study_close(&p.study);
    }
    print_message("%lld agree (worst %.2g), %lld on a knife edge, %lld unchanged, %lld refused, %lld wrong\n",
                  (long long)seen[AGREES], worst, (long long)seen[KNIFE_EDGE], (long long)seen[UNCHANGED],
                  (long long)seen[REFUSED], (long long)seen[WRONG]);
    assert_int_equal(seen[WRONG], 0);
    assert_true(seen[KNIFE_EDGE] <= count / 100);
    assert_true(count < 100 || seen[AGREES] > count / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_problems_agree_with_the_oracle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
