/* Matrix products of int8 by weights of four bits as in matrix_s8_nibbles.h, rescaled as in
 * matrix_s8_onnx.h.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_ONNX_NIBBLES_H
#define EC_MVE_MATRIX_S8_ONNX_NIBBLES_H

#include "kernels/helium/matrix_s8_nibbles.h"
#include "kernels/helium/matrix_s8_onnx.h"

/* ec_dense_nibbles_s8_mve with ONNX Runtime's rounding; scales are below a half, or rescaled sums
 * below 2^30. */
static EC_KERNEL void ec_dense_nibbles_onnx_s8_mve(int8_t *out, const int8_t *x,
                                                   const int32_t *stream, int32_t depth,
                                                   int32_t channels, int32_t zero_point,
                                                   int32_t minimum, int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[10];
    ec_plan_dense_nibbles_mve(given, x, depth, channels, zero_point, minimum, maximum);
    /* clang-format off */
    EC_DENSE_RUN_MVE(out, given, stream,
        EC_DENSE_MVE(EC_DENSE_SUMS_NIBBLES_MVE, EC_DENSE_ONNX_MVE));
    /* clang-format on */
#else
    ec_nibbles_c_mve(out, x, stream, 1, depth, 0, 0, 1, channels, 8, 8, 0, 1, ec_rescale_sum_onnx,
                     zero_point, minimum, maximum);
#endif
}

/* ec_conv_nibbles_s8_mve with ONNX Runtime's rounding; scales are below a half, or rescaled sums
 * below 2^30. */
static EC_KERNEL void ec_conv_nibbles_onnx_s8_mve(int8_t *out, const int8_t *x,
                                                  const int32_t *stream, int32_t kernel_h,
                                                  int32_t kernel_w, int32_t in_channels,
                                                  int32_t pitch, int32_t step, int32_t pixels,
                                                  int32_t channels, int32_t zero_point,
                                                  int32_t minimum, int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[19];
    given[0] = (int32_t)(uintptr_t)out;
    given[10] = (int32_t)(uintptr_t)stream;
    ec_plan_conv_mve(given, x, kernel_h, kernel_w * in_channels, pitch, step, pixels, channels,
                     zero_point, minimum, maximum);
    /* clang-format off */
    EC_CONV_RUN_MVE(given,
        EC_CONV_NIBBLES_MVE(EC_CONV_ONNX_MVE));
    /* clang-format on */
#else
    ec_nibbles_c_mve(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                     channels, 4, 0, 0, 1, ec_rescale_sum_onnx, zero_point, minimum, maximum);
#endif
}

#endif /* EC_MVE_MATRIX_S8_ONNX_NIBBLES_H */
