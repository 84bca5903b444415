/* Assembly of convolutions of int8 with gemmlowp's rounding. Its parts are in matrix_s8.h.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_CONV_TFLM_H
#define EC_MVE_CONV_TFLM_H

#include "kernels/helium/assembly.h"

/* clang-format off */

/* Assembly: slices of two pixels by the weights of four channels, which take two vectors in turn. */
#define EC_CONV_TFLM_SLICE_MVE(load) \
    load " q0, [r1], #16\n" \
    load " q1, [r3], #16\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vldrw.32 q3, [r5], #16\n" \
    "vmladava.s8 r0, q0, q2\n" \
    "vmladava.s8 r8, q1, q2\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vmladava.s8 r2, q0, q3\n" \
    "vmladava.s8 r10, q1, q3\n" \
    "vldrw.32 q3, [r5], #16\n" \
    "vmladava.s8 r4, q0, q2\n" \
    "vmladava.s8 r12, q1, q2\n" \
    "vmladava.s8 r6, q0, q3\n" \
    "vmladava.s8 lr, q1, q3\n"

/* Assembly: rescale sums up to the last shift, by the stream in r5; q2 holds that shift. */
#define EC_CONV_TFLM_SCALE_MVE \
    EC_VECTORS_OF_SUMS_MVE \
    "vldrw.32 q2, [r5], #16\n" \
    "vqrdmulh.s32 q0, q0, q2\n" \
    "vqrdmulh.s32 q1, q1, q2\n" \
    "vldrb.s32 q2, [r5], #4\n"

/* Assembly: add the zero point in q6, as int16. Narrowing puts two pixels side by side. */
#define EC_CONV_TFLM_SHIFT_MVE \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q2\n" \
    "vqmovnb.s32 q0, q0\n" \
    "vqmovnt.s32 q0, q1\n" \
    "vqadd.s16 q0, q0, q6\n"

/* Assembly: the next step of a sum. */
#define EC_CONV_TFLM_STEP_MVE "ldr pc, [r7], #4\n"

/* Assembly: the head of a convolution with gemmlowp's rounding, up to the first four channels.
 *
 * The steps of a sum are a list of addresses on the stack, and each step jumps to the next one. The steps
 * of a window's row are: the incomplete slice (2), the slices of an incomplete round of four (3),
 * complete rounds, and the move to the next row (7). Instead of the last move, results are computed (5),
 * then limited (11), or only narrowed if the limits are int8's (12). If the zero point is -128 as well,
 * ties below zero are cut off: one step computes and narrows (6). The list is written backwards. */
#define EC_CONV_TFLM_BEGIN_MVE \
    "push {r4-r11, lr}\n" \
    "vpush {d8-d15}\n" \
    "mov r12, sp\n" \
    "ldm r3, {r4-r11}\n" \
    "ldr r3, [r3, #32]\n" \
    "asr lr, r11, #16\n" \
    "sxth r11, r11\n" \
    "vdup.16 q6, r11\n" \
    "vdup.16 q4, lr\n" \
    "vdup.16 q7, r3\n" \
    "cmp r3, #127\n" \
    "it eq\n" \
    "cmneq lr, #128\n" \
    "adr.w r3, 11f + 1\n" \
    "it eq\n" /* only int8 limits results */ \
    "addeq r3, #62\n" /* 12 */ \
    "push {r3}\n" \
    "it eq\n" \
    "cmneq r11, #128\n" \
    "adr.w r3, 5f + 1\n" \
    "it eq\n" /* and the zero point is -128 */ \
    "addeq r3, #84\n" /* 6 */ \
    "push {r3}\n" \
    "muls r5, r6\n" /* a row of a window, and lanes below it */ \
    "rsbs r6, r5, #0\n" \
    "and r6, r6, #15\n" \
    "vctp.8 r6\n" \
    "vpnot\n" \
    "subs r1, r1, r6\n" \
    "subs r7, r7, r5\n" \
    "sub r11, r7, r6\n" \
    "lsrs r5, r5, #4\n" /* whole slices, less one */ \
    "subs r5, #1\n" \
    "and r3, r5, #3\n" \
    "movs r7, #56\n" \
    "adr.w lr, 4f - 55\n" \
    "mls r3, r3, r7, lr\n" /* where the first round begins */ \
    "asrs r5, r5, #2\n" \
    "adr.w r7, 3f + 1\n" \
    "0:\n" /* a row */ \
    "cmp r5, #0\n" \
    "blt 8f\n" \
    "wls lr, r5, 9f\n" \
    "1:\n" \
    "push {r7}\n" \
    "le lr, 1b\n" \
    "9:\n" \
    "push {r3}\n" \
    "8:\n" \
    "cbz r6, 8f\n" \
    "adr.w lr, 2f + 1\n" \
    "push {lr}\n" \
    "8:\n" \
    "subs r4, #1\n" \
    "beq 8f\n" \
    "adr.w lr, 7f + 1\n" \
    "push {lr}\n" \
    "b 0b\n" \
    "8:\n" \
    "mov r7, sp\n" \
    "mov r3, r1\n" \
    "movs r4, #0\n" \
    "cmp r9, #1\n" \
    "itt gt\n" \
    "addgt r3, r8\n" \
    "movgt r4, r10\n" \
    "push {r2, r8-r10, r12}\n" \
    "mov r9, r0\n" \
    "add r0, r10\n" \
    "subs r0, #4\n" \
    "push {r0, r1, r3, r7}\n" \
    "10:\n" /* offsets of the results of two pixels, which are r4 bytes apart */ \
    "movs r6, #0\n" \
    "vidup.u16 q5, r6, #1\n" \
    "vshr.u16 q0, q5, #1\n" /* the channel of each */ \
    "vbic.i16 q5, #0xFE\n" /* and its pixel */ \
    "vmul.i16 q5, q5, r4\n" \
    "vadd.i16 q5, q5, q0\n"

/* Assembly of the whole convolution with gemmlowp's rounding. Biases come first in a stream, so that sums
 * begin with them.
 *
 * Registers: r1, r3 x of both pixels, r5 stream, r7 steps, r9 out, r11 from the end of a row to the
 * next, q4, q7 limits, q5 offsets of results, q6 zero point. On the stack: the last out, x of both
 * (4), steps (12), stream (16), step (20), pixels left, channels (28), the old stack pointer (32), the
 * steps. */
#define EC_CONV_TFLM_S8_MVE \
    EC_CONV_TFLM_BEGIN_MVE \
    "9:\n" /* a pair of pixels */ \
    "ldr r5, [sp, #16]\n" \
    "0:\n" /* four channels */ \
    "ldm r5, {r0, r2, r4, r6}\n" \
    "ldm r5!, {r8, r10, r12, lr}\n" \
    EC_CONV_TFLM_STEP_MVE \
    "7:\n" \
    "add r1, r1, r11\n" \
    "add r3, r3, r11\n" \
    EC_CONV_TFLM_STEP_MVE \
    "2:\n" \
    "vpstt\n" \
    EC_CONV_TFLM_SLICE_MVE("vldrbt.8") \
    EC_CONV_TFLM_STEP_MVE \
    "3:\n" \
    ".rept 4\n" \
    EC_CONV_TFLM_SLICE_MVE("vldrb.8") \
    ".endr\n" \
    "4:\n" \
    EC_CONV_TFLM_STEP_MVE \
    "5:\n" \
    EC_CONV_TFLM_SCALE_MVE \
    "movs r0, #1\n" \
    EC_TIES_MVE("q0", "q2", "q3", "r0") \
    EC_TIES_MVE("q1", "q2", "q3", "r0") \
    EC_CONV_TFLM_SHIFT_MVE \
    EC_CONV_TFLM_STEP_MVE \
    "11:\n" \
    "vmax.s16 q0, q0, q4\n" \
    "vmin.s16 q0, q0, q7\n" \
    "b 12f\n" \
    "6:\n" \
    EC_CONV_TFLM_SCALE_MVE \
    EC_CONV_TFLM_SHIFT_MVE \
    "12:\n" \
    "vqmovnb.s16 q0, q0\n" \
    "vstrb.16 q0, [r9, q5]\n" \
    "ldm sp, {r0, r1, r3, r7}\n" \
    "add r9, r9, #4\n" \
    "subs r6, r9, r0\n" \
    "bls.w 0b\n" \
    "cmp r6, #4\n" /* the last unit may have to step back */ \
    "itt ne\n" \
    "movne r9, r0\n" \
    "bne 0b\n" \
    "ldrd r6, r8, [sp, #24]\n" /* to the next pair; the last pixel may be alone, and is done twice */ \
    "subs r6, #2\n" \
    "ble 8f\n" \
    "ldr r4, [sp, #20]\n" \
    "str r6, [sp, #24]\n" \
    "add r9, r8\n" \
    "adds r1, r3, r4\n" \
    "adds r3, r1, r4\n" \
    "add r0, r9, r8\n" \
    "subs r0, #4\n" \
    "cmp r6, #1\n" \
    "itt eq\n" \
    "moveq r3, r1\n" \
    "moveq r4, #0\n" \
    "stm sp, {r0, r1, r3}\n" \
    "bne 9b\n" \
    "b 10b\n" \
    "8:\n" \
    "ldr r0, [sp, #32]\n" \
    "mov sp, r0\n" \
    "vpop {d8-d15}\n" \
    "pop {r4-r11, lr}\n"

/* Convolution by this. */
#define EC_CONV_TFLM_RUN_MVE \
    register int8_t *r0 __asm__("r0") = out; \
    register const int8_t *r1 __asm__("r1") = x; \
    register const int32_t *r2 __asm__("r2") = stream; \
    register const ec_conv_mve_sizes *r3 __asm__("r3") = n; \
    __asm__ volatile(".syntax unified\n" EC_CONV_TFLM_S8_MVE \
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3) \
                     : \
                     : "r12", "q0", "q1", "q2", "q3", "cc", "memory")

/* clang-format on */

#endif /* EC_MVE_CONV_TFLM_H */
