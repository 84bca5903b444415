/* Depthwise convolutions of int8 for the DSP extension of Armv7E-M, without any copy of the input:
 * windows of few inputs, at any distance, four channels at a time.
 *
 * Two inputs of a window, words of four channels, become a word of two int16 for each channel, and so
 * do their weights. A stream holds all constants. It begins with two tables of an even number of words.
 * The first has the bytes from a window's first input to each input; the second has 4 times the number
 * of each input, for windows whose inputs lie one after the other. Every second word is doubled; the last
 * word is odd. If a table has no input for its last word, it repeats the first input. Then come, per four
 * channels, in words: the biases; for each two inputs t and u of a window the weights, bytes (t of
 * channel 0, t of 2, u of 0, u of 2) and the same of channels 1 and 3, zeros if there is no u; the bytes
 * e - 1 of each channel; M of each channel.
 * Accumulators are rescaled by M * 2^(-31 - e), e from 1 to 22, with gemmlowp's double rounding.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_WINDOWS_S8_H
#define EC_DEPTHWISE_WINDOWS_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/window_sizes.h"

/* clang-format off */

/* Assembly: the sums of four channels. */
#define EC_DEPTHWISE_PIXEL_SUMS \
    "push {r7, r11}\n" \
    "push {r2-r4, r12}\n" \
    "1:\n" /* four channels */ \
    "ldmia r1!, {r8-r11}\n" \
    "2:\n" /* two inputs */ \
    "ldmia r2!, {r3-r4}\n" \
    "ldrd r7, r12, [r1], #8\n" \
    "asrs r4, r4, #1\n" \
    "ldr r4, [r0, r4]\n" \
    "ldr r3, [r0, r3]\n" \
    "pkhbt lr, r3, r4, lsl #16\n" \
    "pkhtb r4, r4, r3, asr #16\n" \
    "sxtb16 r3, lr\n" \
    "sxtb16 r5, r7\n" \
    "smlad r8, r3, r5, r8\n" \
    "sxtb16 r6, r4\n" \
    "sxtb16 r7, r7, ror #8\n" \
    "smlad r10, r6, r7, r10\n" \
    "sxtb16 lr, lr, ror #8\n" \
    "sxtb16 r5, r12\n" \
    "smlad r9, lr, r5, r9\n" \
    "sxtb16 r4, r4, ror #8\n" \
    "sxtb16 r12, r12, ror #8\n" \
    "smlad r11, r4, r12, r11\n" \
    "bcc 2b\n"

/* Assembly: load the remaining quads to r3 and out to r4, for a store of four results. */
#define EC_DEPTHWISE_PIXEL_OUT "ldrd r3, r4, [sp, #4]\n"

/* Assembly: four results of int8 are stored. */
#define EC_DEPTHWISE_PIXEL_STORE_S8 \
    EC_DEPTHWISE_PIXEL_OUT \
    "strb r8, [r4], #1\n" \
    "strb r9, [r4], #1\n" \
    "strb r10, [r4], #1\n" \
    "strb r11, [r4], #1\n"

/* Assembly: store four results, go on to the next channels, and the end. */
#define EC_DEPTHWISE_PIXEL_END(store) \
    store \
    "ldr r2, [sp]\n" \
    "adds r0, #4\n" \
    "subs r3, #1\n" \
    "strd r3, r4, [sp, #4]\n" \
    "bne 1b\n" \
    "pop {r2-r4, r12}\n" \
    "pop {r7, r11}\n"

/* clang-format on */

/* The sums of four channels, for one pixel; returns the end of their weights in the stream. */
static inline EC_UNUSED const int32_t *ec_depthwise_sums_s8_dsp(uint32_t *sums, const int8_t *x,
                                                                const int32_t *stream,
                                                                const int32_t *table) {
    const int32_t *weights = stream + 4;
    int32_t t = 0;
    for (int32_t c = 0; c < 4; ++c) {
        sums[c] = (uint32_t)stream[c];
    }
    do {
        for (int32_t c = 0; c < 4; ++c) {
            const uint32_t word = (uint32_t)weights[c & 1] >> (c & 2 ? 8 : 0);
            sums[c] += (uint32_t)(x[c + table[t]] * (int8_t)(word & 0xFFu));
            sums[c] += (uint32_t)(x[c + (table[t + 1] >> 1)] * (int8_t)(word >> 16 & 0xFFu));
        }
        weights += 2;
        t += 2;
    } while ((table[t - 1] & 1) == 0);
    return weights;
}

/* One output pixel: out[c] for c < 4 * quads. The inputs of channel c are the bytes `x` + c
 * + table[t], or table[t] / 2 where t is odd, two at a time; table[t] is odd where t is the last.
 * factor is 1 + 2 * zero_point.
 *
 * Registers: r0 x, r1 stream, r2 table, r3-r6 two inputs, r7, r12 weights, lr products, r8-r11
 * accumulators. On the stack: table, quads that are left, out, factor. */
static EC_KERNEL void ec_depthwise_pixel_s8_dsp(void *out, const int8_t *x, const int32_t *stream,
                                                const int32_t *table, int32_t quads,
                                                int32_t factor) {
#if EC_DSP_ASM
    register const int8_t *r0 __asm__("r0") = x;
    register const int32_t *r1 __asm__("r1") = stream;
    register const int32_t *r2 __asm__("r2") = table;
    register int32_t r3 __asm__("r3") = quads;
    register void *r4 __asm__("r4") = out;
    register int32_t r12 __asm__("r12") = factor;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_DEPTHWISE_PIXEL_SUMS
        "ldr r12, [sp, #12]\n"
        "ldmia r1!, {r3-r7}\n"
        ".irp x, 8, 9, 10, 11\n"
        "lsl r\\x, r\\x, #1\n"
        ".if \\x == 8\n"
        "uxtb lr, r3\n"
        "smmulr r8, r8, r4\n"
        ".elseif \\x == 9\n"
        "uxtb lr, r3, ror #8\n"
        "smmulr r9, r9, r5\n"
        ".elseif \\x == 10\n"
        "uxtb lr, r3, ror #16\n"
        "smmulr r10, r10, r6\n"
        ".else\n"
        "lsr lr, r3, #24\n"
        "smmulr r11, r11, r7\n"
        ".endif\n"
        "lsl r2, r12, lr\n"
        "add r\\x, r\\x, r\\x, asr #31\n"
        "add r\\x, r\\x, r2\n"
        "asr r\\x, r\\x, lr\n"
        "ssat r\\x, #8, r\\x, asr #1\n"
        ".endr\n"
        EC_DEPTHWISE_PIXEL_END(EC_DEPTHWISE_PIXEL_STORE_S8)
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r12)
        :
        : "r5", "r6", "r8", "r9", "r10", "lr", "cc", "memory");
    /* clang-format on */
#else
    int8_t *const to = (int8_t *)out;
    for (int32_t q = 0; q < quads; ++q) {
        uint32_t sums[4];
        const int32_t *const weights = ec_depthwise_sums_s8_dsp(sums, x + 4 * q, stream, table);
        for (int32_t c = 0; c < 4; ++c) {
            const int32_t less = (int32_t)((uint32_t)weights[0] >> (8 * c) & 0xFFu);
            const int32_t high = ec_high_of_double((int32_t)sums[c], weights[1 + c]);
            const int32_t moved = high + (high >> 31) + factor * (1 << less);
            to[4 * q + c] = ec_saturate_s8(moved >> (less + 1));
        }
        stream = weights + 5;
    }
#endif
}

/* Compute the pixels of ec_depthwise_windows_s8_dsp and its variants, each by `compute`, which gets the
 * zero point or limits of results as `ends`. kind: 0: int8 results with gemmlowp's rounding, 1: int8 with
 * ONNX Runtime's, 2: int16 with ONNX Runtime's. */
static inline EC_INLINE void ec_depthwise_windows_row_dsp(
    void *out, const int8_t *x, const int32_t *stream, const ec_window_sizes *n, int32_t pixel,
    int32_t kind, int32_t ends,
    void (*compute)(void *, const int8_t *, const int32_t *, const int32_t *, int32_t, int32_t)) {
    const int32_t bytes = kind == 2 ? 2 : 1;
    const int32_t scales = kind == 0 ? 5 : 4; /* words for four channels */
    const int32_t row = n->width * n->channels;
    const int32_t y = pixel / n->out_width * n->stride_h - n->top;
    const int32_t taps = n->kernel_h * n->kernel_w;
    const int32_t pairs = (taps + 1) / 2;
    const int32_t is_inside = y >= 0 && y + (n->kernel_h - 1) * n->dilation_h < n->height;
    int8_t *to = (int8_t *)out;
    for (int32_t w = 0; w < n->out_width; ++w, to += bytes * n->channels) {
        const int32_t z = w * n->stride_w - n->left;
        const int32_t *constants = stream + 4 * pairs;
        if (!n->padded ||
            (is_inside && z >= 0 && z + (n->kernel_w - 1) * n->dilation_w < n->width)) {
            compute(to, x + y * row + z * n->channels, constants, stream, n->channels / 4, ends);
            continue;
        }
        for (int32_t c = 0; c < n->channels; c += 4, constants += 4 + 2 * pairs + scales) {
            uint32_t inputs[10];
            for (int32_t t = 0; t < taps; ++t) {
                const int32_t h = y + t / n->kernel_w * n->dilation_h;
                const int32_t v = z + t % n->kernel_w * n->dilation_w;
                inputs[t] = ((uint32_t)n->zero_point & 0xFFu) * 0x01010101u;
                if ((uint32_t)h < (uint32_t)n->height && (uint32_t)v < (uint32_t)n->width) {
                    EC_COPY(inputs + t, x + h * row + v * n->channels + c, 4u);
                }
            }
            compute(to + bytes * c, (const int8_t *)inputs, constants, stream + 2 * pairs, 1, ends);
        }
    }
}

/* The output pixels `pixel` to `pixel` + out_width - 1, a row of a depthwise convolution:
 * out[w * channels + c] is int8 of the rescaled sum of a window's inputs of channel c and its bias.
 * Inputs outside of x are zero_point; if `padded` is 0, there are none. kernel_h * kernel_w is
 * from 2 to 10, and channels is a multiple of 4. stream: see the top of this file; it is aligned to
 * 4 bytes. Pixels are computed one after the other; of each, inputs are read before outputs are
 * written only for four channels at a time. */
static EC_KERNEL void ec_depthwise_windows_s8_dsp(int8_t *out, const int8_t *x,
                                                  const int32_t *stream, const ec_window_sizes *n,
                                                  int32_t out_zero_point, int32_t pixel) {
    ec_depthwise_windows_row_dsp(out, x, stream, n, pixel, 0, 1 + 2 * out_zero_point,
                                 ec_depthwise_pixel_s8_dsp);
}

#endif /* EC_DEPTHWISE_WINDOWS_S8_H */
