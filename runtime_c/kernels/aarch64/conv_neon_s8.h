/* Convolutions and dense of int8 on 64-bit Arm without SDOT: tiles of up to four pixels and four
 * channels, whose sums stay in registers, four of each until they are added.
 *
 * A stream holds units of four channels, the last one filled with zeros. Of each unit: for each row of
 * the window, groups of sixteen inputs, with the weights of one channel after the other; then biases and
 * rescaling factors. The last group of a row ends with the row: inputs that were in the previous group
 * have weights of 0, so no byte outside the row is read. Two products are added in 16 bits: no two
 * weights of a channel that are eight apart in a group are both -128.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_CONV_NEON_S8_H
#define EC_AARCH64_CONV_NEON_S8_H

#include "kernels/aarch64/base_s8.h"
#include "kernels/common/product_sizes.h"

/* The products of sixteen inputs by the weights of four channels, added to four sums of each; by
 * EC_MUL_NEON they are the first ones. As assembly, since gcc 12 copies sums, and spills some. */
#if defined(__aarch64__) && defined(__GNUC__) && !defined(EC_NO_ASM)
#define EC_MUL_ADD_NEON(sums, x, w)                                                             \
    do {                                                                                        \
        int16x8_t a, b, c, d;                                                                   \
        __asm__("smull %4.8h, %8.8b, %9.8b\n\tsmull %5.8h, %8.8b, %10.8b\n\t"                   \
                "smull %6.8h, %8.8b, %11.8b\n\tsmull %7.8h, %8.8b, %12.8b\n\t"                  \
                "smlal2 %4.8h, %8.16b, %9.16b\n\tsmlal2 %5.8h, %8.16b, %10.16b\n\t"             \
                "smlal2 %6.8h, %8.16b, %11.16b\n\tsmlal2 %7.8h, %8.16b, %12.16b\n\t"            \
                "sadalp %0.4s, %4.8h\n\tsadalp %1.4s, %5.8h\n\t"                                \
                "sadalp %2.4s, %6.8h\n\tsadalp %3.4s, %7.8h"                                    \
                : "+w"((sums)[0]), "+w"((sums)[1]), "+w"((sums)[2]), "+w"((sums)[3]), "=&w"(a), \
                  "=&w"(b), "=&w"(c), "=&w"(d)                                                  \
                : "w"(x), "w"((w)[0]), "w"((w)[1]), "w"((w)[2]), "w"((w)[3]));                  \
    } while (0)
#define EC_MUL_NEON(sums, x, w)                                                           \
    do {                                                                                  \
        int16x8_t a, b, c, d;                                                             \
        __asm__("smull %4.8h, %8.8b, %9.8b\n\tsmull %5.8h, %8.8b, %10.8b\n\t"             \
                "smull %6.8h, %8.8b, %11.8b\n\tsmull %7.8h, %8.8b, %12.8b\n\t"            \
                "smlal2 %4.8h, %8.16b, %9.16b\n\tsmlal2 %5.8h, %8.16b, %10.16b\n\t"       \
                "smlal2 %6.8h, %8.16b, %11.16b\n\tsmlal2 %7.8h, %8.16b, %12.16b\n\t"      \
                "saddlp %0.4s, %4.8h\n\tsaddlp %1.4s, %5.8h\n\t"                          \
                "saddlp %2.4s, %6.8h\n\tsaddlp %3.4s, %7.8h"                              \
                : "=&w"((sums)[0]), "=&w"((sums)[1]), "=&w"((sums)[2]), "=&w"((sums)[3]), \
                  "=&w"(a), "=&w"(b), "=&w"(c), "=&w"(d)                                  \
                : "w"(x), "w"((w)[0]), "w"((w)[1]), "w"((w)[2]), "w"((w)[3]));            \
    } while (0)
#else
#define EC_MUL_ADD_NEON(sums, x, w)                                              \
    do {                                                                         \
        EC_STRAIGHT                                                              \
        for (int32_t o = 0; o < 4; ++o) {                                        \
            const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8((w)[o])); \
            (sums)[o] = vpadalq_s16((sums)[o], vmlal_high_s8(low, (x), (w)[o])); \
        }                                                                        \
    } while (0)
#define EC_MUL_NEON(sums, x, w)                                                  \
    do {                                                                         \
        EC_STRAIGHT                                                              \
        for (int32_t o = 0; o < 4; ++o) {                                        \
            const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8((w)[o])); \
            (sums)[o] = vpaddlq_s16(vmlal_high_s8(low, (x), (w)[o]));            \
        }                                                                        \
    } while (0)
#endif

/* Sixteen inputs of `wide` pixels by the weights at w; `wide` and `first` are constants. */
static inline EC_INLINE void ec_conv_round_neon(EC_V4 (*sums)[4], const int8_t *x, const int8_t *w,
                                                ptrdiff_t step, int32_t wide, int32_t first) {
#if EC_NEON
    int8x16_t weights[4];
    EC_STRAIGHT
    for (int32_t o = 0; o < 4; ++o) {
        weights[o] = vld1q_s8(w + 16 * o);
    }
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        const int8x16_t in = vld1q_s8(x + p * step);
        if (first) {
            EC_MUL_NEON(sums[p], in, weights);
        } else {
            EC_MUL_ADD_NEON(sums[p], in, weights);
        }
    }
#else
    (void)sums, (void)x, (void)w, (void)step, (void)wide, (void)first;
#endif
}

/* `wide` pixels of a unit; `wide` is a constant. Returns the end of the unit. */
static inline EC_INLINE const int32_t *ec_conv_tile_neon(int8_t *out, const int8_t *x,
                                                         const int32_t *stream,
                                                         const ec_conv_sizes *n, int32_t left,
                                                         int32_t rounding, int32_t wide) {
#if EC_NEON
    const int32_t run = n->kernel_w * n->in_channels;
    const ptrdiff_t step = n->step, channels = n->channels;
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int8_t *w = (const int8_t *)stream;
    int32x4_t sums[4][4], results[4];
    if (n->kernel_h ==
        1) { /* few rounds: the first one starts the sums, the last one ends with the row */
        ec_conv_round_neon(sums, x, w, step, wide, 1);
        w += 64;
        for (int32_t i = 16; i < run - 16; i += 16, w += 64) {
            ec_conv_round_neon(sums, x + i, w, step, wide, 0);
        }
        if (run > 16) {
            ec_conv_round_neon(sums, x + run - 16, w, step, wide, 0);
            w += 64;
        }
    } else {
        EC_STRAIGHT
        for (int32_t p = 0; p < wide; ++p) {
            EC_STRAIGHT
            for (int32_t o = 0; o < 4; ++o) {
                sums[p][o] = vdupq_n_s32(0);
            }
        }
        for (int32_t kh = 0; kh < n->kernel_h; ++kh) {
            const int8_t *row = x + kh * n->pitch;
            for (int32_t more = run; more > 0; more -= 16, row += 16, w += 64) {
                ec_conv_round_neon(sums, row + (more < 16 ? more - 16 : 0), w, step, wide, 0);
            }
        }
    }
    stream = (const int32_t *)w; /* biases, then rescaling factors */
    EC_STRAIGHT
    for (int32_t p = 0; p < 4; ++p) {
        results[p] = vdupq_n_s32(0);
        if (p < wide) {
            const int32x4_t all =
                vpaddq_s32(vpaddq_s32(sums[p][0], sums[p][1]), vpaddq_s32(sums[p][2], sums[p][3]));
            results[p] =
                ec_rescale_neon(vaddq_s32(all, vld1q_s32(stream)), stream + 4, 4, rounding);
        }
    }
    {
        const int8x16_t bytes =
            ec_narrow_neon(results[0], results[1], results[2], results[3], limits, rounding);
        const int32x4_t words = vreinterpretq_s32_s8(bytes);
        if (left >= 4) {
            ec_store_word(out, vgetq_lane_s32(words, 0));
            if (wide > 1) {
                ec_store_word(out + channels, vgetq_lane_s32(words, 1));
            }
            if (wide > 2) {
                ec_store_word(out + 2 * channels, vgetq_lane_s32(words, 2));
                ec_store_word(out + 3 * channels, vgetq_lane_s32(words, 3));
            }
        } else {
            int8_t all[16];
            vst1q_s8(all, bytes);
            for (int32_t i = 0; i < wide * left; ++i) {
                out[i / left * channels + i % left] = all[i / left * 4 + i % left];
            }
        }
    }
#else
    (void)out, (void)x, (void)n, (void)left, (void)wide;
#endif
    return stream + 4 * EC_SCALE_WORDS(rounding);
}

/* `wide` pixels, a constant, of all channels. */
static inline EC_INLINE void ec_conv_pixels_neon(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, const ec_conv_sizes *n,
                                                 int32_t rounding, int32_t wide) {
    for (int32_t o = 0; o < n->channels; o += 4) {
        stream = ec_conv_tile_neon(out + o, x, stream, n, n->channels - o, rounding, wide);
    }
}

/* The same in C. */
static inline EC_UNUSED void ec_conv_c_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                            const ec_conv_sizes *n, int32_t rounding) {
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int32_t run = n->kernel_w * n->in_channels, channels = n->channels;
    const int32_t groups = (run + 15) >> 4;
    const int32_t weights = n->kernel_h * groups * 16;
    for (int32_t at = 0; at < n->pixels * channels; ++at) {
        const int32_t o = at % channels, lane = o % 4;
        const int32_t *const unit = stream + o / 4 * (weights + 4 * EC_SCALE_WORDS(rounding));
        const int8_t *w = (const int8_t *)unit + lane * 16;
        uint32_t sum = (uint32_t)unit[weights + lane];
        for (int32_t g = 0; g < n->kernel_h * groups; ++g, w += 64) {
            const int32_t begin = g % groups * 16 < run - 16 ? g % groups * 16 : run - 16;
            const int8_t *const group = x + g / groups * n->pitch + at / channels * n->step + begin;
            for (int32_t i = 0; i < 16; ++i) {
                sum += (uint32_t)(group[i] * w[i]);
            }
        }
        out[at] = ec_result_c_64(sum, unit + weights + 4 + lane, 4, rounding, limits);
    }
}

/* All pixels, four at a time. */
static inline EC_INLINE void ec_conv_all_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                              const ec_conv_sizes *n, int32_t rounding) {
#if EC_NEON
    const ec_conv_sizes own = *n; /* stores of bytes may change *n, for all that compilers know */
    const int32_t channels = own.channels, step = own.step;
    int32_t pixels = own.pixels;
    for (; pixels >= 4; pixels -= 4, out += 4 * channels, x += 4 * step) {
        ec_conv_pixels_neon(out, x, stream, &own, rounding, 4);
    }
    if (pixels >= 2) {
        ec_conv_pixels_neon(out, x, stream, &own, rounding, 2);
        pixels -= 2, out += 2 * channels, x += 2 * step;
    }
    if (pixels > 0) {
        ec_conv_pixels_neon(out, x, stream, &own, rounding, 1);
    }
#else
    ec_conv_c_neon(out, x, stream, n, rounding);
#endif
}

/* out[p * channels + o] for all pixels and channels: int8 of the rescaled sum over kh, i of x[kh *
 * pitch + p * step + i] * w[o][kh][i] + bias[o], for kh < kernel_h and i < kernel_w * in_channels,
 * which are at least sixteen. Up to four pixels' inputs are read again after the first of their outputs
 * are written. By gemmlowp's rounding. */
static EC_KERNEL void ec_conv_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                      const ec_conv_sizes *n) {
    if (n->zero_point == -128 && n->maximum == 127) {
        ec_conv_all_neon(out, x, stream, n, EC_ROUND_TFLM_RELU);
    } else {
        ec_conv_all_neon(out, x, stream, n, EC_ROUND_TFLM);
    }
}

/* The same by ONNX Runtime's rounding. */
static EC_KERNEL void ec_conv_onnx_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                           const ec_conv_sizes *n) {
    ec_conv_all_neon(out, x, stream, n, EC_ROUND_ONNX);
}

/* The same by TFLite's single rounding. */
static EC_KERNEL void ec_conv_single_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                             const ec_conv_sizes *n) {
    ec_conv_all_neon(out, x, stream, n, EC_ROUND_SINGLE);
}

#endif /* EC_AARCH64_CONV_NEON_S8_H */
