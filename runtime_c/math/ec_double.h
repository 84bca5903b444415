/* Functions of doubles without libm, the same bits on every machine.
 *
 * As ec_float.h, in the order of `edgec/numerics/double_math.py`, which states their errors.
 * Compile with -ffp-contract=off.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DOUBLE_H
#define EC_DOUBLE_H

#include "edgec/ec_math.h"

/* 2^n, n from -1022 to 1023 */
static inline double ec_power_of_two_f64(int64_t n) {
    return ec_f64_from_bits((uint64_t)(n + 1023) << 52);
}

/* Horner's scheme, the lowest power first */
static inline double ec_polynomial_f64(const double *coefficients, uint32_t count, double x) {
    double total = coefficients[count - 1u];
    for (uint32_t n = count - 1u; n-- > 0u;) {
        total = total * x + coefficients[n];
    }
    return total;
}

/* e^x: x = n ln 2 + r, a polynomial of r, and 2^n in two exact factors. */
static inline double ec_exp_f64(double x) {
    static const double taylor[12] = { 0.5,
                                       0.16666666666666666,
                                       0.041666666666666664,
                                       0.008333333333333333,
                                       0.001388888888888889,
                                       0.0001984126984126984,
                                       2.48015873015873e-05,
                                       2.7557319223985893e-06,
                                       2.755731922398589e-07,
                                       2.505210838544172e-08,
                                       2.08767569878681e-09,
                                       1.6059043836821613e-10 };
    if (x != x) {
        return x;
    }
    const double limited = ec_min_f64(ec_max_f64(x, -746.0), 710.0);
    const double n = (limited * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0;
    const double r = (limited - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    const double y = (r * r * ec_polynomial_f64(taylor, 12u, r) + r) + 1.0;
    const int64_t power = (int64_t)n;
    const int64_t half = power >> 1;
    return y * ec_power_of_two_f64(half) * ec_power_of_two_f64(power - half);
}

/* The natural logarithm: x = 2^k (1 + f). -inf for zeros, NaN for negative numbers. */
static inline double ec_log_f64(double x) {
    static const double series[10] = { 0.6666666666666666,  0.4,
                                       0.2857142857142857,  0.2222222222222222,
                                       0.18181818181818182, 0.15384615384615385,
                                       0.13333333333333333, 0.11764705882352941,
                                       0.10526315789473684, 0.09523809523809523 };
    const uint64_t root = 0x3FE6A09E667F3BCDu; /* sqrt(1/2), where the mantissa starts */
    uint64_t bits = ec_bits_from_f64(x);
    int64_t bias = 1023;
    if ((bits & 0x7FFFFFFFFFFFFFFFu) == 0u) {
        return ec_f64_from_bits(0xFFF0000000000000u);
    }
    if (bits >= 0x7FF0000000000000u) { /* negative, infinity or NaN */
        return x < 0.0 ? ec_f64_from_bits(0x7FF8000000000000u) : x;
    }
    if (bits < 0x0010000000000000u) { /* a denormal, whose exponent says nothing */
        bits = ec_bits_from_f64(x * 18014398509481984.0);
        bias = 1023 + 54;
    }
    bits += 0x3FF0000000000000u - root;
    const double k = (double)((int64_t)(bits >> 52) - bias);
    const double f = ec_f64_from_bits((bits & 0x000FFFFFFFFFFFFFu) + root) - 1.0;
    const double s = f / (f + 2.0);
    const double z = s * s;
    const double half = 0.5 * f * f;
    const double low =
        s * (z * ec_polynomial_f64(series, 10u, z) + half) + k * 1.90821492927058770002e-10;
    return k * 6.93147180369123816490e-01 + (f - (half - low));
}

/* x^steps by squares, or one over it; steps below 1024 */
static inline double ec_product_f64(double x, uint32_t steps, int inverse) {
    double total = 1.0;
    for (uint32_t n = 0u; n < 10u; ++n) {
        total = (steps >> n & 1u) != 0u ? total * x : total;
        x = x * x;
    }
    return inverse ? 1.0 / total : total;
}

/* x^y, with C's results for infinities, zeros and NaNs. */
static inline double ec_pow_f64(double x, double y) {
    const uint64_t infinite = 0x7FF0000000000000u;
    const uint64_t sign = ec_bits_from_f64(x) >> 63;
    const double size = ec_f64_from_bits(ec_bits_from_f64(x) & 0x7FFFFFFFFFFFFFFFu);
    const double steps = ec_f64_from_bits(ec_bits_from_f64(y) & 0x7FFFFFFFFFFFFFFFu);
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (x != x || y != y) {
        return ec_f64_from_bits(0x7FF8000000000000u);
    }
    const int is_whole = !(steps < 9007199254740992.0) || (double)(int64_t)steps == steps;
    if (is_whole && steps < 1024.0) {
        return ec_product_f64(x, (uint32_t)steps, y < 0.0);
    }
    if (x < 0.0 && !is_whole && ec_bits_from_f64(size) < infinite) {
        return ec_f64_from_bits(0x7FF8000000000000u);
    }
    const double found = size == 1.0 ? 1.0 : ec_exp_f64(y * ec_log_f64(size));
    const int is_odd = is_whole && steps < 9007199254740992.0 && ((int64_t)steps & 1) != 0;
    return sign != 0u && is_odd ? -found : found;
}

/* The remainder of a / b towards zero, with the sign of a; exact. As ec_fmod_f32. */
static inline double ec_fmod_f64(double a, double b) {
    const uint64_t infinite = 0x7FF0000000000000u;
    const uint64_t hidden = 0x0010000000000000u;
    const uint64_t sign = ec_bits_from_f64(a) & 0x8000000000000000u;
    const uint64_t x = ec_bits_from_f64(a) & 0x7FFFFFFFFFFFFFFFu;
    const uint64_t y = ec_bits_from_f64(b) & 0x7FFFFFFFFFFFFFFFu;
    if (y == 0u || x >= infinite || y > infinite) {
        return ec_f64_from_bits(0x7FF8000000000000u);
    }
    if (x < y) {
        return a;
    }
    uint64_t high = x >> 52;
    uint64_t low = y >> 52;
    uint64_t rest = x & (hidden - 1u);
    uint64_t divisor = y & (hidden - 1u);
    if (high != 0u) {
        rest |= hidden;
    } else {
        high = 1u;
    }
    if (low != 0u) {
        divisor |= hidden;
    } else {
        low = 1u;
    }
    rest %= divisor;
    while (high > low) { /* 53 bits and 11 more fit in 64 */
        const uint64_t bits = high - low < 11u ? high - low : 11u;
        rest = (rest << bits) % divisor;
        high -= bits;
    }
    while (rest != 0u && rest < hidden && low > 1u) {
        rest <<= 1;
        --low;
    }
    if (rest < hidden) { /* zero or a denormal */
        return ec_f64_from_bits(sign | rest);
    }
    return ec_f64_from_bits(sign | (low << 52) | (rest & (hidden - 1u)));
}

/* x^y of integers, which wraps; of a negative y 1 or -1 where x is, else 0. */
static inline int64_t ec_pow_i64(int64_t x, int64_t y) {
    uint64_t factor = (uint64_t)x;
    uint64_t total = 1u;
    if (y < 0) {
        return x == 1 ? 1 : x == -1 ? ((y & 1) != 0 ? -1 : 1) : 0;
    }
    for (uint64_t rest = (uint64_t)y; rest != 0u; rest >>= 1) {
        total = (rest & 1u) != 0u ? total * factor : total;
        factor *= factor;
    }
    return (int64_t)total;
}

#endif /* EC_DOUBLE_H */
