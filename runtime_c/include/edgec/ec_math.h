/* Integer and float operators that C99 leaves undefined or does not have.
 *
 * edgec copies the functions a model uses into the model's own .c; they never travel as a header.
 * Each function stands after a comment of its own and ends with a brace in the first column, so
 * that it can be cut out.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATH_H
#define EC_MATH_H

#include <stdint.h>

/* Signed right shifts must be arithmetic and conversions to signed must wrap, as with every
 * compiler edgec supports. */
typedef char ec_assert_arithmetic_shift[((-5) >> 1) == -3 ? 1 : -1];
typedef char ec_assert_wrapping_cast[(int32_t)0xFFFFFFFFu == -1 ? 1 : -1];

/* a + b modulo 2^32 */
static inline int32_t ec_add_s32(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* a - b modulo 2^32 */
static inline int32_t ec_sub_s32(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* a * b modulo 2^32 */
static inline int32_t ec_mul_s32(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

/* acc + a * b modulo 2^32, where a * b fits */
static inline int32_t ec_mac_s32(int32_t acc, int32_t a, int32_t b) {
    return (int32_t)((uint32_t)acc + (uint32_t)(a * b));
}

/* x limited to int8 */
static inline int8_t ec_saturate_s8(int32_t x) {
#if defined(__GNUC__) && defined(__ARM_FEATURE_SAT) && !defined(EC_NO_ASM)
    int32_t limited;
    __asm__("ssat %0, #8, %1" : "=r"(limited) : "r"(x));
    return (int8_t)limited;
#elif defined(__GNUC__) && defined(__ARM_FEATURE_SIMD32)
    return (int8_t)__builtin_arm_ssat(x, 8);   /* the function below warns */
#elif defined(EC_NO_ASM) && defined(__ARM_FEATURE_SIMD32)
    return (int8_t)__ssat(x, 8);
#else
    return (int8_t)(x < -128 ? -128 : x > 127 ? 127 : x);
#endif
}

/* x limited to uint8 */
static inline uint8_t ec_saturate_u8(int32_t x) {
#if defined(__GNUC__) && defined(__ARM_FEATURE_SAT) && !defined(EC_NO_ASM)
    int32_t limited;
    __asm__("usat %0, #8, %1" : "=r"(limited) : "r"(x));
    return (uint8_t)limited;
#elif defined(__GNUC__) && defined(__ARM_FEATURE_SIMD32)
    return (uint8_t)__builtin_arm_usat(x, 8);  /* the function below warns */
#elif defined(EC_NO_ASM) && defined(__ARM_FEATURE_SIMD32)
    return (uint8_t)__usat(x, 8);
#else
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
#endif
}

/* x limited to int16 */
static inline int16_t ec_saturate_s16(int32_t x) {
#if defined(__GNUC__) && defined(__ARM_FEATURE_SAT) && !defined(EC_NO_ASM)
    int32_t limited;
    __asm__("ssat %0, #16, %1" : "=r"(limited) : "r"(x));
    return (int16_t)limited;
#elif defined(__GNUC__) && defined(__ARM_FEATURE_SIMD32)
    return (int16_t)__builtin_arm_ssat(x, 16); /* the function below warns */
#elif defined(EC_NO_ASM) && defined(__ARM_FEATURE_SIMD32)
    return (int16_t)__ssat(x, 16);
#else
    return (int16_t)(x < -32768 ? -32768 : x > 32767 ? 32767 : x);
#endif
}

/* a * 2^n modulo 2^32, n from 0 to 31 */
static inline int32_t ec_shl_s32(int32_t a, int32_t n) {
    return (int32_t)((uint32_t)a << n);
}

/* a + b modulo 2^64 */
static inline int64_t ec_add_s64(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* a - b modulo 2^64 */
static inline int64_t ec_sub_s64(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* a * b modulo 2^64 */
static inline int64_t ec_mul_s64(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* a * 2^n modulo 2^64, n from 0 to 63 */
static inline int64_t ec_shl_s64(int64_t a, int64_t n) {
    return (int64_t)((uint64_t)a << n);
}

/* The smaller of two. */
static inline int32_t ec_min_s32(int32_t a, int32_t b) {
    return b < a ? b : a;
}

/* The larger of two. */
static inline int32_t ec_max_s32(int32_t a, int32_t b) {
    return b > a ? b : a;
}

/* The smaller of two. */
static inline uint32_t ec_min_u32(uint32_t a, uint32_t b) {
    return b < a ? b : a;
}

/* The larger of two. */
static inline uint32_t ec_max_u32(uint32_t a, uint32_t b) {
    return b > a ? b : a;
}

/* The smaller of two. */
static inline int64_t ec_min_s64(int64_t a, int64_t b) {
    return b < a ? b : a;
}

/* The larger of two. */
static inline int64_t ec_max_s64(int64_t a, int64_t b) {
    return b > a ? b : a;
}

/* The smaller of two. */
static inline uint64_t ec_min_u64(uint64_t a, uint64_t b) {
    return b < a ? b : a;
}

/* The larger of two. */
static inline uint64_t ec_max_u64(uint64_t a, uint64_t b) {
    return b > a ? b : a;
}

/* The smaller of two; `b` if they are equal or either is a NaN. */
static inline float ec_min_f32(float a, float b) {
    return a < b ? a : b;
}

/* The larger of two; `b` if they are equal or either is a NaN. */
static inline float ec_max_f32(float a, float b) {
    return a > b ? a : b;
}

/* The smaller of two; `b` if they are equal or either is a NaN. */
static inline double ec_min_f64(double a, double b) {
    return a < b ? a : b;
}

/* The larger of two; `b` if they are equal or either is a NaN. */
static inline double ec_max_f64(double a, double b) {
    return a > b ? a : b;
}

/* floor(a / b), b > 0 */
static inline int32_t ec_floor_div_s32(int32_t a, int32_t b) {
    return a >= 0 ? a / b : -((-(a + 1)) / b) - 1;
}

/* a - b * floor(a / b), in [0, b), b > 0 */
static inline int32_t ec_floor_mod_s32(int32_t a, int32_t b) {
    const int32_t rest = a % b;
    return rest < 0 ? rest + b : rest;
}

/* The double whose bits these are. */
static inline double ec_f64_from_bits(uint64_t bits) {
    union {
        uint64_t bits;
        double value;
    } both;
    both.bits = bits;
    return both.value;
}

/* The bits of a double. */
static inline uint64_t ec_bits_from_f64(double value) {
    union {
        double value;
        uint64_t bits;
    } both;
    both.value = value;
    return both.bits;
}

/* The float whose bits these are. */
static inline float ec_f32_from_bits(uint32_t bits) {
    union {
        uint32_t bits;
        float value;
    } both;
    both.bits = bits;
    return both.value;
}

/* The bits of a float. */
static inline uint32_t ec_bits_from_f32(float value) {
    union {
        uint32_t bits;
        float value;
    } both;
    both.value = value;
    return both.bits;
}

#endif /* EC_MATH_H */
