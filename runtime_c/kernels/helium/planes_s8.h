/* Depthwise 3x3 convolution of int8 for the vectors of Armv8.1-M (MVE), on planes of channels.
 *
 * For each column of outputs, a plane holds the three columns that its windows read, side by side, row
 * after row. So the nine inputs of a window lie together, and the inputs of the next window begin three
 * bytes further. VMLADAV multiplies 16 bytes by 16 weights, of which the last seven are 0.
 *
 * A stream holds the constants of four channels: biases, multipliers M and shifts, as words; nine
 * weights of each channel.
 *
 * Results are int8 with zero point -128 and no other limits, which hide negative ties of gemmlowp's
 * rounding. Shifts are at least -24.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_PLANES_S8_H
#define EC_MVE_PLANES_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/rescale_sums.h"

/* Sizes of an image and of a tile of its columns; the value outside of the image. */
typedef struct {
    int32_t height, width, columns, channels, fill;
} ec_planes_mve_sizes;

/* to[c][w][h][k] = x[h - 1][column + w + k - 1][c] for 4 channels, w < columns, h < height + 2 and k < 3;
 * `fill` outside of x [height][width][channels]. Rows of x have less than 65,533 bytes, and planes less
 * than 16,384. to and x need no alignment and must not overlap.
 *
 * Two rows of four channels are a vector. Registers: r0 where a column of x goes as the middle one, r1
 * x, r2 as the last one, r3 x of a row, r4 as the first one, r5 6, r6 bytes of a column of x, r7
 * columns left, r8 bytes to the second next row of x, r9 to the next pixel, r10 to the next column of a
 * plane, r11 columns after the tile, q1, q2 offsets of planes, q3 of x. */
static EC_KERNEL void ec_pack_planes_s8_mve(int8_t *to, const int8_t *x,
                                            const ec_planes_mve_sizes *n, int32_t column) {
#if EC_MVE_ASM
    register int8_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = x;
    register const ec_planes_mve_sizes *r2 __asm__("r2") = n;
    register int32_t r3 __asm__("r3") = column;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r4-r11}\n"
        "ldm r2, {r4-r8}\n"
        "vdup.8 q0, r8\n"
        "adds r2, r4, #2\n"
        "add r10, r2, r2, lsl #1\n"
        "subs r2, r3, #1\n"
        "mla r1, r2, r7, r1\n" /* the column before the tile */
        "subs r2, r5, r3\n"
        "sub r11, r2, r6\n"
        "mul r8, r5, r7\n"
        "mov r9, r7\n"
        "mul r12, r10, r6\n"
        "movs r2, #0\n"
        "movs r5, #4\n"
        "viwdup.u16 q3, r2, r5, #1\n" /* the channel of each lane */
        "vidup.u16 q2, r2, #1\n"
        "vshr.u16 q2, q2, #2\n" /* and its row */
        "vmul.i16 q1, q3, r12\n"
        "vmla.s16 q3, q2, r8\n"
        "movs r5, #3\n"
        "vmla.s16 q1, q2, r5\n"
        "add r8, r8\n"
        "mov r2, r0\n"
        "add r5, r2, r12\n"
        "add r7, r5, r12\n"
        "dlstp.8 lr, r12\n"
        "add r12, r7\n"
        "1:\n" /* fill four planes at once */
        "vstrb.8 q0, [r2], #16\n"
        "vstrb.8 q0, [r5], #16\n"
        "vstrb.8 q0, [r7], #16\n"
        "vstrb.8 q0, [r12], #16\n"
        "letp lr, 1b\n"
        "adds r7, r6, #1\n"
        "lsls r6, r4, #2\n"
        "movs r5, #6\n"
        "adds r0, #3\n" /* a column before the tile is only a first one */
        "mov r4, r0\n"
        "mov r2, r0\n"
        "cbz r3, 4f\n"
        "2:\n" /* a column */
        "mov r3, r1\n"
        "vmov q2, q1\n"
        "cmp r7, #1\n"
        "it eq\n"
        "moveq r4, r0\n" /* no column of outputs follows: write the same place twice */
        "dlstp.16 lr, r6\n"
        "3:\n" /* two rows, or the last one */
        "vldrb.u16 q0, [r3, q3]\n"
        "add r3, r3, r8\n"
        "vstrb.16 q0, [r0, q2]\n"
        "vstrb.16 q0, [r4, q2]\n"
        "vstrb.16 q0, [r2, q2]\n"
        "vadd.i16 q2, q2, r5\n"
        "letp lr, 3b\n"
        "4:\n"
        "adds r2, r0, #1\n"
        "adds r0, r4, #1\n"
        "add r4, r0, r10\n"
        "subs r4, #1\n"
        "add r1, r1, r9\n"
        "subs r7, #1\n"
        "bne 2b\n"
        "cmp r11, #0\n"
        "ittt ne\n" /* a column after the tile is only a last one */
        "movne r11, #0\n"
        "movne r0, r2\n"
        "movne r7, #1\n"
        "bne 2b\n"
        "pop {r4-r11}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r12", "lr", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    const int32_t bytes = 3 * (n->height + 2);
    for (int32_t i = 0; i < 4 * bytes * n->columns; ++i) {
        const int32_t w = column + i / bytes % n->columns + i % 3 - 1;
        const int32_t h = i % bytes / 3 - 1;
        const int32_t inside = h >= 0 && h < n->height && w >= 0 && w < n->width;
        const int32_t from = (h * n->width + w) * n->channels + i / (bytes * n->columns);
        to[i] = (int8_t)(inside != 0 ? x[from] : n->fill);
    }
#endif
}

/* out[(h * width + w) * channels + c] for c < 4, h < height and w < columns: the rescaled sum over k < 9
 * of plane[c][w][3 * h + k] * w[c][k] + bias[c]. stream: see the top of this file; it is aligned to 4
 * bytes, out and plane need no alignment and must not overlap. Up to 7 bytes after the last plane are
 * read, and not used.
 *
 * Registers: r0, r2, r4, r6 sums, r1, r3, r5, r8 planes, r7 out, r9 bytes to its next row, r10 stream,
 * r11 height, r12 columns left, q1 half less the zero point, q2 multipliers, q3 shifts, q4 to q7
 * weights. On the stack: bytes from the end of a column of out to the next. */
static EC_KERNEL void ec_depthwise_planes_s8_mve(int8_t *out, const int8_t *plane,
                                                 const int32_t *stream,
                                                 const ec_planes_mve_sizes *n) {
#if EC_MVE_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int8_t *r1 __asm__("r1") = plane;
    register const int32_t *r2 __asm__("r2") = stream;
    register const ec_planes_mve_sizes *r3 __asm__("r3") = n;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r4-r11}\n"
        "vpush {d8-d15}\n"
        "ldm r3!, {r4-r7}\n"
        "mul r9, r5, r7\n"
        "mls r5, r4, r9, r7\n"
        "push {r5}\n"
        "mov r11, r4\n"
        "add r5, r4, r4, lsl #1\n"
        "adds r5, #6\n"
        "muls r5, r6\n"
        "mov r12, r6\n"
        "mov r10, r2\n"
        "mov r7, r0\n"
        "adds r3, r1, r5\n"
        "add r8, r3, r5, lsl #1\n"
        "add r5, r3\n"
        "movs r0, #9\n"
        "vctp.8 r0\n"
        "vldrw.32 q2, [r2, #16]\n"
        "vldrw.32 q3, [r2, #32]\n"
        "adds r2, #48\n"
        "vpstttt\n"
        "vldrbt.8 q4, [r2], #9\n"
        "vldrbt.8 q5, [r2], #9\n"
        "vldrbt.8 q6, [r2], #9\n"
        "vldrbt.8 q7, [r2]\n"
        "vmvn.i32 q1, #0xFE\n"
        "vmvn q0, q3\n"
        "vshl.s32 q1, q1, q0\n" /* 0.5 - 128, as sums are before they are shifted */
        "movs r2, #24\n"
        "vadd.i32 q3, q3, r2\n"
        "1:\n" /* a column */
        "dls lr, r11\n"
        "2:\n" /* a row */
        "ldm r10, {r0, r2, r4, r6}\n"
        "vldrb.8 q0, [r1], #3\n"
        "vmladava.s8 r0, q0, q4\n"
        "vldrb.8 q0, [r3], #3\n"
        "vmladava.s8 r2, q0, q5\n"
        "vldrb.8 q0, [r5], #3\n"
        "vmladava.s8 r4, q0, q6\n"
        "vldrb.8 q0, [r8], #3\n"
        "vmladava.s8 r6, q0, q7\n"
        "vmov q0[2], q0[0], r0, r4\n"
        "vmov q0[3], q0[1], r2, r6\n"
        "vqrdmulh.s32 q0, q0, q2\n"
        "vqadd.s32 q0, q0, q1\n"
        "vqshl.s32 q0, q0, q3\n" /* the highest byte is the result, limited */
        "vshr.s32 q0, q0, #24\n"
        "vstrb.32 q0, [r7]\n"
        "add r7, r7, r9\n"
        "le lr, 2b\n"
        "ldr r0, [sp]\n"
        "add r7, r7, r0\n"
        "adds r1, #6\n"
        "adds r3, #6\n"
        "adds r5, #6\n"
        "add r8, r8, #6\n"
        "subs r12, r12, #1\n"
        "bne 1b\n"
        "add sp, #4\n"
        "vpop {d8-d15}\n"
        "pop {r4-r11}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r12", "lr", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    const int32_t column = 3 * (n->height + 2);
    const int8_t *const weights = (const int8_t *)(stream + 12);
    for (int32_t c = 0; c < 4; ++c) {
        for (int32_t i = 0; i < n->height * n->columns; ++i) {
            const int32_t h = i % n->height;
            const int32_t w = i / n->height;
            const int8_t *const from = plane + (c * n->columns + w) * column + 3 * h;
            uint32_t sum = (uint32_t)stream[c];
            for (int32_t k = 0; k < 9; ++k) {
                sum += (uint32_t)(from[k] * weights[9 * c + k]);
            }
            const int32_t value = ec_rescale_sum_tflm((int32_t)sum, stream + 4 + c, 4) - 128;
            out[(h * n->width + w) * n->channels + c] =
                (int8_t)ec_min_s32(ec_max_s32(value, -128), 127);
        }
    }
#endif
}

#endif /* EC_MVE_PLANES_S8_H */
