/* Depthwise convolution of int8 as in depthwise_s8.h, rescaled as ONNX Runtime does: the accumulator
 * as float32, times a float32, rounded half to even by VCVTN. For cores whose vectors have floats.
 * In a stream the last words of 16 channels are their scales, four vectors.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_S8_ONNX_H
#define EC_MVE_DEPTHWISE_S8_ONNX_H

#include "microkernels/mve/depthwise_s8.h"

/* clang-format off */

/* Assembly: the sums in q4 to q7 rescaled with ONNX Runtime's rounding. */
#define EC_DEPTHWISE_ONNX_MVE \
    ".irp a, q4, q5, q6, q7\n" \
    "vldrw.32 q0, [r2], #16\n" \
    "vcvt.f32.s32 \\a, \\a\n" \
    "vmul.f32 \\a, \\a, q0\n" \
    "vcvtn.s32.f32 \\a, \\a\n" \
    ".endr\n"

/* clang-format on */

/* ec_depthwise_blocks_s8_mve with ONNX Runtime's rounding; scales are below a half. */
static EC_KERNEL void ec_depthwise_blocks_onnx_s8_mve(int8_t *out, const int8_t *x,
                                                      const int32_t *stream, int32_t taps,
                                                      int32_t step, int32_t row_step, int32_t rows,
                                                      int32_t pixels, int32_t channels,
                                                      int32_t zero_point, int32_t minimum,
                                                      int32_t maximum) {
#if EC_MVE_FLOAT_ASM
    int32_t given[14];
    ec_plan_blocks_mve(given, stream, taps, step, row_step, rows, pixels, channels, zero_point,
                       minimum, maximum);
    register int8_t *r0 __asm__("r0") = out;
    register const int8_t *r1 __asm__("r1") = x;
    register const int32_t *r2 __asm__("r2") = given;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_DEPTHWISE_BLOCKS_MVE(EC_DEPTHWISE_ONNX_MVE, EC_DEPTHWISE_ONNX_MVE)
        : "+r"(r0), "+r"(r1), "+r"(r2)
        :
        : "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    const int32_t blocks = (channels + 15) >> 4;
    const int32_t second = channels - 16 * (blocks - 1);
    for (int32_t p = 0; p < rows * pixels; ++p) {
        const int32_t *at = stream;
        for (int32_t block = 0; block < blocks; ++block) {
            const int32_t first = block == 0 ? 0 : second + 16 * (block - 1);
            const int32_t *const end = at + 16 + 5 * taps;
            for (int32_t i = 0; i < 16; ++i) {
                /* Vector and lane of the channel i, as one number. */
                const int32_t lane = 8 * (i & 1) + 4 * (i >> 1 & 1) + (i >> 2);
                uint32_t sum = (uint32_t)at[lane];
                for (int32_t tap = 0; tap < taps; ++tap) {
                    const int32_t *const pair = at + 16 + 10 * (tap >> 1);
                    const int32_t offsets = tap == taps - 1 && (taps & 1) != 0 ? 1 : 2;
                    const int8_t *const weights = (const int8_t *)(pair + offsets + 4 * (tap & 1));
                    sum += (uint32_t)(x[pair[tap & 1] + first + i] * weights[i]);
                }
                const float factor = ec_f32_from_bits((uint32_t)end[lane]);
                const int32_t value = ec_requantize_onnx((int32_t)sum, factor) + zero_point;
                out[first + i] = (int8_t)(value < minimum   ? minimum
                                          : value > maximum ? maximum
                                                            : value);
            }
            at = end + 16;
        }
        out += channels;
        x += p % pixels == pixels - 1 ? row_step - (pixels - 1) * step : step;
    }
#endif
}

/* ec_depthwise_s8_mve with ONNX Runtime's rounding. */
static inline void ec_depthwise_onnx_s8_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                            int32_t kernel_h, int32_t kernel_w, int32_t pitch,
                                            int32_t tap, int32_t row_step, int32_t rows,
                                            int32_t step, int32_t pixels, int32_t channels,
                                            int32_t zero_point, int32_t minimum, int32_t maximum) {
    const int32_t taps = kernel_h * kernel_w;
    const int32_t row = pixels * channels;
    (void)pitch; /* both are in the stream */
    (void)tap;
    if (channels >= 16) {
        ec_depthwise_blocks_onnx_s8_mve(out, x, stream, taps, step, row_step, rows, pixels,
                                        channels, zero_point, minimum, maximum);
    } else if ((row & 15) == 0) {
        ec_depthwise_blocks_onnx_s8_mve(out, x, stream, taps, 16, row_step, rows, row >> 4, 16,
                                        zero_point, minimum, maximum);
    } else { /* the last 16 of a row overlap those before */
        for (int32_t h = 0; h < rows; ++h) {
            ec_depthwise_blocks_onnx_s8_mve(out, x, stream, taps, 16, 0, 1, row >> 4, 16,
                                            zero_point, minimum, maximum);
            ec_depthwise_blocks_onnx_s8_mve(out + row - 16, x + row - 16, stream, taps, 16, 0, 1, 1,
                                            16, zero_point, minimum, maximum);
            out += row;
            x += row_step;
        }
    }
}

#endif /* EC_MVE_DEPTHWISE_S8_ONNX_H */
