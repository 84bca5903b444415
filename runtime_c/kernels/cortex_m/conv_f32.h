/* Convolutions of float32: one row of outputs, four pixels of four channels at a time. Weights are
 * float32, or smaller (see stored_weights_f32.h), and then converted to float32 when they are read:
 * float16; int8 or int4 times a step for each channel; int4 times a step for each group of inputs. All
 * share one text, conv_row_f32.inc; only the assembly of an input's products differs.
 *
 * Steps of groups: a factor of the channel's step stands before each group. It is minus a power of two, so
 * that it fits in four bits, and the step in the stream has the other sign; their product is exact.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_CONV_F32_H
#define EC_FPU_CONV_F32_H

#include "kernels/cortex_m/accumulate_f32.h"
#include "kernels/cortex_m/accumulate_f32_mve.h"

/* clang-format off */

/* Assembly: four channels of four pixels by weights of float32. */
#define EC_CONV_FOUR_MVE(words) \
    EC_RUN_FOUR_PIXELS_F32_MVE(words, "", "vldrw.32 q4, [r1], #16\n", "", "")

/* Assembly: sixteen channels of one pixel by weights of float32. */
#define EC_CONV_ONE_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, EC_FOUR_BIASES_F32_MVE, \
        "ldr r0, [r12], #4\n" \
        "vldrw.32 q4, [r8], #16\n" \
        "vldrw.32 q5, [r9], #16\n" \
        "vmul.f32 q4, q4, r0\n" \
        "vldrw.32 q6, [r10], #16\n" \
        "vmul.f32 q5, q5, r0\n" \
        "vadd.f32 q0, q0, q4\n" \
        "vldrw.32 q7, [r11], #16\n" \
        "vmul.f32 q6, q6, r0\n" \
        "vadd.f32 q1, q1, q5\n" \
        "vmul.f32 q7, q7, r0\n" \
        "vadd.f32 q2, q2, q6\n" \
        "vadd.f32 q3, q3, q7\n", \
        "r8", "r9", "r10", "r11", "r12")

/* Assembly: four channels of four pixels by weights of float16. */
#define EC_CONV_FOUR_F16_MVE(words) \
    EC_RUN_FOUR_PIXELS_F32_MVE(words, "", "vldrh.u32 q4, [r1], #8\n", EC_WIDEN_HALVES_MVE("4"), "")

/* Assembly: sixteen channels of one pixel by weights of float16. */
#define EC_CONV_ONE_F16_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, EC_FOUR_BIASES_F32_MVE, \
        "ldr r8, [r12], #4\n" \
        "vldrh.u32 q4, [r0], #8\n" \
        "vldrh.u32 q5, [r1], #8\n" \
        EC_WIDEN_HALVES_MVE("4") \
        "vldrh.u32 q6, [r2], #8\n" \
        EC_WIDEN_HALVES_MVE("5") \
        "vldrh.u32 q7, [r3], #8\n" \
        "vmul.f32 q4, q4, r8\n" \
        EC_WIDEN_HALVES_MVE("6") \
        "vmul.f32 q5, q5, r8\n" \
        EC_WIDEN_HALVES_MVE("7") \
        "vadd.f32 q0, q0, q4\n" \
        "vmul.f32 q6, q6, r8\n" \
        "vadd.f32 q1, q1, q5\n" \
        "vmul.f32 q7, q7, r8\n" \
        "vadd.f32 q2, q2, q6\n" \
        "vadd.f32 q3, q3, q7\n", \
        "r0", "r1", "r2", "r3", "r12")

/* Assembly: four channels of four pixels by weights of int8. */
#define EC_CONV_FOUR_S8_MVE(words) \
    EC_RUN_FOUR_PIXELS_F32_MVE(words, "vldrw.32 q7, [r2, #16]\n", \
        "vldrb.s32 q4, [r1], #4\n", "vcvt.f32.s32 q4, q4\n", "vmul.f32 q4, q4, q7\n")

/* Assembly: sixteen channels of one pixel by weights of int8. */
#define EC_CONV_ONE_S8_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, \
        "vldrw.32 q6, [r2, #16]\n" \
        "mov r9, r3\n" \
        ".irp d, q0, q1, q2, q3\n" \
        "vldrw.32 q4, [r2, #16]\n" \
        "vldrw.32 \\d, [r2]\n" \
        "add r2, r2, lr\n" \
        "vstrw.32 q4, [r3], #16\n" \
        ".endr\n", \
        "ldr r8, [r12], #4\n" \
        "vldrb.s32 q4, [r0], #4\n" \
        "vldrw.32 q7, [r9, #16]\n" \
        "vcvt.f32.s32 q4, q4\n" \
        "vldrb.s32 q5, [r1], #4\n" \
        "vmul.f32 q4, q4, q6\n" \
        "vcvt.f32.s32 q5, q5\n" \
        "vmul.f32 q4, q4, r8\n" \
        "vmul.f32 q5, q5, q7\n" \
        "vldrw.32 q7, [r9, #32]\n" \
        "vadd.f32 q0, q0, q4\n" \
        "vldrb.s32 q4, [r2], #4\n" \
        "vmul.f32 q5, q5, r8\n" \
        "vcvt.f32.s32 q4, q4\n" \
        "vadd.f32 q1, q1, q5\n" \
        "vldrb.s32 q5, [r3], #4\n" \
        "vmul.f32 q4, q4, q7\n" \
        "vcvt.f32.s32 q5, q5\n" \
        "vldrw.32 q7, [r9, #48]\n" \
        "vmul.f32 q4, q4, r8\n" \
        "vmul.f32 q5, q5, q7\n" \
        "vadd.f32 q2, q2, q4\n" \
        "vmul.f32 q5, q5, r8\n" \
        "vadd.f32 q3, q3, q5\n", \
        "r0", "r1", "r2", "r3", "r12")

/* Assembly: four channels of four pixels by weights of int4. r3 is the shift that leaves four bits of a
 * byte: 28 up, or 4 down. Shifted up, a weight is 2^28 times itself. */
#define EC_CONV_FOUR_S4_MVE(words) \
    EC_RUN_FOUR_PIXELS_F32_MVE(words, \
        "mov r12, r3\n" \
        "usat r3, #5, r3\n" \
        "lsl r3, r3, #23\n" \
        "rsb r3, r3, #0x3f800000\n" \
        "vldrw.32 q7, [r2, #16]\n" \
        "vmul.f32 q7, q7, r3\n", \
        "vldrb.s32 q4, [r1], #4\n", "vshl.s32 q4, r12\nvcvt.f32.s32 q4, q4\n", \
        "vmul.f32 q4, q4, q7\n")

/* Assembly: an input of one pixel by sixteen weights of int4, whose steps are in q6 and at `second`,
 * `third` and `fourth`. */
#define EC_ONE_PIXEL_S4_F32_MVE(second, third, fourth) \
    "ldr r8, [r12], #4\n" \
    "vldrb.s32 q4, [r0], #4\n" \
    "vldrw.32 q7, [" second "]\n" \
    "vshl.i32 q5, q4, #28\n" \
    "vshr.s32 q4, q4, #4\n" \
    "vcvt.f32.s32 q5, q5, #28\n" \
    "vcvt.f32.s32 q4, q4\n" \
    "vmul.f32 q5, q5, q6\n" \
    "vmul.f32 q4, q4, q7\n" \
    "vmul.f32 q5, q5, r8\n" \
    "vldrw.32 q7, [" third "]\n" \
    "vmul.f32 q4, q4, r8\n" \
    "vadd.f32 q0, q0, q5\n" \
    "vadd.f32 q1, q1, q4\n" \
    "vldrb.s32 q4, [r1], #4\n" \
    "vshl.i32 q5, q4, #28\n" \
    "vshr.s32 q4, q4, #4\n" \
    "vcvt.f32.s32 q5, q5, #28\n" \
    "vcvt.f32.s32 q4, q4\n" \
    "vmul.f32 q5, q5, q7\n" \
    "vldrw.32 q7, [" fourth "]\n" \
    "vmul.f32 q5, q5, r8\n" \
    "vmul.f32 q4, q4, q7\n" \
    "vadd.f32 q2, q2, q5\n" \
    "vmul.f32 q4, q4, r8\n" \
    "vadd.f32 q3, q3, q4\n"

/* Assembly: sixteen channels of one pixel by weights of int4. */
#define EC_CONV_ONE_S4_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, \
        "mov r9, r2\n" \
        "add r10, r2, lr\n" \
        "vldrw.32 q6, [r9, #16]\n" \
        "vldrw.32 q0, [r9]\n" \
        "vldrw.32 q1, [r9, #32]\n" \
        "vldrw.32 q2, [r10]\n" \
        "vldrw.32 q3, [r10, #32]\n", \
        EC_ONE_PIXEL_S4_F32_MVE("r9, #48", "r10, #16", "r10, #48"), \
        "r0", "r1", "r2", "r3", "r12")

/* Assembly: multiply the halves of four bytes at `from`, which advances, by the steps at `steps` and 32
 * bytes after; store the products at `room`. */
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

/* Assembly: four channels of four pixels by weights of int4 with steps of groups. r3 points to the data
 * of ec_tell_groups_f32. A byte is shifted as in EC_CONV_FOUR_S4_MVE: shifted up, a weight or a factor of
 * a group is 2^28 times itself. */
#define EC_CONV_FOUR_S4_GROUPS_MVE(words) \
    EC_RUN_STEPS_F32_MVE(words, EC_SAME_BIASES_F32_MVE \
        "ldr r12, [r3, #72]\n" \
        "usat r0, #5, r12\n" \
        "lsl r0, r0, #23\n" \
        "rsb r0, r0, #0x3f800000\n" \
        "vldrw.32 q7, [r2, #16]\n" \
        "vmul.f32 q7, q7, r0\n" \
        "ldr r2, [r3, #64]\n" \
        "cbz r2, 6f\n" \
        "vmul.f32 q7, q7, r0\n" \
        "6:\n" \
        "vstrw.32 q7, [r3]\n", \
        EC_GROUPS_F32_MVE( \
            "ldr r3, [sp]\n" \
            "ldr r3, [r3, #48]\n" \
            "vldrw.32 q7, [r3]\n" \
            "ldrd r0, r2, [r3, #64]\n" \
            "cbz r0, 6f\n" \
            "vldrb.s32 q4, [r1], #4\n" \
            "vshl.s32 q4, r12\n" \
            "vcvt.f32.s32 q4, q4\n" \
            "vmul.f32 q7, q7, q4\n" \
            "6:\n" \
            "dls lr, r2\n", \
            EC_FOUR_PIXELS_F32_MVE("vldrb.s32 q4, [r1], #4\n", \
                "vshl.s32 q4, r12\nvcvt.f32.s32 q4, q4\n", "vmul.f32 q4, q4, q7\n"), \
            "r0"), \
        "r8", "r9", "r10", "r11", "r1")

/* Assembly: sixteen channels of one pixel by weights of int4 with steps of groups. */
#define EC_CONV_ONE_S4_GROUPS_MVE(words) \
    EC_RUN_STEPS_F32_MVE(words, \
        "mov r9, r3\n" \
        "mov r10, r2\n" \
        "add r11, r2, lr\n" \
        "vldrw.32 q0, [r10]\n" \
        "vldrw.32 q4, [r10, #16]\n" \
        "vldrw.32 q1, [r10, #32]\n" \
        "vldrw.32 q5, [r10, #48]\n" \
        "vldrw.32 q2, [r11]\n" \
        "vldrw.32 q6, [r11, #16]\n" \
        "vldrw.32 q3, [r11, #32]\n" \
        "vldrw.32 q7, [r11, #48]\n" \
        "vstrw.32 q4, [r9]\n" \
        "vstrw.32 q5, [r9, #16]\n" \
        "vstrw.32 q6, [r9, #32]\n" \
        "vstrw.32 q7, [r9, #48]\n", \
        EC_GROUPS_F32_MVE( \
            "ldrd r2, r3, [r9, #64]\n" \
            "cbz r2, 6f\n" \
            EC_STEPS_OF_UNIT_F32_MVE("r0", "r10", "0") \
            EC_STEPS_OF_UNIT_F32_MVE("r1", "r11", "32") \
            "6:\n" \
            "vldrw.32 q6, [r9]\n" \
            "dls lr, r3\n", \
            EC_ONE_PIXEL_S4_F32_MVE("r9, #16", "r9, #32", "r9, #48"), \
            "r8"), \
        "r0", "r1", "r2", "r3", "r12")

/* clang-format on */

#define EC_OF(name) name
#define EC_WEIGHTS float
#define EC_STORED 4
#define EC_FOUR EC_CONV_FOUR_MVE
#define EC_ONE EC_CONV_ONE_MVE
#define EC_GROUP
#define EC_INPUTS 0
#include "kernels/cortex_m/conv_row_f32.inc"

#define EC_OF(name) name##_f16
#define EC_WEIGHTS int32_t
#define EC_STORED 2
#define EC_FOUR EC_CONV_FOUR_F16_MVE
#define EC_ONE EC_CONV_ONE_F16_MVE
#define EC_GROUP
#define EC_INPUTS 0
#include "kernels/cortex_m/conv_row_f32.inc"

#define EC_OF(name) name##_s8
#define EC_WEIGHTS int32_t
#define EC_STORED 1
#define EC_FOUR EC_CONV_FOUR_S8_MVE
#define EC_ONE EC_CONV_ONE_S8_MVE
#define EC_GROUP
#define EC_INPUTS 0
#include "kernels/cortex_m/conv_row_f32.inc"

#define EC_OF(name) name##_s4
#define EC_WEIGHTS int32_t
#define EC_STORED 0
#define EC_FOUR EC_CONV_FOUR_S4_MVE
#define EC_ONE EC_CONV_ONE_S4_MVE
#define EC_GROUP
#define EC_INPUTS 0
#include "kernels/cortex_m/conv_row_f32.inc"

#define EC_OF(name) name##_s4_groups
#define EC_WEIGHTS int32_t
#define EC_STORED -1
#define EC_FOUR EC_CONV_FOUR_S4_GROUPS_MVE
#define EC_ONE EC_CONV_ONE_S4_GROUPS_MVE
#define EC_GROUP int32_t group,
#define EC_INPUTS group
#include "kernels/cortex_m/conv_row_f32.inc"

#endif /* EC_FPU_CONV_F32_H */
