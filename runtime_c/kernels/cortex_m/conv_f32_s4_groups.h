/* Convolutions of float32 whose weights are four bits times a step for each group of inputs: as
 * conv_f32_s4.h, with what a channel's step is multiplied by before each group. That is a power of
 * two, less its sign, so that it fits in four bits, and the step in the stream has the other sign;
 * their product is exact.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_CONV_F32_S4_GROUPS_H
#define EC_FPU_CONV_F32_S4_GROUPS_H

#include "kernels/cortex_m/accumulate_f32.h"
#include "kernels/cortex_m/accumulate_f32_mve.h"

/* clang-format off */

/* Assembly: the halves of four bytes at `from`, which goes on, times the steps at `steps` and 32
 * bytes behind, to `room`. */
#define EC_STEPS_OF_UNIT_F32_MVE(from, steps, room) \
    "vldrb.s32 q4, [" from "], #4\n" \
    "vldrw.32 q6, [" steps ", #16]\n" \
    "vldrw.32 q7, [" steps ", #48]\n" \
    "vshl.i32 q5, q4, #28\n" \
    "vshr.s32 q4, q4, #4\n" \
    "vcvt.f32.s32 q5, q5, #28\n" \
    "vcvt.f32.s32 q4, q4\n" \
    "vmul.f32 q5, q5, q6\n" \
    "vmul.f32 q4, q4, q7\n" \
    "vstrw.32 q5, [r9, #" room "]\n" \
    "vstrw.32 q4, [r9, #" room " + 16]\n"

/* clang-format on */

/* Four channels of four pixels on vectors: 0 if they are stored. r3 points to what
 * ec_tell_groups_f32 stores. A byte is shifted as in conv_f32_s4.h: what is up counts 2^-28, of a
 * step and of what stands before a group. */
static EC_KERNEL int32_t ec_conv_four_f32_s4_groups_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_STEPS_F32_MVE(words, EC_SAME_BIASES_F32_MVE
        "ldr r12, [r3, #72]\n"
        "usat r0, #5, r12\n"
        "lsl r0, r0, #23\n"
        "rsb r0, r0, #0x3f800000\n"
        "vldrw.32 q7, [r2, #16]\n"
        "vmul.f32 q7, q7, r0\n"
        "ldr r2, [r3, #64]\n"
        "cbz r2, 6f\n"
        "vmul.f32 q7, q7, r0\n"
        "6:\n"
        "vstrw.32 q7, [r3]\n",
        EC_GROUPS_F32_MVE(
            "ldr r3, [sp]\n"
            "ldr r3, [r3, #48]\n"
            "vldrw.32 q7, [r3]\n"
            "ldrd r0, r2, [r3, #64]\n"
            "cbz r0, 6f\n"
            "vldrb.s32 q4, [r1], #4\n"
            "vshl.s32 q4, r12\n"
            "vcvt.f32.s32 q4, q4\n"
            "vmul.f32 q7, q7, q4\n"
            "6:\n"
            "dls lr, r2\n",
            EC_FOUR_PIXELS_F32_MVE("vldrb.s32 q4, [r1], #4\n",
                "vshl.s32 q4, r12\nvcvt.f32.s32 q4, q4\n", "vmul.f32 q4, q4, q7\n"),
            "r0"),
        "r8", "r9", "r10", "r11", "r1");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* Sixteen channels of one pixel on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_one_f32_s4_groups_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    /* clang-format off */
    EC_RUN_STEPS_F32_MVE(words,
        "mov r9, r3\n"
        "mov r10, r2\n"
        "add r11, r2, lr\n"
        "vldrw.32 q0, [r10]\n"
        "vldrw.32 q4, [r10, #16]\n"
        "vldrw.32 q1, [r10, #32]\n"
        "vldrw.32 q5, [r10, #48]\n"
        "vldrw.32 q2, [r11]\n"
        "vldrw.32 q6, [r11, #16]\n"
        "vldrw.32 q3, [r11, #32]\n"
        "vldrw.32 q7, [r11, #48]\n"
        "vstrw.32 q4, [r9]\n"
        "vstrw.32 q5, [r9, #16]\n"
        "vstrw.32 q6, [r9, #32]\n"
        "vstrw.32 q7, [r9, #48]\n",
        EC_GROUPS_F32_MVE(
            "ldrd r2, r3, [r9, #64]\n"
            "cbz r2, 6f\n"
            EC_STEPS_OF_UNIT_F32_MVE("r0", "r10", "0")
            EC_STEPS_OF_UNIT_F32_MVE("r1", "r11", "32")
            "6:\n"
            "vldrw.32 q6, [r9]\n"
            "dls lr, r3\n",
            "ldr r8, [r12], #4\n"
            "vldrb.s32 q4, [r0], #4\n"
            "vldrw.32 q7, [r9, #16]\n"
            "vshl.i32 q5, q4, #28\n"
            "vshr.s32 q4, q4, #4\n"
            "vcvt.f32.s32 q5, q5, #28\n"
            "vcvt.f32.s32 q4, q4\n"
            "vmul.f32 q5, q5, q6\n"
            "vmul.f32 q4, q4, q7\n"
            "vmul.f32 q5, q5, r8\n"
            "vldrw.32 q7, [r9, #32]\n"
            "vmul.f32 q4, q4, r8\n"
            "vadd.f32 q0, q0, q5\n"
            "vadd.f32 q1, q1, q4\n"
            "vldrb.s32 q4, [r1], #4\n"
            "vshl.i32 q5, q4, #28\n"
            "vshr.s32 q4, q4, #4\n"
            "vcvt.f32.s32 q5, q5, #28\n"
            "vcvt.f32.s32 q4, q4\n"
            "vmul.f32 q5, q5, q7\n"
            "vldrw.32 q7, [r9, #48]\n"
            "vmul.f32 q5, q5, r8\n"
            "vmul.f32 q4, q4, q7\n"
            "vadd.f32 q2, q2, q5\n"
            "vmul.f32 q4, q4, r8\n"
            "vadd.f32 q3, q3, q4\n",
            "r8"),
        "r0", "r1", "r2", "r3", "r12");
    /* clang-format on */
#else
    (void)words;
    return 1;
#endif
}

/* A row of a convolution over all channels of x (see ec_row_of_sums_f32). group: inputs of a tap that
 * share steps; 0 if a channel's all do. */
static EC_SHARED void
ec_conv_row_f32_s4_groups(float *out, const float *x, const int32_t *stream, int32_t height,
                          int32_t width, int32_t in_channels, int32_t kernel_h, int32_t kernel_w,
                          int32_t stride_h, int32_t stride_w, int32_t dilation_h, int32_t top,
                          int32_t left, int32_t pixels, int32_t channels, int32_t bounds,
                          int32_t low, int32_t high, int32_t group, int32_t row) {
    ec_row_of_sums_f32(out, x, stream, -1, height, width, in_channels, in_channels, 0, 1, kernel_h,
                       kernel_w, stride_h, stride_w, dilation_h, 1, top, left, pixels, channels,
                       bounds, low, high, row, group, ec_conv_four_f32_s4_groups_mve,
                       ec_conv_one_f32_s4_groups_mve);
}

#endif /* EC_FPU_CONV_F32_S4_GROUPS_H */
