/* Matrix products of int16 inputs and int8 weights as in matrix_s16.h whose results are int8. Streams
 * are those of that file.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S16_TO_S8_H
#define EC_MVE_MATRIX_S16_TO_S8_H

#include "kernels/helium/matrix_s16.h"

/* ec_dense_s16_mve to int8: the rescaled sum plus a zero point. */
static EC_KERNEL void ec_dense_s16_s8_mve(int8_t *out, const int16_t *x, const int32_t *stream,
                                          int32_t depth, int32_t channels, int32_t zero_point,
                                          int32_t minimum, int32_t maximum) {
#if EC_MVE_ASM
    int32_t given[9];
    ec_plan_dense_mve(given, (const int8_t *)x, 2 * depth, channels, zero_point, minimum, maximum);
    given[2] >>= 1; /* lanes */
    /* clang-format off */
    EC_DENSE_RUN_MVE(out, given, stream,
        EC_DENSE_MVE(EC_DENSE_SUMS_S16_MVE, EC_DENSE_RESCALE_S16_MVE));
    /* clang-format on */
#else
    ec_windows_to_c_mve(out, x, stream, 1, depth, 0, 0, 1, channels, 8, 2, 1, 2, ec_rescale_sum_s16,
                        zero_point, minimum, maximum);
#endif
}

/* ec_conv_s16_mve to int8: the rescaled sum plus a zero point. */
static EC_KERNEL void ec_conv_s16_s8_mve(int8_t *out, const int16_t *x, const int32_t *stream,
                                         int32_t kernel_h, int32_t kernel_w, int32_t in_channels,
                                         int32_t pitch, int32_t step, int32_t pixels,
                                         int32_t channels, int32_t zero_point, int32_t minimum,
                                         int32_t maximum) {
#if EC_MVE_ASM
    int32_t given[19];
    given[0] = (int32_t)(uintptr_t)out;
    given[10] = (int32_t)(uintptr_t)stream;
    ec_plan_conv_mve(given, (const int8_t *)x, kernel_h, 2 * kernel_w * in_channels, 2 * pitch,
                     2 * step, pixels, channels, zero_point, minimum, maximum);
    given[14] >>= 1; /* lanes */
    /* clang-format off */
    EC_CONV_RUN_MVE(given,
        EC_CONV_S16_MVE(EC_CONV_STORE_S8_MVE(EC_CONV_RESCALE_S16_MVE), "4"));
    /* clang-format on */
#else
    ec_windows_to_c_mve(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                        channels, 4, 2, 1, 2, ec_rescale_sum_s16, zero_point, minimum, maximum);
#endif
}

/* ec_matrix_1_s16_any_mve to int8: the rescaled sum plus a zero point. */
static EC_KERNEL void ec_matrix_1_s16_s8_any_mve(int8_t *out, const int16_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t kernel_w, int32_t in_channels,
                                                 int32_t channels, int32_t zero_point,
                                                 int32_t minimum, int32_t maximum) {
    ec_matrix_1_s16_to_any_mve(out, 1, x, stream, 0, kernel_h * kernel_w * in_channels, channels,
                               zero_point, minimum, maximum);
}

/* The same with sums and biases of 64 bits, the lower word of a bias first. */
static EC_KERNEL void ec_matrix_1_s16_s8_s64_mve(int8_t *out, const int16_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t kernel_w, int32_t in_channels,
                                                 int32_t channels, int32_t zero_point,
                                                 int32_t minimum, int32_t maximum) {
    ec_matrix_1_s16_to_any_mve(out, 1, x, stream, 1, kernel_h * kernel_w * in_channels, channels,
                               zero_point, minimum, maximum);
}

#endif /* EC_MVE_MATRIX_S16_TO_S8_H */
