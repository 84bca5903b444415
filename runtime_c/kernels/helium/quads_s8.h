/* Convolutions of int8 over 16 channels whose windows are three pixels wide and next to each other, for
 * the vectors of Armv8.1-M (MVE): four windows share their loads.
 *
 * See matrix_s8.h. The eight sums of a unit are four pixels of two channels. A row of their windows has
 * six pixels; each is a vector, which is loaded once for up to three of the windows.
 *
 * Results are int8 without other limits. Shifts are below 0.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_QUADS_S8_H
#define EC_MVE_QUADS_S8_H

#include "edgec/ec_kernel.h"
#include "kernels/common/rescale_sums.h"
#include "kernels/helium/matrix_s8.h"

/* Sizes of such a convolution, in elements. */
typedef struct {
    int32_t kernel_h, pitch, pixels, channels, zero_point;
} ec_quads_mve_sizes;

/* clang-format off */

/* Assembly: four pixels of inputs by the weights of two channels. */
#define EC_QUADS_TAP_MVE(p0, p1, p2, p3) \
    "vldrw.32 q4, [r5], #16\n" \
    "vldrw.32 q5, [r5], #16\n" \
    "vmladava.s8 r0, " p0 ", q4\n" \
    "vmladava.s8 r8, " p0 ", q5\n" \
    "vmladava.s8 r2, " p1 ", q4\n" \
    "vmladava.s8 r10, " p1 ", q5\n" \
    "vmladava.s8 r4, " p2 ", q4\n" \
    "vmladava.s8 r12, " p2 ", q5\n" \
    "vmladava.s8 r6, " p3 ", q4\n" \
    "vmladava.s8 lr, " p3 ", q5\n"

/* clang-format on */

/* out[p * channels + o] for `pixels` in a row, a multiple of four, and all channels, an even number: the
 * rescaled sum over kh, i of x[kh * pitch + p * 16 + i] * w[o][kh][i] + bias[o], for kh < kernel_h and
 * i < 48. stream: see the top of matrix_s8.h, in units of two, each with four bytes of shifts; it is
 * aligned to 4 bytes, out and x need no alignment. The inputs of four pixels are read again after their
 * first outputs are written.
 *
 * Registers: r1 x, r3 1, r5 stream, r7 rows left, r9 out, r11 pitch, q6 offsets of results. On the
 * stack: the end of the outputs of a pixel, x (4), zero point, rows (12), stream (16), pixels left,
 * channels (24). */
static EC_KERNEL void ec_conv_quads_s8_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                           const ec_quads_mve_sizes *n) {
#if EC_MVE_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int8_t *r1 __asm__("r1") = x;
    register const int32_t *r2 __asm__("r2") = stream;
    register const ec_quads_mve_sizes *r3 __asm__("r3") = n;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r4-r11, lr}\n"
        "vpush {d8-d13}\n"
        "ldm r3, {r4-r8}\n"
        "mov r11, r5\n"
        "mov r12, r6\n"
        "mov lr, r7\n"
        "movs r6, #0\n"
        "vidup.u16 q6, r6, #1\n"
        "vshr.u16 q0, q6, #1\n" /* the pixel of each result */
        "vbic.i16 q6, #0xFE\n" /* and its channel */
        "vmul.i16 q0, q0, r7\n"
        "vadd.i16 q6, q6, q0\n"
        "push {r2, r12, lr}\n"
        "mov r9, r0\n"
        "add r0, r7\n"
        "mov r2, r8\n"
        "mov r7, r4\n"
        "movs r3, #1\n"
        "push {r0-r2, r7}\n"
        "9:\n" /* four pixels */
        "ldr r5, [sp, #16]\n"
        "0:\n" /* two channels */
        "ldrd r0, r8, [r5], #8\n"
        "mov r2, r0\n"
        "mov r4, r0\n"
        "mov r6, r0\n"
        "mov r10, r8\n"
        "mov r12, r8\n"
        "mov lr, r8\n"
        "1:\n" /* a row of the windows */
        "vldrb.8 q0, [r1]\n"
        "vldrb.8 q1, [r1, #16]\n"
        "vldrb.8 q2, [r1, #32]\n"
        "vldrb.8 q3, [r1, #48]\n"
        EC_QUADS_TAP_MVE("q0", "q1", "q2", "q3")
        "vldrb.8 q0, [r1, #64]\n"
        EC_QUADS_TAP_MVE("q1", "q2", "q3", "q0")
        "vldrb.8 q1, [r1, #80]\n"
        EC_QUADS_TAP_MVE("q2", "q3", "q0", "q1")
        "add r1, r1, r11\n"
        "subs r7, #1\n"
        "bne.w 1b\n"
        EC_VECTORS_OF_SUMS_MVE
        "ldrd r0, r2, [r5], #8\n"
        "vqrdmulh.s32 q0, q0, r0\n"
        "vqrdmulh.s32 q1, q1, r2\n"
        "ldr r0, [r5], #4\n"
        "vqdmlah.s32 q0, q0, r3\n" /* negative ties go down */
        "vqdmlah.s32 q1, q1, r3\n"
        "vrshl.s32 q0, r0\n" /* by its lowest byte */
        "lsrs r0, r0, #8\n"
        "vrshl.s32 q1, r0\n"
        "vqmovnb.s32 q0, q0\n" /* the two channels of a pixel side by side */
        "vqmovnt.s32 q0, q1\n"
        "ldm sp, {r0-r2, r7}\n"
        "vqadd.s16 q0, q0, r2\n"
        "vqmovnb.s16 q0, q0\n"
        "vstrb.16 q0, [r9, q6]\n"
        "add r9, r9, #2\n"
        "cmp r9, r0\n"
        "bne.w 0b\n"
        "ldrd r6, r8, [sp, #20]\n"
        "subs r6, #4\n"
        "beq 8f\n"
        "str r6, [sp, #20]\n"
        "add r6, r8, r8, lsl #1\n"
        "add r9, r6\n"
        "add r0, r0, r8, lsl #2\n"
        "adds r1, #64\n"
        "stm sp, {r0, r1}\n"
        "b.w 9b\n"
        "8:\n"
        "add sp, #28\n"
        "vpop {d8-d13}\n"
        "pop {r4-r11, lr}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r12", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    const ec_sums_mve_sizes sums = {
        n->kernel_h,   48,   n->pitch, 16, n->pixels, n->channels, 2, 1, 1, 2, ec_rescale_sum_tflm,
        n->zero_point, -128, 127
    };
    ec_windows_to_c_mve(out, x, stream, &sums);
#endif
}

#endif /* EC_MVE_QUADS_S8_H */
