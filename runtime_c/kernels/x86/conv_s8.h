/* Convolutions and dense of int8 on x86: tiles of pixels and channels whose sums stay in registers.
 *
 * A stream holds units of as many channels as a vector has lanes, the last one filled with zeros. Of each
 * unit: for each row of the window, groups of four inputs, with the weights of each channel; then biases
 * and rescaling factors. The last group of a row ends with the row: inputs that were in the previous
 * group have weights of 0, so no byte outside the row is read. With VNNI the four weights of a channel
 * are adjacent, and 128 times their sum is subtracted from the bias, since 128 is added to inputs; else
 * two of each channel are adjacent.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_X86_CONV_S8_H
#define EC_X86_CONV_S8_H

#include "kernels/common/product_sizes.h"
#include "kernels/x86/base_s8.h"

/* Pixel p, a constant, of up to sixteen from `at` on: by sums that x86 can address, so that few registers
 * suffice. by: multiples 1, 3, 5, 7 and 9 of the step, opaque to the compiler. */
static inline EC_INLINE const int8_t *ec_pixel_x86(const int8_t *at, const int8_t *nine,
                                                   const ptrdiff_t *by, int32_t p) {
    switch (p) {
    case 0:
        return at;
    case 1:
        return at + by[0];
    case 2:
        return at + by[0] * 2;
    case 3:
        return at + by[1];
    case 4:
        return at + by[0] * 4;
    case 5:
        return at + by[2];
    case 6:
        return at + by[1] * 2;
    case 7:
        return at + by[3];
    case 8:
        return at + by[0] * 8;
    case 9:
        return nine;
    case 10:
        return at + by[2] * 2;
    case 11:
        return nine + by[0] * 2;
    case 12:
        return at + by[1] * 4;
    case 13:
        return nine + by[0] * 4;
    case 14:
        return at + by[3] * 2;
    default:
        return nine + by[1] * 2;
    }
}

/* A tile of `units` units: stored from out on, where `left` channels are; units, n->wide and
 * n->rounding are constants. x: copied inputs, of a single pixel those themselves. */
static inline EC_INLINE void ec_conv_tile_s8_x86(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, const ec_tile_sizes *n,
                                                 int32_t left, int32_t units) {
#if EC_X86_LANES
    const int32_t lanes = EC_X86_LANES, kernel_h = n->kernel_h, run = n->run, step = n->step;
    const int32_t wide = n->wide, rounding = n->rounding;
    const int32_t groups = (run + 3) >> 2, bytes = wide > 1 ? EC_X86_BYTES : 1;
    const int32_t weights = kernel_h * groups * lanes;
    const int32_t unit = weights + lanes * EC_SCALE_WORDS(rounding);
    const int32_t *w = stream;
    EC_V sums[EC_X86_WIDEST][EC_X86_UNITS];
    ptrdiff_t by[5] = { step, 3 * step, 5 * step, 7 * step, 9 * step };
    EC_STRAIGHT
    for (int32_t i = 0; i < 5; ++i) {
        EC_X86_NEW(by[i]);
    }
    EC_STRAIGHT_16
    for (int32_t p = 0; p < wide; ++p) {
        EC_STRAIGHT
        for (int32_t u = 0; u < units; ++u) {
            sums[p][u] = EC_V_LOAD(stream + u * unit + weights);
        }
    }
    for (int32_t kh = 0; kh < kernel_h; ++kh) {
        const int8_t *const row = x + kh * n->pitch;
        for (int32_t g = 0; g < groups; ++g, w += lanes) {
            const int8_t *four = row + (4 * g < run - 4 ? 4 * g : run - 4) * bytes;
            const EC_V raw = EC_V_RAW(four);
            EC_X86_NEW(four);
            const int8_t *const nine = four + by[4];
            EC_STRAIGHT
            for (int32_t i = 0; i < EC_X86_PARTS; ++i) {
                EC_V own[EC_X86_UNITS];
                EC_STRAIGHT
                for (int32_t u = 0; u < units; ++u) {
                    own[u] = EC_V_WEIGHTS(w + u * unit, i);
                }
                EC_STRAIGHT_16
                for (int32_t p = 0; p < wide; ++p) {
                    const EC_V inputs = wide > 1 ? EC_V_PART(ec_pixel_x86(four, nine, by, p), i)
                                                 : EC_V_RAW_PART(raw, i);
                    EC_STRAIGHT
                    for (int32_t u = 0; u < units; ++u) {
                        sums[p][u] = EC_V_DOT(sums[p][u], inputs, own[u]);
                    }
                }
            }
        }
    }
    EC_STRAIGHT
    for (int32_t u = 0; u < units; ++u) {
        EC_V scales[5];
        ec_scales_x86(scales, stream + u * unit + weights + lanes, rounding);
        EC_STRAIGHT_16
        for (int32_t p = 0; p < wide; ++p) {
            ec_store_x86(out + (p * n->channels + u * lanes) * EC_RESULT_BYTES(rounding),
                         sums[p][u], scales, rounding, n->limits, left - u * lanes);
        }
    }
#else
    (void)out, (void)x, (void)stream, (void)n, (void)left, (void)units;
#endif
}

/* The pixels of a tile, all channels, in at most `most` units, a constant. */
static inline EC_INLINE void ec_conv_pixels_s8_x86(int8_t *out, const int8_t *x,
                                                   const int32_t *stream, const ec_tile_sizes *n,
                                                   int32_t most) {
#if EC_X86_LANES
    const int32_t lanes = EC_X86_LANES, channels = n->channels;
    const int32_t unit = lanes * (n->kernel_h * ((n->run + 3) >> 2) + EC_SCALE_WORDS(n->rounding));
    int32_t o = 0;
    for (; most >= EC_X86_UNITS && o + (EC_X86_UNITS - 1) * lanes < channels;
         o += EC_X86_UNITS * lanes) {
        ec_conv_tile_s8_x86(out + o * EC_RESULT_BYTES(n->rounding), x, stream, n, channels - o,
                            EC_X86_UNITS);
        stream += EC_X86_UNITS * unit;
    }
    out += o * EC_RESULT_BYTES(n->rounding);
    if (EC_X86_UNITS > 3 && most > 2 && o + 2 * lanes < channels) {
        ec_conv_tile_s8_x86(out, x, stream, n, channels - o, 3);
    } else if (EC_X86_UNITS > 2 && most > 1 && o + lanes < channels) {
        ec_conv_tile_s8_x86(out, x, stream, n, channels - o, 2);
    } else if (o < channels) {
        ec_conv_tile_s8_x86(out, x, stream, n, channels - o, 1);
    }
#else
    (void)out, (void)x, (void)stream, (void)n, (void)most;
#endif
}

/* All pixels from p on, `wide` at a time: their inputs are copied first, if there is room. Returns the
 * first remaining pixel. Eight are split into four and four, not six and two. one: a tile of one pixel.
 */
static inline EC_INLINE int32_t ec_conv_run_s8_x86(int8_t *out, const int8_t *x,
                                                   const int32_t *stream, const ec_tile_sizes *one,
                                                   int32_t p, int32_t pixels, int32_t wide,
                                                   int32_t most) {
#if EC_X86_LANES
    EC_V moved[EC_X86_MOVED / sizeof(EC_V)];
    const int32_t length = (wide - 1) * one->step + one->run;
    const int32_t vectors = (length + EC_X86_MOVE - 1) / EC_X86_MOVE;
    const int32_t size = (int32_t)sizeof(EC_V);
    ec_tile_sizes n = *one;
    n.wide = wide;
    n.pitch = vectors * size;
    n.step = one->step * EC_X86_BYTES;
    if (n.kernel_h * vectors * size > EC_X86_MOVED) {
        return p;
    }
    for (; p + wide <= pixels && (wide != 6 || pixels - p != 8); p += wide) {
        for (int32_t kh = 0; kh < n.kernel_h; ++kh) {
            const int8_t *const row = x + kh * one->pitch + p * one->step;
            int32_t v = 0;
            for (; (v + 1) * EC_X86_MOVE <= length; ++v) {
                EC_V_MOVE(moved + kh * vectors + v, row + v * EC_X86_MOVE);
            }
            if (v < vectors) {
                EC_V_MOVE_PART(moved + kh * vectors + v, row + v * EC_X86_MOVE,
                               length - v * EC_X86_MOVE);
            }
        }
        ec_conv_pixels_s8_x86(out + p * n.channels * EC_RESULT_BYTES(n.rounding),
                              (const int8_t *)moved, stream, &n, most);
    }
#else
    (void)out, (void)x, (void)stream, (void)one, (void)pixels, (void)wide, (void)most;
#endif
    return p;
}

/* The same in C, for streams of `lanes`. */
static inline EC_UNUSED void ec_conv_c_x86(int8_t *out, const int8_t *x, const int32_t *stream,
                                           const ec_conv_sizes *n, int32_t rounding,
                                           int32_t lanes) {
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int32_t run = n->kernel_w * n->in_channels, channels = n->channels;
    const int32_t groups = (run + 3) >> 2;
    const int32_t weights = n->kernel_h * groups * lanes;
    const int32_t together = lanes == 16 ? 4 : 2; /* weights of a channel */
    for (int32_t at = 0; at < n->pixels * channels; ++at) {
        const int32_t o = at % channels, lane = o % lanes;
        const int32_t *const unit =
            stream + o / lanes * (weights + lanes * EC_SCALE_WORDS(rounding));
        const int8_t *w = (const int8_t *)unit + lane * together;
        uint32_t sum = (uint32_t)unit[weights + lane];
        for (int32_t g = 0; g < n->kernel_h * groups; ++g) {
            const int32_t begin = g % groups * 4 < run - 4 ? g % groups * 4 : run - 4;
            const int8_t *const four = x + g / groups * n->pitch + at / channels * n->step + begin;
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

/* All pixels, the most first that have their sums in registers; in C if vectors are of other than
 * `lanes`. */
static inline EC_INLINE void ec_conv_s8_x86(int8_t *out, const int8_t *x, const int32_t *stream,
                                            const ec_conv_sizes *n, int32_t rounding,
                                            int32_t lanes) {
#if EC_X86_LANES
    if (lanes == EC_X86_LANES) {
        const int32_t pixels = n->pixels, channels = n->channels, step = n->step;
        const ec_tile_sizes one = { n->kernel_h, n->kernel_w * n->in_channels,
                                    n->pitch,    step,
                                    channels,    1,
                                    rounding,    { n->zero_point, n->minimum, n->maximum } };
        int32_t p = 0;
        if (channels <= lanes) {
            p = ec_conv_run_s8_x86(out, x, stream, &one, p, pixels, EC_X86_WIDEST, 1);
        }
        if (lanes == 16 && channels <= 3 * lanes) {
            p = ec_conv_run_s8_x86(out, x, stream, &one, p, pixels, 8, 3);
        } else if (lanes == 16) {
            p = ec_conv_run_s8_x86(out, x, stream, &one, p, pixels, 6, EC_X86_UNITS);
        }
        p = ec_conv_run_s8_x86(out, x, stream, &one, p, pixels, 4, EC_X86_UNITS);
        p = ec_conv_run_s8_x86(out, x, stream, &one, p, pixels, 2, EC_X86_UNITS);
        for (; p < pixels; ++p) {
            ec_conv_pixels_s8_x86(out + p * channels * EC_RESULT_BYTES(rounding), x + p * step,
                                  stream, &one, EC_X86_UNITS);
        }
        return;
    }
#endif
    ec_conv_c_x86(out, x, stream, n, rounding, lanes);
}

#define EC_OF(name) name##_vnni
#define EC_LANES 16
#include "kernels/x86/conv_s8.inc"

#define EC_OF(name) name##_avx2
#define EC_LANES 8
#include "kernels/x86/conv_s8.inc"

#endif /* EC_X86_CONV_S8_H */
