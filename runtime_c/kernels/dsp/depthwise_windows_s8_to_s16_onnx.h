/* Depthwise convolutions of int8 as in depthwise_windows_s8_onnx.h whose results are int16 without a
 * zero point, limited to a range of their own. Streams are the same.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_WINDOWS_S8_TO_S16_ONNX_H
#define EC_DEPTHWISE_WINDOWS_S8_TO_S16_ONNX_H

#include "kernels/common/store_s16.h"
#include "kernels/dsp/depthwise_windows_s8_onnx.h"
#include "kernels/dsp/clip_pair.h"

/* clang-format off */

/* Assembly: four rescaled sums as int16, limited, two at a time; the limits are in r12. */
#define EC_DEPTHWISE_PIXEL_ONNX_S16 \
    ".irp x, r8, r9, r10, r11\n" \
    "ssat \\x, #16, \\x\n" \
    ".endr\n" \
    EC_SPREAD_LIMITS("r2", "r12", "r12") \
    "pkhbt r8, r8, r9, lsl #16\n" \
    "pkhbt r9, r10, r11, lsl #16\n" \
    EC_CLIP_PAIR("r8", "r2", "r12", "r5") \
    EC_CLIP_PAIR("r9", "r2", "r12", "r5") \
    EC_DEPTHWISE_PIXEL_OUT \
    "strd r8, r9, [r4], #8\n"

/* clang-format on */

/* ec_depthwise_pixel_onnx_s8_dsp to int16; ends: the least and, in the upper half, the largest
 * result. out is aligned to 4 bytes. */
static EC_KERNEL void ec_depthwise_pixel_onnx_s8_s16_dsp(void *out, const int8_t *x,
                                                         const int32_t *stream,
                                                         const int32_t *table, int32_t quads,
                                                         int32_t ends) {
#if EC_DSP_FPU_ASM
    EC_DEPTHWISE_PIXEL_ONNX_DSP(EC_DEPTHWISE_PIXEL_ONNX_S16);
#else
    const int32_t minimum = (int16_t)((uint32_t)ends & 0xFFFFu);
    int16_t *const to = (int16_t *)out;
    for (int32_t q = 0; q < quads; ++q) {
        uint32_t sums[4];
        const int32_t *const scales = ec_depthwise_sums_s8_dsp(sums, x + 4 * q, stream, table);
        for (int32_t c = 0; c < 4; ++c) {
            const float scale = ec_f32_from_bits((uint32_t)scales[c]);
            const int32_t rounded = ec_requantize_onnx((int32_t)sums[c], scale);
            to[4 * q + c] = ec_limited_s16(rounded, minimum, ends >> 16);
        }
        stream = scales + 4;
    }
#endif
}

/* ec_depthwise_windows_onnx_s8_dsp to int16; out is aligned to 4 bytes. */
static EC_KERNEL void ec_depthwise_windows_onnx_s8_s16_dsp(int16_t *out, const int8_t *x,
                                                           const int32_t *stream,
                                                           const ec_window_sizes *n, int32_t least,
                                                           int32_t most, int32_t pixel) {
    ec_depthwise_windows_row_dsp(out, x, stream, n, pixel, 2, ec_both_limits(least, most),
                                 ec_depthwise_pixel_onnx_s8_s16_dsp);
}

#endif /* EC_DEPTHWISE_WINDOWS_S8_TO_S16_ONNX_H */
