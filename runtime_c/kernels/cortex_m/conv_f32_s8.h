/* Convolutions of float32 whose weights are int8 times a step for each channel: as conv_f32.h, each
 * weight multiplied as it is read.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_CONV_F32_S8_H
#define EC_FPU_CONV_F32_S8_H

#include "kernels/cortex_m/accumulate_f32.h"
#include "kernels/cortex_m/accumulate_f32_mve.h"

/* Four channels of four pixels on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_four_f32_s8_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_FOUR_PIXELS_F32_MVE(words, "vldrw.32 q7, [r2, #16]\n",
        "vldrb.s32 q4, [r1], #4\n", "vcvt.f32.s32 q4, q4\n", "vmul.f32 q4, q4, q7\n");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* Sixteen channels of one pixel on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_one_f32_s8_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_SUMS_F32_MVE(words,
        "vldrw.32 q6, [r2, #16]\n"
        "mov r9, r3\n"
        ".irp d, q0, q1, q2, q3\n"
        "vldrw.32 q4, [r2, #16]\n"
        "vldrw.32 \\d, [r2]\n"
        "add r2, r2, lr\n"
        "vstrw.32 q4, [r3], #16\n"
        ".endr\n",
        "ldr r8, [r12], #4\n"
        "vldrb.s32 q4, [r0], #4\n"
        "vldrw.32 q7, [r9, #16]\n"
        "vcvt.f32.s32 q4, q4\n"
        "vldrb.s32 q5, [r1], #4\n"
        "vmul.f32 q4, q4, q6\n"
        "vcvt.f32.s32 q5, q5\n"
        "vmul.f32 q4, q4, r8\n"
        "vmul.f32 q5, q5, q7\n"
        "vldrw.32 q7, [r9, #32]\n"
        "vadd.f32 q0, q0, q4\n"
        "vldrb.s32 q4, [r2], #4\n"
        "vmul.f32 q5, q5, r8\n"
        "vcvt.f32.s32 q4, q4\n"
        "vadd.f32 q1, q1, q5\n"
        "vldrb.s32 q5, [r3], #4\n"
        "vmul.f32 q4, q4, q7\n"
        "vcvt.f32.s32 q5, q5\n"
        "vldrw.32 q7, [r9, #48]\n"
        "vmul.f32 q4, q4, r8\n"
        "vmul.f32 q5, q5, q7\n"
        "vadd.f32 q2, q2, q4\n"
        "vmul.f32 q5, q5, r8\n"
        "vadd.f32 q3, q3, q5\n",
        "r0", "r1", "r2", "r3", "r12");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* A row of a convolution over all channels of x (see ec_row_of_sums_f32). */
static EC_SHARED void ec_conv_row_f32_s8(float *out, const float *x, const int32_t *stream,
                                         int32_t height, int32_t width, int32_t in_channels,
                                         int32_t kernel_h, int32_t kernel_w, int32_t stride_h,
                                         int32_t stride_w, int32_t dilation_h, int32_t top,
                                         int32_t left, int32_t pixels, int32_t channels,
                                         int32_t bounds, int32_t low, int32_t high, int32_t row) {
    ec_row_of_sums_f32(out, x, stream, 1, height, width, in_channels, in_channels, 0, 1, kernel_h,
                       kernel_w, stride_h, stride_w, dilation_h, 1, top, left, pixels, channels,
                       bounds, low, high, row, 0, ec_conv_four_f32_s8_mve, ec_conv_one_f32_s8_mve);
}

#endif /* EC_FPU_CONV_F32_S8_H */
