/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that the CUDA backend makes to the card fail, in every use the first from each place in turn, once for want of memory and
 * once by a broken kernel, in uses that reach all of the backend's host code between them. What must hold:
 *
 * - the call of the library says so, in a sentence with the card's reason; or it was one of those that give something back, the
 * result is that of a run without failure, and nothing is lost;
 * - what cannot be read is NaN, and can be read when the card works again;
 * - all is given back, once, and no copy is under way in memory that is (card.h);
 * - the same process can go on: a second use works, or, where the card is gone for good, ends with a sentence.
 *
 *     card_faults [name]    the uses whose names hold it; exit code 77 where there is no stand-in */
#include "card_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_MEMORY = 2, BROKEN_KERNEL = 719 };

static const struct use uses[] = {
    {"blocks, seeded", 300, 5, 3, "clusters=4", .seeded = 1},
    {"single, terms, sweep by sweep", 300, 5, 3, "clusters=4 precision=single terms=yes sweeps=6 window=1", .variables = 1},
    {"a sigma for every cluster, cells without a label", 300, 7, 3, "", .cluster_sigma = 1, .odd_ones = 1},
    {"more sweeps than a graph has", 200, 5, 2, "clusters=4 sweeps=70 window=100 max-rounds=3", .variables = 1},
    {"wide: D 64, K 128", 300, 64, 2, "clusters=128", .variables = 1},
    {"wide: D 50, K 100, single", 300, 50, 2, "clusters=100 precision=single", .variables = 1},
    {"plain path: D 70", 200, 70, 3, "clusters=4", .variables = 1},
    {"plain path: K 130, single", 400, 5, 3, "clusters=130 precision=single terms=yes", .variables = 1},
    {"damped", 300, 5, 3, "clusters=4 update=jacobi", .variables = 1},
    {"damped, terms, sweep by sweep", 300, 5, 3, "clusters=4 update=jacobi terms=yes sweeps=6 window=1", .variables = 1},
    {"damped, plain path, single", 200, 70, 3, "clusters=4 update=jacobi precision=single", .variables = 1},
    {"degenerate systems", 300, 5, 3, "clusters=4", .degenerate = 1},
    {"kernels from PTX", 300, 5, 3, "clusters=4", .variables = 1, .from_ptx = 1},
    {"kernels from PTX, damped", 300, 5, 3, "clusters=4 update=jacobi", .variables = 1, .from_ptx = 1},
    {"small pieces", 300, 50, 40, "clusters=100", .variables = 1},
    {"two variables", 300, 5, 4, "clusters=4", .variables = 2},
    {"three variables, damped", 300, 5, 4, "clusters=4 update=jacobi", .variables = 3},
    {"sums by level", 300, 5, 4, "clusters=4", .variables = 3, .by_level = 1},
    {"several pieces of rows", 9000, 64, 2, "clusters=4 sweeps=1 max-rounds=1", .variables = 1},
    {"from and to the card, seeded", 300, 5, 3, "clusters=4", .seeded = 1, .in = ON_CARD, .out = ON_CARD},
    {"from and to pinned memory, cells without a label", 300, 8, 3, "clusters=4", .odd_ones = 1, .in = PINNED, .out = REGISTERED},
    {"from the card", 300, 5, 3, "clusters=4", .in = ON_CARD},
    {"to the card, from plain memory, plain path", 200, 70, 3, "clusters=4", .out = ON_CARD},
    {"from and to the card, several threads", 9000, 64, 2, "clusters=4 sweeps=1 max-rounds=1 threads=3", .in = ON_CARD,
     .out = ON_CARD},
    {"several threads for them", 9000, 64, 2, "clusters=4 sweeps=1 max-rounds=1 threads=3", .variables = 1},
    {"Z on the host", 300, 5, 3, "clusters=4", .seeded = 1, .odd_ones = 1, .way = 1},
    {"Z and base on the host", 300, 5, 3, "clusters=4 terms=yes", .odd_ones = 1, .way = 2},
    {"Z and base on the host, damped", 300, 5, 3, "clusters=4 update=jacobi", .way = 2},
    {"Z on the host, plain path, single", 200, 70, 3, "clusters=4 precision=single", .way = 1},
    {"from and to the card, Z on the host", 300, 5, 3, "clusters=4", .odd_ones = 1, .in = ON_CARD, .out = ON_CARD, .way = 1},
    {"from and to pinned memory, Z and base on the host", 300, 5, 3, "clusters=4", .odd_ones = 1, .in = PINNED, .out = PINNED,
     .way = 2},
    {"several pieces of rows on the host, several threads", 9000, 64, 2, "clusters=4 sweeps=1 max-rounds=1 threads=3", .way = 2},
};

/* What only gives something back, or looks for an error that others left, may fail without a word. (Of a launch that fails the
   word is asked for where the launch itself is made to.) */
static int only_gives_back(const char *function)
{
    static const char *const names[] = {"cudaFree",         "cudaFreeHost",         "cudaStreamDestroy",
                                        "cudaEventDestroy", "cudaGraphExecDestroy", "cudaGraphDestroy",
                                        "cudaGetDevice",    "cudaGetLastError",     "cudaHostUnregister"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], function) == 0)
            return 1;
    return 0;
}

/* What the library says that the host has left (--wrap, CMakeLists.txt); -1: not known. */
static int64_t host_memory = -1;
int64_t __wrap_uni_memory_left(int64_t *address_space);
int64_t __wrap_uni_memory_left(int64_t *address_space)
{
    if (address_space)
        *address_space = -1;
    return host_memory;
}

static const char *reason_of(int error)
{
    return error == NO_MEMORY ? "out of memory" : "unspecified launch failure";
}

/* What is wrong with what came of a use in which a call failed, or NULL. */
static const char *wrong_with(const struct got *g, const struct got *good, int error)
{
    if (*card.problems())
        return card.problems();
    if (!*card.failed())
        return "the call was not reached";
    if (g->stale)
        return "what failed to be read is not NaN, or cannot be read again";
    if (g->status == UNI_OK)
        return !only_gives_back(card.failed()) ? "it went on" : got_same(g, good) ? NULL : "it went on, with another result";
    if (!strstr(g->sentence, reason_of(error)) || strchr(g->sentence, '\n'))
        return "a sentence without the reason";
    if (g->status != UNI_DEVICE && g->status != UNI_BACKEND && !(g->status == UNI_MEMORY && error == NO_MEMORY))
        return "another status";
    return NULL;
}

/* After a failure, in the same process; the card's state is as the failure left it. */
static const char *wrong_afterwards(const struct use *u, const struct got *good, int error)
{
    struct got again;
    const char *wrong = NULL;
    use_run(&again, u, 0);
    if (*card.problems())
        wrong = card.problems();
    else if (error == NO_MEMORY)
        wrong = again.status == UNI_OK && got_same(&again, good) ? NULL : "the next use does not work";
    else if (again.status == UNI_OK || !strstr(again.sentence, reason_of(error)))
        wrong = "the next use does not say that the card is broken";
    got_free(&again);
    return wrong;
}

static void fail_at(const struct use *u, const struct got *good, long at, int error, int afterwards)
{
    struct got g;
    card.begin(at, error);
    use_run(&g, u, error == NO_MEMORY);
    const char *wrong = wrong_with(&g, good, error);
    checks++;
    if (wrong) {
        failures++;
        printf("FAIL %s: call %ld (%s, error %d): %s\n     \"%s\"\n", u->name, at, card.failed(), error, wrong, g.sentence);
    } else if (afterwards && (wrong = wrong_afterwards(u, good, error))) {
        failures++;
        printf("FAIL %s: after call %ld (%s, error %d): %s\n", u->name, at, card.failed(), error, wrong);
    }
    got_free(&g);
}

static const int64_t MUCH = 80000000000;

/* Free memory of the card with which a use goes a way: between what that takes and what the one before takes. -1: no way. */
static int64_t free_for(const struct use *u, int way)
{
    int64_t more = MUCH, takes = way ? use_card_bytes(u) : MUCH;
    for (int i = 0; i < way; i++) {
        more = takes;
        card.set("free", more - 1);
        takes = use_card_bytes(u);
    }
    card.set("free", MUCH);
    return takes < 0 ? -1 : (more + takes) / 2 + (u->in == ON_CARD ? u->cells * u->dims * 4 : 0); /* beside the caller's own */
}

/* The same as with all on the card, which kernels reach where it lies, and a sentence says so. */
static void check_way(const struct use *u, const struct got *good)
{
    static const char *const words[] = {"", "and the embedding (", "and the embedding and the assignments ("};
    struct got all;
    expect(u->name, "where the rows lie", card.on_host() != (u->way == 2 ? 3 : u->way), 0);
    expect(u->name, "is told", u->way ? !strstr(good->warning, words[u->way]) || !strstr(good->warning, "PCIe") : *good->warning,
           0);
    if (!u->way)
        return;
    card.set("free", MUCH);
    use_run(&all, u, 0);
    expect(u->name, "the same as all on the card", !got_same(good, &all) || all.card_bytes <= good->card_bytes, 0);
    got_free(&all);
    card.set("free", free_for(u, u->way));
}

static void check_use(const struct use *u)
{
    struct got good, again;
    card.set("free", free_for(u, u->way));
    card.set("degenerate", u->degenerate);
    card.set("from ptx", u->from_ptx);
    card.begin(0, 0);
    use_run(&good, u, 0);
    long calls = card.calls(), places = 0;
    char *is_new = calloc((size_t)calls + 1, 1);
    for (long i = 1; is_new && i <= calls; i++)
        is_new[i] = (char)card.is_new(i);
    must(u->name, "a use without failures", good.status);
    checks++;
    if (*card.problems() || good.status || good.mangled || !is_new) {
        failures++;
        printf("FAIL %s: without a failure: %s%s%s\n", u->name, card.problems(), good.sentence, good.mangled ? "other rows" : "");
        got_free(&good);
        free(is_new);
        return;
    }
    check_way(u, &good);
    use_run(&again, u, 0);
    expect(u->name, "the same again", !got_same(&good, &again), 0);
    got_free(&again);
    for (long at = 1; at <= calls; at++) {
        if (!is_new[at])
            continue;
        places++;
        fail_at(u, &good, at, NO_MEMORY, is_new[at] > 1);
        fail_at(u, &good, at, BROKEN_KERNEL, is_new[at] > 1);
    }
    printf("%-50s %5ld calls from %ld places\n", u->name, calls, places);
    free(is_new);
    card.begin(0, 0);
    card.set("free", MUCH);
    got_free(&good);
}

/* Every shape that has kernels of its own: grids and shared memory are what a card takes, and rows come back as they were sent.
 */
static void check_shapes(void)
{
    static const int64_t dims[] = {32, 50, 64, 70}, clusters[] = {60, 100, 128, 200, 300, 600};
    char options[128];
    struct got g;
    card.begin(0, 0);
    for (int i = 0; i < 4 * 6 * 8; i++) {
        const int64_t D = dims[i / 48], K = clusters[i / 8 % 6];
        if (D != 32 && K > 128)
            continue;
        snprintf(options, sizeof options, "clusters=%lld precision=%s update=%s sweeps=%d terms=%s window=9 max-rounds=1",
                 (long long)K, i & 1 ? "single" : "half", i & 2 ? "jacobi" : "blocks", i & 2 && i & 4 ? 30 : 4,
                 i & 4 ? "yes" : "no");
        const struct use u = {options, 700, D, 3, options, .variables = 1};
        use_run(&g, &u, 0);
        int wrong = g.status || g.mangled || *card.problems() || memcmp(g.array[0], g.array[3], (size_t)g.bytes[0]) != 0;
        expect(options, "runs", wrong, 0);
        if (wrong)
            printf("     D %lld: %s %s\n", (long long)D, g.sentence, card.problems());
        got_free(&g);
    }
}

/* The embedding and the result in memory of every kind. */
static void check_memory(void)
{
    static const struct shape shapes[] = {{"places, d 5", 300, 5, 4, 3, .skew = 1, .odd_ones = 1},
                                          {"places, d 12", 300, 12, 4, 3, .skew = 1, .variables = 2},
                                          {"places, d 70", 200, 70, 4, 3, .single = 1}};
    card.begin(0, 0);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_places(&shapes[i]);
        expect(shapes[i].name, "nothing broken", *card.problems() != 0, 0);
        if (*card.problems())
            printf("%s", card.problems());
        card.begin(0, 0);
    }
}

/* So many rows that every buffer is used again, in and out: what was in it must have gone. */
static void check_turns(void)
{
    struct use use = {"many rows", 600000, 2, 3, "clusters=2 sweeps=1 max-rounds=1 threads=1", .odd_ones = 1};
    struct got plain, placed;
    card.begin(0, 0);
    use_run(&plain, &use, 0);
    must(use.name, "from plain memory", plain.status);
    for (enum place place = ON_CARD; place <= PINNED; place++) {
        use.in = use.out = place;
        use_run(&placed, &use, 0);
        must(use.name, "from and to another", placed.status);
        expect(use.name, "the same", placed.mangled || *card.problems() || !got_same(&plain, &placed), 0);
        got_free(&placed);
    }
    got_free(&plain);
}

/* On the second of two cards: nothing is made on the first, and a thread that uses it goes on with it. */
static void check_devices(void)
{
    const struct use second = {"the second of two", 300, 5, 3, "clusters=4 device=1", .variables = 1};
    const struct use third = {"a third of two", 300, 5, 3, "clusters=4 device=2", .variables = 1};
    struct got g;
    card.set("count", 2);
    card.begin(0, 0);
    use_run(&g, &second, 0);
    expect(second.name, "works", g.status != UNI_OK || *card.problems() || !strstr(g.backend, "card 1"), 0);
    expect(second.name, "nothing on the first", card.used(0), 0);
    got_free(&g);
    card.set("current", 0);
    use_run(&g, &second, 0);
    expect(second.name, "the thread's own", g.status != UNI_OK || card.current() != 0, 0);
    got_free(&g);
    use_run(&g, &third, 0);
    expect(third.name, "is refused", g.status != UNI_BACKEND || !strstr(g.sentence, "this machine has 2"), 0);
    got_free(&g);
    card.set("count", 1);
}

/* What neither the card nor the host can take is refused with both numbers, before anything is taken. */
static void check_refusals(void)
{
    const struct use u = {"what does not fit", 300, 5, 3, "clusters=4", .variables = 1};
    struct got g;
    char numbers[64];
    card.begin(0, 0);
    int64_t least = free_for(&u, 2), of_host = free_for(&u, 1);
    card.set("free", least / 2);
    use_run(&g, &u, 0);
    snprintf(numbers, sizeof numbers, "and %lld are free", (long long)(least / 2));
    expect(u.name, "on no card", g.status != UNI_MEMORY || !strstr(g.sentence, numbers) || *card.problems(), 0);
    got_free(&g);
    card.set("free", of_host);
    host_memory = 1000;
    use_run(&g, &u, 0);
    expect(u.name, "nor on the host",
           g.status != UNI_MEMORY || !strstr(g.sentence, "bytes of the host's memory, and 1000 are available") ||
               *card.problems(),
           0);
    got_free(&g);
    host_memory = 1 << 30;
    use_run(&g, &u, 0);
    expect(u.name, "on the host", g.status != UNI_OK || card.on_host() != 1, 0);
    got_free(&g);
    host_memory = -1;
    card.set("free", MUCH);
}

/* UNISONO_CUDA_MEMORY is as a smaller card. */
static void check_limit(void)
{
    const struct use u = {"a limit", 300, 5, 3, "clusters=4", .variables = 1};
    static const char *const bad[] = {"4GB", "-1", "0", "1e9"};
    struct got g;
    char text[32];
    card.begin(0, 0);
    snprintf(text, sizeof text, "%lld", (long long)free_for(&u, 2));
    setenv("UNISONO_CUDA_MEMORY", text, 1);
    use_run(&g, &u, 0);
    expect(u.name, "rows on the host", g.status != UNI_OK || card.on_host() != 3, 0);
    got_free(&g);
    setenv("UNISONO_CUDA_MEMORY", "1000", 1);
    use_run(&g, &u, 0);
    expect(u.name, "too little", g.status != UNI_MEMORY || !strstr(g.sentence, "and 1000 are allowed by UNISONO_CUDA_MEMORY"), 0);
    got_free(&g);
    for (int i = 0; i < 4; i++) {
        setenv("UNISONO_CUDA_MEMORY", bad[i], 1);
        use_run(&g, &u, 0);
        expect(bad[i], "is no number", g.status != UNI_OPTION || !strstr(g.sentence, bad[i]), 0);
        got_free(&g);
    }
    unsetenv("UNISONO_CUDA_MEMORY");
}

int main(int argc, char **argv)
{
    int opened = card_open();
    if (opened < 0 || (opened && !caller_open()))
        return 1;
    if (!opened) {
        printf("skipped: the stand-in for a card is not built, which takes nvcc\n");
        return 77;
    }
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (argc < 2 || strstr(uses[i].name, argv[1]))
            check_use(&uses[i]);
    check_shapes();
    check_memory();
    check_turns();
    check_devices();
    check_refusals();
    check_limit();
    printf("%d checks, %d failed\n", checks, failures);
    return failures > 0;
}
