/* Convolutions and dense of int8 on 64-bit Arm with SDOT: tiles of up to five pixels and sixteen
 * channels, whose sums stay in registers.
 *
 * A stream holds units of sixteen channels, the last one filled with zeros. Of each unit: for each row of
 * the window, groups of four inputs, with the four weights of each channel; then biases and rescaling
 * factors. The last group of a row ends with the row: inputs that were in the previous group have weights
 * of 0, so no byte outside the row is read.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_CONV_DOTPROD_S8_H
#define EC_AARCH64_CONV_DOTPROD_S8_H

#include "kernels/aarch64/base_s8.h"
#include "kernels/common/product_sizes.h"

/* Assembly for what gcc 12 does with many copies of registers: it loads all weights of a round before
 * it uses them. EC_LOAD_PAIR: two vectors at p + offset, a constant. EC_DOT_PAIR: sums of four inputs,
 * `lane` of x, by the weights of four channels, twice. EC_DOT_4: both of them for four pixels. */
#if defined(__ARM_FEATURE_DOTPROD) && defined(__GNUC__) && !defined(EC_NO_ASM)
#define EC_LOAD_PAIR(a, b, p, offset)         \
    __asm__ volatile("ldp %q0, %q1, [%2, %3]" \
                     : "=w"(a), "=w"(b)       \
                     : "r"(p), "i"(offset), "m"(*(const int8_t(*)[256])(p)))
#define EC_DOT_PAIR(sums, a, b, x, lane)                                     \
    __asm__("sdot %0.4s, %2.16b, %4.4b[%5]\n\tsdot %1.4s, %3.16b, %4.4b[%5]" \
            : "+w"((sums)[0]), "+w"((sums)[1])                               \
            : "w"(a), "w"(b), "w"(x), "i"(lane))
#define EC_DOT_4(sums, u, a, b, x, p, offset, lane)                                               \
    __asm__("ldp %q8, %q9, [%14, %15]\n\t"                                                        \
            "sdot %0.4s, %8.16b, %10.4b[%16]\n\tsdot %1.4s, %9.16b, %10.4b[%16]\n\t"              \
            "sdot %2.4s, %8.16b, %11.4b[%16]\n\tsdot %3.4s, %9.16b, %11.4b[%16]\n\t"              \
            "sdot %4.4s, %8.16b, %12.4b[%16]\n\tsdot %5.4s, %9.16b, %12.4b[%16]\n\t"              \
            "sdot %6.4s, %8.16b, %13.4b[%16]\n\tsdot %7.4s, %9.16b, %13.4b[%16]"                  \
            : "+w"((sums)[0][u]), "+w"((sums)[0][(u) + 1]), "+w"((sums)[1][u]),                   \
              "+w"((sums)[1][(u) + 1]), "+w"((sums)[2][u]), "+w"((sums)[2][(u) + 1]),             \
              "+w"((sums)[3][u]), "+w"((sums)[3][(u) + 1]), "=&w"(a), "=&w"(b)                    \
            : "w"((x)[0]), "w"((x)[1]), "w"((x)[2]), "w"((x)[3]), "r"(p), "i"(offset), "i"(lane), \
              "m"(*(const int8_t(*)[256])(p)))
#else
#define EC_LOAD_PAIR(a, b, p, offset) \
    ((a) = vld1q_s8((p) + (offset)), (b) = vld1q_s8((p) + (offset) + 16))
#define EC_DOT_PAIR(sums, a, b, x, lane)                       \
    ((sums)[0] = vdotq_laneq_s32((sums)[0], (a), (x), (lane)), \
     (sums)[1] = vdotq_laneq_s32((sums)[1], (b), (x), (lane)))
#define EC_DOT_4(sums, u, a, b, x, p, offset, lane)         \
    do {                                                    \
        EC_LOAD_PAIR(a, b, p, offset);                      \
        EC_DOT_PAIR((sums)[0] + (u), a, b, (x)[0], (lane)); \
        EC_DOT_PAIR((sums)[1] + (u), a, b, (x)[1], (lane)); \
        EC_DOT_PAIR((sums)[2] + (u), a, b, (x)[2], (lane)); \
        EC_DOT_PAIR((sums)[3] + (u), a, b, (x)[3], (lane)); \
    } while (0)
#endif

/* The products of a group, which is `lane` of the inputs of each pixel. */
#define EC_DOT_GROUP(lane)                                                                  \
    do {                                                                                    \
        int8x16_t weights[4];                                                               \
        if (wide == 4) {                                                                    \
            EC_DOT_4(sums, 0, weights[0], weights[1], in, w, 64 * (lane), (lane));          \
            if (units > 2) {                                                                \
                EC_DOT_4(sums, 2, weights[2], weights[3], in, w, 64 * (lane) + 32, (lane)); \
            }                                                                               \
            break;                                                                          \
        }                                                                                   \
        EC_LOAD_PAIR(weights[0], weights[1], w, 64 * (lane));                               \
        if (units > 2) {                                                                    \
            EC_LOAD_PAIR(weights[2], weights[3], w, 64 * (lane) + 32);                      \
        }                                                                                   \
        EC_STRAIGHT                                                                         \
        for (int32_t p = 0; p < wide; ++p) {                                                \
            EC_DOT_PAIR(sums[p], weights[0], weights[1], in[p], (lane));                    \
            if (units > 2) {                                                                \
                EC_DOT_PAIR(sums[p] + 2, weights[2], weights[3], in[p], (lane));            \
            }                                                                               \
        }                                                                                   \
    } while (0)

/* `wide` pixels of `units` vectors of channels of one unit, both constants.
 * Returns the end of the unit. */
static inline EC_INLINE const int32_t *
ec_conv_tile_dotprod(int8_t *out, const int8_t *x, const int32_t *stream, const ec_conv_sizes *n,
                     int32_t left, int32_t rounding, int32_t wide, int32_t units) {
#if EC_DOTPROD
    const int32_t run = n->kernel_w * n->in_channels;
    const ptrdiff_t step = n->step, channels = n->channels;
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int8_t *w = (const int8_t *)stream;
    const int32_t *const scales = stream + n->kernel_h * ((run + 3) >> 2) * 16;
    int32x4_t sums[5][4];
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        EC_STRAIGHT
        for (int32_t u = 0; u < 4; ++u) {
            sums[p][u] = u < units ? vld1q_s32(scales + 4 * u) : vdupq_n_s32(0);
        }
    }
    for (int32_t kh = 0; kh < n->kernel_h; ++kh) {
        const int8_t *row = x + kh * n->pitch;
        int32_t more = run;
        int8x16_t in[5];
        for (; more >= 16; more -= 16, row += 16, w += 256) {
            EC_STRAIGHT
            for (int32_t p = 0; p < wide; ++p) {
                in[p] = vld1q_s8(row + p * step);
            }
            EC_DOT_GROUP(0);
            EC_DOT_GROUP(1);
            EC_DOT_GROUP(2);
            EC_DOT_GROUP(3);
        }
        for (; more > 0; more -= 4, row += 4, w += 64) {
            const int8_t *const four = row + (more < 4 ? more - 4 : 0);
            EC_STRAIGHT
            for (int32_t p = 0; p < wide; ++p) {
                in[p] = ec_load_four_neon(four + p * step);
            }
            EC_DOT_GROUP(0);
        }
    }
    EC_STRAIGHT
    for (int32_t u = 0; u < units; ++u) {
        EC_STRAIGHT
        for (int32_t p = 0; p < wide; ++p) {
            sums[p][u] = ec_rescale_neon(sums[p][u], scales + 16 + 4 * u, 16, rounding);
        }
    }
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        const EC_B16 result =
            ec_narrow_neon(sums[p][0], sums[p][1], sums[p][2], sums[p][3], limits, rounding);
        ec_store_neon(out + p * channels, result, left);
    }
    return scales + 16 * EC_SCALE_WORDS(rounding);
#else
    (void)out, (void)x, (void)n, (void)left, (void)rounding, (void)wide, (void)units;
    return stream;
#endif
}

#define EC_OF(name) name##_dotprod
#define EC_GROUP 4
#define EC_HAS EC_DOTPROD
#define EC_MOST 5
#include "kernels/aarch64/conv_s8.inc"

#endif /* EC_AARCH64_CONV_DOTPROD_S8_H */
