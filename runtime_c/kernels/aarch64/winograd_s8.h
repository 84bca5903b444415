/* Convolutions of int8 with windows of 3 x 3 on 64-bit Arm without SDOT, by the method of Winograd: tiles
 * of 2 x 2 outputs, whose inputs and weights are transformed, so that a tile takes 16 products for each
 * input channel, not 36. All numbers are integers: sums are exactly four times the direct ones. Source:
 * Lavin, Gray, "Fast Algorithms for Convolutional Neural Networks", section 4.1.
 *
 * A stream holds units of sixteen channels. Of each unit: for each of the 16 places in a tile, row by
 * row, and each input channel, sixteen int16, the transformed weights; then biases and rescaling factors.
 * A transformed input is at most 512, a transformed weight 1,152.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_WINOGRAD_S8_H
#define EC_AARCH64_WINOGRAD_S8_H

#include "kernels/aarch64/base_s8.h"

/* Tiles that are multiplied together. */
#define EC_TILES 4

/* The most input channels. */
#define EC_TILE_INPUTS 128

/* An image of rows + 2 by pixels + 2, its channels and the outputs', the results' zero point and limits.
 * Rows and pixels are even, of at least four tiles. */
typedef struct {
    int32_t in_channels, rows, pixels, channels;
    int32_t zero_point, minimum, maximum;
} ec_winograd_sizes;

/* Eight channels of the 4 x 4 inputs of a tile, transformed: the difference of those two apart, the sum
 * and the difference of the inner two, of columns and then of rows. */
static inline EC_INLINE void ec_winograd_in_neon(int16_t *v, const int8_t *x, int32_t pitch,
                                                 int32_t step) {
#if EC_NEON
    int16x8_t rows[4][4];
    EC_STRAIGHT
    for (int32_t j = 0; j < 4; ++j) {
        const int8x8_t a = vld1_s8(x + j * step), b = vld1_s8(x + pitch + j * step);
        const int8x8_t c = vld1_s8(x + 2 * pitch + j * step);
        const int8x8_t d = vld1_s8(x + 3 * pitch + j * step);
        rows[0][j] = vsubl_s8(c, a);
        rows[1][j] = vaddl_s8(b, c);
        rows[2][j] = vsubl_s8(c, b);
        rows[3][j] = vsubl_s8(d, b);
    }
    EC_STRAIGHT
    for (int32_t i = 0; i < 4; ++i, v += 4 * EC_TILES * 8) {
        vst1q_s16(v, vsubq_s16(rows[i][2], rows[i][0]));
        vst1q_s16(v + EC_TILES * 8, vaddq_s16(rows[i][1], rows[i][2]));
        vst1q_s16(v + 2 * EC_TILES * 8, vsubq_s16(rows[i][2], rows[i][1]));
        vst1q_s16(v + 3 * EC_TILES * 8, vsubq_s16(rows[i][3], rows[i][1]));
    }
#else
    (void)v, (void)x, (void)pitch, (void)step;
#endif
}

/* The products of two tiles by the weights a and b of sixteen channels, added to the sums of tile t and
 * the next one: of the input channel l of eight. As assembly, since gcc 12 copies sums. */
#if defined(__aarch64__) && defined(__GNUC__) && !defined(EC_NO_ASM)
#define EC_WINOGRAD_TWO(t, l)                                                                  \
    __asm__("smlal %0.4s, %8.4h, %10.h[" #l "]\n\tsmlal2 %1.4s, %8.8h, %10.h[" #l "]\n\t"      \
            "smlal %2.4s, %9.4h, %10.h[" #l "]\n\tsmlal2 %3.4s, %9.8h, %10.h[" #l "]\n\t"      \
            "smlal %4.4s, %8.4h, %11.h[" #l "]\n\tsmlal2 %5.4s, %8.8h, %11.h[" #l "]\n\t"      \
            "smlal %6.4s, %9.4h, %11.h[" #l "]\n\tsmlal2 %7.4s, %9.8h, %11.h[" #l "]"          \
            : "+w"(s[t][0]), "+w"(s[t][1]), "+w"(s[t][2]), "+w"(s[t][3]), "+w"(s[(t) + 1][0]), \
              "+w"(s[(t) + 1][1]), "+w"(s[(t) + 1][2]), "+w"(s[(t) + 1][3])                    \
            : "w"(a), "w"(b), "x"(x[t]), "x"(x[(t) + 1]))
#else
#define EC_WINOGRAD_TWO(t, l)                                               \
    do {                                                                    \
        EC_STRAIGHT                                                         \
        for (int32_t i = (t); i < (t) + 2; ++i) {                           \
            s[i][0] = vmlal_laneq_s16(s[i][0], vget_low_s16(a), x[i], (l)); \
            s[i][1] = vmlal_high_laneq_s16(s[i][1], a, x[i], (l));          \
            s[i][2] = vmlal_laneq_s16(s[i][2], vget_low_s16(b), x[i], (l)); \
            s[i][3] = vmlal_high_laneq_s16(s[i][3], b, x[i], (l));          \
        }                                                                   \
    } while (0)
#endif

/* The same of all tiles. */
#define EC_WINOGRAD_LANE(l)                                                           \
    do {                                                                              \
        const int16x8_t a = vld1q_s16(w + 16 * (l)), b = vld1q_s16(w + 16 * (l) + 8); \
        EC_WINOGRAD_TWO(0, l);                                                        \
        EC_WINOGRAD_TWO(2, l);                                                        \
    } while (0)

/* The sums of a place of all tiles over the input channels, sixteen channels of each. */
static inline EC_INLINE void ec_winograd_sums_neon(int32_t *sums, const int16_t *v,
                                                   const int16_t *w, int32_t in_channels) {
#if EC_NEON
    int32x4_t s[EC_TILES][4];
    EC_STRAIGHT
    for (int32_t t = 0; t < EC_TILES; ++t) {
        s[t][0] = s[t][1] = s[t][2] = s[t][3] = vdupq_n_s32(0);
    }
    for (; in_channels > 0; in_channels -= 8, v += 16 * EC_TILES * 8, w += 8 * 16) {
        int16x8_t x[EC_TILES];
        EC_STRAIGHT
        for (int32_t t = 0; t < EC_TILES; ++t) {
            x[t] = vld1q_s16(v + 8 * t);
        }
        EC_WINOGRAD_LANE(0);
        EC_WINOGRAD_LANE(1);
        EC_WINOGRAD_LANE(2);
        EC_WINOGRAD_LANE(3);
        EC_WINOGRAD_LANE(4);
        EC_WINOGRAD_LANE(5);
        EC_WINOGRAD_LANE(6);
        EC_WINOGRAD_LANE(7);
    }
    EC_STRAIGHT
    for (int32_t t = 0; t < EC_TILES; ++t) {
        EC_STRAIGHT
        for (int32_t o = 0; o < 4; ++o) {
            vst1q_s32(sums + 16 * t + 4 * o, s[t][o]);
        }
    }
#else
    (void)sums, (void)v, (void)w, (void)in_channels;
#endif
}

/* Four channels of the four outputs of a tile, from its sums, which lie 16 * EC_TILES apart. */
static inline EC_INLINE void ec_winograd_out_neon(EC_V4 *out, const int32_t *sums) {
#if EC_NEON
    int32x4_t upper[4], lower[4];
    EC_STRAIGHT
    for (int32_t j = 0; j < 4; ++j, sums += 16 * EC_TILES) {
        const int32x4_t b = vld1q_s32(sums + 4 * 16 * EC_TILES);
        const int32x4_t c = vld1q_s32(sums + 8 * 16 * EC_TILES);
        upper[j] = vaddq_s32(vld1q_s32(sums), vaddq_s32(b, c));
        lower[j] = vaddq_s32(vsubq_s32(b, c), vld1q_s32(sums + 12 * 16 * EC_TILES));
    }
    out[0] = vaddq_s32(upper[0], vaddq_s32(upper[1], upper[2]));
    out[1] = vaddq_s32(vsubq_s32(upper[1], upper[2]), upper[3]);
    out[2] = vaddq_s32(lower[0], vaddq_s32(lower[1], lower[2]));
    out[3] = vaddq_s32(vsubq_s32(lower[1], lower[2]), lower[3]);
#else
    (void)out, (void)sums;
#endif
}

/* Sixteen channels of the outputs of a tile. */
static inline EC_INLINE void ec_winograd_store_neon(int8_t *out, const int32_t *sums,
                                                    const int32_t *scales,
                                                    const ec_winograd_sizes *n, int32_t rounding) {
#if EC_NEON
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    int32x4_t results[4][4];
    EC_STRAIGHT
    for (int32_t o = 0; o < 4; ++o) {
        const int32x4_t bias = vld1q_s32(scales + 4 * o);
        int32x4_t y[4];
        ec_winograd_out_neon(y, sums + 4 * o);
        EC_STRAIGHT
        for (int32_t p = 0; p < 4; ++p) {
            results[p][o] =
                ec_rescale_neon(vsraq_n_s32(bias, y[p], 2), scales + 16 + 4 * o, 16, rounding);
        }
    }
    EC_STRAIGHT
    for (int32_t p = 0; p < 4; ++p) {
        vst1q_s8(out + (p / 2 * n->pixels + p % 2) * n->channels,
                 ec_narrow_neon(results[p][0], results[p][1], results[p][2], results[p][3], limits,
                                rounding));
    }
#else
    (void)out, (void)sums, (void)scales, (void)n, (void)rounding;
#endif
}

/* Four times a sum without its bias in C: of the output at row h and pixel p of a tile. */
static inline EC_UNUSED int32_t ec_winograd_sum_c(const int8_t *x, const int16_t *w, int32_t depth,
                                                  int32_t pitch, int32_t h, int32_t p) {
    static const int8_t first[4] = { 0, 1, 1, 1 }, second[4] = { 2, 2, 2, 3 };
    static const int8_t sign[4] = { -1, 1, -1, -1 },
                        back[2][4] = { { 1, 1, 1, 0 }, { 0, 1, -1, 1 } };
    int32_t sum = 0;
    for (int32_t at = 0; at < 16 * depth; ++at) {
        const int32_t i = at / depth / 4, j = at / depth % 4;
        const int8_t *const a = x + at % depth + first[i] * pitch;
        const int8_t *const b = x + at % depth + second[i] * pitch;
        const int32_t left = b[first[j] * depth] + sign[i] * a[first[j] * depth];
        const int32_t right = b[second[j] * depth] + sign[i] * a[second[j] * depth];
        sum += back[h][i] * back[p][j] * (right + sign[j] * left) * w[16 * at];
    }
    return sum;
}

/* All tiles in C. */
static inline EC_UNUSED void ec_winograd_c(int8_t *out, const int8_t *x, const int32_t *stream,
                                           const ec_winograd_sizes *n, int32_t rounding) {
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int32_t depth = n->in_channels, pitch = (n->pixels + 2) * depth;
    for (int32_t at = 0; at < n->rows * n->pixels * n->channels; ++at) {
        const int32_t o = at % n->channels, lane = o % 16;
        const int32_t p = at / n->channels % n->pixels, h = at / n->channels / n->pixels;
        const int32_t *const unit = stream + o / 16 * 16 * (8 * depth + EC_SCALE_WORDS(rounding));
        const int32_t *const scales = unit + 16 * 8 * depth + lane;
        const int8_t *const tile = x + (h & ~1) * pitch + (p & ~1) * depth;
        const int32_t sum =
            ec_winograd_sum_c(tile, (const int16_t *)unit + lane, depth, pitch, h & 1, p & 1);
        out[at] = ec_result_c_64((uint32_t)scales[0] + (uint32_t)(sum / 4), scales + 16, 16,
                                 rounding, limits);
    }
}

/* All tiles, four at a time; the last four may begin before those before them end. */
static inline EC_INLINE void ec_winograd_all_neon(int8_t *out, const int8_t *x,
                                                  const int32_t *stream, const ec_winograd_sizes *n,
                                                  int32_t rounding) {
#if EC_NEON
    int16_t v[16 * EC_TILES * EC_TILE_INPUTS];
    int32_t sums[16 * EC_TILES * 16], at[EC_TILES];
    const int32_t depth = n->in_channels, across = n->pixels / 2, tiles = n->rows / 2 * across;
    for (int32_t begin = 0; begin < tiles; begin += EC_TILES) {
        const int32_t first = begin < tiles - EC_TILES ? begin : tiles - EC_TILES;
        const int32_t *unit = stream;
        for (int32_t t = 0; t < EC_TILES; ++t) {
            const int32_t row = (first + t) / across, column = (first + t) % across;
            const int8_t *const from = x + 2 * (row * (n->pixels + 2) + column) * depth;
            at[t] = 2 * (row * n->pixels + column) * n->channels;
            for (int32_t ic = 0; ic < depth; ic += 8) {
                ec_winograd_in_neon(v + 16 * EC_TILES * ic + 8 * t, from + ic,
                                    (n->pixels + 2) * depth, depth);
            }
        }
        for (int32_t o = 0; o < n->channels; o += 16) {
            const int32_t *const scales = unit + 16 * 8 * depth;
            for (int32_t k = 0; k < 16; ++k) {
                ec_winograd_sums_neon(sums + 16 * EC_TILES * k, v + EC_TILES * 8 * k,
                                      (const int16_t *)unit + 16 * depth * k, depth);
            }
            for (int32_t t = 0; t < EC_TILES; ++t) {
                ec_winograd_store_neon(out + at[t] + o, sums + 16 * t, scales, n, rounding);
            }
            unit = scales + 16 * EC_SCALE_WORDS(rounding);
        }
    }
#else
    ec_winograd_c(out, x, stream, n, rounding);
#endif
}

/* out[h][p][c] for all rows, pixels and channels: int8 of the rescaled sum over kh, kw, i of
 * x[((h + kh) * (pixels + 2) + p + kw) * in_channels + i] * w[c][kh][kw][i] + bias[c]. out and x must not
 * overlap. By gemmlowp's rounding. */
static EC_KERNEL void ec_winograd_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                          const ec_winograd_sizes *n) {
    if (n->zero_point == -128 && n->minimum == -128 && n->maximum == 127) {
        ec_winograd_all_neon(out, x, stream, n, EC_ROUND_TFLM_RELU);
    } else {
        ec_winograd_all_neon(out, x, stream, n, EC_ROUND_TFLM);
    }
}

/* The same by ONNX Runtime's rounding. */
static EC_KERNEL void ec_winograd_onnx_s8_neon(int8_t *out, const int8_t *x, const int32_t *stream,
                                               const ec_winograd_sizes *n) {
    ec_winograd_all_neon(out, x, stream, n, EC_ROUND_ONNX);
}

/* The same by TFLite's single rounding. */
static EC_KERNEL void ec_winograd_single_s8_neon(int8_t *out, const int8_t *x,
                                                 const int32_t *stream,
                                                 const ec_winograd_sizes *n) {
    ec_winograd_all_neon(out, x, stream, n, EC_ROUND_SINGLE);
}

#endif /* EC_AARCH64_WINOGRAD_S8_H */
