/* The reciprocal that softmax and logistic need, in fixed point.
 *
 * edgec/fixed_point.py is the same in Python. edgec copies the functions a model uses into the
 * model's own .c.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_RECIPROCAL_H
#define EC_RECIPROCAL_H

#include "edgec/ec_fixed_point.h"

/* How many zero bits are above the highest one of x > 0. */
static inline int32_t ec_count_leading_zeros(int32_t x)
{
#if defined(__GNUC__)
    return (int32_t)__builtin_clz((unsigned int)x);
#else
    int32_t zeros = 0;
    for (uint32_t bits = (uint32_t)x; (bits & 0x80000000u) == 0u; bits <<= 1) {
        ++zeros;
    }
    return zeros;
#endif
}

/* x * 2^exponent, saturated. */
static inline int32_t ec_saturating_shift_left(int32_t x, int32_t exponent)
{
    const int32_t limit = INT32_MAX >> exponent;
    if (x > limit) {
        return INT32_MAX;
    }
    return x < -limit - 1 ? INT32_MIN : (int32_t)((uint32_t)x << exponent);
}

/* 1 / (1 + x) for x in [0, 1), both with 31 fraction bits: three Newton-Raphson steps from
 * 48/17 - 32/17 d, two integer bits on the way (gemmlowp's one_over_one_plus_x_for_x_in_0_1). */
static inline int32_t ec_one_over_one_plus_x(int32_t x)
{
    const int32_t half_denominator = (int32_t)(((int64_t)x + INT32_MAX + 1) >> 1);
    int32_t estimate =
        1515870810 + ec_saturating_rounding_doubling_high_mul(half_denominator, -1010580540);
    for (int32_t step = 0; step < 3; ++step) {
        const int32_t error = (INT32_C(1) << 29) - ec_saturating_rounding_doubling_high_mul(
                                                       half_denominator, estimate);
        estimate += ec_saturating_shift_left(
            ec_saturating_rounding_doubling_high_mul(estimate, error), 2);
    }
    return ec_saturating_shift_left(estimate, 1);
}

#endif /* EC_RECIPROCAL_H */
