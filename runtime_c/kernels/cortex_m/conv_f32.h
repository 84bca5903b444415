/* Convolutions of float32: one row of outputs, four pixels of four channels at a time.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_CONV_F32_H
#define EC_FPU_CONV_F32_H

#include "kernels/cortex_m/accumulate_f32.h"
#include "kernels/cortex_m/accumulate_f32_mve.h"

/* Four channels of four pixels on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_four_f32_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_FOUR_PIXELS_F32_MVE(words, "", "vldrw.32 q4, [r1], #16\n", "", "");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* Sixteen channels of one pixel on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_one_f32_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_SUMS_F32_MVE(words, EC_FOUR_BIASES_F32_MVE,
        "ldr r0, [r12], #4\n"
        "vldrw.32 q4, [r8], #16\n"
        "vldrw.32 q5, [r9], #16\n"
        "vmul.f32 q4, q4, r0\n"
        "vldrw.32 q6, [r10], #16\n"
        "vmul.f32 q5, q5, r0\n"
        "vadd.f32 q0, q0, q4\n"
        "vldrw.32 q7, [r11], #16\n"
        "vmul.f32 q6, q6, r0\n"
        "vadd.f32 q1, q1, q5\n"
        "vmul.f32 q7, q7, r0\n"
        "vadd.f32 q2, q2, q6\n"
        "vadd.f32 q3, q3, q7\n",
        "r8", "r9", "r10", "r11", "r12");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* A row of a convolution over all channels of x (see ec_row_of_sums_f32). */
static EC_SHARED void ec_conv_row_f32(float *out, const float *x, const float *stream,
                                      int32_t height, int32_t width, int32_t in_channels,
                                      int32_t kernel_h, int32_t kernel_w, int32_t stride_h,
                                      int32_t stride_w, int32_t dilation_h, int32_t top,
                                      int32_t left, int32_t pixels, int32_t channels,
                                      int32_t bounds, int32_t low, int32_t high, int32_t row) {
    ec_row_of_sums_f32(out, x, stream, 4, height, width, in_channels, in_channels, 0, 1, kernel_h,
                       kernel_w, stride_h, stride_w, dilation_h, 1, top, left, pixels, channels,
                       bounds, low, high, row, 0, ec_conv_four_f32_mve, ec_conv_one_f32_mve);
}

#endif /* EC_FPU_CONV_F32_H */
