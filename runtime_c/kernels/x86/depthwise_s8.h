/* Depthwise convolutions of int8 on x86: a vector of channels of up to four pixels at a time.
 *
 * A stream holds units of as many channels as a vector has lanes, the last one filled with zeros: the
 * weights of each tap as bytes, then biases and rescaling factors.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_X86_DEPTHWISE_S8_H
#define EC_X86_DEPTHWISE_S8_H

#include "kernels/common/product_sizes.h"
#include "kernels/x86/base_s8.h"

/* `wide` pixels of a unit with `left` channels; `wide` and whether the unit is full are constants. */
static inline EC_INLINE void ec_depthwise_tile_s8_x86(int8_t *out, const int8_t *x,
                                                      const int32_t *stream,
                                                      const ec_depthwise_sizes *n,
                                                      const ec_depthwise_results_sizes *to,
                                                      int32_t left, int32_t wide, int32_t full) {
#if EC_X86_LANES
    const int32_t lanes = EC_X86_LANES, kernel_h = n->kernel_h, kernel_w = n->kernel_w;
    const int32_t step = n->step, rounding = to->rounding;
    const int8_t *w = (const int8_t *)stream;
    const int32_t *const scales = stream + kernel_h * kernel_w * lanes / 4;
    EC_V sums[4];
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        sums[p] = EC_V_LOAD(scales);
    }
    for (int32_t kh = 0; kh < kernel_h; ++kh) {
        for (int32_t kw = 0; kw < kernel_w; ++kw) {
            const int8_t *const at = x + kh * n->pitch + kw * n->tap;
            const EC_V weights = EC_V_LOW(EC_V_WIDE(w));
            EC_STRAIGHT
            for (int32_t p = 0; p < wide; ++p) {
                const EC_V inputs =
                    full ? EC_V_WIDE(at + p * step) : EC_V_WIDE_PART(at + p * step, left);
                sums[p] = EC_V_MUL_ADD(sums[p], inputs, weights);
            }
            w += lanes;
        }
    }
    EC_V by[5];
    ec_scales_x86(by, scales + lanes, rounding);
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        ec_store_x86(out + p * n->channels, sums[p], by, rounding, to->limits, left);
    }
#else
    (void)out, (void)x, (void)stream, (void)n, (void)to, (void)left, (void)wide, (void)full;
#endif
}

/* Rows of pixels of one unit. */
static inline EC_INLINE void ec_depthwise_unit_s8_x86(int8_t *out, const int8_t *x,
                                                      const int32_t *stream,
                                                      const ec_depthwise_sizes *n,
                                                      const ec_depthwise_results_sizes *to,
                                                      int32_t left, int32_t full) {
    const int32_t pixels = n->pixels, channels = n->channels, step = n->step;
    for (int32_t h = 0; h < n->rows; ++h, x += n->row_step) {
        int32_t p = 0;
        for (; p + 4 <= pixels; p += 4) {
            ec_depthwise_tile_s8_x86(out + (h * pixels + p) * channels, x + p * step, stream, n, to,
                                     left, 4, full);
        }
        for (; p < pixels; ++p) {
            ec_depthwise_tile_s8_x86(out + (h * pixels + p) * channels, x + p * step, stream, n, to,
                                     left, 1, full);
        }
    }
}

/* The same of all units in C, for streams of `lanes`. */
static inline EC_UNUSED void ec_depthwise_c_x86(int8_t *out, const int8_t *x, const int32_t *stream,
                                                const ec_depthwise_sizes *n,
                                                const ec_depthwise_results_sizes *to,
                                                int32_t lanes) {
    const int32_t pixels = n->pixels, channels = n->channels, rounding = to->rounding;
    const int32_t taps = n->kernel_h * n->kernel_w;
    for (int32_t at = 0; at < n->rows * pixels * channels; ++at) {
        const int32_t c = at % channels, pixel = at / channels;
        const int32_t *const unit =
            stream + c / lanes * (taps * lanes / 4 + lanes * EC_SCALE_WORDS(rounding));
        const int32_t *const scales = unit + taps * lanes / 4 + c % lanes;
        const int8_t *const from = x + pixel / pixels * n->row_step + pixel % pixels * n->step + c;
        uint32_t sum = (uint32_t)scales[0];
        for (int32_t k = 0; k < taps; ++k) {
            const int32_t weight = ((const int8_t *)unit)[k * lanes + c % lanes];
            sum += (uint32_t)(from[k / n->kernel_w * n->pitch + k % n->kernel_w * n->tap] * weight);
        }
        out[at] = ec_result_c_x86(sum, scales + lanes, lanes, rounding, to->limits);
    }
}

/* All units of the stream, whose vectors have `lanes`. */
static inline EC_INLINE void ec_depthwise_s8_x86(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, const ec_depthwise_sizes *n,
                                                 int32_t rounding, int32_t lanes) {
    const ec_depthwise_results_sizes to = { rounding, { n->zero_point, n->minimum, n->maximum } };
#if EC_X86_LANES
    if (lanes == EC_X86_LANES) {
        const ec_depthwise_sizes own = *n; /* results, which are bytes, may alias it */
        const int32_t channels = own.channels;
        int32_t c = 0;
        for (; c + lanes <= channels; c += lanes) {
            ec_depthwise_unit_s8_x86(out + c, x + c, stream, &own, &to, lanes, 1);
            stream += own.kernel_h * own.kernel_w * lanes / 4 + lanes * EC_SCALE_WORDS(rounding);
        }
        if (c < channels) {
            ec_depthwise_unit_s8_x86(out + c, x + c, stream, &own, &to, channels - c, 0);
        }
        return;
    }
#endif
    ec_depthwise_c_x86(out, x, stream, n, &to, lanes);
}

#define EC_OF(name) name##_vnni
#define EC_LANES 16
#include "kernels/x86/depthwise_s8.inc"

#define EC_OF(name) name##_avx2
#define EC_LANES 8
#include "kernels/x86/depthwise_s8.inc"

#endif /* EC_X86_DEPTHWISE_S8_H */
