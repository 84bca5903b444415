/* Depthwise convolutions of int16 inputs and int8 weights for the DSP extension of Armv7E-M, to int16
 * or int8, without any copy of the input: four channels at a time.
 *
 * A stream holds all constants in the order of use. Per four channels, in words: their biases; for
 * each tap their weights, as pairs of int16; for each channel M * 2^15, 2^(e-1) and e, by which
 * ec_requantize_tflm16_high rescales.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_WINDOWS_S16_H
#define EC_DEPTHWISE_WINDOWS_S16_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/clip_taps.h"
#include "kernels/common/store_s16.h"
#include "kernels/common/window_sizes.h"
#include "kernels/dsp/clip_pair.h"

/* clang-format off */

/* Assembly: two sums rescaled and limited to int16. */
#define EC_DEPTHWISE_SCALE_S16(a, b) \
    "ldmia r1!, {r3-r7, r12}\n" \
    "smmla " a ", " a ", r3, r4\n" \
    "smmla " b ", " b ", r6, r7\n" \
    "asr " a ", " a ", r5\n" \
    "asr " b ", " b ", r12\n" \
    "ssat " a ", #16, " a "\n" \
    "ssat " b ", #16, " b "\n"

/* Assembly: one pixel; `store` stores the results of the sums in r8-r11 at r3 and advances r3. r5 is the
 * plan's word for results; `store` may change r6, r7 and r12. */
#define EC_DEPTHWISE_PIXEL_S16_DSP(store) \
    ".syntax unified\n" \
    "push {r4-r11, lr}\n" \
    "ldmia r2, {r4-r12}\n" \
    "movs r2, #28\n" /* bytes of code for a tap */ \
    "adr.w lr, 4f\n" \
    "mls r2, r10, r2, lr\n" \
    "orr r10, r2, #1\n" \
    "push {r4-r12}\n" \
    "push {r0, r3}\n" \
    "0:\n" /* four channels */ \
    "ldmia r1!, {r8-r11}\n" \
    "ldr r4, [sp, #36]\n" \
    "ldrd r2, r3, [sp, #16]\n" \
    "ldrd lr, r12, [sp, #24]\n" \
    "add r1, r1, r4\n" \
    "3:\n" /* a row */ \
    "ldr pc, [sp, #32]\n" \
    ".rept 8\n" \
    "ldrd r4, r5, [r0]\n" \
    "ldrd r6, r7, [r1], #8\n" \
    "add.w r0, r0, r2\n" \
    "smlabb r8, r4, r6, r8\n" \
    "smlatt r9, r4, r6, r9\n" \
    "smlabb r10, r5, r7, r10\n" \
    "smlatt r11, r5, r7, r11\n" \
    ".endr\n" \
    "4:\n" \
    "add r0, r0, r3\n" \
    "add r1, r1, lr\n" \
    "subs r12, #1\n" \
    "bne.w 3b\n" \
    "ldr r4, [sp, #40]\n" \
    "add r1, r1, r4\n" \
    EC_DEPTHWISE_SCALE_S16("r8", "r9") \
    EC_DEPTHWISE_SCALE_S16("r10", "r11") \
    "ldm sp, {r0, r3, r4, r5}\n" \
    store \
    "adds r0, #8\n" \
    "subs r4, #1\n" \
    "stm sp, {r0, r3, r4}\n" \
    "bne.w 0b\n" \
    "add sp, #44\n" \
    "pop {r4-r11, lr}\n"

/* Assembly: results of int16. */
#define EC_DEPTHWISE_STORE_S16_DSP \
    "cbz r5, 5f\n" \
    "bic r8, r8, r8, asr #31\n" \
    "bic r9, r9, r9, asr #31\n" \
    "bic r10, r10, r10, asr #31\n" \
    "bic r11, r11, r11, asr #31\n" \
    "5:\n" \
    "pkhbt r8, r8, r9, lsl #16\n" \
    "pkhbt r10, r10, r11, lsl #16\n" \
    "stmia r3!, {r8, r10}\n"

/* Assembly: results of int16, limited to the two limits in r5. */
#define EC_DEPTHWISE_STORE_LIMITED_S16_DSP \
    EC_SPREAD_LIMITS("r6", "r7", "r5") \
    "pkhbt r8, r8, r9, lsl #16\n" \
    "pkhbt r10, r10, r11, lsl #16\n" \
    EC_CLIP_PAIR("r8", "r6", "r7", "r12") \
    EC_CLIP_PAIR("r10", "r6", "r7", "r12") \
    "stmia r3!, {r8, r10}\n"

/* Assembly: results of int8, plus a zero point and limited: the three lowest bytes of r5. */
#define EC_DEPTHWISE_STORE_S8_DSP \
    "sxtb r6, r5\n" \
    "sxtb r7, r5, ror #8\n" \
    "sxtb r12, r5, ror #16\n" \
    ".irp x, r8, r9, r10, r11\n" \
    "add \\x, \\x, r6\n" \
    "cmp \\x, r7\n" \
    "it lt\n" \
    "movlt \\x, r7\n" \
    "cmp \\x, r12\n" \
    "it gt\n" \
    "movgt \\x, r12\n" \
    "strb \\x, [r3], #1\n" \
    ".endr\n"

/* One pixel, of the names of ec_depthwise_pixel_s16_dsp. */
#define EC_DEPTHWISE_RUN_PIXEL_S16(store) \
    register const int16_t *r0 __asm__("r0") = x; \
    register const int32_t *r1 __asm__("r1") = stream; \
    register const int32_t *r2 __asm__("r2") = plan; \
    register void *r3 __asm__("r3") = out; \
    __asm__ volatile( \
        EC_DEPTHWISE_PIXEL_S16_DSP(store) \
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3) \
        : \
        : "r12", "cc", "memory")

/* clang-format on */

/* The results of four channels of a pixel, and the rest of the stream. */
static inline EC_UNUSED const int32_t *ec_depthwise_four_s16_dsp(int32_t *results, const int16_t *x,
                                                                 const int32_t *stream,
                                                                 const int32_t *plan) {
    const int32_t *weights = stream + 4 + plan[7] / 4;
    uint32_t sums[4];
    for (int32_t i = 0; i < 4; ++i) {
        sums[i] = (uint32_t)stream[i];
    }
    for (int32_t row = 0; row < plan[5]; ++row) {
        for (int32_t column = 0; column < plan[6]; ++column) {
            for (int32_t i = 0; i < 4; ++i) {
                const uint32_t pair = (uint32_t)weights[i >> 1] >> (16 * (i & 1));
                sums[i] += (uint32_t)(x[i] * (int16_t)(pair & 0xFFFFu));
            }
            weights += 2;
            x += plan[2] / 2;
        }
        weights += plan[4] / 4;
        x += plan[3] / 2;
    }
    stream = weights + plan[8] / 4;
    for (int32_t i = 0; i < 4; ++i, stream += 3) {
        results[i] = ec_requantize_tflm16_high((int32_t)sums[i], stream[0], stream[2]);
    }
    return stream;
}

/* One output pixel: out[c] for c < 4 * quads, of `rows` rows of `columns` taps, at most 8 each.
 *
 * plan: quads; a word for the results (see below); bytes from each tap to the next; bytes from the end
 * of a row's last tap to the next row; the same for weights; rows; columns; bytes of weights before the
 * first tap and after the last row. out and x are aligned to 4 bytes.
 *
 * Registers: r0 x, r1 stream, r2 bytes between taps, r3 between rows, r4 and r5 inputs, r6 and r7
 * weights, r8-r11 sums, r12 rows left, lr bytes of weights between rows. On the stack: x, out, quads
 * left, limit (12), bytes between taps, rows, rows of weights (24), rows, where a row begins (32),
 * weights before, after (40). */
static EC_KERNEL void ec_depthwise_pixel_s16_dsp(void *out, const int16_t *x, const int32_t *stream,
                                                 const int32_t *plan) {
#if EC_DSP_ASM
    EC_DEPTHWISE_RUN_PIXEL_S16(EC_DEPTHWISE_STORE_S16_DSP);
#else
    int16_t *const to = (int16_t *)out;
    for (int32_t q = 0; q < plan[0]; ++q) {
        int32_t results[4];
        stream = ec_depthwise_four_s16_dsp(results, x + 4 * q, stream, plan);
        for (int32_t i = 0; i < 4; ++i) {
            to[4 * q + i] = ec_limited_s16(results[i], plan[1] != 0 ? 0 : INT16_MIN, INT16_MAX);
        }
    }
#endif
}

/* The same with limits: plan[1] has the least and, in the upper half, the largest result. */
static EC_KERNEL void ec_depthwise_pixel_limited_s16_dsp(void *out, const int16_t *x,
                                                         const int32_t *stream,
                                                         const int32_t *plan) {
#if EC_DSP_ASM
    EC_DEPTHWISE_RUN_PIXEL_S16(EC_DEPTHWISE_STORE_LIMITED_S16_DSP);
#else
    int16_t *const to = (int16_t *)out;
    const int32_t least = (int16_t)((uint32_t)plan[1] & 0xFFFFu);
    for (int32_t q = 0; q < plan[0]; ++q) {
        int32_t results[4];
        stream = ec_depthwise_four_s16_dsp(results, x + 4 * q, stream, plan);
        for (int32_t i = 0; i < 4; ++i) {
            to[4 * q + i] = ec_limited_s16(results[i], least, plan[1] >> 16);
        }
    }
#endif
}

/* The same to int8: plan[1] has the zero point, the least and the largest result, a byte each. */
static EC_KERNEL void ec_depthwise_pixel_s16_s8_dsp(void *out, const int16_t *x,
                                                    const int32_t *stream, const int32_t *plan) {
#if EC_DSP_ASM
    EC_DEPTHWISE_RUN_PIXEL_S16(EC_DEPTHWISE_STORE_S8_DSP);
#else
    int8_t *const to = (int8_t *)out;
    const uint32_t ends = (uint32_t)plan[1];
    for (int32_t q = 0; q < plan[0]; ++q) {
        int32_t results[4];
        stream = ec_depthwise_four_s16_dsp(results, x + 4 * q, stream, plan);
        for (int32_t i = 0; i < 4; ++i) {
            const int32_t value = results[i] + (int8_t)(ends & 255u);
            const int32_t least = (int8_t)(ends >> 8 & 255u);
            to[4 * q + i] = (int8_t)ec_limited_s16(value, least, (int8_t)(ends >> 16 & 255u));
        }
    }
#endif
}

/* Compute the pixels of ec_depthwise_windows_s16_dsp, or of the same to int8, each by `compute`; a result
 * has `bytes` bytes, and `ends` is the plan's word for results. */
static inline EC_INLINE void ec_depthwise_row_s16_dsp(
    void *out, const int16_t *x, const int32_t *stream, const ec_window_sizes *n, int32_t pixel,
    int32_t bytes, int32_t ends,
    void (*compute)(void *, const int16_t *, const int32_t *, const int32_t *)) {
    const int32_t width = n->width, channels = n->channels, row = width * channels;
    const int32_t kernel_h = n->kernel_h, kernel_w = n->kernel_w;
    const int32_t dilation_h = n->dilation_h, dilation_w = n->dilation_w;
    const int32_t y = pixel / n->out_width * n->stride_h - n->top;
    const uint64_t rows = ec_clip_taps(y, kernel_h, dilation_h, n->height);
    const int32_t above = ec_first_tap(rows), below = ec_taps_end(rows);
    int32_t plan[9];
    int8_t *to = (int8_t *)out;
    plan[0] = channels / 4;
    plan[1] = ends;
    plan[2] = 2 * dilation_w * channels;
    for (int32_t w = 0; w < n->out_width; ++w, to += bytes * channels) {
        const int32_t z = w * n->stride_w - n->left;
        const uint64_t columns = ec_clip_taps(z, kernel_w, dilation_w, width);
        const int32_t before = ec_first_tap(columns), after = ec_taps_end(columns);
        const int16_t *first = x;
        plan[5] = below - above;
        plan[6] = after - before;
        plan[7] = 8 * (above * kernel_w + before);
        if (plan[5] == 0 || plan[6] == 0) { /* a row of no taps */
            plan[5] = 1;
            plan[6] = 0;
            plan[7] = 0;
        } else {
            first += ((y + above * dilation_h) * width + z + before * dilation_w) * channels;
        }
        plan[3] = 2 * dilation_h * row - plan[6] * plan[2];
        plan[4] = 8 * (kernel_w - plan[6]);
        plan[8] = 8 * kernel_w * (kernel_h - plan[5]) - plan[7];
        compute(to, first, stream, plan);
    }
}

/* The output pixels `pixel` to `pixel` + out_width - 1, a row of a depthwise convolution:
 * out[w * channels + c] is int16 of the rescaled sum of a window's inputs of channel c and its bias.
 * Inputs outside of x are zero; `padded` and zero_point have no effect. kernel_w is at most 8,
 * channels is a multiple of 4, `lowest_result` is 0 or -2^15. stream: see the top of this file; out, x and
 * stream are aligned to 4 bytes. Pixels are computed one after the other; of each, inputs are read
 * before outputs are written only for four channels at a time. */
static EC_KERNEL void ec_depthwise_windows_s16_dsp(
    int16_t *out, const int16_t *x, const int32_t *stream, int32_t height, int32_t width,
    int32_t channels, int32_t kernel_h, int32_t kernel_w, int32_t stride_h, int32_t stride_w,
    int32_t dilation_h, int32_t dilation_w, int32_t top, int32_t left, int32_t out_width,
    int32_t padded, int32_t zero_point, int32_t lowest_result, int32_t pixel) {
    const ec_window_sizes n = { height,   width,     channels,   kernel_h,   kernel_w,
                                stride_h, stride_w,  dilation_h, dilation_w, top,
                                left,     out_width, padded,     zero_point };
    ec_depthwise_row_s16_dsp(out, x, stream, &n, pixel, 2, lowest_result == 0,
                             ec_depthwise_pixel_s16_dsp);
}

/* The same of any limits. */
static EC_KERNEL void ec_depthwise_windows_limited_s16_dsp(int16_t *out, const int16_t *x,
                                                           const int32_t *stream,
                                                           const ec_window_sizes *n, int32_t least,
                                                           int32_t most, int32_t pixel) {
    ec_depthwise_row_s16_dsp(out, x, stream, n, pixel, 2, ec_both_limits(least, most),
                             ec_depthwise_pixel_limited_s16_dsp);
}

/* The same to int8: the rescaled sum plus `moved`, limited. */
static EC_KERNEL void ec_depthwise_windows_s16_s8_dsp(int8_t *out, const int16_t *x,
                                                      const int32_t *stream,
                                                      const ec_window_sizes *n, int32_t moved,
                                                      int32_t minimum, int32_t maximum,
                                                      int32_t pixel) {
    const uint32_t limits = (uint32_t)(uint8_t)maximum << 16 | (uint32_t)(uint8_t)minimum << 8;
    ec_depthwise_row_s16_dsp(out, x, stream, n, pixel, 1, (int32_t)(limits | (uint8_t)moved),
                             ec_depthwise_pixel_s16_s8_dsp);
}

#endif /* EC_DEPTHWISE_WINDOWS_S16_H */
