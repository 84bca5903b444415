/* Matrix products of int8 as in matrix_s8_onnx.h whose results are int16 without a zero point. Streams
 * are those of that file.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_TO_S16_ONNX_H
#define EC_MVE_MATRIX_S8_TO_S16_ONNX_H

#include "kernels/helium/matrix_s8_onnx.h"

/* ec_dense_onnx_s8_mve to int16, of any scales. */
static EC_KERNEL void ec_dense_onnx_s8_s16_mve(int16_t *out, const int8_t *x, const int32_t *stream,
                                               int32_t depth, int32_t channels, int32_t minimum,
                                               int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[9];
    ec_plan_dense_mve(given, x, depth, 2 * channels - 8, 0, minimum, maximum);
    /* clang-format off */
    EC_DENSE_RUN_MVE(out, given, stream,
        EC_DENSE_SUMS_S8_MVE
        EC_DENSE_ONNX_MVE
        EC_DENSE_STORE_S16_MVE
        EC_DENSE_NEXT_MVE("16"));
    /* clang-format on */
#else
    ec_windows_to_c_mve(out, x, stream, 1, depth, 0, 0, 1, channels, 8, 1, 2, 1,
                        ec_rescale_sum_onnx, 0, minimum, maximum);
#endif
}

/* ec_conv_onnx_s8_mve to int16, of any scales. */
static EC_KERNEL void ec_conv_onnx_s8_s16_mve(int16_t *out, const int8_t *x, const int32_t *stream,
                                              int32_t kernel_h, int32_t kernel_w,
                                              int32_t in_channels, int32_t pitch, int32_t step,
                                              int32_t pixels, int32_t channels, int32_t minimum,
                                              int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[19];
    given[0] = (int32_t)(uintptr_t)out;
    given[10] = (int32_t)(uintptr_t)stream;
    ec_plan_conv_mve(given, x, kernel_h, kernel_w * in_channels, pitch, step, pixels, 2 * channels,
                     0, minimum, maximum);
    given[2] -= 4; /* the last four results take 8 bytes */
    /* clang-format off */
    EC_CONV_RUN_MVE(given,
        EC_CONV_S8_MVE(EC_CONV_STORE_S16_MVE(EC_CONV_ONNX_MVE), "8"));
    /* clang-format on */
#else
    ec_windows_to_c_mve(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                        channels, 4, 1, 2, 1, ec_rescale_sum_onnx, 0, minimum, maximum);
#endif
}

#endif /* EC_MVE_MATRIX_S8_TO_S16_ONNX_H */
