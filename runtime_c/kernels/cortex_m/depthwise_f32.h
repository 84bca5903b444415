/* Depthwise convolutions of float32: one row of outputs, four pixels of four channels at a time. Weights
 * are float32, float16, or int8 times a step for each channel, converted to float32 when they are read.
 * All share one text, depthwise_row_f32.inc; only the assembly of an input's products differs.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_DEPTHWISE_F32_H
#define EC_FPU_DEPTHWISE_F32_H

#include "kernels/cortex_m/accumulate_f32.h"
#include "kernels/cortex_m/accumulate_f32_mve.h"

/* clang-format off */

/* Assembly: four channels of four pixels by weights of float32. */
#define EC_DEPTHWISE_FOUR_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, EC_SAME_BIASES_F32_MVE, \
        "vldrw.32 q4, [r12], #16\n" \
        "vldrw.32 q5, [r8]\n" \
        "vldrw.32 q6, [r9]\n" \
        "vmul.f32 q5, q5, q4\n" \
        "add r8, r8, r3\n" \
        "vmul.f32 q6, q6, q4\n" \
        "add r9, r9, r3\n" \
        "vldrw.32 q7, [r10]\n" \
        "vadd.f32 q0, q0, q5\n" \
        "vldrw.32 q5, [r11]\n" \
        "vadd.f32 q1, q1, q6\n" \
        "add r10, r10, r3\n" \
        "vmul.f32 q7, q7, q4\n" \
        "add r11, r11, r3\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vadd.f32 q2, q2, q7\n" \
        "vadd.f32 q3, q3, q5\n", \
        "r8", "r9", "r10", "r11", "r12")

/* Assembly: sixteen channels of one pixel by weights of float32. */
#define EC_DEPTHWISE_ONE_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, EC_FOUR_BIASES_F32_MVE, \
        "vldrw.32 q4, [r8], #16\n" \
        "vldrw.32 q5, [r12]\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vldrw.32 q6, [r12, #16]\n" \
        "vldrw.32 q4, [r9], #16\n" \
        "vadd.f32 q0, q0, q5\n" \
        "vmul.f32 q6, q6, q4\n" \
        "vldrw.32 q5, [r12, #32]\n" \
        "vldrw.32 q4, [r10], #16\n" \
        "vadd.f32 q1, q1, q6\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vldrw.32 q6, [r12, #48]\n" \
        "vldrw.32 q4, [r11], #16\n" \
        "vadd.f32 q2, q2, q5\n" \
        "vmul.f32 q6, q6, q4\n" \
        "add r12, r12, r3\n" \
        "vadd.f32 q3, q3, q6\n", \
        "r8", "r9", "r10", "r11", "r12")

/* Assembly: a tap of four channels of four pixels by the weights in q4, which `scale` multiplies by
 * their step. */
#define EC_DEPTHWISE_FOUR_PIXELS_MVE(scale) \
    "vldrw.32 q6, [r8]\n" \
    "add r8, r8, r3\n" \
    scale \
    "vmul.f32 q6, q6, q4\n" \
    "vldrw.32 q7, [r9]\n" \
    "add r9, r9, r3\n" \
    "vmul.f32 q7, q7, q4\n" \
    "vadd.f32 q0, q0, q6\n" \
    "vldrw.32 q6, [r10]\n" \
    "add r10, r10, r3\n" \
    "vadd.f32 q1, q1, q7\n" \
    "vmul.f32 q6, q6, q4\n" \
    "vldrw.32 q7, [r11]\n" \
    "add r11, r11, r3\n" \
    "vadd.f32 q2, q2, q6\n" \
    "vmul.f32 q7, q7, q4\n" \
    "vadd.f32 q3, q3, q7\n"

/* Assembly: four channels of four pixels by weights of float16. */
#define EC_DEPTHWISE_FOUR_F16_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, EC_SAME_BIASES_F32_MVE, \
        "vldrh.u32 q4, [r1], #8\n" \
        EC_WIDEN_HALVES_MVE("4") \
        EC_DEPTHWISE_FOUR_PIXELS_MVE(""), \
        "r8", "r9", "r10", "r11", "r1")

/* Assembly: sixteen channels of one pixel by weights of float16. */
#define EC_DEPTHWISE_ONE_F16_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, EC_FOUR_BIASES_F32_MVE "mov r8, r3\n", \
        "vldrh.u32 q4, [r0], #8\n" \
        "vldrw.32 q5, [r12]\n" \
        EC_WIDEN_HALVES_MVE("4") \
        "vldrh.u32 q6, [r1], #8\n" \
        "vmul.f32 q5, q5, q4\n" \
        EC_WIDEN_HALVES_MVE("6") \
        "vldrw.32 q7, [r12, #16]\n" \
        "vadd.f32 q0, q0, q5\n" \
        "vmul.f32 q7, q7, q6\n" \
        "vldrh.u32 q4, [r2], #8\n" \
        "vldrw.32 q5, [r12, #32]\n" \
        EC_WIDEN_HALVES_MVE("4") \
        "vadd.f32 q1, q1, q7\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vldrh.u32 q6, [r3], #8\n" \
        "vldrw.32 q7, [r12, #48]\n" \
        EC_WIDEN_HALVES_MVE("6") \
        "add r12, r12, r8\n" \
        "vadd.f32 q2, q2, q5\n" \
        "vmul.f32 q7, q7, q6\n" \
        "vadd.f32 q3, q3, q7\n", \
        "r0", "r1", "r2", "r3", "r12")

/* Assembly: four channels of four pixels by weights of int8. */
#define EC_DEPTHWISE_FOUR_S8_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, EC_SAME_BIASES_F32_MVE \
        "vldrw.32 q5, [r2, #16]\n", \
        "vldrb.s32 q4, [r1], #4\n" \
        "vcvt.f32.s32 q4, q4\n" \
        EC_DEPTHWISE_FOUR_PIXELS_MVE("vmul.f32 q4, q4, q5\n"), \
        "r8", "r9", "r10", "r11", "r1")

/* Assembly: sixteen channels of one pixel by weights of int8. */
#define EC_DEPTHWISE_ONE_S8_MVE(words) \
    EC_RUN_SUMS_F32_MVE(words, \
        "vldrw.32 q0, [r2]\n" \
        "vldrw.32 q6, [r2, #16]\n" \
        "add r2, r2, lr\n" \
        "vldrw.32 q1, [r2]\n" \
        "vldrw.32 q7, [r2, #16]\n" \
        "add r9, r2, lr\n" \
        "vldrw.32 q2, [r9]\n" \
        "add r10, r9, lr\n" \
        "vldrw.32 q3, [r10]\n" \
        "mov r8, r3\n", \
        "vldrb.s32 q4, [r0], #4\n" \
        "vldrw.32 q5, [r12]\n" \
        "vcvt.f32.s32 q4, q4\n" \
        "vmul.f32 q4, q4, q6\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vldrb.s32 q4, [r1], #4\n" \
        "vadd.f32 q0, q0, q5\n" \
        "vcvt.f32.s32 q4, q4\n" \
        "vldrw.32 q5, [r12, #16]\n" \
        "vmul.f32 q4, q4, q7\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vldrb.s32 q4, [r2], #4\n" \
        "vadd.f32 q1, q1, q5\n" \
        "vcvt.f32.s32 q4, q4\n" \
        "vldrw.32 q5, [r9, #16]\n" \
        "vmul.f32 q4, q4, q5\n" \
        "vldrw.32 q5, [r12, #32]\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vldrb.s32 q4, [r3], #4\n" \
        "vadd.f32 q2, q2, q5\n" \
        "vcvt.f32.s32 q4, q4\n" \
        "vldrw.32 q5, [r10, #16]\n" \
        "vmul.f32 q4, q4, q5\n" \
        "vldrw.32 q5, [r12, #48]\n" \
        "add r12, r12, r8\n" \
        "vmul.f32 q5, q5, q4\n" \
        "vadd.f32 q3, q3, q5\n", \
        "r0", "r1", "r2", "r3", "r12")

/* clang-format on */

#define EC_OF(name) name
#define EC_WEIGHTS float
#define EC_STORED 4
#define EC_FOUR EC_DEPTHWISE_FOUR_MVE
#define EC_ONE EC_DEPTHWISE_ONE_MVE
#include "kernels/cortex_m/depthwise_row_f32.inc"

#define EC_OF(name) name##_f16
#define EC_WEIGHTS int32_t
#define EC_STORED 2
#define EC_FOUR EC_DEPTHWISE_FOUR_F16_MVE
#define EC_ONE EC_DEPTHWISE_ONE_F16_MVE
#include "kernels/cortex_m/depthwise_row_f32.inc"

#define EC_OF(name) name##_s8
#define EC_WEIGHTS int32_t
#define EC_STORED 1
#define EC_FOUR EC_DEPTHWISE_FOUR_S8_MVE
#define EC_ONE EC_DEPTHWISE_ONE_S8_MVE
#include "kernels/cortex_m/depthwise_row_f32.inc"

#endif /* EC_FPU_DEPTHWISE_F32_H */
