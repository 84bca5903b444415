/* Matrix products of int8 as in matrix_s8.h, rescaled as ONNX Runtime does: the accumulator as
 * float32, times a float32, rounded half to even by VCVTN. For cores whose vectors have floats. In a
 * stream the last words of a unit of channels are their biases and their scales.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_ONNX_H
#define EC_MVE_MATRIX_S8_ONNX_H

#include "kernels/helium/matrix_s8.h"

/* clang-format off */

/* Assembly: eight sums rescaled with ONNX Runtime's rounding. */
#define EC_DENSE_ONNX_MVE \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vadd.i32 q0, q0, q2\n" \
    "vadd.i32 q1, q1, q3\n" \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vcvt.f32.s32 q0, q0\n" \
    "vcvt.f32.s32 q1, q1\n" \
    "vmul.f32 q0, q0, q2\n" \
    "vmul.f32 q1, q1, q3\n" \
    "vcvtn.s32.f32 q0, q0\n" \
    "vcvtn.s32.f32 q1, q1\n"

/* Assembly: sums of two pixels rescaled with ONNX Runtime's rounding. */
#define EC_CONV_ONNX_MVE \
    "vldrw.32 q2, [r5], #16\n" \
    "vadd.i32 q0, q0, q2\n" \
    "vadd.i32 q1, q1, q2\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vcvt.f32.s32 q0, q0\n" \
    "vcvt.f32.s32 q1, q1\n" \
    "vmul.f32 q0, q0, q2\n" \
    "vmul.f32 q1, q1, q2\n" \
    "vcvtn.s32.f32 q0, q0\n" \
    "vcvtn.s32.f32 q1, q1\n"

/* clang-format on */

/* ec_dense_s8_mve with ONNX Runtime's rounding; scales are below a half, or rescaled sums
 * below 2^30. */
static EC_KERNEL void ec_dense_onnx_s8_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                           int32_t depth, int32_t channels, int32_t zero_point,
                                           int32_t minimum, int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[9];
    ec_plan_dense_mve(given, x, depth, channels, zero_point, minimum, maximum);
    /* clang-format off */
    EC_DENSE_RUN_MVE(out, given, stream,
        EC_DENSE_MVE(EC_DENSE_SUMS_S8_MVE, EC_DENSE_ONNX_MVE));
    /* clang-format on */
#else
    ec_windows_c_mve(out, x, stream, 1, depth, 0, 0, 1, channels, 8, 1, 1, ec_rescale_sum_onnx,
                     zero_point, minimum, maximum);
#endif
}

/* ec_conv_s8_mve with ONNX Runtime's rounding; scales are below a half, or rescaled sums
 * below 2^30. */
static EC_KERNEL void ec_conv_onnx_s8_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                          int32_t kernel_h, int32_t kernel_w, int32_t in_channels,
                                          int32_t pitch, int32_t step, int32_t pixels,
                                          int32_t channels, int32_t zero_point, int32_t minimum,
                                          int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[19];
    given[0] = (int32_t)(uintptr_t)out;
    given[10] = (int32_t)(uintptr_t)stream;
    ec_plan_conv_mve(given, x, kernel_h, kernel_w * in_channels, pitch, step, pixels, channels,
                     zero_point, minimum, maximum);
    /* clang-format off */
    EC_CONV_RUN_MVE(given,
        EC_CONV_MVE(EC_CONV_ONNX_MVE));
    /* clang-format on */
#else
    ec_windows_c_mve(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                     channels, 4, 1, 1, ec_rescale_sum_onnx, zero_point, minimum, maximum);
#endif
}

#endif /* EC_MVE_MATRIX_S8_ONNX_H */
