/* Rows of floats that are quantized when the model runs: their largest magnitude, and their integers.
 *
 * Plain C whose inner loops compilers vectorize. The order of comparisons does not matter: the results
 * equal a serial loop's.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FLOAT_ROWS_H
#define EC_FLOAT_ROWS_H

#include "edgec/ec_kernel.h"

/* Values that are compared side by side. */
#define EC_ROW_LANES 64

/* Values that are quantized side by side: a vector of the core, since compilers take larger ones
 * apart, value by value. */
#if defined(__AVX512BW__)
#define EC_QUANTIZED 16
#elif defined(__AVX2__)
#define EC_QUANTIZED 8
#else
#define EC_QUANTIZED 4
#endif

/* The largest float below a half, as bits: a value of up to 2^22 that has it added, with its sign, and
 * is cut off then, is rounded half away from zero (compared for all floats up to 128). */
#define EC_BELOW_HALF 0x3effffff

/* The largest of 0 and of `sign` times each value, or with 0 of their sizes; a NaN counts as 0. */
static inline EC_INLINE float ec_reach_of_row(const float *x, int32_t count, float sign) {
    float most[EC_ROW_LANES] = { 0.0f };
    float reach = 0.0f;
    int32_t i = 0;
    for (; i + EC_ROW_LANES <= count; i += EC_ROW_LANES) {
        for (int32_t lane = 0; lane < EC_ROW_LANES; ++lane) {
            const float value = x[i + lane];
            const float size = sign != 0.0f ? value * sign : value < 0.0f ? -value : value;
            most[lane] = size > most[lane] ? size : most[lane];
        }
    }
    for (int32_t lane = 0; i < count; ++i, ++lane) {
        const float size = sign != 0.0f ? x[i] * sign : x[i] < 0.0f ? -x[i] : x[i];
        most[lane] = size > most[lane] ? size : most[lane];
    }
    for (int32_t lane = 0; lane < EC_ROW_LANES; ++lane) {
        reach = most[lane] > reach ? most[lane] : reach;
    }
    return reach;
}

/* out[0] = the largest size of x[i] for i < count; 0 of NaNs alone. */
static EC_KERNEL void ec_size_of_row_f32(float *out, const float *x, int32_t count) {
    out[0] = ec_reach_of_row(x, count, 0.0f);
}

/* out[0] = the largest of 0 and of x[i] for i < count, NaNs left out. */
static EC_KERNEL void ec_high_of_row_f32(float *out, const float *x, int32_t count) {
    out[0] = ec_reach_of_row(x, count, 1.0f);
}

/* out[0] = the least of 0 and of x[i] for i < count, NaNs left out. */
static EC_KERNEL void ec_low_of_row_f32(float *out, const float *x, int32_t count) {
    const float reach = ec_reach_of_row(x, count, -1.0f);
    out[0] = reach > 0.0f ? -reach : 0.0f;
}

/* The nearest integer, ties away from zero, limited to both; 0 for a NaN. */
static inline EC_INLINE int32_t ec_round_in(float value, float least, float most) {
    if (value >= most || value <= least || value != value) {
        return value >= most ? (int32_t)most : value <= least ? (int32_t)least : 0;
    }
    const int32_t whole = (int32_t)value;
    const float rest = value - (float)whole;
    return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

/* The elements of a row that fill vectors of the C compiler, which does not vectorize branches; returns
 * their number. They become int8, or with `is_moved` int16 minus `start`. */
static inline EC_INLINE int32_t ec_quantize_vectors(void *out, const float *x, float scale,
                                                    int32_t start, int32_t is_moved,
                                                    int32_t count) {
    int32_t i = 0;
#if EC_VECTORS
    typedef float row_f32 __attribute__((vector_size(4 * EC_QUANTIZED)));
    typedef int32_t row_s32 __attribute__((vector_size(4 * EC_QUANTIZED)));
    typedef int16_t row_s16 __attribute__((vector_size(2 * EC_QUANTIZED)));
    typedef int8_t row_s8 __attribute__((vector_size(EC_QUANTIZED)));
    const row_f32 zero = { 0.0f }, high = 127.0f - zero;
    const row_f32 low = (is_moved ? -128.0f : -127.0f) - zero;
    for (; i + EC_QUANTIZED <= count; i += EC_QUANTIZED) {
        row_f32 value;
        EC_COPY(&value, x + i, sizeof value);
        value = value * (scale - zero);
        if (is_moved) {
            value = ((float)start - zero) + value;
        }
        value = (row_f32)((row_s32)(value == value) & (row_s32)value);
        const row_s32 is_below = (row_s32)(value < high);
        value = (row_f32)((is_below & (row_s32)value) | (~is_below & (row_s32)high));
        const row_s32 is_above = (row_s32)(value > low);
        value = (row_f32)((is_above & (row_s32)value) | (~is_above & (row_s32)low));
        const row_s32 below_half = ((row_s32)value & INT32_MIN) | EC_BELOW_HALF;
        const row_s32 whole = __builtin_convertvector(value + (row_f32)below_half, row_s32);
        const row_s16 half = __builtin_convertvector(whole - start, row_s16);
        if (is_moved) {
            EC_COPY((int16_t *)out + i, &half, sizeof half);
        } else {
            /* AVX-512 has both in one instruction; the others' bytes come from halves. */
            const row_s8 found = EC_QUANTIZED == 16 ? __builtin_convertvector(whole, row_s8)
                                                    : __builtin_convertvector(half, row_s8);
            EC_COPY((int8_t *)out + i, &found, sizeof found);
        }
    }
#else
    (void)out, (void)x, (void)scale, (void)start, (void)is_moved, (void)count;
#endif
    return i;
}

/* out[i] = x[i] * inverse[0], rounded half away from zero and limited to +-127, for i < count. out
 * may begin where x does. */
static EC_KERNEL void ec_quantize_row_f32(int8_t *out, const float *x, const float *inverse,
                                          int32_t count) {
    const float scale = inverse[0];
    for (int32_t i = ec_quantize_vectors(out, x, scale, 0, 0, count); i < count; ++i) {
        out[i] = (int8_t)ec_round_in(x[i] * scale, -127.0f, 127.0f);
    }
}

/* out[i] = zero[0] + x[i] * inverse[0], rounded half away from zero and limited to int8, less
 * zero[0], for i < count. out may begin where x does. */
static EC_KERNEL void ec_quantize_moved_row_f32(int16_t *out, const float *x, const float *inverse,
                                                const int32_t *zero, int32_t count) {
    const float scale = inverse[0];
    const int32_t start = zero[0];
    for (int32_t i = ec_quantize_vectors(out, x, scale, start, 1, count); i < count; ++i) {
        const float value = (float)start + x[i] * scale;
        out[i] = (int16_t)(ec_round_in(value, -128.0f, 127.0f) - start);
    }
}

#endif /* EC_FLOAT_ROWS_H */
