/* Matrix products of int8 as in matrix_s8.h, rescaled as ONNX Runtime does: the accumulator as
 * float32, times a float32, rounded half to even by VCVTN. For cores whose vectors have floats. In a
 * stream the last words of a unit of channels are their biases and their scales.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_ONNX_H
#define EC_MVE_MATRIX_S8_ONNX_H

#include "microkernels/mve/matrix_s8.h"

/* An accumulator times the float with the bits `scale`, limited to [minimum, maximum]. */
static inline EC_UNUSED int8_t ec_rescale_onnx_s8_mve(int32_t acc, int32_t scale,
                                                      int32_t zero_point, int32_t minimum,
                                                      int32_t maximum) {
    const int32_t value = ec_requantize_onnx(acc, ec_f32_from_bits((uint32_t)scale)) + zero_point;
    return (int8_t)(value < minimum ? minimum : value > maximum ? maximum : value);
}

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

/* ec_dense_s8_mve with ONNX Runtime's rounding; scales are below a half. */
static EC_KERNEL void ec_dense_onnx_s8_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                           int32_t depth, int32_t channels, int32_t zero_point,
                                           int32_t minimum, int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[9];
    ec_plan_dense_mve(given, x, depth, channels, zero_point, minimum, maximum);
    register int8_t *r0 __asm__("r0") = out;
    register const int32_t *r1 __asm__("r1") = given;
    register const int32_t *r2 __asm__("r2") = stream;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_DENSE_MVE(EC_DENSE_ONNX_MVE)
        : "+r"(r0), "+r"(r1), "+r"(r2)
        :
        : "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    const int32_t slices = (depth + 15) >> 4;
    for (int32_t o = 0; o < channels; o += 8) {
        const int32_t *const end = stream + 32 * slices;
        const int32_t first = o + 8 > channels ? channels - 8 : o;
        for (int32_t i = 0; i < 8; ++i) {
            uint32_t sum = (uint32_t)end[i];
            ec_accumulate_run_s8_mve(&sum, x, (const int8_t *)stream + 16 * i, depth, 128);
            out[first + i] =
                ec_rescale_onnx_s8_mve((int32_t)sum, end[8 + i], zero_point, minimum, maximum);
        }
        stream = end + 16;
    }
#endif
}

/* ec_conv_s8_mve with ONNX Runtime's rounding; scales are below a half. */
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
    register const int32_t *r0 __asm__("r0") = given;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_CONV_MVE(EC_CONV_ONNX_MVE)
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    const int32_t run = kernel_w * in_channels;
    const int32_t slices = (run + 15) >> 4;
    for (int32_t p = 0; p < pixels; ++p) {
        const int32_t *at = stream;
        for (int32_t o = 0; o < channels; o += 4) {
            const int32_t *const end = at + 16 * slices * kernel_h;
            const int32_t first = o + 4 > channels ? channels - 4 : o;
            for (int32_t i = 0; i < 4; ++i) {
                uint32_t sum = (uint32_t)end[i];
                for (int32_t kh = 0; kh < kernel_h; ++kh) {
                    ec_accumulate_run_s8_mve(&sum, x + kh * pitch + p * step,
                                             (const int8_t *)(at + 16 * slices * kh) + 16 * i, run,
                                             64);
                }
                out[p * channels + first + i] =
                    ec_rescale_onnx_s8_mve((int32_t)sum, end[4 + i], zero_point, minimum, maximum);
            }
            at = end + 8;
        }
    }
#endif
}

#endif /* EC_MVE_MATRIX_S8_ONNX_H */
