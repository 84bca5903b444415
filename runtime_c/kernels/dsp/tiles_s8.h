/* Convolutions of int8 with windows of 3 x 3 for the DSP extension of Armv7E-M, by the method of Winograd
 * along rows: tiles of two outputs side by side take 4 products for each input channel and each row of a
 * window, not 6. All numbers are integers: sums are exactly twice the direct sums, modulo 2^32.
 * Source: Lavin, Gray, "Fast Algorithms for Convolutional Neural Networks", section 4.1.
 *
 * Of the inputs a, b, c, d of a tile and the weights f, g, h of a window's row, twice the two sums are
 *   (b + c)(f + g + h) + (c - b)(f - g + h) + (a - c) 2f
 *   (b + c)(f + g + h) - (c - b)(f - g + h) - (b - d) 2h
 * Four tiles are multiplied together, for two channels of outputs: eight sums are in registers. The
 * products come in this order, one after the other in four passes; the inputs of each pass, transformed,
 * lie row by row, of each row two channels of four tiles, then the next two.
 *
 * A stream holds, per pair of channels, in words: twice their biases; for each pass, row of the window
 * and two inputs (k and k + 2 of four, then k + 1 and k + 3) the transformed weights of both, two int16
 * each, 384 at most; then M, C, e of each, as matrix_s8.h says, or a half of each scale. The last pair
 * overlaps the one before where the number of channels is odd.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_TILES_S8_H
#define EC_TILES_S8_H

#include "kernels/dsp/elements_s8.h"

/* Outputs of four tiles. */
#define EC_TILES_WIDTH 8

/* Words for transformed inputs, which three rows of 64 channels fill. */
#define EC_TILES_WORDS 1536

/* The image, where windows begin above and left of it, how many rows and pixels of outputs there are, and
 * what stands outside of the image. in_channels is a multiple of 8 up to 64, pixels is at least 8. */
typedef struct {
    int32_t height, width, in_channels, top, left, rows, pixels, channels, fill, zero_point;
} ec_tiles_sizes;

/* The differences of the int16 in x and in y. */
static inline EC_UNUSED int32_t ec_ssub16(int32_t x, int32_t y) {
#if EC_DSP_ACLE
    return (int32_t)__ssub16(x, y);
#elif EC_DSP_ASM
    int32_t both;
    __asm__("ssub16 %0, %1, %2" : "=r"(both) : "r"(x), "r"(y));
    return both;
#else
    const uint32_t high = ((uint32_t)x & 0xFFFF0000u) - ((uint32_t)y & 0xFFFF0000u);
    return (int32_t)((((uint32_t)x - (uint32_t)y) & 0xFFFFu) | high);
#endif
}

/* The inputs of four tiles in one row, ten pixels from x on, transformed; passes lie `pass` words apart. */
static EC_SHARED void ec_tiles_in_s8_dsp(int32_t *v, int32_t pass, const int8_t *x,
                                         int32_t channels) {
    for (int32_t ic = 0; ic < channels; ic += 4, x += 4, v += 8) {
        const int8_t *from = x;
        const int32_t first = ec_load_word(from), second = ec_load_word(from + channels);
        int32_t a = ec_sxtb16(first), odd_a = ec_sxtb16_odd(first);
        int32_t b = ec_sxtb16(second), odd_b = ec_sxtb16_odd(second);
        EC_STRAIGHT
        for (int32_t t = 0; t < 4; ++t) {
            int32_t *to = v + t;
            from += 2 * channels;
            const int32_t third = ec_load_word(from), fourth = ec_load_word(from + channels);
            const int32_t c = ec_sxtb16(third), odd_c = ec_sxtb16_odd(third);
            const int32_t d = ec_sxtb16(fourth), odd_d = ec_sxtb16_odd(fourth);
            to[0] = ec_sxtab16(b, third);
            to[4] = ec_sxtab16_odd(odd_b, third);
            to += pass;
            to[0] = ec_ssub16(c, b);
            to[4] = ec_ssub16(odd_c, odd_b);
            to += pass;
            to[0] = ec_ssub16(a, c);
            to[4] = ec_ssub16(odd_a, odd_c);
            to += pass;
            to[0] = ec_ssub16(b, d);
            to[4] = ec_ssub16(odd_b, odd_d);
            a = c;
            b = d;
            odd_a = odd_c;
            odd_b = odd_d;
        }
    }
}

/* The same of row h from column w on of an image, of which both may lie outside. */
static inline EC_UNUSED void ec_tiles_row_s8_dsp(int32_t *v, int32_t pass, const int8_t *x,
                                                 const ec_tiles_sizes *n, int32_t h, int32_t w) {
    const int32_t depth = n->in_channels, last = w + EC_TILES_WIDTH + 2;
    const int32_t is_outside = h < 0 || h >= n->height;
    const int32_t fill = (int32_t)(((uint32_t)n->fill & 0xFFu) * 0x01010101u);
    int32_t copy[(EC_TILES_WIDTH + 2) * 64 / 4];
    int32_t *to = copy;
    if (!is_outside && w >= 0 && last <= n->width) {
        ec_tiles_in_s8_dsp(v, pass, x + (h * n->width + w) * depth, depth);
        return;
    }
    for (; w < last; ++w) {
        const int8_t *const from = x + (h * n->width + w) * depth;
        const int32_t is_fill = is_outside || w < 0 || w >= n->width;
        for (int32_t ic = 0; ic < depth; ic += 4) {
            *to++ = is_fill ? fill : ec_load_word(from + ic);
        }
    }
    ec_tiles_in_s8_dsp(v, pass, (const int8_t *)copy, depth);
}

/* Twice the sums of a pair of channels for four tiles: of their first outputs, four of each channel, then
 * of their second ones. stream is at the pair's biases; a pass of v has `bytes`, and `gap` more follow.
 *
 * Registers: r0 v, r1 stream, r2, r3 inputs, r12, lr weights, r4-r7 sums of the first channel, r8-r11 of
 * the second one. On the stack: where the pass ends, what follows it, bytes, gap, sums. */
static EC_KERNEL void ec_tiles_sums_s8_dsp(int32_t *sums, const int32_t *v, const int32_t *stream,
                                           int32_t bytes, int32_t gap) {
#if EC_DSP_ASM
    register const int32_t *r0 __asm__("r0") = v;
    register const int32_t *r1 __asm__("r1") = stream;
    register int32_t r2 __asm__("r2") = bytes;
    register int32_t r3 __asm__("r3") = gap;
    register int32_t *r12 __asm__("r12") = sums;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r4-r11, lr}\n"
        "adr.w r4, 4f\n"
        "orr r4, r4, #1\n"
        "adds r5, r0, r2\n"
        "push {r2-r3, r12}\n"
        "push {r4-r5}\n"
        "ldmia r1!, {r4, r8}\n"
        "mov r5, r4\n"
        "mov r6, r4\n"
        "mov r7, r4\n"
        "mov r9, r8\n"
        "mov r10, r8\n"
        "mov r11, r8\n"
        "3:\n"
        ".rept 12\n"
        "ldrd r12, lr, [r1], #8\n"
        "ldrd r2, r3, [r0], #8\n"
        "smlad r4, r2, r12, r4\n"
        "smlad r8, r2, lr, r8\n"
        "smlad r5, r3, r12, r5\n"
        "smlad r9, r3, lr, r9\n"
        "ldrd r2, r3, [r0], #8\n"
        "smlad r6, r2, r12, r6\n"
        "smlad r10, r2, lr, r10\n"
        "smlad r7, r3, r12, r7\n"
        "smlad r11, r3, lr, r11\n"
        ".endr\n"
        "ldr r2, [sp, #4]\n"
        "cmp r0, r2\n"
        "bne.w 3b\n"
        "ldr pc, [sp]\n"
        "4:\n" /* the first pass: kept */
        "ldr lr, [sp, #16]\n"
        "add lr, lr, #32\n"
        "stmia lr, {r4-r11}\n"
        "adr.w r2, 5f\n"
        "b 8f\n"
        "5:\n" /* the second pass: less it is twice the first one less the sum of both */
        "ldr lr, [sp, #16]\n"
        ".irp x, 4, 6, 8, 10\n"
        "ldrd r2, r3, [lr, #(16 + 4 * \\x)]\n"
        ".if \\x == 4\n"
        "rsb r2, r4, r2, lsl #1\n"
        "rsb r3, r5, r3, lsl #1\n"
        ".elseif \\x == 6\n"
        "rsb r2, r6, r2, lsl #1\n"
        "rsb r3, r7, r3, lsl #1\n"
        ".elseif \\x == 8\n"
        "rsb r2, r8, r2, lsl #1\n"
        "rsb r3, r9, r3, lsl #1\n"
        ".else\n"
        "rsb r2, r10, r2, lsl #1\n"
        "rsb r3, r11, r3, lsl #1\n"
        ".endif\n"
        "strd r2, r3, [lr, #(16 + 4 * \\x)]\n"
        ".endr\n"
        "adr.w r2, 6f\n"
        "b 8f\n"
        "6:\n" /* the third pass: first outputs */
        "ldr lr, [sp, #16]\n"
        "stmia lr!, {r4-r11}\n"
        "ldmia lr, {r4-r11}\n"
        "adr.w r2, 7f\n"
        "8:\n"
        "orr r2, r2, #1\n"
        "ldrd r12, lr, [sp, #8]\n"
        "add r0, r0, lr\n"
        "add r3, r0, r12\n"
        "strd r2, r3, [sp]\n"
        "b.w 3b\n"
        "7:\n" /* the fourth pass: second outputs */
        "ldr lr, [sp, #16]\n"
        "add lr, lr, #32\n"
        "stmia lr, {r4-r11}\n"
        "add sp, #20\n"
        "pop {r4-r11, lr}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r12)
        :
        : "cc", "memory");
    /* clang-format on */
#else
    static const int8_t signs[4][2] = { { 1, 1 }, { 1, -1 }, { 1, 0 }, { 0, 1 } };
    const int32_t *w = stream + 2;
    for (int32_t i = 0; i < 16; ++i) {
        sums[i] = stream[i / 4 % 2];
    }
    for (int32_t p = 0; p < 4; ++p, v += gap / 4) {
        for (int32_t k = 0; k < bytes / 16; ++k, w += 2, v += 4) {
            for (int32_t i = 0; i < 8; ++i) {
                const uint32_t product = (uint32_t)ec_smlad(v[i % 4], w[i / 4], 0);
                sums[i] = (int32_t)((uint32_t)sums[i] + product * (uint32_t)signs[p][0]);
                sums[8 + i] = (int32_t)((uint32_t)sums[8 + i] + product * (uint32_t)signs[p][1]);
            }
        }
    }
#endif
}

/* Those sums to int8, by M, C, e of each channel at `at`: with gemmlowp's rounding. `step` apart from pixel
 * to pixel. */
static inline EC_UNUSED void ec_tiles_out_s8_dsp(int8_t *out, int32_t step, const int32_t *sums,
                                                 const int32_t *at, int32_t zero_point) {
    (void)zero_point;
    for (int32_t o = 0; o < 2; ++o, at += 3, sums += 4) {
        const int32_t multiplier = at[0], constant = at[1], shift = at[2];
        int8_t *to = out + o;
        EC_STRAIGHT
        for (int32_t i = 0; i < 8; ++i, to += step) {
            const int32_t sum = sums[8 * (i % 2) + i / 2];
            const int32_t high = ec_smmlar(sum, multiplier, constant) + (sum >> 31);
            *to = ec_saturate_s8(high >> shift);
        }
    }
}

/* The same with ONNX Runtime's rounding, by a half of the scale of each channel. */
static inline EC_UNUSED void ec_tiles_out_onnx_dsp(int8_t *out, int32_t step, const int32_t *sums,
                                                   const int32_t *at, int32_t zero_point) {
    for (int32_t o = 0; o < 2; ++o, ++at, sums += 4) {
        const float scale = ec_f32_from_bits((uint32_t)at[0]);
        int8_t *to = out + o;
        EC_STRAIGHT
        for (int32_t i = 0; i < 8; ++i, to += step) {
            *to = ec_requantize_onnx_s8(sums[8 * (i % 2) + i / 2], scale, zero_point);
        }
    }
}

/* All tiles, strip by strip of four; of a strip as many rows are transformed together as there is room
 * for. The last strip may begin before the one before it ends. words: of a pair after the weights. */
static inline EC_INLINE void ec_tiles_all_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                              const ec_tiles_sizes *n, int32_t words,
                                              void (*store)(int8_t *, int32_t, const int32_t *,
                                                            const int32_t *, int32_t)) {
    int32_t v[EC_TILES_WORDS], sums[16];
    const int32_t depth = n->in_channels, most = EC_TILES_WORDS / (8 * depth) - 2;
    const int32_t pass = (most + 2) * 2 * depth;
    for (int32_t begin = 0; begin < n->pixels; begin += EC_TILES_WIDTH) {
        const int32_t last = n->pixels - EC_TILES_WIDTH, w = begin < last ? begin : last;
        for (int32_t first = 0; first < n->rows; first += most) {
            const int32_t rows = n->rows - first < most ? n->rows - first : most;
            for (int32_t r = 0; r < rows + 2; ++r) {
                ec_tiles_row_s8_dsp(v + 2 * depth * r, pass, x, n, first + r - n->top, w - n->left);
            }
            for (int32_t r = 0; r < rows; ++r) {
                int8_t *const to = out + ((first + r) * n->pixels + w) * n->channels;
                const int32_t *from = stream;
                for (int32_t o = 0; o < n->channels; o += 2) {
                    const int32_t *const at = from + 2 + 12 * depth;
                    ec_tiles_sums_s8_dsp(sums, v + 2 * depth * r, from, 24 * depth,
                                         4 * (pass - 6 * depth));
                    store(to + (o + 2 > n->channels ? o - 1 : o), n->channels, sums, at,
                          n->zero_point);
                    from = at + words;
                }
            }
        }
    }
}

/* out[h][p][c] for all rows, pixels and channels: int8 of the rescaled sum over kh, kw, i of
 * x[h + kh - top][p + kw - left][i] * w[c][kh][kw][i] + bias[c]; x is `fill` outside of the image. out and
 * x must not overlap. Rescaled as in matrix_s8.h. */
static EC_KERNEL void ec_tiles_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                      const ec_tiles_sizes *n) {
    ec_tiles_all_dsp(out, x, stream, n, 6, ec_tiles_out_s8_dsp);
}

/* The same, rescaled as in matrix_s8_onnx.h. */
static EC_KERNEL void ec_tiles_onnx_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                           const ec_tiles_sizes *n) {
    ec_tiles_all_dsp(out, x, stream, n, 2, ec_tiles_out_onnx_dsp);
}

#endif /* EC_TILES_S8_H */
