/* Convolutions of float32 whose weights are four bits times a step for each channel: as conv_f32.h,
 * each weight multiplied as it is read.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_CONV_F32_S4_H
#define EC_FPU_CONV_F32_S4_H

#include "kernels/cortex_m/accumulate_f32.h"
#include "kernels/cortex_m/accumulate_f32_mve.h"

/* Four channels of four pixels on vectors: 0 if they are stored. r3 is by how much a byte is shifted
 * so that its four bits are all that is left: 28 up, or 4 down. What is up counts 2^-28 of a step. */
static EC_KERNEL int32_t ec_conv_four_f32_s4_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_FOUR_PIXELS_F32_MVE(words,
        "mov r12, r3\n"
        "usat r3, #5, r3\n"
        "lsl r3, r3, #23\n"
        "rsb r3, r3, #0x3f800000\n"
        "vldrw.32 q7, [r2, #16]\n"
        "vmul.f32 q7, q7, r3\n",
        "vldrb.s32 q4, [r1], #4\n", "vshl.s32 q4, r12\nvcvt.f32.s32 q4, q4\n",
        "vmul.f32 q4, q4, q7\n");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* Sixteen channels of one pixel on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_one_f32_s4_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_SUMS_F32_MVE(words,
        "mov r9, r2\n"
        "add r10, r2, lr\n"
        "vldrw.32 q6, [r9, #16]\n"
        "vldrw.32 q0, [r9]\n"
        "vldrw.32 q1, [r9, #32]\n"
        "vldrw.32 q2, [r10]\n"
        "vldrw.32 q3, [r10, #32]\n",
        "ldr r8, [r12], #4\n"
        "vldrb.s32 q4, [r0], #4\n"
        "vldrw.32 q7, [r9, #48]\n"
        "vshl.i32 q5, q4, #28\n"
        "vshr.s32 q4, q4, #4\n"
        "vcvt.f32.s32 q5, q5, #28\n"
        "vcvt.f32.s32 q4, q4\n"
        "vmul.f32 q5, q5, q6\n"
        "vmul.f32 q4, q4, q7\n"
        "vmul.f32 q5, q5, r8\n"
        "vldrw.32 q7, [r10, #16]\n"
        "vmul.f32 q4, q4, r8\n"
        "vadd.f32 q0, q0, q5\n"
        "vadd.f32 q1, q1, q4\n"
        "vldrb.s32 q4, [r1], #4\n"
        "vshl.i32 q5, q4, #28\n"
        "vshr.s32 q4, q4, #4\n"
        "vcvt.f32.s32 q5, q5, #28\n"
        "vcvt.f32.s32 q4, q4\n"
        "vmul.f32 q5, q5, q7\n"
        "vldrw.32 q7, [r10, #48]\n"
        "vmul.f32 q5, q5, r8\n"
        "vmul.f32 q4, q4, q7\n"
        "vadd.f32 q2, q2, q5\n"
        "vmul.f32 q4, q4, r8\n"
        "vadd.f32 q3, q3, q4\n",
        "r0", "r1", "r2", "r3", "r12");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* A row of a convolution over all channels of x (see ec_row_of_sums_f32). */
static EC_SHARED void ec_conv_row_f32_s4(float *out, const float *x, const int32_t *stream,
                                         int32_t height, int32_t width, int32_t in_channels,
                                         int32_t kernel_h, int32_t kernel_w, int32_t stride_h,
                                         int32_t stride_w, int32_t dilation_h, int32_t top,
                                         int32_t left, int32_t pixels, int32_t channels,
                                         int32_t bounds, int32_t low, int32_t high, int32_t row) {
    ec_row_of_sums_f32(out, x, stream, 0, height, width, in_channels, in_channels, 0, 1, kernel_h,
                       kernel_w, stride_h, stride_w, dilation_h, 1, top, left, pixels, channels,
                       bounds, low, high, row, 0, ec_conv_four_f32_s4_mve, ec_conv_one_f32_s4_mve);
}

#endif /* EC_FPU_CONV_F32_S4_H */
