/* Filters over time for the DSP extension of Armv7E-M: many short dot products of values as they lie
 * in memory.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_SVDF_H
#define EC_SVDF_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* Four values of int8, as they lie in memory, times four in a word, added to acc; modulo 2^32. */
static inline EC_UNUSED int32_t ec_dot_4_s8_dsp(int32_t acc, const int8_t *x, int32_t w) {
    const int32_t four = ec_load_word(x);
    acc = ec_smlad(ec_sxtb16(four), ec_sxtb16(w), acc);
    return ec_smlad(ec_sxtb16_odd(four), ec_sxtb16_odd(w), acc);
}

/* out[u] = bias[u] + the sum of x[u * taps + k] * w[u * taps + k] over k < taps, modulo 2^32, rescaled
 * by multiplier[0] and shift[0] < 0 with gemmlowp's double rounding, plus zero_point, limited to
 * int8, for u < units. taps is a multiple of 4. The stream holds for each unit its bias and then its
 * weights. One unit is read and then written; x and out need no alignment. */
static EC_KERNEL void ec_svdf_time_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                          const int32_t *multiplier, const int8_t *shift,
                                          int32_t units, int32_t taps, int32_t zero_point) {
    const int32_t factor = *multiplier;
    const int32_t by = *shift;
    const int8_t *const out_end = out + units;
    do {
        int32_t acc = *stream++;
        const int8_t *const end = x + taps;
        do {
            acc = ec_dot_4_s8_dsp(acc, x, *stream++);
            x += 4;
        } while (x != end);
        *out++ = ec_requantize_tflm_right_s8(acc, factor, by, zero_point);
    } while (out != out_end);
}

/* The same of int16, aligned to 2 bytes; taps is a multiple of 2. */
static EC_KERNEL void ec_svdf_time_s16_dsp(int8_t *out, const int16_t *x, const int32_t *stream,
                                           const int32_t *multiplier, const int8_t *shift,
                                           int32_t units, int32_t taps, int32_t zero_point) {
    const int32_t factor = *multiplier;
    const int32_t by = *shift;
    const int8_t *const out_end = out + units;
    do {
        int32_t acc = *stream++;
        const int16_t *const end = x + taps;
        do {
            acc = ec_smlad(ec_load_word(x), *stream++, acc);
            x += 2;
        } while (x != end);
        *out++ = ec_requantize_tflm_right_s8(acc, factor, by, zero_point);
    } while (out != out_end);
}

#endif /* EC_SVDF_H */
