/* Depthwise 3x3 convolutions of int8 as in depthwise_s8_onnx.h whose results are int16 without a zero
 * point, limited to a range of their own. Streams are the same.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_S8_TO_S16_ONNX_H
#define EC_DEPTHWISE_S8_TO_S16_ONNX_H

#include "kernels/common/store_s16.h"
#include "kernels/dsp/depthwise_s8_onnx.h"
#include "kernels/dsp/clip_pair.h"

/* clang-format off */

/* Assembly: save both limits, in r12, on the stack, each twice in a word. */
#define EC_DEPTHWISE_3X3_KEEP_LIMITS \
    EC_SPREAD_LIMITS("r2", "r12", "r12") \
    "strd r2, r12, [sp, #24]\n"

/* Assembly: convert two rescaled sums, one above the other, to int16, limited by r2 and lr. */
#define EC_DEPTHWISE_3X3_LIMIT_S16(above, below) \
    "ssat " above ", #16, " above "\n" \
    "ssat " below ", #16, " below "\n" \
    "pkhbt " above ", " above ", " below ", lsl #16\n" \
    EC_CLIP_PAIR(above, "r2", "lr", below) \
    "lsr " below ", " above ", #16\n"

/* Assembly: the results of one column. */
#define EC_DEPTHWISE_3X3_TWO_TO_S16 \
    "ldrd r2, lr, [sp, #24]\n" \
    EC_DEPTHWISE_3X3_LIMIT_S16("r9", "r10")

/* Assembly: the results of two columns. */
#define EC_DEPTHWISE_3X3_FOUR_TO_S16 \
    EC_DEPTHWISE_3X3_TWO_TO_S16 \
    EC_DEPTHWISE_3X3_LIMIT_S16("r11", "r12")

/* clang-format on */

/* A sum rescaled and stored as int16; ends: the least and, in the upper half, the largest result. */
static inline EC_UNUSED void ec_store_sum_onnx_s16_dsp(void *to, int32_t sum, float scale,
                                                       int32_t ends) {
    const int32_t minimum = (int16_t)((uint32_t)ends & 0xFFFFu);
    *(int16_t *)to = ec_limited_s16(ec_requantize_onnx(sum, scale), minimum, ends >> 16);
}

/* The sizes of ec_depthwise_3x3_onnx_s8_s16_dsp. */
typedef struct {
    int32_t height, width, out_width, channels, minimum, maximum;
} ec_depthwise_3x3_s16_sizes;

/* ec_depthwise_3x3_onnx_s8_dsp to int16. */
static EC_KERNEL void ec_depthwise_3x3_onnx_s8_s16_dsp(int16_t *out, const int16_t *plane,
                                                       const int32_t *stream,
                                                       const ec_depthwise_3x3_s16_sizes *sizes) {
    const int32_t height = sizes->height, width = sizes->width;
    const int32_t out_width = sizes->out_width, channels = sizes->channels;
    const int32_t ends = ec_both_limits(sizes->minimum, sizes->maximum);
#if EC_DSP_FPU_ASM
    EC_DEPTHWISE_3X3_ONNX_DSP(2, EC_DEPTHWISE_3X3_KEEP_LIMITS, EC_DEPTHWISE_3X3_FOUR_TO_S16,
                              EC_DEPTHWISE_3X3_TWO_TO_S16, "strh");
#else
    const ec_depthwise_3x3_c_sizes n = { 2, height, width, out_width, channels, ends };
    ec_depthwise_3x3_onnx_c_dsp(out, plane, stream, &n, ec_store_sum_onnx_s16_dsp);
#endif
}

#endif /* EC_DEPTHWISE_S8_TO_S16_ONNX_H */
