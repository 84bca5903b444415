/* Requantization: an int32 accumulator times a real number below one, back to a small integer.
 *
 * edgec/numerics/fixed_point.py is the same in Python, tested against this in every bit. edgec copies the
 * functions a model uses into the model's own .c.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FIXED_POINT_H
#define EC_FIXED_POINT_H

#include "edgec/ec_kernel.h"
#include "edgec/ec_math.h"

/* The high 32 bits of 2 * a * b, ties away from zero for a positive product; saturated for
 * a = b = INT32_MIN (gemmlowp's SaturatingRoundingDoublingHighMul). gemmlowp nudges a negative
 * product by 1 - 2^30 and truncates, which is the same as adding 2^30 and flooring. */
static inline int32_t ec_rounding_doubling_high_multiply(int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b;
    const int32_t high = (int32_t)((product + (INT64_C(1) << 30)) >> 31);
    return a == INT32_MIN && b == INT32_MIN ? INT32_MAX : high;
}

/* x / 2^exponent, ties away from zero, exponent from 0 to 31 (gemmlowp's RoundingDivideByPOT). */
static inline int32_t ec_rounding_divide_by_power_of_two(int32_t x, int32_t exponent) {
    const uint32_t mask = (UINT32_C(1) << exponent) - 1u;
    const uint32_t threshold = (mask >> 1) + ((uint32_t)x >> 31);
    return (x >> exponent) + (((uint32_t)x & mask) > threshold ? 1 : 0);
}

/* acc * multiplier * 2^(shift - 31) with gemmlowp's double rounding, as TFLite Micro and CMSIS-NN
 * do it; multiplier >= 0, shift from -31 to 30. */
static inline int32_t ec_requantize_tflm(int32_t acc, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int32_t raised = (int32_t)((uint32_t)acc << left);
    const int32_t high = (int32_t)(((int64_t)raised * multiplier + (INT64_C(1) << 30)) >> 31);
    return ec_rounding_divide_by_power_of_two(high, right);
}

/* The same for shift <= 0. */
static inline int32_t ec_requantize_tflm_right(int32_t acc, int32_t multiplier, int32_t shift) {
    const int32_t high = (int32_t)(((int64_t)acc * multiplier + (INT64_C(1) << 30)) >> 31);
    return ec_rounding_divide_by_power_of_two(high, -shift);
}

/* The high 32 bits of a * b, rounded half up, b >= 0, for cores whose longest product has 32 bits. One
 * function for all layers: calling it costs less than repeating its code.
 *
 * a = ah * 2^16 + al and b alike: a * b = ah * bh * 2^32 + (ah * bl + middle) * 2^16 + ..., where
 * the middle, al * bh and the upper half of al * bl, is below 2^31 even when 2^15 is added to
 * round. It and ah * bl are added by halves, since their sum may not fit. */
static EC_SHARED EC_PURE int32_t ec_high_by_halves(int32_t a, int32_t b) {
    const uint32_t al = (uint32_t)a & 0xFFFFu;
    const uint32_t bl = (uint32_t)b & 0xFFFFu;
    const int32_t ah = a >> 16;
    const int32_t bh = b >> 16;
    const uint32_t middle = al * (uint32_t)bh + ((al * bl) >> 16) + 0x8000u;
    const int32_t mixed = ah * (int32_t)bl;
    const uint32_t carry = ((middle & 0xFFFFu) + ((uint32_t)mixed & 0xFFFFu)) >> 16;
    return ah * bh + (mixed >> 16) + (int32_t)((middle >> 16) + carry);
}

/* The high 32 bits of 2 * acc * multiplier, rounded half up; -2^30 <= acc < 2^30. Doubling the
 * accumulator instead of the product leaves no shift: one SMMULR where a core has it. */
static inline int32_t ec_high_of_double(int32_t acc, int32_t multiplier) {
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && !defined(EC_NO_ASM)
    int32_t high;
    __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"(acc * 2), "r"(multiplier));
    return high;
#elif defined(__ARM_ARCH) && __ARM_ARCH == 6
    return ec_high_by_halves(acc * 2, multiplier);
#else
    const int64_t product = (int64_t)(acc * 2) * multiplier;
    return (int32_t)((product + (INT64_C(1) << 31)) >> 32);
#endif
}

/* ec_requantize_tflm for shift < 0 and -2^30 <= acc < 2^30, which edgec proves from the weights.
 * A negative tie must go down, which is rounding half up after subtracting one; shifting in two
 * steps cannot overflow. */
static inline int32_t ec_requantize_tflm_small(int32_t acc, int32_t multiplier, int32_t shift) {
    const int32_t high = ec_high_of_double(acc, multiplier);
    return (((high + (high >> 31)) >> (-1 - shift)) + 1) >> 1;
}

/* The same where a negative result will be limited to zero anyway: its ties do not matter. */
static inline int32_t ec_requantize_tflm_relu(int32_t acc, int32_t multiplier, int32_t shift) {
    return ((ec_high_of_double(acc, multiplier) >> (-1 - shift)) + 1) >> 1;
}

/* x / 2 rounded down and limited to int8. */
static inline int8_t ec_saturate_half_s8(int32_t x) {
#if defined(__GNUC__) && defined(__ARM_FEATURE_SAT) && !defined(EC_NO_ASM)
    int32_t limited;
    __asm__("ssat %0, #8, %1, asr #1" : "=r"(limited) : "r"(x));
    return (int8_t)limited;
#else
    const int32_t half = x >> 1;
    return (int8_t)(half < -128 ? -128 : half > 127 ? 127 : half);
#endif
}

/* ec_requantize_tflm_small plus a zero point of at most 16 bits, limited to int8. The zero point
 * is added twice before the last shift, which is the same. */
static inline int8_t ec_requantize_tflm_small_s8(int32_t acc, int32_t multiplier, int32_t shift,
                                                 int32_t zero_point) {
    const int32_t high = ec_high_of_double(acc, multiplier);
    const int32_t doubled = (high + (high >> 31)) >> (-1 - shift);
    return ec_saturate_half_s8(doubled + (1 + 2 * zero_point));
}

/* The same for any acc. */
static inline int8_t ec_requantize_tflm_right_s8(int32_t acc, int32_t multiplier, int32_t shift,
                                                 int32_t zero_point) {
    const int32_t high = (int32_t)(((int64_t)acc * multiplier + (INT64_C(1) << 30)) >> 31);
    const int32_t doubled = (high + (high >> 31)) >> (-1 - shift);
    return ec_saturate_half_s8(doubled + (1 + 2 * zero_point));
}

/* ec_requantize_tflm_relu plus a zero point, limited to int8; results below the zero point must be
 * limited to it, for example by a zero point of -128. */
static inline int8_t ec_requantize_tflm_relu_s8(int32_t acc, int32_t multiplier, int32_t shift,
                                                int32_t zero_point) {
    const int32_t doubled = ec_high_of_double(acc, multiplier) >> (-1 - shift);
    return ec_saturate_half_s8(doubled + (1 + 2 * zero_point));
}

/* acc * multiplier * 2^(shift - 31), rounded once, half up, saturated (TFLite's single rounding);
 * shift from -31 to 30. */
static inline int32_t ec_requantize_single(int32_t acc, int32_t multiplier, int32_t shift) {
    const int32_t total = 31 - shift;
    const int64_t product = (int64_t)acc * multiplier;
    const int64_t result = (product + (INT64_C(1) << (total - 1))) >> total;
    return result > INT32_MAX ? INT32_MAX : result < INT32_MIN ? INT32_MIN : (int32_t)result;
}

/* acc * multiplier * 2^-shift, rounded once, half up (TFLite's rescaling of int64 accumulators);
 * multiplier of 15 bits, shift from 8 to 46. A result that does not fit wraps. */
static inline int32_t ec_requantize_tflm16(int64_t acc, int32_t multiplier, int32_t shift) {
    const uint64_t product = (uint64_t)acc * (uint64_t)multiplier;
    return (int32_t)((int64_t)(product + (UINT64_C(1) << (shift - 1))) >> shift);
}

/* The same of an int32, with multiplier * 2^15 and shift - 17, at least 1. Rounding down to 32 bits first
 * is exact: the rounding constant of the second shift is an integer. */
static inline int32_t ec_requantize_tflm16_high(int32_t acc, int32_t multiplier, int32_t exponent) {
    const int32_t high = (int32_t)(((int64_t)acc * multiplier) >> 32);
    return (high + (INT32_C(1) << (exponent - 1))) >> exponent;
}

/* The upper word of acc * multiplier + offset * 2^16 + high * 2^32; offset of 16 bits. */
static inline int32_t ec_multiply_add_high(int32_t acc, int32_t multiplier, int32_t offset,
                                           int32_t high) {
    const uint64_t added = ((uint64_t)(uint32_t)high << 32) | ((uint32_t)offset << 16);
    return (int32_t)(((int64_t)acc * multiplier + (int64_t)added) >> 32);
}

/* Twice (acc * multiplier + offset * 2^11) / 2^33, rounded down, without a long product: the
 * multiplier's parts of 11, 8 and 13 bits, the least first. Flooring in steps is flooring once;
 * edgec proves that nothing leaves int32. */
static inline int32_t ec_rescale_doubled(int32_t acc, uint32_t multiplier, int32_t offset) {
    int32_t sum = (acc * (int32_t)(multiplier & 0x7FF)) >> 11;
    sum = (sum + acc * (int32_t)((multiplier >> 11) & 0xFF) + offset) >> 8;
    return (sum + acc * (int32_t)(multiplier >> 19)) >> 13;
}

/* (acc * multiplier + offset * 2^11) / 2^33 rounded half up. */
static inline int32_t ec_rescale_parts(int32_t acc, uint32_t multiplier, int32_t offset) {
    return (ec_rescale_doubled(acc, multiplier, offset) + 1) >> 1;
}

/* The same limited to int8, with a zero point of -128. One function for all layers: calling it costs
 * less than its code does that often. */
static EC_SHARED EC_PURE int32_t ec_rescale_parts_relu_s8(int32_t acc, uint32_t multiplier,
                                                          int32_t offset) {
    int32_t value = ec_rescale_parts(acc, multiplier, offset);
    value &= ~(value >> 31);
    return (value > 255 ? 255 : value) - 128;
}

/* The same with any zero point of int8. */
static EC_SHARED EC_PURE int32_t ec_rescale_parts_s8(int32_t acc, uint32_t multiplier,
                                                     int32_t offset, int32_t zero_point) {
    int32_t value = ec_rescale_parts(acc, multiplier, offset) + (zero_point + 128);
    value &= ~(value >> 31);
    return (value > 255 ? 255 : value) - 128;
}

/* The nearest integer, ties to even, of a number between -2^22 and 2^22: adding 1.5 * 2^23 leaves it
 * in the low bits of the float. */
static inline int32_t ec_round_half_even_bounded_f32(float value) {
    return (int32_t)(ec_bits_from_f32(value + 12582912.0f) - 0x4B400000u);
}

/* The nearest integer, ties to even; saturated to the floats in int32's range (the largest is
 * 2^31 - 128); 0 for a NaN. */
static inline int32_t ec_round_half_even_f32(float value) {
    if (value > -4194304.0f && value < 4194304.0f) {
        return ec_round_half_even_bounded_f32(value);
    }
    if (value >= 2147483648.0f) {
        return 2147483520;
    }
    if (value < -2147483648.0f) {
        return INT32_MIN;
    }
    if (value >= 8388608.0f || value <= -8388608.0f) {
        return (int32_t)value; /* already an integer */
    }
    if (value != value) {
        return 0;
    }
    {
        /* From 2^22 to 2^23 a float has halves: round them to even by hand. */
        const int32_t down = (int32_t)(value - 0.5f);
        const float up_by = value - (float)down;
        return up_by > 0.5f || (up_by == 0.5f && (down & 1) != 0) ? down + 1 : down;
    }
}

/* The nearest integer, ties away from zero, limited to -2^30 and 2^30; 0 for a NaN. */
static inline int32_t ec_round_half_away_f32(float value) {
    if (value >= 1073741824.0f) {
        return INT32_C(1) << 30;
    }
    if (value > -1073741824.0f) {
        const int32_t whole = (int32_t)value;
        const float rest = value - (float)whole;
        return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
    }
    return value == value ? -(INT32_C(1) << 30) : 0;
}

/* The nearest integer, ties away from zero, limited to -2^30 and 2^30; 0 for a NaN. */
static inline int32_t ec_round_half_away_f64(double value) {
    if (value >= 1073741824.0) {
        return INT32_C(1) << 30;
    }
    if (value > -1073741824.0) {
        const int32_t whole = (int32_t)value;
        const double rest = value - whole;
        return whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0);
    }
    return value == value ? -(INT32_C(1) << 30) : 0;
}

/* float32(acc) * scale, rounded half to even and saturated (ONNX Runtime). */
static inline int32_t ec_requantize_onnx(int32_t acc, float scale) {
    return ec_round_half_even_f32((float)acc * scale);
}

/* a * b + c with one rounding. Without an instruction for it, in double precision; edgec proves that the
 * result is equal for a model's operands. */
static inline float ec_fma_f32(float a, float b, float c) {
#if defined(__GNUC__) && defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(a, b, c);
#else
    return (float)((double)a * (double)b + (double)c);
#endif
}

/* The nearest integer, ties to even; limited to -1024 and 1024, 1024 for a NaN. By integer
 * arithmetic on the float's bits, which without a floating-point unit is the fastest. */
static inline int32_t ec_round_half_even_small_f32(float value) {
    const uint32_t bits = ec_bits_from_f32(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t fraction_bits = 150u - (magnitude >> 23);
    uint32_t rounded = 0u;
    if (magnitude >= 0x44800000u) {
        rounded = 1024u;
    } else if (fraction_bits <= 24u) {
        const uint32_t mantissa = (bits & 0x7FFFFFu) | 0x800000u;
        const uint32_t odd = (mantissa >> fraction_bits) & 1u;
        rounded = (mantissa + (1u << (fraction_bits - 1u)) - 1u + odd) >> fraction_bits;
    }
    return bits >> 31 != 0u ? -(int32_t)rounded : (int32_t)rounded;
}

/* ec_requantize_onnx plus a zero point of at most 8 bits, limited to int8; scale is finite. The
 * conversion of a floating-point unit rounds half to even in its default mode, and saturates. */
static inline int8_t ec_requantize_onnx_s8(int32_t acc, float scale, int32_t zero_point) {
    const float scaled = (float)acc * scale;
#if defined(__GNUC__) && defined(__ARM_FP) && defined(__thumb2__) && !defined(EC_NO_ASM)
    float converted;
    int32_t rounded;
    __asm__("vcvtr.s32.f32 %0, %1" : "=t"(converted) : "t"(scaled));
    rounded = (int32_t)ec_bits_from_f32(converted);
    return ec_saturate_s8((rounded > 1024 ? 1024 : rounded) + zero_point);
#else
    return ec_saturate_s8(ec_round_half_even_small_f32(scaled) + zero_point);
#endif
}

/* Leading zero bits of x as an unsigned number, x not 0. */
static inline int32_t ec_count_leading_zeros(int32_t x) {
#if defined(__GNUC__)
    return (int32_t)__builtin_clz((unsigned int)x);
#else
    int32_t zeros = 0;
    for (uint32_t bits = (uint32_t)x; bits < 0x80000000u; bits <<= 1) {
        zeros += 1;
    }
    return zeros;
#endif
}

/* x * 2^bits, saturated; bits from 0 to 30. */
static inline int32_t ec_saturating_shift_left(int32_t x, int32_t bits) {
    const int32_t limit = INT32_MAX >> bits;
    return x > limit ? INT32_MAX : x < -limit - 1 ? INT32_MIN : x * (INT32_C(1) << bits);
}

/* 1 / (1 + x) for x in [0, 1), both with 31 fraction bits: three Newton-Raphson steps from
 * 48/17 - 32/17 * d, on numbers with two integer bits (gemmlowp's one_over_one_plus_x). */
static inline int32_t ec_one_over_one_plus_x(int32_t x) {
    const int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) >> 1);
    int32_t estimate = 1515870810 + ec_rounding_doubling_high_multiply(half, -1010580540);
    for (int32_t step = 0; step < 3; ++step) {
        const int32_t product = ec_rounding_doubling_high_multiply(half, estimate);
        const int32_t error = (INT32_C(1) << 29) - product;
        const int32_t change = ec_rounding_doubling_high_multiply(estimate, error);
        estimate += ec_saturating_shift_left(change, 2);
    }
    return ec_saturating_shift_left(estimate, 1);
}

/* 1 / sqrt(x) for x in [1/4, 1), with 31 fraction bits; the result has 29. Three steps of Newton's
 * method from a polynomial. */
static inline int32_t ec_reciprocal_root(int32_t x) {
    const int32_t slope = -1763825220 + ec_rounding_doubling_high_multiply(x, 879706809);
    int32_t root = 1433898720 + ec_rounding_doubling_high_multiply(x, slope);
    for (int32_t step = 0; step < 3; ++step) {
        const int32_t square = ec_rounding_doubling_high_multiply(root, root);
        const int32_t product = ec_rounding_doubling_high_multiply(x, square);
        const int32_t rest = (INT32_C(3) << 27) - product;
        root = ec_rounding_doubling_high_multiply(root, rest << 2) << 1;
    }
    return root;
}

#endif /* EC_FIXED_POINT_H */
