/* Convolutions and dense of int8 on x86: tiles of pixels and channels whose sums stay in registers.
 *
 * A stream holds units of as many channels as a vector has lanes, the last one filled with zeros. Of
 * each unit: for each row of the window, groups of four inputs, with the weights of each channel; then
 * biases, and what sums are rescaled by. The last group of a row ends with the row: its inputs that
 * were in the group before have weights of 0, so no byte beside the row is read. With VNNI the four
 * weights of a channel lie together, and the bias is less by 128 times their sum, since inputs are
 * more by 128; else two of each channel lie together.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_X86_CONV_S8_H
#define EC_X86_CONV_S8_H

#include "kernels/x86/base_s8.h"

/* `wide` pixels of `units` units, both constants: stored from out on, where `left` channels are. */
static inline EC_INLINE void
ec_conv_tile_s8_x86(int8_t *out, const int8_t *x, const int32_t *stream, int32_t kernel_h,
                    int32_t run, int32_t pitch, int32_t step, int32_t channels, int32_t left,
                    int32_t rounding, const int32_t *limits, int32_t wide, int32_t units) {
#if EC_X86_LANES
    const int32_t lanes = EC_X86_LANES;
    const int32_t groups = (run + 3) >> 2;
    const int32_t weights = kernel_h * groups * lanes;
    const int32_t unit = weights + lanes * EC_SCALE_WORDS(rounding);
    const int32_t *w = stream;
    EC_V sums[EC_X86_PIXELS][EC_X86_UNITS];
    EC_STRAIGHT
    for (int32_t p = 0; p < wide; ++p) {
        EC_STRAIGHT
        for (int32_t u = 0; u < units; ++u) {
            sums[p][u] = EC_V_LOAD(stream + u * unit + weights);
        }
    }
    for (int32_t kh = 0; kh < kernel_h; ++kh) {
        const int8_t *const row = x + kh * pitch;
        for (int32_t g = 0; g < groups; ++g) {
            const int8_t *const four = row + (4 * g < run - 4 ? 4 * g : run - 4);
            EC_STRAIGHT
            for (int32_t p = 0; p < wide; ++p) {
                const EC_V inputs = EC_V_FOUR(four + p * step);
                EC_STRAIGHT
                for (int32_t u = 0; u < units; ++u) {
                    sums[p][u] = EC_V_DOT(sums[p][u], inputs, w + u * unit);
                }
            }
            w += lanes;
        }
    }
    EC_STRAIGHT
    for (int32_t u = 0; u < units; ++u) {
        EC_V scales[5];
        ec_scales_x86(scales, stream + u * unit + weights + lanes, rounding);
        EC_STRAIGHT
        for (int32_t p = 0; p < wide; ++p) {
            int8_t *const at = out + (p * channels + u * lanes) * EC_RESULT_BYTES(rounding);
            if (rounding == EC_ROUND_NONE) {
                EC_V_STORE_WORDS(at, sums[p][u], left - u * lanes);
            } else {
                EC_V_STORE(at, ec_rescale_x86(sums[p][u], scales, rounding, limits),
                           left - u * lanes);
            }
        }
    }
#else
    (void)out, (void)x, (void)stream, (void)kernel_h, (void)run, (void)pitch, (void)step;
    (void)channels, (void)left, (void)rounding, (void)limits, (void)wide, (void)units;
#endif
}

/* `wide` pixels, a constant, of all channels. */
static inline EC_INLINE void ec_conv_pixels_s8_x86(int8_t *out, const int8_t *x,
                                                   const int32_t *stream, int32_t kernel_h,
                                                   int32_t run, int32_t pitch, int32_t step,
                                                   int32_t channels, int32_t rounding,
                                                   const int32_t *limits, int32_t wide) {
#if EC_X86_LANES
    const int32_t lanes = EC_X86_LANES;
    const int32_t unit = lanes * (kernel_h * ((run + 3) >> 2) + EC_SCALE_WORDS(rounding));
    int32_t o = 0;
    for (; o + (EC_X86_UNITS - 1) * lanes < channels; o += EC_X86_UNITS * lanes) {
        ec_conv_tile_s8_x86(out + o * EC_RESULT_BYTES(rounding), x, stream, kernel_h, run, pitch,
                            step, channels, channels - o, rounding, limits, wide, EC_X86_UNITS);
        stream += EC_X86_UNITS * unit;
    }
    if (EC_X86_UNITS > 3 && o + 2 * lanes < channels) {
        ec_conv_tile_s8_x86(out + o * EC_RESULT_BYTES(rounding), x, stream, kernel_h, run, pitch,
                            step, channels, channels - o, rounding, limits, wide, 3);
        return;
    }
    if (EC_X86_UNITS > 2 && o + lanes < channels) {
        ec_conv_tile_s8_x86(out + o * EC_RESULT_BYTES(rounding), x, stream, kernel_h, run, pitch,
                            step, channels, channels - o, rounding, limits, wide, 2);
        return;
    }
    if (o < channels) {
        ec_conv_tile_s8_x86(out + o * EC_RESULT_BYTES(rounding), x, stream, kernel_h, run, pitch,
                            step, channels, channels - o, rounding, limits, wide, 1);
    }
#else
    (void)out, (void)x, (void)stream, (void)kernel_h, (void)run, (void)pitch, (void)step;
    (void)channels, (void)rounding, (void)limits, (void)wide;
#endif
}

/* The same in C, for streams of `lanes`. */
static inline EC_UNUSED void ec_conv_c_x86(int8_t *out, const int8_t *x, const int32_t *stream,
                                           int32_t kernel_h, int32_t run, int32_t pitch,
                                           int32_t step, int32_t pixels, int32_t channels,
                                           int32_t rounding, const int32_t *limits, int32_t lanes) {
    const int32_t groups = (run + 3) >> 2;
    const int32_t weights = kernel_h * groups * lanes;
    const int32_t together = lanes == 16 ? 4 : 2; /* weights of a channel */
    for (int32_t at = 0; at < pixels * channels; ++at) {
        const int32_t o = at % channels, lane = o % lanes;
        const int32_t *const unit =
            stream + o / lanes * (weights + lanes * EC_SCALE_WORDS(rounding));
        const int8_t *w = (const int8_t *)unit + lane * together;
        uint32_t sum = (uint32_t)unit[weights + lane];
        for (int32_t g = 0; g < kernel_h * groups; ++g) {
            const int32_t begin = g % groups * 4 < run - 4 ? g % groups * 4 : run - 4;
            const int8_t *const four = x + g / groups * pitch + at / channels * step + begin;
            for (int32_t i = 0; i < 4; ++i) {
                const int32_t weight = w[i / together * together * lanes + i % together];
                sum += (uint32_t)((four[i] + (lanes == 16 ? 128 : 0)) * weight);
            }
            w += 4 * lanes;
        }
        if (rounding == EC_ROUND_NONE) {
            ec_store_word(out + 4 * at, (int32_t)sum);
        } else {
            out[at] = ec_result_c_x86(sum, unit + weights + lanes + lane, lanes, rounding, limits);
        }
    }
}

/* All pixels, the most first that have their sums in registers. */
static inline EC_INLINE void ec_conv_s8_x86(int8_t *out, const int8_t *x, const int32_t *stream,
                                            int32_t kernel_h, int32_t run, int32_t pitch,
                                            int32_t step, int32_t pixels, int32_t channels,
                                            int32_t rounding, const int32_t *limits) {
#if EC_X86_LANES
    int32_t p = 0;
    /* Eight are twice four, not six and two. */
    for (; p + EC_X86_PIXELS <= pixels && (EC_X86_PIXELS <= 4 || pixels - p != 8);
         p += EC_X86_PIXELS) {
        ec_conv_pixels_s8_x86(out + p * channels * EC_RESULT_BYTES(rounding), x + p * step, stream,
                              kernel_h, run, pitch, step, channels, rounding, limits,
                              EC_X86_PIXELS);
    }
    for (; EC_X86_PIXELS > 4 && p + 4 <= pixels; p += 4) {
        ec_conv_pixels_s8_x86(out + p * channels * EC_RESULT_BYTES(rounding), x + p * step, stream,
                              kernel_h, run, pitch, step, channels, rounding, limits, 4);
    }
    if (p + 2 <= pixels) {
        ec_conv_pixels_s8_x86(out + p * channels * EC_RESULT_BYTES(rounding), x + p * step, stream,
                              kernel_h, run, pitch, step, channels, rounding, limits, 2);
        p += 2;
    }
    if (p < pixels) {
        ec_conv_pixels_s8_x86(out + p * channels * EC_RESULT_BYTES(rounding), x + p * step, stream,
                              kernel_h, run, pitch, step, channels, rounding, limits, 1);
    }
#else
    (void)out, (void)x, (void)stream, (void)kernel_h, (void)run, (void)pitch, (void)step;
    (void)pixels, (void)channels, (void)rounding, (void)limits;
#endif
}

#define EC_OF(name) name##_vnni
#define EC_LANES 16
#include "kernels/x86/conv_s8.inc"

#define EC_OF(name) name##_avx2
#define EC_LANES 8
#include "kernels/x86/conv_s8.inc"

#endif /* EC_X86_CONV_S8_H */
