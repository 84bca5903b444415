/* Matrix products of int8 as in matrix_s8.h, rescaled as ONNX Runtime does: the accumulator as
 * float32, times a float32, rounded half to even by VCVTN. For cores whose vectors have floats. In a
 * stream the last words of a unit of channels are their biases and their scales.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_ONNX_H
#define EC_MVE_MATRIX_S8_ONNX_H

#include "kernels/helium/matrix_s8_int4.h"

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

/* Products of int8 with ONNX Runtime's rounding; scales are below a half, or rescaled sums below 2^30. */
#define EC_OF(name) name##_onnx_s8_mve
#define EC_OUT int8_t
#define EC_IN int8_t
#define EC_MOVED int32_t zero_point,
#define EC_BY zero_point
#define EC_ASM EC_MVE_FLOAT_ASM
#define EC_PLAN ec_plan_dense_mve
#define EC_DENSE_CODE EC_DENSE_MVE(EC_DENSE_SUMS_S8_MVE, EC_DENSE_ONNX_MVE)
#define EC_CONV_RUN EC_CONV_GIVEN_MVE(EC_CONV_MVE(EC_CONV_ONNX_MVE), 0, 0)
#define EC_SUMS_C ec_windows_to_c_mve
#define EC_DENSE_FORM 8, 1, 1, 1, ec_rescale_sum_onnx
#define EC_CONV_FORM 4, 1, 1, 1, ec_rescale_sum_onnx
#include "kernels/helium/matrix.inc"

/* The same by weights in [-8, 7]. */
#define EC_OF(name) name##_s4_onnx_s8_mve
#define EC_OUT int8_t
#define EC_IN int8_t
#define EC_MOVED int32_t zero_point,
#define EC_BY zero_point
#define EC_ASM EC_MVE_FLOAT_ASM
#define EC_PLAN ec_plan_dense_s4_mve
#define EC_DENSE_CODE EC_DENSE_MVE(EC_DENSE_SUMS_S4_MVE, EC_DENSE_ONNX_MVE)
#define EC_CONV_RUN EC_CONV_GIVEN_MVE(EC_CONV_S4_MVE(EC_CONV_ONNX_MVE), 0, 0)
#define EC_SUMS_C ec_s4_c_mve
#define EC_DENSE_FORM 8, 8, 0, 1, ec_rescale_sum_onnx
#define EC_CONV_FORM 4, 0, 0, 1, ec_rescale_sum_onnx
#include "kernels/helium/matrix.inc"

/* Assembly: a convolution of int8 to int16. */
#define EC_CONV_S8_S16_MVE EC_CONV_S8_MVE(EC_CONV_STORE_S16_MVE(EC_CONV_ONNX_MVE), "8")

/* To int16 without a zero point, of any scales. */
#define EC_OF(name) name##_onnx_s8_s16_mve
#define EC_OUT int16_t
#define EC_IN int8_t
#define EC_MOVED
#define EC_BY 0
#define EC_ASM EC_MVE_FLOAT_ASM
#define EC_PLAN ec_plan_dense_mve
#define EC_DENSE_CODE EC_DENSE_TO_S16_MVE(EC_DENSE_SUMS_S8_MVE, EC_DENSE_ONNX_MVE)
#define EC_CONV_RUN EC_CONV_GIVEN_MVE(EC_CONV_S8_S16_MVE, 1, 0)
#define EC_SUMS_C ec_windows_to_c_mve
#define EC_DENSE_FORM 8, 1, 2, 1, ec_rescale_sum_onnx
#define EC_CONV_FORM 4, 1, 2, 1, ec_rescale_sum_onnx
#include "kernels/helium/matrix.inc"

#endif /* EC_MVE_MATRIX_S8_ONNX_H */
