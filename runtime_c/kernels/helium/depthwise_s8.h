/* Depthwise convolution of int8 for the vectors of Armv8.1-M (MVE): 16 channels at a time.
 *
 * VMULLB and VMULLT multiply the even and the odd bytes of two vectors to int16. The sum of two taps'
 * products fits in int16 unless both weights are -128 (taps come in any order). It is widened and added
 * to four vectors of int32, which hold the channels 0, 4, 8, 12, then 2, ... , then 1, ... , then 3, ...
 * of the 16. Narrowing, from int32 to int16 and from int16 to int8, restores their order.
 *
 * A stream holds all constants in the order of use. Per 16 channels, in words: the biases, four vectors;
 * for each pair of taps, the distance of each from the first tap in bytes, and 16 weights of each; if
 * the number of taps is odd, the same for the last tap alone; multiplier M and shift, four vectors each
 * in turn. If the number of channels is no multiple of 16, the second 16 overlap the first; fewer than
 * 16 channels are repeated for several pixels side by side.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_S8_H
#define EC_MVE_DEPTHWISE_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/rescale_sums.h"
#include "kernels/helium/assembly.h"

/* Assembly: the int16 sums in q2 and q3 added to the int32 ones in q4 to q7. */
#define EC_DEPTHWISE_WIDEN_MVE \
    "vmovlb.s16 q0, q2\n"      \
    "vadd.i32 q4, q4, q0\n"    \
    "vmovlt.s16 q0, q2\n"      \
    "vadd.i32 q5, q5, q0\n"    \
    "vmovlb.s16 q0, q3\n"      \
    "vadd.i32 q6, q6, q0\n"    \
    "vmovlt.s16 q0, q3\n"      \
    "vadd.i32 q7, q7, q0\n"

/* Assembly: the int32 sums in q4 to q7 plus the zero point in r6 as 16 int8 in q2. */
#define EC_DEPTHWISE_NARROW_MVE \
    "vqmovnb.s32 q0, q4\n"      \
    "vqmovnt.s32 q0, q5\n"      \
    "vqmovnb.s32 q1, q6\n"      \
    "vqmovnt.s32 q1, q7\n"      \
    "vqadd.s16 q0, q0, r6\n"    \
    "vqadd.s16 q1, q1, r6\n"    \
    "vqmovnb.s16 q2, q0\n"      \
    "vqmovnt.s16 q2, q1\n"

/* clang-format off */

/* Assembly: rescale sums with gemmlowp's rounding, if limits hide negative ties. */
#define EC_DEPTHWISE_RELU_MVE \
    ".irp a, q4, q5, q6, q7\n" \
    "vldrw.32 q0, [r2], #16\n" \
    "vqrdmulh.s32 \\a, \\a, q0\n" \
    "vldrw.32 q0, [r2], #16\n" \
    "vrshl.s32 \\a, \\a, q0\n" \
    ".endr\n"

/* Assembly: sums rescaled with gemmlowp's rounding. */
#define EC_DEPTHWISE_TFLM_MVE \
    "movs r3, #1\n" \
    ".irp a, q4, q5, q6, q7\n" \
    "vldrw.32 q0, [r2], #16\n" \
    "vqrdmulh.s32 \\a, \\a, q0\n" \
    "vldrw.32 q0, [r2], #16\n" \
    EC_TIES_MVE("\\a", "q0", "q1", "r3") \
    "vrshl.s32 \\a, \\a, q0\n" \
    ".endr\n"

/* Assembly: all blocks of all pixels. `more` pushes the data that `results` needs; `results` converts the
 * sums in q4 to q7 to 16 int8 in q2; `end` follows the last block. */
#define EC_DEPTHWISE_BLOCKS_MVE(more, results, end) \
    "push {r4-r11, lr}\n" \
    "vpush {d8-d15}\n" \
    "ldm r2!, {r6, r8-r10, r12}\n" \
    "and r7, r9, #1\n" \
    "lsr r9, r9, #1\n" \
    "sub sp, #40\n" \
    "mov lr, sp\n" \
    "ldm r2!, {r3-r5, r11}\n" \
    "stm lr!, {r3-r5, r11}\n" \
    "ldm r2, {r3-r5, r11}\n" \
    "stm lr, {r3-r5, r11}\n" \
    more \
    "8:\n" /* a pixel */ \
    "ldm sp, {r2, r5, r11}\n" \
    "0:\n" /* 16 channels */ \
    "vldrw.32 q4, [r2], #16\n" \
    "vldrw.32 q5, [r2], #16\n" \
    "vldrw.32 q6, [r2], #16\n" \
    "vldrw.32 q7, [r2], #16\n" \
    "wls lr, r9, 2f\n" \
    "1:\n" /* a pair of taps */ \
    "ldrd r3, r4, [r2], #8\n" \
    "add r3, r3, r1\n" \
    "add r4, r4, r1\n" \
    "vldrb.8 q0, [r3]\n" \
    "vldrw.32 q1, [r2], #16\n" \
    "vmullb.s8 q2, q0, q1\n" \
    "vmullt.s8 q3, q0, q1\n" \
    "vldrb.8 q0, [r4]\n" \
    "vldrw.32 q1, [r2]\n" \
    "vmullb.s8 q1, q0, q1\n" \
    "vadd.i16 q2, q2, q1\n" \
    "vldrw.32 q1, [r2], #16\n" \
    "vmullt.s8 q1, q0, q1\n" \
    "vadd.i16 q3, q3, q1\n" \
    EC_DEPTHWISE_WIDEN_MVE \
    "le lr, 1b\n" \
    "2:\n" \
    "cbz r7, 3f\n" \
    "ldr r3, [r2], #4\n" \
    "add r3, r3, r1\n" \
    "vldrb.8 q0, [r3]\n" \
    "vldrw.32 q1, [r2], #16\n" \
    "vmullb.s8 q2, q0, q1\n" \
    "vmullt.s8 q3, q0, q1\n" \
    EC_DEPTHWISE_WIDEN_MVE \
    "3:\n" \
    results \
    "vstrb.8 q2, [r0]\n" \
    "add r0, r0, r11\n" \
    "add r1, r1, r11\n" \
    "mov r11, #16\n" \
    "subs r5, #1\n" \
    "bne.w 0b\n" \
    "add r1, r1, r12\n" \
    "subs r8, #1\n" \
    "bne.w 8b\n" \
    "ldrd r2, r3, [sp, #20]\n" /* the next row */ \
    "ldr r8, [sp, #28]\n" \
    "add r1, r1, r3\n" \
    "subs r2, #1\n" \
    "str r2, [sp, #20]\n" \
    "bne.w 8b\n" \
    end \
    "add sp, #40\n" \
    "vpop {d8-d15}\n" \
    "pop {r4-r11, lr}\n"

/* Assembly: all blocks with any limits; `rescale` rescales the sums. */
#define EC_DEPTHWISE_ANY_BLOCKS_MVE(rescale) \
    EC_DEPTHWISE_BLOCKS_MVE( \
        "cmp r10, #255\n" \
        "ite eq\n" \
        "adreq.w r10, 6f\n" \
        "adrne.w r10, 5f\n" \
        "orr r10, r10, #1\n" \
        "str r10, [sp, #32]\n", \
        rescale \
        EC_DEPTHWISE_NARROW_MVE \
        "ldr pc, [sp, #32]\n" \
        "6:\n", \
        "b.w 9f\n" \
        "5:\n" /* not only int8 limits results */ \
        "ldrd r3, r4, [sp, #12]\n" \
        "vdup.8 q0, r3\n" \
        "vmax.s8 q2, q2, q0\n" \
        "vdup.8 q0, r4\n" \
        "vmin.s8 q2, q2, q0\n" \
        "b 6b\n" \
        "9:\n")

/* Assembly: all blocks by the text `body`, which reads its numbers from `given`. */
#define EC_DEPTHWISE_RUN_MVE(body, zero_point, minimum, maximum) \
    int32_t given[13]; \
    ec_plan_blocks_mve(given, stream, n, zero_point, minimum, maximum); \
    register int8_t *r0 __asm__("r0") = out; \
    register const int8_t *r1 __asm__("r1") = x; \
    register const int32_t *r2 __asm__("r2") = given; \
    __asm__ volatile(".syntax unified\n" body \
                     : "+r"(r0), "+r"(r1), "+r"(r2) \
                     : \
                     : "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory")

/* clang-format on */

/* See ec_depthwise_s8_mve. */
typedef struct {
    uint16_t row_step, step, rows, pixels, channels, kernel_h;
    uint8_t kernel_w;
    int8_t zero_point, minimum, maximum;
} ec_depthwise_mve_sizes;

/* What the assembly above is given. */
static inline EC_UNUSED void ec_plan_blocks_mve(int32_t *given, const int32_t *stream,
                                                const ec_depthwise_mve_sizes *n, int32_t zero_point,
                                                int32_t minimum, int32_t maximum) {
    const int32_t blocks = (n->channels + 15) >> 4;
    const int32_t second = n->channels - 16 * (blocks - 1);
    given[0] = zero_point;
    given[1] = n->pixels;
    given[2] = n->kernel_h * n->kernel_w;
    given[3] = maximum - minimum;
    given[4] = n->step - n->channels;
    given[5] = (int32_t)(uintptr_t)stream;
    given[6] = blocks;
    given[7] = second;
    given[8] = minimum;
    given[9] = maximum;
    given[10] = n->rows;
    given[11] = n->row_step - n->pixels * n->step;
    given[12] = n->pixels;
}

/* The blocks of ec_depthwise_blocks_s8_mve in C; tables: constants of a channel that rescale its sums. */
static inline EC_INLINE void ec_blocks_c_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                             const ec_depthwise_mve_sizes *n, int32_t tables,
                                             int32_t (*rescale)(int32_t, const int32_t *,
                                                                int32_t)) {
    const int32_t taps = n->kernel_h * n->kernel_w;
    const int32_t blocks = (n->channels + 15) >> 4;
    const int32_t second = n->channels - 16 * (blocks - 1);
    for (int32_t p = 0; p < n->rows * n->pixels; ++p) {
        const int32_t *at = stream;
        for (int32_t block = 0; block < blocks; ++block) {
            const int32_t first = block == 0 ? 0 : second + 16 * (block - 1);
            const int32_t *const end = at + 16 + 5 * taps;
            for (int32_t i = 0; i < 16; ++i) {
                /* Vector and lane of the channel i, as one number. */
                const int32_t lane = 8 * (i & 1) + 4 * (i >> 1 & 1) + (i >> 2);
                const int32_t *const scales = end + 4 * tables * (lane >> 2) + (lane & 3);
                uint32_t sum = (uint32_t)at[lane];
                for (int32_t tap = 0; tap < taps; ++tap) {
                    const int32_t *const pair = at + 16 + 10 * (tap >> 1);
                    const int32_t alone = tap == taps - 1 && (tap & 1) == 0;
                    const int8_t *const weights =
                        (const int8_t *)(pair + 2 - alone + 4 * (tap & 1));
                    sum += (uint32_t)(x[pair[tap & 1] + first + i] * weights[i]);
                }
                const int32_t value = rescale((int32_t)sum, scales, 4) + n->zero_point;
                out[first + i] = (int8_t)(value < n->minimum   ? n->minimum
                                          : value > n->maximum ? n->maximum
                                                               : value);
            }
            at = end + 16 * tables;
        }
        out += n->channels;
        x += p % n->pixels == n->pixels - 1 ? n->row_step - (n->pixels - 1) * n->step : n->step;
    }
}

/* out[(h * pixels + p) * channels + c] for `rows` of `pixels` and at least 16 channels: int8 of the
 * rescaled sum over all taps. Pixels of x are `step` bytes apart, rows `row_step`. stream: see the
 * top of this file; it is aligned to 4 bytes, out and x need no alignment. A pixel's inputs are read
 * again after its first outputs are written.
 *
 * Registers: r0 out, r1 x, r2 stream, r5 blocks left, r6 zero point, r7 whether taps are odd, r8
 * pixels left, r9 pairs of taps, r11 bytes to the next block, r12 bytes to the next pixel, lr pairs
 * left. On the stack: stream, blocks, bytes to the second block, limits (12), rows left, bytes to the
 * next row (20), pixels (28), what limits or stores the results (32). */
static EC_KERNEL void ec_depthwise_blocks_s8_mve(int8_t *out, const int8_t *x,
                                                 const int32_t *stream,
                                                 const ec_depthwise_mve_sizes *n) {
#if EC_MVE_ASM
    EC_DEPTHWISE_RUN_MVE(EC_DEPTHWISE_ANY_BLOCKS_MVE(EC_DEPTHWISE_TFLM_MVE), n->zero_point,
                         n->minimum, n->maximum);
#else
    ec_blocks_c_mve(out, x, stream, n, 2, ec_rescale_sum_tflm);
#endif
}

/* The same with zero point -128 and no limits but int8's. */
static EC_KERNEL void ec_depthwise_relu_blocks_s8_mve(int8_t *out, const int8_t *x,
                                                      const int32_t *stream,
                                                      const ec_depthwise_mve_sizes *n) {
#if EC_MVE_ASM
    EC_DEPTHWISE_RUN_MVE(
        EC_DEPTHWISE_BLOCKS_MVE("", EC_DEPTHWISE_RELU_MVE EC_DEPTHWISE_NARROW_MVE, ""), -128, -128,
        127);
#else
    ec_blocks_c_mve(out, x, stream, n, 2, ec_rescale_sum_tflm);
#endif
}

/* The rows of ec_depthwise_s8_mve in blocks of channels, by `blocks`. */
static inline EC_INLINE void ec_depthwise_in_blocks_mve(
    int8_t *out, const int8_t *x, const int32_t *stream, const ec_depthwise_mve_sizes *n,
    void (*blocks)(int8_t *, const int8_t *, const int32_t *, const ec_depthwise_mve_sizes *)) {
    const int32_t row = n->pixels * n->channels;
    ec_depthwise_mve_sizes some = *n;
    if (n->channels >= 16) {
        blocks(out, x, stream, n);
        return;
    }
    /* Neighbouring pixels share a block. */
    some.step = 16;
    some.channels = 16;
    some.pixels = (uint16_t)(row >> 4);
    if ((row & 15) == 0) {
        blocks(out, x, stream, &some);
    } else { /* the last 16 of a row overlap those before */
        ec_depthwise_mve_sizes last;
        some.row_step = 0;
        some.rows = 1;
        last = some;
        last.pixels = 1;
        for (int32_t h = 0; h < n->rows; ++h) {
            blocks(out, x, stream, &some);
            blocks(out + row - 16, x + row - 16, stream, &last);
            out += row;
            x += n->row_step;
        }
    }
}

/* out[(h * pixels + p) * channels + c] for `rows` of `pixels` and all channels: int8 of the rescaled
 * sum over kh, kw of x[kh * pitch + kw * tap + h * row_step + p * step + c] * w[kh][kw][c] + bias[c].
 * A rescaled sum and the zero point fit in int32.
 *
 * Either channels >= 16; or channels divide 16, step == channels, a row has at least 16 outputs, and
 * out and x do not overlap. */
static inline EC_INLINE void ec_depthwise_s8_mve(int8_t *out, const int8_t *x,
                                                 const int32_t *stream,
                                                 const ec_depthwise_mve_sizes *n) {
    if (n->zero_point == -128 && n->minimum == -128 && n->maximum == 127) {
        ec_depthwise_in_blocks_mve(out, x, stream, n, ec_depthwise_relu_blocks_s8_mve);
    } else {
        ec_depthwise_in_blocks_mve(out, x, stream, n, ec_depthwise_blocks_s8_mve);
    }
}

#endif /* EC_MVE_DEPTHWISE_S8_H */
