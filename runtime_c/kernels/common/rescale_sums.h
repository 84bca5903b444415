/* How sums of channels become results: by the first of a channel's constants in a stream, which are
 * `apart` words from each other.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_RESCALE_SUMS_H
#define EC_RESCALE_SUMS_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* How sums are rounded: as ONNX Runtime does, by floats. */
#define EC_ROUND_ONNX 0

/* As gemmlowp does, twice. */
#define EC_ROUND_TFLM 1

/* As TFLite does, once. */
#define EC_ROUND_SINGLE 2

/* Not at all: results are the sums. 3 is one way more, on 64-bit Arm. */
#define EC_ROUND_NONE 4

/* As gemmlowp does, by two lines of floats: one of sums from 0 on, one of others. */
#define EC_ROUND_LINES 5

/* The same where the others are limited to -128, and nothing else is limited. */
#define EC_ROUND_LINE 6

/* Words of a channel after its weights: bias and rescaling factors. */
#define EC_SCALE_WORDS(rounding)        \
    ((rounding) == EC_ROUND_NONE    ? 1 \
     : (rounding) == EC_ROUND_ONNX  ? 2 \
     : (rounding) >= EC_ROUND_LINES ? 5 \
                                    : 3)

/* Bytes of a result. */
#define EC_RESULT_BYTES(rounding) ((rounding) == EC_ROUND_NONE ? 4 : 1)

/* By a multiplier and a shift, with gemmlowp's rounding. */
static inline EC_UNUSED int32_t ec_rescale_sum_tflm(int32_t sum, const int32_t *scales,
                                                    int32_t apart) {
    return ec_requantize_tflm_right(sum, scales[0], scales[apart]);
}

/* By the bits of a float, with ONNX Runtime's. */
static inline EC_UNUSED int32_t ec_rescale_sum_onnx(int32_t sum, const int32_t *scales,
                                                    int32_t apart) {
    (void)apart;
    return ec_requantize_onnx(sum, ec_f32_from_bits((uint32_t)scales[0]));
}

/* Rescaling by lines: both parts of their slope, and their offsets for sums from 0 on and below. */
static inline EC_UNUSED int32_t ec_rescale_sum_lines(int32_t sum, const int32_t *lines,
                                                     int32_t apart) {
    const double slope = (double)ec_f32_from_bits((uint32_t)lines[0]) +
                         (double)ec_f32_from_bits((uint32_t)lines[apart]);
    const double start = (double)ec_f32_from_bits((uint32_t)lines[(sum < 0 ? 3 : 2) * apart]);
    const double result = (double)sum * slope + start;
    const int32_t whole = (int32_t)result;
    return whole - (result < (double)whole ? 1 : 0);
}

/* As ec_requantize_tflm16_high does, by a multiplier and the opposite of a shift. */
static inline EC_UNUSED int32_t ec_rescale_sum_s16(int32_t sum, const int32_t *scales,
                                                   int32_t apart) {
    return ec_requantize_tflm16_high(sum, scales[0], -scales[apart]);
}

#endif /* EC_RESCALE_SUMS_H */
