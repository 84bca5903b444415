/* Assembly of convolutions of int8 with gemmlowp's rounding, of parts in matrix_s8.h, which see.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_CONV_TFLM_H
#define EC_MVE_CONV_TFLM_H

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

/* Assembly: convolution with gemmlowp's rounding, all of it. Biases come first in a stream, so that
 * sums begin with them. Narrowing puts the two pixels' results side by side, and offsets in q5 store
 * them where they belong; q4 are those of one pixel alone. In place of where the second pixel's
 * outputs are, the stack has where a row begins: at its first whole slice, if there is no other. */
#define EC_CONV_TFLM_S8_MVE \
    EC_CONV_BEGIN_MVE( \
        "vctp.8 r1\n" \
        "vpnot\n" \
        "movs r6, #0\n" \
        "vidup.u16 q5, r6, #1\n" \
        "vshr.u16 q4, q5, #1\n" /* the channel of each result */ \
        "vbic.i16 q5, #0xFE\n" /* and its pixel */ \
        "ldrd r6, r7, [sp]\n" \
        "subs r7, r7, r6\n" \
        "vmul.i16 q5, q5, r7\n" \
        "vadd.i16 q5, q5, q4\n" \
        "adr.w r7, 2f + 1\n" \
        "cbnz r1, 1f\n" \
        "cmp r2, #4\n" \
        "beq 1f\n" \
        "adr.w r7, 4f + 1\n" /* whole slices alone, one more in the first round */ \
        "adds r6, r2, #1\n" \
        "movs r5, #56\n" \
        "mls r7, r6, r5, r7\n" \
        "1:\n" \
        "str r7, [sp, #4]\n", \
        "16", "56") \
    "ldm r5, {r0, r2, r4, r6}\n" \
    "ldm r5!, {r8, r10, r12, lr}\n" \
    "ldr pc, [sp, #4]\n" \
    "2:\n" \
    "vpstt\n" \
    EC_CONV_TFLM_SLICE_MVE("vldrbt.8") \
    "ldr pc, [sp, #36]\n" \
    "3:\n" \
    ".rept 4\n" \
    EC_CONV_TFLM_SLICE_MVE("vldrb.8") \
    ".endr\n" \
    "4:\n" \
    EC_CONV_ROUND_MVE \
    "ldr pc, [sp, #4]\n" \
    "6:\n" \
    EC_VECTORS_OF_SUMS_MVE \
    "ldm sp, {r0, r2, r4, r6, r7}\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vqrdmulh.s32 q0, q0, q2\n" \
    "vqrdmulh.s32 q1, q1, q2\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "cbz r7, 7f\n" \
    "vand q3, q0, q2\n" \
    "vshr.s32 q3, q3, #31\n" \
    "vadd.i32 q0, q0, q3\n" \
    "vand q3, q1, q2\n" \
    "vshr.s32 q3, q3, #31\n" \
    "vadd.i32 q1, q1, q3\n" \
    "7:\n" \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q2\n" \
    "vqmovnb.s32 q0, q0\n" \
    "vqmovnt.s32 q0, q1\n" \
    "vqadd.s16 q0, q0, r6\n" \
    "vmax.s16 q0, q0, q6\n" \
    "vmin.s16 q0, q0, q7\n" \
    "vstrb.16 q0, [r0, q5]\n" \
    "adds r0, #4\n" \
    "str r0, [sp]\n" \
    "subs r6, r0, r4\n" \
    "bls.w 0b\n" \
    "cmp r6, #4\n" /* the last unit may have to step back */ \
    "beq 8f\n" \
    "str r4, [sp]\n" \
    "b.w 0b\n" \
    "8:\n" /* to the next pair; the last pixel may be alone, and is done twice */ \
    "ldrd r6, r7, [sp, #44]\n" \
    "subs r6, #2\n" \
    "ble 8f\n" \
    "ldr r4, [sp, #52]\n" \
    "ldr r1, [sp, #24]\n" \
    "str r6, [sp, #44]\n" \
    "add r0, r0, r7\n" \
    "add r1, r1, r4\n" \
    "add r3, r1, r4\n" \
    "cmp r6, #1\n" \
    "bne 5f\n" \
    "mov r3, r1\n" \
    "vmov q5, q4\n" \
    "5:\n" \
    "strd r1, r3, [sp, #20]\n" \
    "str r0, [sp]\n" \
    "add r4, r0, r7\n" \
    "subs r4, #4\n" \
    "str r4, [sp, #8]\n" \
    "b.w 9b\n" \
    "8:\n" \
    "add sp, #56\n" \
    "vpop {d8-d15}\n" \
    "pop {r4-r11, lr}\n"

/* clang-format on */

#endif /* EC_MVE_CONV_TFLM_H */
