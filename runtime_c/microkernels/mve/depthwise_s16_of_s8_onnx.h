/* Depthwise convolution of int8 as in depthwise_s16.h whose results are int16 without a zero point,
 * rescaled as ONNX Runtime does: the accumulator as float32, times a float32, rounded half to even by
 * VCVTN. For cores whose vectors have floats.
 *
 * A stream is that of depthwise_s16.h, with four scales for the even and then the odd channels in place
 * of multipliers and shifts.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_S16_OF_S8_ONNX_H
#define EC_MVE_DEPTHWISE_S16_OF_S8_ONNX_H

#include "microkernels/mve/depthwise_s16.h"

/* clang-format off */

/* Assembly: the sums in \a rescaled with ONNX Runtime's rounding. */
#define EC_DEPTHWISE_RESCALE_ONNX_MVE \
    "vldrw.32 q0, [%[from]], #16\n" \
    "vcvt.f32.s32 \\a, \\a\n" \
    "vmul.f32 \\a, \\a, q0\n" \
    "vcvtn.s32.f32 \\a, \\a\n"

/* clang-format on */

/* ec_depthwise_s16_mve of int8, of any scales. */
static EC_KERNEL void ec_depthwise_onnx_s8_s16_mve(int16_t *out, const int8_t *x,
                                                   const int32_t *stream, int32_t kernel_h,
                                                   int32_t kernel_w, int32_t pitch, int32_t tap,
                                                   int32_t row_step, int32_t rows, int32_t step,
                                                   int32_t pixels, int32_t channels,
                                                   int32_t minimum, int32_t maximum) {
    const int32_t taps = kernel_h * kernel_w;
    const int32_t blocks = (channels + 7) >> 3;
    const int32_t second = channels - 8 * (blocks - 1);
    (void)pitch; /* both are in the stream */
    (void)tap;
#if EC_MVE_FLOAT_ASM
    const int32_t limits = (int32_t)(((uint32_t)maximum << 16) | (uint16_t)minimum);
#endif
    for (int32_t p = 0; p < rows * pixels; ++p) {
#if EC_MVE_FLOAT_ASM
        const int32_t *from = stream;
        const int8_t *at = x;
        int16_t *to = out;
        int32_t left = blocks;
        int32_t bytes = 2 * second;
        int32_t input = limits;
        EC_DEPTHWISE_PIXEL_S16_MVE(EC_DEPTHWISE_LIMITS_S16_MVE, "vldrb.s16", "l",
                                   EC_DEPTHWISE_RESCALE_ONNX_MVE, EC_DEPTHWISE_STORE_S16_MVE, "",
                                   ", lsr #1");
#else
        const int32_t *at = stream;
        for (int32_t block = 0; block < blocks; ++block) {
            const int32_t first = block == 0 ? 0 : second + 8 * (block - 1);
            int32_t sums[8];
            at = ec_depthwise_sums_mve(sums, x + first, 1, at, taps);
            for (int32_t i = 0; i < 8; ++i) {
                const float scale = ec_f32_from_bits((uint32_t)at[4 * (i & 1) + (i >> 1)]);
                const int32_t rounded = ec_requantize_onnx(sums[i], scale);
                out[first + i] = ec_limited_s16(rounded, minimum, maximum);
            }
            at += 8;
        }
#endif
        out += channels;
        x += p % pixels == pixels - 1 ? row_step - (pixels - 1) * step : step;
    }
}

#endif /* EC_MVE_DEPTHWISE_S16_OF_S8_ONNX_H */
