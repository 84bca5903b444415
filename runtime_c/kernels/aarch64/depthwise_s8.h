/* Depthwise convolutions of int8 on 64-bit Arm: sixteen channels of a pixel at a time.
 *
 * A stream holds units of sixteen channels, the last one filled with zeros: the weights of each tap as
 * bytes, none of them -128, since the products of two taps are added in 16 bits; then biases and
 * rescaling factors.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_DEPTHWISE_S8_H
#define EC_AARCH64_DEPTHWISE_S8_H

#include "kernels/aarch64/base_s8.h"
#include "kernels/common/product_sizes.h"

/* The products of the first eight bytes of a and b, and those added to sums. As assembly, since gcc 12
 * keeps the half of a vector in a register of its own. */
#if defined(__aarch64__) && defined(__GNUC__) && !defined(EC_NO_ASM)
#define EC_MUL_LOW_NEON(sums, a, b) \
    __asm__("smull %0.8h, %1.8b, %2.8b" : "=w"(sums) : "w"(a), "w"(b))
#define EC_MUL_ADD_LOW_NEON(sums, a, b) \
    __asm__("smlal %0.8h, %1.8b, %2.8b" : "+w"(sums) : "w"(a), "w"(b))
#else
#define EC_MUL_LOW_NEON(sums, a, b) ((sums) = vmull_s8(vget_low_s8(a), vget_low_s8(b)))
#define EC_MUL_ADD_LOW_NEON(sums, a, b) ((sums) = vmlal_s8((sums), vget_low_s8(a), vget_low_s8(b)))
#endif

/* A pixel of a unit with `left` channels: two taps at a time. */
static inline EC_INLINE void ec_depthwise_pixel_neon(int8_t *out, const int8_t *x,
                                                     const int32_t *stream,
                                                     const ec_depthwise_sizes *n, int32_t left,
                                                     int32_t rounding) {
#if EC_NEON
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int32_t kernel_w = n->kernel_w, taps = n->kernel_h * kernel_w;
    const int8_t *const w = (const int8_t *)stream;
    const int32_t *const scales = stream + taps * 4;
    int32x4_t sums[4];
    EC_STRAIGHT
    for (int32_t u = 0; u < 4; ++u) {
        sums[u] = vld1q_s32(scales + 4 * u);
    }
    EC_STRAIGHT
    for (int32_t k = 0; k < taps; k += 2) {
        const int32_t next = k + 1 < taps ? k + 1 : k;
        const int8x16_t first = vld1q_s8(w + 16 * k);
        const int8x16_t a = ec_load_neon(x + k / kernel_w * n->pitch + k % kernel_w * n->tap, left);
        int16x8_t low, high = vmull_high_s8(a, first);
        EC_MUL_LOW_NEON(low, a, first);
        if (next > k) {
            const int8x16_t second = vld1q_s8(w + 16 * next);
            const int8x16_t b =
                ec_load_neon(x + next / kernel_w * n->pitch + next % kernel_w * n->tap, left);
            EC_MUL_ADD_LOW_NEON(low, b, second);
            high = vmlal_high_s8(high, b, second);
        }
        sums[0] = vaddw_s16(sums[0], vget_low_s16(low));
        sums[1] = vaddw_high_s16(sums[1], low);
        sums[2] = vaddw_s16(sums[2], vget_low_s16(high));
        sums[3] = vaddw_high_s16(sums[3], high);
    }
    EC_STRAIGHT
    for (int32_t u = 0; u < 4; ++u) {
        sums[u] = ec_rescale_neon(sums[u], scales + 16 + 4 * u, 16, rounding);
    }
    ec_store_neon(out, ec_narrow_neon(sums[0], sums[1], sums[2], sums[3], limits, rounding), left);
#else
    (void)out, (void)x, (void)stream, (void)n, (void)left, (void)rounding;
#endif
}

/* Rows of pixels of one unit; windows of three by three have their weights in registers. */
static inline EC_INLINE void ec_depthwise_unit_neon(int8_t *restrict out, const int8_t *x,
                                                    const int32_t *stream,
                                                    const ec_depthwise_sizes *n, int32_t left,
                                                    int32_t rounding) {
    ec_depthwise_sizes three = *n;
    three.kernel_h = 3;
    three.kernel_w = 3;
    for (int32_t h = 0; h < n->rows; ++h, x += n->row_step) {
        const int8_t *from = x;
        if (n->kernel_h == 3 && n->kernel_w == 3) {
            for (int32_t p = 0; p < n->pixels; ++p, out += n->channels, from += n->step) {
                ec_depthwise_pixel_neon(out, from, stream, &three, left, rounding);
            }
        } else {
            for (int32_t p = 0; p < n->pixels; ++p, out += n->channels, from += n->step) {
                ec_depthwise_pixel_neon(out, from, stream, n, left, rounding);
            }
        }
    }
}

/* The same of all units in C. */
static inline EC_UNUSED void ec_depthwise_c_neon(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, const ec_depthwise_sizes *n,
                                                 int32_t rounding) {
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int32_t channels = n->channels, pixels = n->pixels, kernel_w = n->kernel_w;
    const int32_t taps = n->kernel_h * kernel_w;
    for (int32_t at = 0; at < n->rows * pixels * channels; ++at) {
        const int32_t c = at % channels, pixel = at / channels;
        const int32_t *const unit = stream + c / 16 * (taps * 4 + 16 * EC_SCALE_WORDS(rounding));
        const int32_t *const scales = unit + taps * 4 + c % 16;
        const int8_t *const from = x + pixel / pixels * n->row_step + pixel % pixels * n->step + c;
        uint32_t sum = (uint32_t)scales[0];
        for (int32_t k = 0; k < taps; ++k) {
            const int32_t weight = ((const int8_t *)unit)[k * 16 + c % 16];
            sum += (uint32_t)(from[k / kernel_w * n->pitch + k % kernel_w * n->tap] * weight);
        }
        out[at] = ec_result_c_64(sum, scales + 16, 16, rounding, limits);
    }
}

/* All units of the stream. */
static inline EC_INLINE void ec_depthwise_all_neon(int8_t *out, const int8_t *x,
                                                   const int32_t *stream,
                                                   const ec_depthwise_sizes *n, int32_t rounding) {
#if EC_NEON
    const ec_depthwise_sizes own = *n; /* out, which is bytes, may be *n for all compilers know */
    const int32_t unit = own.kernel_h * own.kernel_w * 4 + 16 * EC_SCALE_WORDS(rounding);
    const int32_t channels = own.channels;
    int32_t c = 0;
    for (; c + 16 <= channels; c += 16, stream += unit) {
        ec_depthwise_unit_neon(out + c, x + c, stream, &own, 16, rounding);
    }
    if (channels - c == 8) {
        ec_depthwise_unit_neon(out + c, x + c, stream, &own, 8, rounding);
    } else if (c < channels) {
        ec_depthwise_unit_neon(out + c, x + c, stream, &own, channels - c, rounding);
    }
#else
    ec_depthwise_c_neon(out, x, stream, n, rounding);
#endif
}

/* out[h][p][c] for `rows` of `pixels` and all channels: int8 of the rescaled sum over kh, kw of x[h *
 * row_step + p * step + kh * pitch + kw * tap + c] * w[kh][kw][c] + bias[c]. out and x must not
 * overlap. By gemmlowp's rounding. */
static EC_KERNEL void ec_depthwise_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                           const ec_depthwise_sizes *n) {
    if (n->zero_point == -128 && n->maximum == 127) {
        ec_depthwise_all_neon(out, x, stream, n, EC_ROUND_TFLM_RELU);
    } else {
        ec_depthwise_all_neon(out, x, stream, n, EC_ROUND_TFLM);
    }
}

/* The same by ONNX Runtime's rounding. */
static EC_KERNEL void ec_depthwise_onnx_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                                const ec_depthwise_sizes *n) {
    ec_depthwise_all_neon(out, x, stream, n, EC_ROUND_ONNX);
}

/* The same by TFLite's single rounding. */
static EC_KERNEL void ec_depthwise_single_s8_neon(int8_t *out, const int8_t *x,
                                                  const int32_t *stream,
                                                  const ec_depthwise_sizes *n) {
    ec_depthwise_all_neon(out, x, stream, n, EC_ROUND_SINGLE);
}

#endif /* EC_AARCH64_DEPTHWISE_S8_H */
