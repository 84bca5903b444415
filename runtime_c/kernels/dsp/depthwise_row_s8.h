/* Rows of depthwise 3x3 convolutions of int8 for the DSP extension of Armv7E-M, without any copy of
 * the input: one channel after the other, column by column.
 *
 * The first two inputs of a column become a word, which one instruction multiplies by two weights of
 * a window's column. So each input column adds to the three outputs whose windows contain it. If a
 * row of the window is outside of the input, its products are part of the bias, and its weights are
 * zero.
 *
 * A stream holds a channel's constants in words: M; bytes w[0][1], w[0][0], w[1][1], w[1][0]; bytes
 * w[2][0], w[0][2], w[2][1], w[1][2]; the shift e + 7 and, as the high half, 256 * w[2][2]; 256
 * times the bias; C. Weights are used as int16, 256 times themselves, so sums are 256 times the
 * accumulators, and rescaled by M * 2^(-39 - e), e from 1 to 16, with gemmlowp's double rounding,
 * to a zero point of -128: that is (high word of x * M) + C, shifted right by e + 7, where C has the
 * halves of both roundings and the zero point. Ties of negative sums round in the other direction, but
 * the lower limit hides that.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_ROW_S8_H
#define EC_DEPTHWISE_ROW_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* Assembly: add the products of the column at r0 to three outputs; `a` is then complete. */
#define EC_ROW_COLUMN(a, b, n)       \
    "ldrsb lr, [r0]\n"               \
    "ldrsb " n ", [r0, r2]\n"        \
    "pkhbt lr, lr, " n ", lsl #16\n" \
    "ldr " n ", [sp]\n"              \
    "smlad " a ", lr, r7, " a "\n"   \
    "smlad " b ", lr, r6, " b "\n"   \
    "smlad " n ", lr, r5, " n "\n"   \
    "ldrsb lr, [r0, r2, lsl #1]\n"   \
    "smlabt " a ", lr, r9, " a "\n"  \
    "smlabt " b ", lr, r8, " b "\n"  \
    "smlabb " n ", lr, r8, " n "\n" EC_ROW_OUTPUT(a, "[r0, r1]") "add r0, r0, r4\n"

/* Assembly: rescale the sum `a` and store it at `to`. */
#define EC_ROW_OUTPUT(a, to)       \
    "ldr lr, [sp, #4]\n"           \
    "smmla " a ", " a ", r3, lr\n" \
    "asr " a ", " a ", r9\n"       \
    "ssat " a ", #8, " a "\n"      \
    "strb " a ", " to "\n"

/* Assembly: add the second column to the first two outputs: to the sum `first`, which becomes `a`, and
 * to b. `n` is one of a and b that is not `first`. */
#define EC_ROW_SECOND(first, a, b, n)  \
    "ldrsb lr, [r0]\n"                 \
    "ldrsb " n ", [r0, r2]\n"          \
    "pkhbt lr, lr, " n ", lsl #16\n"   \
    "smlad " a ", lr, r6, " first "\n" \
    "ldr " b ", [sp]\n"                \
    "smlad " b ", lr, r5, " b "\n"     \
    "ldrsb lr, [r0, r2, lsl #1]\n"     \
    "smlabt " a ", lr, r8, " a "\n"    \
    "smlabb " b ", lr, r8, " b "\n"    \
    "add r0, r0, r4\n"

/* clang-format off */

/* Assembly: fill the stack from the words at r3; `choose` computes r11, the loop's entry, from r7. */
#define EC_ROW_BEGIN(choose) \
    "push {r7, r11}\n" \
    "sub sp, #48\n" \
    "add r12, sp, #8\n" \
    "ldmia r3!, {r5-r9}\n" \
    "stmia r12!, {r5-r9}\n" \
    "ldmia r3, {r5-r8}\n" \
    "adr.w r9, 5f\n" /* the column before the first is outside, or does not exist */ \
    "adr.w r10, 6f\n" \
    "cmp r6, #0\n" \
    "it eq\n" \
    "moveq r9, r10\n" \
    "adr.w r10, 3f\n" \
    "adr.w r11, 4f\n" \
    "cmp r5, #1\n" \
    "it lo\n" \
    "movlo r10, r9\n" \
    "it hi\n" \
    "movhi r10, r11\n" \
    choose \
    "adr.w lr, 14f\n" \
    "adr.w r5, 13f\n" \
    "cmp r8, #0\n" \
    "it ne\n" \
    "movne lr, r5\n" \
    "add r5, r10, #1\n" \
    "add r6, r9, #1\n" \
    "add r7, r11, #1\n" \
    "add r8, lr, #1\n" \
    "stmia r12, {r5-r8}\n"

/* Assembly: load a channel's constants, and add the columns before the loop to its first output. */
#define EC_ROW_CHANNEL \
    "1:\n" /* a channel */ \
    "ldr lr, [sp, #16]\n" \
    "ldmia lr!, {r3, r5, r7, r9-r11}\n" \
    "str lr, [sp, #16]\n" \
    "mov lr, #0xFF00FF00\n" \
    "and r6, lr, r5, lsl #8\n" \
    "and r5, r5, lr\n" \
    "and r8, lr, r7, lsl #8\n" \
    "and r7, r7, lr\n" \
    "strd r10, r11, [sp]\n" \
    "ldr pc, [sp, #28]\n" \
    ".balign 4\n" \
    "3:\n" /* the row above is outside */ \
    "ldr lr, [sp, #24]\n" \
    "smlabb r10, lr, r5, r10\n" \
    "smlabb r10, lr, r6, r10\n" \
    "smlabb r10, lr, r7, r10\n" \
    "lsr r5, r5, #16\n" \
    "lsr r6, r6, #16\n" \
    "lsr r7, r7, #16\n" \
    "str r10, [sp]\n" \
    "ldr pc, [sp, #32]\n" \
    ".balign 4\n" \
    "4:\n" /* the row below is outside: the second row takes its place */ \
    "ldr lr, [sp, #24]\n" \
    "smlabb r10, lr, r8, r10\n" \
    "smlabt r10, lr, r8, r10\n" \
    "smlabt r10, lr, r9, r10\n" \
    "pkhtb r8, r6, r5, asr #16\n" \
    "pkhbt r9, r9, r7\n" \
    "uxth r5, r5\n" \
    "uxth r6, r6\n" \
    "uxth r7, r7\n" \
    "str r10, [sp]\n" \
    "ldr pc, [sp, #32]\n" \
    ".balign 4\n" \
    "5:\n" \
    "ldr lr, [sp, #24]\n" \
    "smlad r10, lr, r5, r10\n" \
    "smlabb r10, lr, r8, r10\n" \
    "ldr pc, [sp, #36]\n" \
    ".balign 4\n" \
    "6:\n" \
    "ldrsb lr, [r0]\n" \
    "ldrsb r11, [r0, r2]\n" \
    "pkhbt lr, lr, r11, lsl #16\n" \
    "ldrsb r11, [r0, r2, lsl #1]\n" \
    "smlad r10, lr, r5, r10\n" \
    "smlabb r10, r11, r8, r10\n" \
    "add r0, r0, r4\n" \
    "ldr pc, [sp, #36]\n" \
    ".balign 4\n"

/* Assembly: the code after the last column, the step to the next channel, and the end. `odd` is the
 * column before the one outside, `to` the address of its output; `next` prepares the next channel. */
#define EC_ROW_END(odd, to, next) \
    ".balign 4\n" \
    "13:\n" /* the column after the last is outside */ \
    odd \
    "ldr lr, [sp, #24]\n" \
    "smlad r10, lr, r7, r10\n" \
    "smlabt r10, lr, r9, r10\n" EC_ROW_OUTPUT("r10", to) \
    ".balign 4\n" \
    "14:\n" \
    "ldrd r0, lr, [sp, #8]\n" \
    "ldr r10, [sp, #20]\n" \
    "adds r0, #1\n" \
    "add lr, lr, #1\n" \
    "strd r0, lr, [sp, #8]\n" \
    next \
    "cmp r0, r10\n" \
    "bne.w 1b\n" \
    "add sp, #48\n" \
    "pop {r7, r11}\n"

/* clang-format on */

/* Read a channel's constants from its stream: weights[0..2] are words of the upper two rows of each
 * column of the window, weights[3..5] words of the lowest row. The bias follows, then the sum of a
 * column left or right of x. outside: 1 if the row above x is read, 2 if the row below is; the nearest
 * row of x then counts as the second one. */
static inline EC_UNUSED void ec_row_weights_s8_dsp(int32_t *weights, const int32_t *stream,
                                                   int32_t outside, int32_t fill) {
    const uint32_t words[3] = { (uint32_t)stream[1], (uint32_t)stream[2], (uint32_t)stream[3] };
    int32_t sums[3];
    weights[0] = (int32_t)(words[0] & 0xFF00FF00u);
    weights[1] = (int32_t)(words[0] << 8 & 0xFF00FF00u);
    weights[2] = (int32_t)(words[1] & 0xFF00FF00u);
    weights[3] = (int16_t)(words[1] << 8 & 0xFF00u);
    weights[4] = (int16_t)(words[1] >> 8 & 0xFF00u);
    weights[5] = (int16_t)(words[2] >> 16);
    weights[6] = stream[4];
    for (int32_t kw = 0; kw < 3; ++kw) {
        const int32_t top = (int16_t)((uint32_t)weights[kw] & 0xFFFFu);
        const int32_t middle = weights[kw] >> 16;
        const int32_t last = weights[kw + 3];
        sums[kw] = fill * (top + middle + last);
        if (outside == 1) {
            weights[6] += fill * top;
            sums[kw] -= fill * top;
            weights[kw] = middle & 0xFFFF;
        } else if (outside == 2) {
            weights[6] += fill * last;
            sums[kw] -= fill * last;
            weights[kw] = top & 0xFFFF;
            weights[kw + 3] = middle;
        }
    }
    weights[7] = sums[0];
    weights[8] = sums[2];
}

/* The sum of a column's products: two inputs in a word times the words of `above`, plus `last` times
 * the int16 `below`. */
static inline EC_UNUSED int32_t ec_row_column_s8_dsp(int32_t sum, int32_t two, int32_t last,
                                                     int32_t above, int32_t below) {
    return (int32_t)((uint32_t)ec_smlad(two, above, sum) + (uint32_t)(last * below));
}

/* The sizes of ec_row_any_s8_dsp. */
typedef struct {
    int32_t step, outside, channels, left, whole, right, fill, stride;
} ec_row_any_sizes;

/* Compute all channels of a row of outputs. The first row of their windows is at x, each next row
 * `step` bytes further; windows are `stride` columns apart. All columns of `whole` outputs are inside
 * of x, except perhaps the first column of the first output; `right`: one more output lacks
 * its last column. */
static inline EC_INLINE void ec_row_any_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                               const ec_row_any_sizes *n) {
    const int32_t step = n->step, channels = n->channels, right = n->right;
    for (int32_t c = 0; c < channels; ++c, stream += 6, ++out, ++x) {
        int32_t weights[9];
        ec_row_weights_s8_dsp(weights, stream, n->outside, n->fill);
        const int32_t a0 = weights[0], a1 = weights[1], a2 = weights[2];
        const int32_t b0 = weights[3], b1 = weights[4], b2 = weights[5];
        const int32_t bias = weights[6];
        const int32_t multiplier = stream[0];
        const int32_t offset = stream[5];
        const int32_t shift = stream[3] & 255;
        const int8_t *at = x;
        int8_t *to = out;
        int8_t *const end = out + n->whole * channels;
        int32_t next = bias; /* the sum whose window's second column is at `at` */
        if (n->left != 0) {
            next += weights[7];
        } else {
            next = ec_row_column_s8_dsp(next, ec_low_halves(at[0], at[step]), at[2 * step], a0, b0);
            at += channels;
        }
        if (n->stride == 1) {
            int32_t two = ec_low_halves(at[0], at[step]);
            int32_t last = at[2 * step];
            int32_t sum = ec_row_column_s8_dsp(next, two, last, a1, b1); /* the one before it */
            next = ec_row_column_s8_dsp(bias, two, last, a0, b0);
            for (; to != end; to += channels) {
                at += channels;
                two = ec_low_halves(at[0], at[step]);
                last = at[2 * step];
                const int32_t done = ec_row_column_s8_dsp(sum, two, last, a2, b2);
                sum = ec_row_column_s8_dsp(next, two, last, a1, b1);
                next = ec_row_column_s8_dsp(bias, two, last, a0, b0);
                const int32_t high = (int32_t)(((int64_t)done * multiplier) >> 32);
                *to = ec_saturate_s8((high + offset) >> shift);
            }
            next = sum;
        } else {
            for (; to != end; to += channels) {
                const int32_t sum = ec_row_column_s8_dsp(next, ec_low_halves(at[0], at[step]),
                                                         at[2 * step], a1, b1);
                at += channels;
                const int32_t two = ec_low_halves(at[0], at[step]);
                const int32_t last = at[2 * step];
                const int32_t done = ec_row_column_s8_dsp(sum, two, last, a2, b2);
                next = ec_row_column_s8_dsp(bias, two, last, a0, b0);
                const int32_t high = (int32_t)(((int64_t)done * multiplier) >> 32);
                *to = ec_saturate_s8((high + offset) >> shift);
                at += channels;
            }
            if (right != 0) {
                next = ec_row_column_s8_dsp(next, ec_low_halves(at[0], at[step]), at[2 * step], a1,
                                            b1);
            }
        }
        if (right != 0) {
            const int32_t done = next + weights[8];
            const int32_t high = (int32_t)(((int64_t)done * multiplier) >> 32);
            *to = ec_saturate_s8((high + offset) >> shift);
        }
    }
}

/* An image, and the windows of a row of outputs. */
typedef struct {
    uint16_t height, width, channels, out_width;
    uint8_t top, left, padded;
    int8_t zero_point;
} ec_depthwise_row_sizes;

/* Row `row` of the outputs: out[w * channels + c] is int8 of the rescaled sum of the window of
 * channel c and its bias. Windows step by one. If `padded`, they reach at most one row or column
 * outside of x, at each side, where zero_point is read, and height >= 2; otherwise they do not.
 * out_width >= 2; width * channels is even; left is 0 or 1. stream is aligned to 4 bytes; see the
 * top of this file. out and x must not overlap.
 *
 * Registers: r0 a column of x, r1 from there to its output, r2 bytes from row to row, r3 M, r4
 * channels, r5-r9 weights, r10-r12 sums of three outputs, lr inputs. Where only two rows of the
 * window exist, r2 is half of that, so that the first and the third are read, and no weight has
 * the second. On the stack: bias, C, the first column of x and the end of the row, stream, the
 * end of the channels, `fill` twice, and where to go: for the rows outside, for the first column,
 * for the second, and for the one after the last. */
static EC_KERNEL void ec_depthwise_row_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                              const ec_depthwise_row_sizes *n, int32_t row) {
    const int32_t step = n->width * n->channels;
    const int32_t y = row - n->top;
    const int32_t outside = y < 0 ? 1 : (y + 2 >= n->height ? 2 : 0);
    const int32_t right = n->padded != 0 ? n->out_width + 2 - n->left - n->width : 0;
#if EC_DSP_ASM
    const uint32_t at = (uint32_t)(uintptr_t)(x + (y < 0 ? 0 : y) * step);
    const uint32_t words[11] = {
        at,
        at + (uint32_t)step,
        (uint32_t)(uintptr_t)stream,
        at + (uint32_t)n->channels,
        ((uint32_t)n->zero_point & 0xFFFFu) * 0x00010001u,
        (uint32_t)outside,
        (uint32_t)n->left,
        (uint32_t)(n->out_width - right) % 3u,
        (uint32_t)right,
        0u,
        0u,
    };
    register uint32_t r0 __asm__("r0") = at;
    register uint32_t r1 __asm__("r1") =
        (uint32_t)(uintptr_t)out - at + (uint32_t)(n->left - 2) * (uint32_t)n->channels;
    register int32_t r2 __asm__("r2") = outside != 0 ? step / 2 : step;
    register const uint32_t *r3 __asm__("r3") = words;
    register int32_t r4 __asm__("r4") = n->channels;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_ROW_BEGIN("adr.w r11, 7f\n" /* the loop is entered where it ends at an end of its three columns */
                     "adr.w lr, 8f\n"
                     "cmp r7, #1\n"
                     "it eq\n"
                     "moveq r11, lr\n"
                     "adr.w lr, 9f\n"
                     "it hi\n"
                     "movhi r11, lr\n")
        EC_ROW_CHANNEL
        "9:\n"
        EC_ROW_SECOND("r10", "r11", "r12", "r12")
        "b 11f\n"
        ".balign 4\n"
        "8:\n"
        EC_ROW_SECOND("r10", "r12", "r10", "r12")
        "b 12f\n"
        ".balign 4\n"
        "7:\n" EC_ROW_SECOND("r10", "r10", "r11", "r11")
        "10:\n" EC_ROW_COLUMN("r10", "r11", "r12")
        "11:\n" EC_ROW_COLUMN("r11", "r12", "r10")
        "12:\n" EC_ROW_COLUMN("r12", "r10", "r11")
        "ldr lr, [sp, #12]\n"
        "cmp r0, lr\n"
        "bne 10b\n"
        "ldr pc, [sp, #40]\n"
        EC_ROW_END("", "[r0, r1]", "")
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4)
        :
        : "r5", "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory");
    /* clang-format on */
#else
    const ec_row_any_sizes any = { outside != 0 ? step / 2 : step, outside, n->channels,   n->left,
                                   n->out_width - right,           right,   n->zero_point, 1 };
    ec_row_any_s8_dsp(out, x + (y < 0 ? 0 : y) * step, stream, &any);
#endif
}

#endif /* EC_DEPTHWISE_ROW_S8_H */
