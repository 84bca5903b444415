/* Convolutions of an image of one channel by 3x3 windows, for the DSP extension of Armv7E-M, without
 * any copy of the input: the first layers of networks for grey images.
 *
 * The nine inputs of a window are three words, of which SXTB16 makes five pairs of int16 that stay
 * in registers during the loop over all channels: (x00, x02), (x01, x11), (x10, x12), (x21, any),
 * (x20, x22). Weights are paired in the same way; the weight of the input after the window is zero.
 *
 * A stream holds the constants of each channel in words: 256 times the bias; five pairs of weights,
 * 256 times themselves; M; C; e + 7, whose sign bit is set for the last channel. Sums are 256 times
 * the accumulators, and rescaled by M * 2^(-39 - e), e from 1 to 16, with gemmlowp's double
 * rounding, to a zero point of -128: that is (high word of x * M) + C, shifted right by e + 7, where
 * C has the halves of both roundings and the zero point. Ties of negative sums round in the other
 * direction, but the lower limit hides that.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_PLANE_WINDOWS_S8_H
#define EC_PLANE_WINDOWS_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* All channels of `count` >= 1 outputs, whose windows begin at x and from there at every `stride`-th
 * input; the rows of a window lie `step` bytes apart. Of each row four inputs are read. */
static inline EC_UNUSED void ec_plane_pixels_s8_dsp(int8_t *out, const int8_t *x,
                                                    const int32_t *stream, int32_t step,
                                                    int32_t stride, int32_t count) {
#if EC_DSP_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int32_t *r1 __asm__("r1") = stream;
    register const int8_t *r2 __asm__("r2") = x;
    register const int8_t *r3 __asm__("r3") = x + count * stride;
    register int32_t r4 __asm__("r4") = step;
    register int32_t r5 __asm__("r5") = stride;
    __asm__ volatile(".syntax unified\n"
                     "push {r7, r11}\n"
                     "push {r1-r5}\n"
                     "1:\n" /* an output: r1 stream, r7 x, r9 step, r10 stride */
                     "ldmia sp, {r1, r7-r10}\n"
                     "ldr r2, [r7]\n"
                     "ldr r4, [r7, r9]\n"
                     "ldr r6, [r7, r9, lsl #1]\n"
                     "add r7, r7, r10\n"
                     "str r7, [sp, #4]\n"
                     "sxtb16 r3, r2, ror #8\n"
                     "sxtb16 r5, r4, ror #8\n"
                     "sxtb16 r2, r2\n"
                     "sxtb16 r4, r4\n"
                     "pkhbt r3, r3, r5, lsl #16\n"
                     "sxtb16 r5, r6, ror #8\n"
                     "sxtb16 r6, r6\n"
                     "2:\n" /* two channels */
                     ".rept 2\n"
                     "ldmia r1!, {r7-r12, lr}\n"
                     "smlad r7, r2, r8, r7\n"
                     "smlad r7, r3, r9, r7\n"
                     "smlad r7, r4, r10, r7\n"
                     "smlad r7, r5, r11, r7\n"
                     "smlad r7, r6, r12, r7\n"
                     "ldmia r1!, {r8, r9}\n"
                     "smmla r7, r7, lr, r8\n"
                     "asr r7, r7, r9\n"
                     "ssat r7, #8, r7\n"
                     "strb r7, [r0], #1\n"
                     ".endr\n"
                     "cmp r9, #0\n"
                     "bge 2b\n"
                     "ldrd r7, r8, [sp, #4]\n"
                     "cmp r7, r8\n"
                     "bne 1b\n"
                     "add sp, #20\n"
                     "pop {r7, r11}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r5)
                     :
                     : "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory");
#else
    for (; count > 0; --count, x += stride) {
        const int32_t above = ec_load_word(x);
        const int32_t middle = ec_load_word(x + step);
        const int32_t below = ec_load_word(x + 2 * step);
        const int32_t pairs[5] = {
            ec_sxtb16(above),  ec_low_halves(ec_sxtb16_odd(above), ec_sxtb16_odd(middle)),
            ec_sxtb16(middle), ec_sxtb16_odd(below),
            ec_sxtb16(below),
        };
        const int32_t *at = stream;
        int32_t shift;
        do {
            int32_t sum = ec_smlad(pairs[0], at[1], at[0]);
            sum = ec_smlad(pairs[1], at[2], sum);
            sum = ec_smlad(pairs[2], at[3], sum);
            sum = ec_smlad(pairs[3], at[4], sum);
            sum = ec_smlad(pairs[4], at[5], sum);
            const int32_t high = (int32_t)(((int64_t)sum * at[6]) >> 32);
            shift = at[8];
            *out++ = ec_saturate_s8((high + at[7]) >> (shift & 255));
            at += 9;
        } while (shift >= 0);
    }
#endif
}

/* An image, and the windows of a row of outputs. */
typedef struct {
    uint16_t height, width, channels, out_width, stride_h;
    uint8_t stride_w, top, left;
    int8_t zero_point;
} ec_plane_row_sizes;

/* Row `row` of the outputs: out[w * channels + c] is int8 of the rescaled sum of window w by the
 * weights of channel c and its bias. Windows step by stride_h and stride_w. They may reach outside
 * of x [height][width], where zero_point is read. channels is even.
 * stream is aligned to 4 bytes; see the top of this file. Outputs are made one pixel after the
 * other, and all inputs of one are read before it is written. */
static EC_KERNEL void ec_plane_row_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                          const ec_plane_row_sizes *n, int32_t row) {
    const int32_t y = row * n->stride_h - n->top;
    const int32_t is_inside = y >= 0 && y + 3 <= n->height;
    const int32_t width = n->width;
    int32_t rest = n->out_width;
    for (int32_t z = -n->left; rest > 0;) {
        int8_t window[12];
        const int8_t *from = window;
        int32_t step = 4;
        int32_t count = 1;
        if (is_inside && z >= 0 && z + 4 <= width) {
            const int32_t whole = (width - 4 - z) / n->stride_w + 1;
            from = x + y * width + z;
            step = width;
            count = whole < rest ? whole : rest;
        } else {
            for (int32_t i = 0; i < 12; ++i) {
                const int32_t h = y + (i >> 2);
                const int32_t v = z + (i & 3);
                const int32_t is_in = h >= 0 && h < n->height && v >= 0 && v < width;
                window[i] = (int8_t)(is_in ? x[h * width + v] : n->zero_point);
            }
        }
        ec_plane_pixels_s8_dsp(out, from, stream, step, n->stride_w, count);
        out += count * n->channels;
        rest -= count;
        z += count * n->stride_w;
    }
}

#endif /* EC_PLANE_WINDOWS_S8_H */
