/* Convolutions and dense of int8 on 64-bit Arm with SDOT: tiles of up to five pixels and sixteen
 * channels, whose sums stay in registers.
 *
 * A stream holds units of sixteen channels, the last one filled with zeros. Of each unit: for each row
 * of the window, groups of four inputs, with the four weights of each channel; then biases, and what
 * sums are rescaled by. The last group of a row ends with the row: its inputs that were in the group
 * before have weights of 0, so no byte beside the row is read.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_CONV_DOTPROD_S8_H
#define EC_AARCH64_CONV_DOTPROD_S8_H

#include "kernels/aarch64/base_s8.h"

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

/* `wide` pixels of `units` vectors of channels of one unit, both constants. */
static inline EC_INLINE void
ec_conv_tile_dotprod(int8_t *out, const int8_t *x, const int32_t *stream, int32_t kernel_h,
                     int32_t run, int32_t pitch, int32_t step, int32_t channels, int32_t left,
                     int32_t rounding, const int32_t *limits, int32_t wide, int32_t units) {
#if EC_DOTPROD
    const int8_t *w = (const int8_t *)stream;
    const int32_t *const scales = stream + kernel_h * ((run + 3) >> 2) * 16;
    int32x4_t sums[5][4];
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        EC_STRAIGHT
        for (int32_t u = 0; u < 4; ++u) {
            sums[p][u] = u < units ? vld1q_s32(scales + 4 * u) : vdupq_n_s32(0);
        }
    }
    for (int32_t kh = 0; kh < kernel_h; ++kh) {
        const int8_t *row = x + kh * pitch;
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
#else
    (void)out, (void)x, (void)stream, (void)kernel_h, (void)run, (void)pitch, (void)step;
    (void)channels, (void)left, (void)rounding, (void)limits, (void)wide, (void)units;
#endif
}

/* Four pixels or one of the last unit, of which `left` channels are there. */
static inline EC_INLINE void ec_conv_last_dotprod(int8_t *out, const int8_t *x,
                                                  const int32_t *stream, int32_t kernel_h,
                                                  int32_t run, int32_t pitch, int32_t step,
                                                  int32_t channels, int32_t left, int32_t rounding,
                                                  const int32_t *limits, int32_t wide) {
    if (wide == 4 && left > 8) {
        ec_conv_tile_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, left, rounding,
                             limits, 4, 4);
    } else if (wide == 4) {
        ec_conv_tile_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, left, rounding,
                             limits, 4, 2);
    } else if (left > 8) {
        ec_conv_tile_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, left, rounding,
                             limits, 1, 4);
    } else {
        ec_conv_tile_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, left, rounding,
                             limits, 1, 2);
    }
}

/* One function for all tiles, since it is long: by gemmlowp's rounding. */
static EC_SHARED void ec_conv_last_tflm_dotprod(int8_t *out, const int8_t *x, const int32_t *stream,
                                                int32_t kernel_h, int32_t run, int32_t pitch,
                                                int32_t step, int32_t channels, int32_t left,
                                                const int32_t *limits, int32_t wide) {
    ec_conv_last_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, left, EC_ROUND_TFLM,
                         limits, wide);
}

/* The same by ONNX Runtime's. */
static EC_SHARED void ec_conv_last_onnx_dotprod(int8_t *out, const int8_t *x, const int32_t *stream,
                                                int32_t kernel_h, int32_t run, int32_t pitch,
                                                int32_t step, int32_t channels, int32_t left,
                                                const int32_t *limits, int32_t wide) {
    ec_conv_last_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, left, EC_ROUND_ONNX,
                         limits, wide);
}

/* The same by TFLite's single rounding. */
static EC_SHARED void ec_conv_last_single_dotprod(int8_t *out, const int8_t *x,
                                                  const int32_t *stream, int32_t kernel_h,
                                                  int32_t run, int32_t pitch, int32_t step,
                                                  int32_t channels, int32_t left,
                                                  const int32_t *limits, int32_t wide) {
    ec_conv_last_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, left,
                         EC_ROUND_SINGLE, limits, wide);
}

/* `wide` pixels, a constant, of all channels. */
static inline EC_INLINE void ec_conv_pixels_dotprod(int8_t *out, const int8_t *x,
                                                    const int32_t *stream, int32_t kernel_h,
                                                    int32_t run, int32_t pitch, int32_t step,
                                                    int32_t channels, int32_t rounding,
                                                    const int32_t *limits, int32_t wide) {
    const int32_t unit = 16 * (kernel_h * ((run + 3) >> 2) + EC_SCALE_WORDS(rounding));
    int32_t o = 0, p = 0;
    for (; o + 16 <= channels; o += 16, stream += unit) {
        ec_conv_tile_dotprod(out + o, x, stream, kernel_h, run, pitch, step, channels, 16, rounding,
                             limits, wide, 4);
    }
    for (; p < wide && o < channels; p += wide - p >= 4 ? 4 : 1) {
        if (rounding == EC_ROUND_ONNX) {
            ec_conv_last_onnx_dotprod(out + p * channels + o, x + p * step, stream, kernel_h, run,
                                      pitch, step, channels, channels - o, limits,
                                      wide - p >= 4 ? 4 : 1);
        } else if (rounding == EC_ROUND_SINGLE) {
            ec_conv_last_single_dotprod(out + p * channels + o, x + p * step, stream, kernel_h, run,
                                        pitch, step, channels, channels - o, limits,
                                        wide - p >= 4 ? 4 : 1);
        } else {
            ec_conv_last_tflm_dotprod(out + p * channels + o, x + p * step, stream, kernel_h, run,
                                      pitch, step, channels, channels - o, limits,
                                      wide - p >= 4 ? 4 : 1);
        }
    }
}

/* The same in C. */
static inline EC_UNUSED void ec_conv_c_dotprod(int8_t *out, const int8_t *x, const int32_t *stream,
                                               int32_t kernel_h, int32_t run, int32_t pitch,
                                               int32_t step, int32_t pixels, int32_t channels,
                                               int32_t rounding, const int32_t *limits) {
    const int32_t groups = (run + 3) >> 2;
    const int32_t weights = kernel_h * groups * 16;
    for (int32_t at = 0; at < pixels * channels; ++at) {
        const int32_t o = at % channels, lane = o % 16;
        const int32_t *const unit = stream + o / 16 * (weights + 16 * EC_SCALE_WORDS(rounding));
        const int8_t *w = (const int8_t *)unit + lane * 4;
        uint32_t sum = (uint32_t)unit[weights + lane];
        for (int32_t g = 0; g < kernel_h * groups; ++g, w += 64) {
            const int32_t begin = g % groups * 4 < run - 4 ? g % groups * 4 : run - 4;
            const int8_t *const four = x + g / groups * pitch + at / channels * step + begin;
            for (int32_t i = 0; i < 4; ++i) {
                sum += (uint32_t)(four[i] * w[i]);
            }
        }
        out[at] = ec_result_c_64(sum, unit + weights + 16 + lane, 16, rounding, limits);
    }
}

/* All pixels, four or five at a time. */
static inline EC_INLINE void ec_conv_all_dotprod(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t run, int32_t pitch, int32_t step,
                                                 int32_t pixels, int32_t channels, int32_t rounding,
                                                 const int32_t *limits) {
#if EC_DOTPROD
    for (; pixels >= 5 && (pixels % 4 != 0 || pixels % 5 == 0);
         pixels -= 5, out += 5 * channels, x += 5 * step) {
        ec_conv_pixels_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, rounding,
                               limits, 5);
    }
    for (; pixels >= 4; pixels -= 4, out += 4 * channels, x += 4 * step) {
        ec_conv_pixels_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, rounding,
                               limits, 4);
    }
    if (pixels >= 2) {
        ec_conv_pixels_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, rounding,
                               limits, 2);
        pixels -= 2, out += 2 * channels, x += 2 * step;
    }
    if (pixels == 1) {
        ec_conv_pixels_dotprod(out, x, stream, kernel_h, run, pitch, step, channels, rounding,
                               limits, 1);
    }
#else
    ec_conv_c_dotprod(out, x, stream, kernel_h, run, pitch, step, pixels, channels, rounding,
                      limits);
#endif
}

/* out[p * channels + o] for all pixels and channels: int8 of the rescaled sum over kh, i of x[kh *
 * pitch + p * step + i] * w[o][kh][i] + bias[o], for kh < kernel_h and i < kernel_w * in_channels,
 * which are at least four. Up to five pixels' inputs are read again after the first of their outputs
 * are written. By gemmlowp's rounding. */
static EC_KERNEL void ec_conv_s8_dotprod(int8_t *out, const int8_t *x, const int32_t *stream,
                                         int32_t kernel_h, int32_t kernel_w, int32_t in_channels,
                                         int32_t pitch, int32_t step, int32_t pixels,
                                         int32_t channels, int32_t zero_point, int32_t minimum,
                                         int32_t maximum) {
    const int32_t limits[3] = { zero_point, minimum, maximum };
    if (zero_point == -128 && maximum == 127) {
        ec_conv_all_dotprod(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                            channels, EC_ROUND_TFLM_RELU, limits);
    } else {
        ec_conv_all_dotprod(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                            channels, EC_ROUND_TFLM, limits);
    }
}

/* The same by ONNX Runtime's rounding. */
static EC_KERNEL void ec_conv_onnx_s8_dotprod(int8_t *out, const int8_t *x, const int32_t *stream,
                                              int32_t kernel_h, int32_t kernel_w,
                                              int32_t in_channels, int32_t pitch, int32_t step,
                                              int32_t pixels, int32_t channels, int32_t zero_point,
                                              int32_t minimum, int32_t maximum) {
    const int32_t limits[3] = { zero_point, minimum, maximum };
    ec_conv_all_dotprod(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                        channels, EC_ROUND_ONNX, limits);
}

/* The same by TFLite's single rounding. */
static EC_KERNEL void ec_conv_single_s8_dotprod(int8_t *out, const int8_t *x, const int32_t *stream,
                                                int32_t kernel_h, int32_t kernel_w,
                                                int32_t in_channels, int32_t pitch, int32_t step,
                                                int32_t pixels, int32_t channels,
                                                int32_t zero_point, int32_t minimum,
                                                int32_t maximum) {
    const int32_t limits[3] = { zero_point, minimum, maximum };
    ec_conv_all_dotprod(out, x, stream, kernel_h, kernel_w * in_channels, pitch, step, pixels,
                        channels, EC_ROUND_SINGLE, limits);
}

#endif /* EC_AARCH64_CONV_DOTPROD_S8_H */
