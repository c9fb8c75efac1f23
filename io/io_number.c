/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers to text and back. printf and strtod follow the locale of the program that this library is part of, where 0.5 may be
 * "0,5". */
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io_internal.h"

static const double power_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                                      1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27,
                                      1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41,
                                      1e42, 1e43, 1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50, 1e51, 1e52, 1e53, 1e54};

static locale_t plain_locale;
static pthread_once_t plain_locale_once = PTHREAD_ONCE_INIT;

static void make_plain_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* For what the fast path cannot round correctly. */
static int parse_slowly(const char *text, size_t length, double *value)
{
    char copy[1024];
    if (length >= sizeof copy)
        return -1;
    memcpy(copy, text, length);
    copy[length] = 0;
    pthread_once(&plain_locale_once, make_plain_locale);
    if (!plain_locale)
        return -1;
    char *end;
    *value = strtod_l(copy, &end, plain_locale);
    return end == copy + length ? 0 : -1;
}

/* "nan", "inf", "infinity" in any capitals. */
static int parse_word(const char *text, size_t length, double *value)
{
    if (length == 3 && strncasecmp(text, "nan", 3) == 0)
        *value = NAN;
    else if ((length == 3 && strncasecmp(text, "inf", 3) == 0) || (length == 8 && strncasecmp(text, "infinity", 8) == 0))
        *value = INFINITY;
    else
        return -1;
    return 0;
}

/* The digits after 'e'; anything beyond four digits is beyond double anyway. */
static const char *parse_exponent(const char *at, const char *end, int *exponent)
{
    int sign = 1, sum = 0;
    if (at < end && (*at == '+' || *at == '-'))
        sign = *at++ == '-' ? -1 : 1;
    if (at == end)
        return NULL;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (sum < 10000)
            sum = sum * 10 + (*at - '0');
    *exponent += sign * sum;
    return at;
}

int io_parse_number(const char *text, size_t length, double *value)
{
    const char *at = text, *end = text + length, *start;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    start = at;
    int negative = 0, digits = 0, seen = 0, exponent = 0;
    uint64_t mantissa = 0;
    if (at < end && (*at == '-' || *at == '+'))
        negative = *at++ == '-';
    const char *whole = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++, seen++)
        if (mantissa || *at != '0')
            mantissa = digits++ < 19 ? mantissa * 10 + (uint64_t)(*at - '0') : mantissa;
    if (at < end && *at == '.')
        for (at++; at < end && *at >= '0' && *at <= '9'; at++, seen++, exponent--)
            if (mantissa || *at != '0')
                mantissa = digits++ < 19 ? mantissa * 10 + (uint64_t)(*at - '0') : mantissa;
    if (!seen) {
        if (parse_word(whole, (size_t)(end - whole), value))
            return -1;
        *value = negative ? -*value : *value;
        return 0;
    }
    if (at < end && (*at == 'e' || *at == 'E') && !(at = parse_exponent(at + 1, end, &exponent)))
        return -1;
    if (at != end)
        return -1;
    /* Clinger: exact operands and one operation give the correctly rounded result. */
    if (digits <= 19 && mantissa <= (UINT64_C(1) << 53) && exponent >= -22 && exponent <= 22) {
        double exact = (double)mantissa;
        exact = exponent < 0 ? exact / power_of_ten[-exponent] : exact * power_of_ten[exponent];
        *value = negative ? -exact : exact;
        return 0;
    }
    return parse_slowly(start, (size_t)(end - start), value);
}

/* Nine digits of a positive finite float as an integer, and the power of ten of the first. A float has 24 bits, so the 53 of the
   arithmetic leave the ninth digit right but where the tenth is a 5 to many places; that cannot change which float it reads as.
 */
static uint32_t nine_digits(double value, int *exponent)
{
    int e = (int)floor(log10(value));
    for (;;) {
        int scale = 8 - e;
        double scaled = scale >= 0 ? value * power_of_ten[scale] : value / power_of_ten[-scale];
        double digits = nearbyint(scaled);
        if (digits < 1e8) {
            e--;
        } else if (digits >= 1e9) {
            e++;
        } else {
            *exponent = e;
            return (uint32_t)digits;
        }
    }
}

size_t io_format_float(char *text, float value)
{
    char *at = text;
    if (isnan(value))
        return (size_t)sprintf(text, "nan");
    if (signbit(value))
        *at++ = '-';
    if (isinf(value))
        return (size_t)(at - text + sprintf(at, "inf"));
    if (value == 0) {
        *at++ = '0';
        *at = 0;
        return (size_t)(at - text);
    }
    int exponent, count = 9;
    uint32_t digits = nine_digits(fabs((double)value), &exponent);
    char digit[9];
    for (int i = 8; i >= 0; i--, digits /= 10)
        digit[i] = (char)('0' + digits % 10);
    while (count > 1 && digit[count - 1] == '0')
        count--;
    int plain = exponent >= -4 && exponent < 9, first = 0;
    int before = plain ? exponent + 1 : 1; /* digits before the point */
    if (before <= 0)
        *at++ = '0';
    for (; first < before; first++)
        *at++ = first < count ? digit[first] : '0';
    if (first < count) {
        *at++ = '.';
        for (int i = before; i < 0; i++)
            *at++ = '0';
        while (first < count)
            *at++ = digit[first++];
    }
    *at = 0;
    if (!plain)
        at += sprintf(at, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    return (size_t)(at - text);
}

size_t io_format_label(char *text, double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        return (size_t)sprintf(text, "%lld", (long long)value);
    pthread_once(&plain_locale_once, make_plain_locale);
    locale_t before = plain_locale ? uselocale(plain_locale) : (locale_t)0; /* of this thread only */
    int length = sprintf(text, "%.15g", value);
    if (strtod(text, NULL) != value)
        length = sprintf(text, "%.17g", value);
    if (before)
        uselocale(before);
    return (size_t)length;
}

float io_half_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023, word;
    float value;
    if (exponent == 0) {
        value = ldexpf((float)fraction, -24);
        return sign ? -value : value;
    }
    word = sign | fraction << 13 | (exponent == 31 ? UINT32_C(255) << 23 : (exponent + 112) << 23);
    memcpy(&value, &word, sizeof value);
    return value;
}
