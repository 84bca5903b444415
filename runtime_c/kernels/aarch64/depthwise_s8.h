/* Depthwise convolutions of int8 on 64-bit Arm: sixteen channels of a pixel at a time.
 *
 * A stream holds units of sixteen channels, the last one filled with zeros: the weights of each tap as
 * bytes, none of them -128, since the products of two taps are added in 16 bits; then biases, and what
 * sums are rescaled by.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_DEPTHWISE_S8_H
#define EC_AARCH64_DEPTHWISE_S8_H

#include "kernels/aarch64/base_s8.h"

/* A pixel of a unit, of which `left` channels are there: two taps at a time. */
static inline EC_INLINE void ec_depthwise_pixel_neon(int8_t *out, const int8_t *x,
                                                     const int32_t *stream, int32_t kernel_h,
                                                     int32_t kernel_w, int32_t pitch, int32_t tap,
                                                     int32_t left, int32_t rounding,
                                                     const int32_t *limits) {
#if EC_NEON
    const int32_t taps = kernel_h * kernel_w;
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
        const int8x16_t a = ec_load_neon(x + k / kernel_w * pitch + k % kernel_w * tap, left);
        int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(first));
        int16x8_t high = vmull_high_s8(a, first);
        if (next > k) {
            const int8x16_t second = vld1q_s8(w + 16 * next);
            const int8x16_t b =
                ec_load_neon(x + next / kernel_w * pitch + next % kernel_w * tap, left);
            low = vmlal_s8(low, vget_low_s8(b), vget_low_s8(second));
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
    (void)out, (void)x, (void)stream, (void)kernel_h, (void)kernel_w, (void)pitch, (void)tap;
    (void)left, (void)rounding, (void)limits;
#endif
}

/* Rows of pixels of one unit; windows of three by three have their weights in registers. */
static inline EC_INLINE void ec_depthwise_unit_neon(int8_t *restrict out, const int8_t *x,
                                                    const int32_t *stream, int32_t kernel_h,
                                                    int32_t kernel_w, int32_t pitch, int32_t tap,
                                                    int32_t row_step, int32_t rows, int32_t step,
                                                    int32_t pixels, int32_t channels, int32_t left,
                                                    int32_t rounding, const int32_t *limits) {
    for (int32_t h = 0; h < rows; ++h, x += row_step) {
        const int8_t *from = x;
        if (kernel_h == 3 && kernel_w == 3) {
            for (int32_t p = 0; p < pixels; ++p, out += channels, from += step) {
                ec_depthwise_pixel_neon(out, from, stream, 3, 3, pitch, tap, left, rounding,
                                        limits);
            }
        } else {
            for (int32_t p = 0; p < pixels; ++p, out += channels, from += step) {
                ec_depthwise_pixel_neon(out, from, stream, kernel_h, kernel_w, pitch, tap, left,
                                        rounding, limits);
            }
        }
    }
}

/* The same of all units in C. */
static inline EC_UNUSED void ec_depthwise_c_neon(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t kernel_w, int32_t pitch, int32_t tap,
                                                 int32_t row_step, int32_t rows, int32_t step,
                                                 int32_t pixels, int32_t channels, int32_t rounding,
                                                 const int32_t *limits) {
    const int32_t taps = kernel_h * kernel_w;
    for (int32_t at = 0; at < rows * pixels * channels; ++at) {
        const int32_t c = at % channels, pixel = at / channels;
        const int32_t *const unit = stream + c / 16 * (taps * 4 + 16 * EC_SCALE_WORDS(rounding));
        const int32_t *const scales = unit + taps * 4 + c % 16;
        const int8_t *const from = x + pixel / pixels * row_step + pixel % pixels * step + c;
        uint32_t sum = (uint32_t)scales[0];
        for (int32_t k = 0; k < taps; ++k) {
            const int32_t weight = ((const int8_t *)unit)[k * 16 + c % 16];
            sum += (uint32_t)(from[k / kernel_w * pitch + k % kernel_w * tap] * weight);
        }
        out[at] = ec_result_c_64(sum, scales + 16, 16, rounding, limits);
    }
}

/* All units of the stream. */
static inline EC_INLINE void ec_depthwise_all_neon(int8_t *out, const int8_t *x,
                                                   const int32_t *stream, int32_t kernel_h,
                                                   int32_t kernel_w, int32_t pitch, int32_t tap,
                                                   int32_t row_step, int32_t rows, int32_t step,
                                                   int32_t pixels, int32_t channels,
                                                   int32_t rounding, const int32_t *limits) {
#if EC_NEON
    const int32_t unit = kernel_h * kernel_w * 4 + 16 * EC_SCALE_WORDS(rounding);
    int32_t c = 0;
    for (; c + 16 <= channels; c += 16, stream += unit) {
        ec_depthwise_unit_neon(out + c, x + c, stream, kernel_h, kernel_w, pitch, tap, row_step,
                               rows, step, pixels, channels, 16, rounding, limits);
    }
    if (channels - c == 8) {
        ec_depthwise_unit_neon(out + c, x + c, stream, kernel_h, kernel_w, pitch, tap, row_step,
                               rows, step, pixels, channels, 8, rounding, limits);
    } else if (c < channels) {
        ec_depthwise_unit_neon(out + c, x + c, stream, kernel_h, kernel_w, pitch, tap, row_step,
                               rows, step, pixels, channels, channels - c, rounding, limits);
    }
#else
    ec_depthwise_c_neon(out, x, stream, kernel_h, kernel_w, pitch, tap, row_step, rows, step,
                        pixels, channels, rounding, limits);
#endif
}

/* out[h][p][c] for `rows` of `pixels` and all channels: int8 of the rescaled sum over kh, kw of x[h *
 * row_step + p * step + kh * pitch + kw * tap + c] * w[kh][kw][c] + bias[c]. out and x must not
 * overlap. By gemmlowp's rounding. */
static EC_KERNEL void ec_depthwise_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                           int32_t kernel_h, int32_t kernel_w, int32_t pitch,
                                           int32_t tap, int32_t row_step, int32_t rows,
                                           int32_t step, int32_t pixels, int32_t channels,
                                           int32_t zero_point, int32_t minimum, int32_t maximum) {
    const int32_t limits[3] = { zero_point, minimum, maximum };
    if (zero_point == -128 && maximum == 127) {
        ec_depthwise_all_neon(out, x, stream, kernel_h, kernel_w, pitch, tap, row_step, rows, step,
                              pixels, channels, EC_ROUND_TFLM_RELU, limits);
    } else {
        ec_depthwise_all_neon(out, x, stream, kernel_h, kernel_w, pitch, tap, row_step, rows, step,
                              pixels, channels, EC_ROUND_TFLM, limits);
    }
}

/* The same by ONNX Runtime's rounding. */
static EC_KERNEL void ec_depthwise_onnx_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                                int32_t kernel_h, int32_t kernel_w, int32_t pitch,
                                                int32_t tap, int32_t row_step, int32_t rows,
                                                int32_t step, int32_t pixels, int32_t channels,
                                                int32_t zero_point, int32_t minimum,
                                                int32_t maximum) {
    const int32_t limits[3] = { zero_point, minimum, maximum };
    ec_depthwise_all_neon(out, x, stream, kernel_h, kernel_w, pitch, tap, row_step, rows, step,
                          pixels, channels, EC_ROUND_ONNX, limits);
}

/* The same by TFLite's single rounding. */
static EC_KERNEL void
ec_depthwise_single_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream, int32_t kernel_h,
                            int32_t kernel_w, int32_t pitch, int32_t tap, int32_t row_step,
                            int32_t rows, int32_t step, int32_t pixels, int32_t channels,
                            int32_t zero_point, int32_t minimum, int32_t maximum) {
    const int32_t limits[3] = { zero_point, minimum, maximum };
    ec_depthwise_all_neon(out, x, stream, kernel_h, kernel_w, pitch, tap, row_step, rows, step,
                          pixels, channels, EC_ROUND_SINGLE, limits);
}

#endif /* EC_AARCH64_DEPTHWISE_S8_H */
