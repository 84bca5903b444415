/* Matrix products of int16 inputs and int8 weights as in matrix_s16.h whose results are int8: rescaled
 * sums plus a zero point. Streams are those of that file.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S16_TO_S8_H
#define EC_MATRIX_S16_TO_S8_H

#include "kernels/dsp/matrix_s16.h"

/* ec_matrix_1_s16_dsp to int8. */
static EC_KERNEL void ec_matrix_1_s16_s8_dsp(int8_t *out, const int16_t *x, const int32_t *stream,
                                             int32_t kernel_h, int32_t kernel_w,
                                             int32_t in_channels, int32_t channels,
                                             int32_t zero_point, int32_t minimum, int32_t maximum) {
    ec_matrix_1_s16_to_dsp(out, 1, x, NULL, stream, kernel_h * kernel_w * in_channels, channels,
                           zero_point, minimum, maximum);
}

/* ec_matrix_1_s16_any_dsp to int8. */
static EC_KERNEL void ec_matrix_1_s16_s8_any_dsp(int8_t *out, const int16_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t kernel_w, int32_t in_channels,
                                                 int32_t channels, int32_t zero_point,
                                                 int32_t minimum, int32_t maximum) {
    ec_matrix_1_s16_to_any_dsp(out, 1, x, NULL, stream, kernel_h * kernel_w * in_channels, channels,
                               zero_point, minimum, maximum);
}

/* ec_matrix_1_s16_s64_dsp to int8. */
static EC_KERNEL void ec_matrix_1_s16_s8_s64_dsp(int8_t *out, const int16_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t kernel_w, int32_t in_channels,
                                                 int32_t channels, int32_t zero_point,
                                                 int32_t minimum, int32_t maximum) {
    ec_matrix_1_s16_to_s64_dsp(out, 1, x, NULL, stream, kernel_h * kernel_w * in_channels, channels,
                               zero_point, minimum, maximum);
}

#endif /* EC_MATRIX_S16_TO_S8_H */
