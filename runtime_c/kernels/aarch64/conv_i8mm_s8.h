/* Convolutions and dense of int8 on 64-bit Arm with SMMLA: tiles of up to four pixels and sixteen
 * channels, whose sums stay in registers, four of two pixels and two channels in each.
 *
 * A stream holds units of sixteen channels, the last one filled with zeros. Of each unit: for each row of
 * the window, groups of eight inputs, with the eight weights of each channel; then biases and rescaling
 * factors. The last group of a row ends with the row: inputs that were in the previous group have weights
 * of 0, so no byte outside the row is read.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_CONV_I8MM_S8_H
#define EC_AARCH64_CONV_I8MM_S8_H

#include "kernels/aarch64/base_s8.h"
#include "kernels/common/product_sizes.h"

/* The lower halves of two vectors, or the upper ones. */
static inline EC_INLINE EC_V4 ec_halves_neon(EC_V4 a, EC_V4 b, int32_t upper) {
#if EC_NEON
    const int64x2_t first = vreinterpretq_s64_s32(a), second = vreinterpretq_s64_s32(b);
    return vreinterpretq_s32_s64(upper ? vtrn2q_s64(first, second) : vtrn1q_s64(first, second));
#else
    (void)b, (void)upper;
    return a;
#endif
}

/* The products of two times eight inputs by two times eight weights, added to four sums. As assembly,
 * since gcc 12 copies some of the intrinsic's sums. */
static inline EC_INLINE EC_V4 ec_mul_add_i8mm(EC_V4 sums, EC_B16 in, EC_B16 weights) {
#if EC_I8MM && !defined(EC_NO_ASM)
    __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(in), "w"(weights));
    return sums;
#elif EC_I8MM
    return vmmlaq_s32(sums, in, weights);
#else
    (void)in, (void)weights;
    return sums;
#endif
}

/* The products of eight inputs of `pairs` times two pixels by the weights at w of twice `units` pairs of
 * channels, each added to the sums of its pair; both constants. */
static inline EC_INLINE void ec_add_products_i8mm(EC_V4 sums[2][8], const EC_V4 *in,
                                                  const int8_t *w, int32_t pairs, int32_t units) {
#if EC_I8MM
    EC_STRAIGHT
    for (int32_t c = 0; c < 2 * units; ++c) {
        const int8x16_t weights = vld1q_s8(w + 16 * c);
        EC_STRAIGHT
        for (int32_t p = 0; p < pairs; ++p) {
            sums[p][c] = ec_mul_add_i8mm(sums[p][c], vreinterpretq_s8_s32(in[p]), weights);
        }
    }
#else
    (void)sums, (void)in, (void)w, (void)pairs, (void)units;
#endif
}

/* `wide` pixels of `units` vectors of channels of one unit, both constants.
 * Returns the end of the unit. */
static inline EC_INLINE const int32_t *
ec_conv_tile_i8mm(int8_t *out, const int8_t *x, const int32_t *stream, const ec_conv_sizes *n,
                  int32_t left, int32_t rounding, int32_t wide, int32_t units) {
#if EC_I8MM
    const int32_t run = n->kernel_w * n->in_channels;
    const ptrdiff_t step = n->step, channels = n->channels;
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int8_t *w = (const int8_t *)stream;
    const int32_t *const scales = stream + n->kernel_h * ((run + 7) >> 3) * 32;
    const int32_t pairs = (wide + 1) / 2;
    const ptrdiff_t other = wide > 1 ? step : 0; /* a single pixel is its own neighbour */
    int32x4_t sums[2][8], low[2], high[2], results[4];
    EC_STRAIGHT
    for (int32_t c = 0; c < 8; ++c) {
        const int32x4_t bias = vld1q_s32(scales + c / 2 * 4);
        sums[0][c] = ec_halves_neon(bias, bias, c % 2);
        sums[1][c] = sums[0][c];
    }
    for (int32_t kh = 0; kh < n->kernel_h; ++kh) {
        const int8_t *row = x + kh * n->pitch;
        int32_t more = run;
        for (; more >= 16; more -= 16, row += 16, w += 256) {
            EC_STRAIGHT
            for (int32_t p = 0; p < pairs; ++p) {
                const int8_t *const at = row + 2 * p * step;
                const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(at));
                const int32x4_t b = vreinterpretq_s32_s8(vld1q_s8(at + other));
                low[p] = ec_halves_neon(a, b, 0);
                high[p] = ec_halves_neon(a, b, 1);
            }
            ec_add_products_i8mm(sums, low, w, pairs, units);
            ec_add_products_i8mm(sums, high, w + 128, pairs, units);
        }
        for (; more > 0; more -= 8, row += 8, w += 128) {
            const int8_t *const group = row + (more < 8 ? more - 8 : 0);
            EC_STRAIGHT
            for (int32_t p = 0; p < pairs; ++p) {
                const int8_t *const at = group + 2 * p * step;
                low[p] = vreinterpretq_s32_s8(vcombine_s8(vld1_s8(at), vld1_s8(at + other)));
            }
            ec_add_products_i8mm(sums, low, w, pairs, units);
        }
    }
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        EC_STRAIGHT
        for (int32_t u = 0; u < 4; ++u) {
            const int32x4_t a = sums[p / 2][2 * u], b = sums[p / 2][2 * u + 1];
            results[u] = ec_halves_neon(a, b, p % 2);
            if (u < units) {
                results[u] = ec_rescale_neon(results[u], scales + 16 + 4 * u, 16, rounding);
            }
        }
        ec_store_neon(
            out + p * channels,
            ec_narrow_neon(results[0], results[1], results[2], results[3], limits, rounding), left);
    }
    return scales + 16 * EC_SCALE_WORDS(rounding);
#else
    (void)out, (void)x, (void)n, (void)left, (void)rounding, (void)wide, (void)units;
    return stream;
#endif
}

#define EC_OF(name) name##_i8mm
#define EC_GROUP 8
#define EC_HAS EC_I8MM
#define EC_MOST 4
#include "kernels/aarch64/conv_s8.inc"

#endif /* EC_AARCH64_CONV_I8MM_S8_H */
