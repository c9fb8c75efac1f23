/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers to text and back, against the C library's, in any locale. */
#include <float.h>
#include <locale.h>

#include "io_internal.h"
#include "io_testing.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static float random_float(void)
{
    float result;
    do {
        uint32_t bits = (uint32_t)random_bits();
        memcpy(&result, &bits, sizeof result);
    } while (!isfinite(result));
    return result;
}

/* Every float comes back, and the text is printf's. */
static void floats_round_trip(void **state)
{
    (void)state;
    static const float special[] = {0,           -0.0f,   1,       -1,           0.1f,     123456789, 1e9f,  999999999, 1e-4f,
                                    9.99999e-5f, FLT_MAX, FLT_MIN, FLT_TRUE_MIN, 16777216, 5e-39f,    1e38f, -3.25f};
    size_t n_special = sizeof special / sizeof *special;
    int other = 0;
    for (size_t i = 0; i < 400000; i++) {
        float number = i < n_special ? special[i] : i % 2 ? random_float() : (float)(int64_t)random_bits() / 1e18f;
        char ours[IO_FLOAT_TEXT], theirs[64];
        double back;
        size_t length = io_format_float(ours, number);
        assert_int_equal(length, strlen(ours));
        assert_int_equal(io_parse_number(ours, length, &back), 0);
        if ((float)back != number || !signbit(back) != !signbit(number))
            fail_msg("%a became %s", (double)number, ours);
        snprintf(theirs, sizeof theirs, "%.9g", (double)number);
        other += strcmp(ours, theirs) != 0;
    }
    assert_in_range(other, 0, 4); /* ties of the tenth digit */
}

static void not_finite(void **state)
{
    (void)state;
    char text[IO_FLOAT_TEXT];
    io_format_float(text, NAN);
    assert_string_equal(text, "nan");
    io_format_float(text, -INFINITY);
    assert_string_equal(text, "-inf");
}

static void parsing_is_strtod(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "1",
                                        "+1.5",
                                        ".5",
                                        "5.",
                                        "1e5",
                                        "1E-5",
                                        "1e+22",
                                        "1e23",
                                        "123456789012345678901234567890",
                                        "0.1",
                                        "0.000000000000000000000000000001",
                                        "179769313486231570000e289",
                                        "1e400",
                                        "-1e-400",
                                        "9007199254740993",
                                        "2.2250738585072011e-308",
                                        "1e99999999999",
                                        "nan",
                                        "NaN",
                                        "inf",
                                        "-Infinity"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double ours, theirs = strtod(texts[i], NULL);
        assert_int_equal(io_parse_number(texts[i], strlen(texts[i]), &ours), 0);
        if (ours != theirs && !(isnan(ours) && isnan(theirs)))
            fail_msg("%s gives %a, not %a", texts[i], ours, theirs);
        assert_int_equal(!signbit(ours), !signbit(theirs));
    }
    for (int i = 0; i < 200000; i++) {
        char text[64];
        double number, back;
        uint64_t bits = random_bits();
        memcpy(&number, &bits, sizeof number);
        if (!isfinite(number))
            continue;
        snprintf(text, sizeof text, i % 2 ? "%.17g" : "%.6g", number);
        assert_int_equal(io_parse_number(text, strlen(text), &back), 0);
        if (back != strtod(text, NULL))
            fail_msg("%s gives %a", text, back);
    }
    double spaced;
    assert_int_equal(io_parse_number("  2.5\t", 6, &spaced), 0);
    assert_true(spaced == 2.5);
}

static void what_is_no_number(void **state)
{
    (void)state;
    static const char *const texts[] = {"",     " ",   "-",     ".",  "e5",   "1e",      "1e+", "1,5",
                                        "0x10", "1 2", "1.2.3", "NA", "nano", "infinit", "--1", "1f"};
    double number;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (io_parse_number(texts[i], strlen(texts[i]), &number) != -1)
            fail_msg("\"%s\" is read as %g", texts[i], number);
}

static void halves(void **state)
{
    (void)state;
    assert_true(io_half_to_float(0x3c00) == 1.0f && io_half_to_float(0xc000) == -2.0f && io_half_to_float(0x7bff) == 65504.0f);
    assert_true(io_half_to_float(0x0001) == 0x1p-24f && io_half_to_float(0x03ff) == 1023 * 0x1p-24f &&
                io_half_to_float(0x0400) == 0x1p-14f);
    assert_true(isinf(io_half_to_float(0x7c00)) && io_half_to_float(0xfc00) < 0 && isnan(io_half_to_float(0x7e00)));
    assert_true(signbit(io_half_to_float(0x8000)) && io_half_to_float(0x8000) == 0);
    for (uint32_t bits = 0; bits < 0x7c00; bits++) /* monotone: so no value is misplaced */
        assert_true(io_half_to_float((uint16_t)bits) < io_half_to_float((uint16_t)(bits + 1)));
}

static void labels_of_numbers(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {3, "3"},         {-7, "-7"}, {0, "0"}, {0.1, "0.1"}, {1.0 / 3, "0.33333333333333331"}, {123456789012, "123456789012"},
        {1e300, "1e+300"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[IO_FLOAT_TEXT];
        assert_int_equal(io_format_label(text, cases[i].number), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void comma_locales(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "nl_NL.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++)
        set = setlocale(LC_ALL, names[i]);
    if (!set || localeconv()->decimal_point[0] != ',') {
        print_message("skipped: this machine has no locale with a decimal comma\n");
        skip();
    }
    double number;
    char text[IO_FLOAT_TEXT];
    io_format_float(text, 0.5f);
    assert_string_equal(text, "0.5");
    io_format_label(text, 0.1);
    assert_string_equal(text, "0.1");
    assert_int_equal(io_parse_number("1234567890123456789012.5", 24, &number), 0);
    assert_true(number == 1234567890123456789012.5);
    assert_int_equal(localeconv()->decimal_point[0], ','); /* still the caller's */
    setlocale(LC_ALL, "C");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_round_trip), cmocka_unit_test(not_finite), cmocka_unit_test(parsing_is_strtod),
        cmocka_unit_test(what_is_no_number), cmocka_unit_test(halves),     cmocka_unit_test(labels_of_numbers),
        cmocka_unit_test(comma_locales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
