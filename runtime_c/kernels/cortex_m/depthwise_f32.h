/* Depthwise convolutions of float32: one row of outputs, four pixels of four channels at a time.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_DEPTHWISE_F32_H
#define EC_FPU_DEPTHWISE_F32_H

#include "kernels/cortex_m/accumulate_f32.h"
#include "kernels/cortex_m/accumulate_f32_mve.h"

/* Four channels of four pixels on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_depthwise_four_f32_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_SUMS_F32_MVE(words, EC_SAME_BIASES_F32_MVE,
        "vldrw.32 q4, [r12], #16\n"
        "vldrw.32 q5, [r8]\n"
        "vldrw.32 q6, [r9]\n"
        "vmul.f32 q5, q5, q4\n"
        "add r8, r8, r3\n"
        "vmul.f32 q6, q6, q4\n"
        "add r9, r9, r3\n"
        "vldrw.32 q7, [r10]\n"
        "vadd.f32 q0, q0, q5\n"
        "vldrw.32 q5, [r11]\n"
        "vadd.f32 q1, q1, q6\n"
        "add r10, r10, r3\n"
        "vmul.f32 q7, q7, q4\n"
        "add r11, r11, r3\n"
        "vmul.f32 q5, q5, q4\n"
        "vadd.f32 q2, q2, q7\n"
        "vadd.f32 q3, q3, q5\n",
        "r8", "r9", "r10", "r11", "r12");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* Sixteen channels of one pixel on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_depthwise_one_f32_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_SUMS_F32_MVE(words, EC_FOUR_BIASES_F32_MVE,
        "vldrw.32 q4, [r8], #16\n"
        "vldrw.32 q5, [r12]\n"
        "vmul.f32 q5, q5, q4\n"
        "vldrw.32 q6, [r12, #16]\n"
        "vldrw.32 q4, [r9], #16\n"
        "vadd.f32 q0, q0, q5\n"
        "vmul.f32 q6, q6, q4\n"
        "vldrw.32 q5, [r12, #32]\n"
        "vldrw.32 q4, [r10], #16\n"
        "vadd.f32 q1, q1, q6\n"
        "vmul.f32 q5, q5, q4\n"
        "vldrw.32 q6, [r12, #48]\n"
        "vldrw.32 q4, [r11], #16\n"
        "vadd.f32 q2, q2, q5\n"
        "vmul.f32 q6, q6, q4\n"
        "add r12, r12, r3\n"
        "vadd.f32 q3, q3, q6\n",
        "r8", "r9", "r10", "r11", "r12");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* A row of a depthwise convolution: each channel of x has one (see ec_row_of_sums_f32). */
static EC_SHARED void ec_depthwise_row_f32(float *out, const float *x, const float *stream,
                                           int32_t height, int32_t width, int32_t kernel_h,
                                           int32_t kernel_w, int32_t stride_h, int32_t stride_w,
                                           int32_t dilation_h, int32_t dilation_w, int32_t top,
                                           int32_t left, int32_t pixels, int32_t channels,
                                           int32_t bounds, int32_t low, int32_t high, int32_t row) {
    ec_row_of_sums_f32(out, x, stream, 4, height, width, channels, 1, 1, dilation_w * channels,
                       kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left,
                       pixels, channels, bounds, low, high, row, 0, ec_depthwise_four_f32_mve,
                       ec_depthwise_one_f32_mve);
}

#endif /* EC_FPU_DEPTHWISE_F32_H */
