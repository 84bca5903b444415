/* Matrix products of int8 for the DSP extension in C, for compilers without GNU assembly. matrix_s8.h
 * describes the words of weights, the sums and the streams.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_C_S8_H
#define EC_MATRIX_C_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* Convert 256 times an accumulator to int8 by M, C * 128 + 64 and e + 7: matrix_s8.h's rescaling of b for
 * a zero point of -128. */
static inline EC_UNUSED int8_t ec_rescale_relu_s8_dsp(int32_t above, int32_t multiplier,
                                                      int32_t constant, int32_t exponent) {
    const int32_t high = (int32_t)(((int64_t)above * multiplier) >> 32);
    return ec_saturate_s8((high + constant) >> exponent);
}

/* Convert the sums of a pair of channels for some pixels to int8: `at` points at M of a. Pixel p has the
 * sum sums[p] of a and both[p] of a + 256 * b; its results go to out[p * step]. */
static inline EC_UNUSED void ec_store_pairs_s8_dsp(int8_t *out, int32_t step, const int32_t *sums,
                                                   const int32_t *both, int32_t pixels,
                                                   const int32_t *at, int32_t zero_point) {
    if (zero_point == -128) {
        const int32_t constant = (int32_t)((uint32_t)at[1] * 128u + 64u);
        const int32_t exponent = at[2] + 7;
        const int32_t first = at[0]; /* by names: results, which are bytes, may alias words */
        const int32_t second = at[3];
        const int32_t offset = at[4];
        const int32_t shift = at[5];
        for (int32_t p = 0; p < pixels; ++p, out += step) {
            const int32_t above = (int32_t)((uint32_t)both[p] - (uint32_t)sums[p]);
            const int32_t own = (int32_t)((uint32_t)sums[p] << 8);
            out[0] = ec_rescale_relu_s8_dsp(own, first, constant, exponent);
            out[1] = ec_rescale_relu_s8_dsp(above, second, offset, shift);
        }
        return;
    }
    for (int32_t p = 0; p < pixels; ++p, out += step) {
        const int32_t sum = sums[p];
        const int32_t other = (int32_t)((uint32_t)both[p] - (uint32_t)sum) >> 8;
        const int32_t high_a = ec_high_of_double(sum, at[0]) + (sum >> 31);
        const int32_t high_b = ec_high_of_double(other, at[3]) + (other >> 31);
        out[0] = ec_saturate_s8((high_a + at[1]) >> at[2]);
        out[1] = ec_saturate_s8((high_b + at[4]) >> at[5]);
    }
}

/* Multiply one weight word by a word of two int16 of each of three pixels; add the products to
 * sums[0..2], of a, and to sums[3..5], of a + 256 * b. */
static inline EC_UNUSED void ec_accumulate_3_s8_dsp(int32_t *sums, const int16_t *x,
                                                    int32_t weights) {
    const int32_t own = ec_sxtb16(weights);
    const int32_t x0 = ec_load_word(x);
    const int32_t x1 = ec_load_word(x + 2);
    const int32_t x2 = ec_load_word(x + 4);
    sums[3] = ec_smlad(x0, weights, sums[3]);
    sums[4] = ec_smlad(x1, weights, sums[4]);
    sums[5] = ec_smlad(x2, weights, sums[5]);
    sums[0] = ec_smlad(x0, own, sums[0]);
    sums[1] = ec_smlad(x1, own, sums[1]);
    sums[2] = ec_smlad(x2, own, sums[2]);
}

/* The sums of a pair of channels for three pixels, as above; `from` points at the pair's biases.
 * Returns the end of its weights. */
static inline EC_UNUSED const int32_t *ec_pair_sums_3_s8_dsp(int32_t *sums, const void *inputs,
                                                             const int32_t *from, int32_t quads) {
    const int16_t *x = (const int16_t *)inputs;
    int32_t kept[6];
    kept[0] = kept[1] = kept[2] = from[0];
    kept[3] = kept[4] = kept[5] = from[1];
    const int32_t *const end = from + 2 + (quads >> 1) * 4;
    for (from += 2; from != end; x += 24, from += 4) {
        ec_accumulate_3_s8_dsp(kept, x, from[0]);
        ec_accumulate_3_s8_dsp(kept, x + 6, from[1]);
        ec_accumulate_3_s8_dsp(kept, x + 12, from[2]);
        ec_accumulate_3_s8_dsp(kept, x + 18, from[3]);
    }
    if ((quads & 1) != 0) {
        ec_accumulate_3_s8_dsp(kept, x, from[0]);
        ec_accumulate_3_s8_dsp(kept, x + 6, from[1]);
        from += 2;
    }
    sums[0] = kept[0];
    sums[1] = kept[1];
    sums[2] = kept[2];
    sums[3] = kept[3];
    sums[4] = kept[4];
    sums[5] = kept[5];
    return from;
}

/* Multiply words x and y of two int16 each by the words of two pairs of channels, which begin with the
 * words for y. Add the products to sums[0], of a with the products of x and y, to sums[1], of
 * a + 256 * b, and to the same two sums of the second pair. */
static inline EC_UNUSED void ec_accumulate_1_s8_dsp(int32_t *sums, int32_t x, int32_t y,
                                                    const int32_t *weights) {
    sums[1] = ec_smlad(x, weights[2], ec_smlad(y, weights[0], sums[1]));
    sums[3] = ec_smlad(x, weights[3], ec_smlad(y, weights[1], sums[3]));
    sums[0] = ec_smlad(ec_sxtab16(x, weights[0]), ec_sxtab16(y, weights[2]), sums[0]);
    sums[2] = ec_smlad(ec_sxtab16(x, weights[1]), ec_sxtab16(y, weights[3]), sums[2]);
}

/* The sums of four channels from these sums, and from sums[4], the products of inputs. */
static inline EC_UNUSED void ec_keep_sums_1_s8_dsp(int32_t *sums, const int32_t *kept) {
    sums[0] = (int32_t)((uint32_t)kept[0] - (uint32_t)sums[4]);
    sums[1] = kept[1];
    sums[2] = (int32_t)((uint32_t)kept[2] - (uint32_t)sums[4]);
    sums[3] = kept[3];
}

/* Add up the products of inputs, which all channels share, in sums[4], unless sums[5] is set: each word
 * of two int16 times the word after it. */
static inline EC_UNUSED void ec_products_s8_dsp(int32_t *sums, const int16_t *x, int32_t octets) {
    if (sums[5] == 0) {
        sums[4] = 0;
        for (const int16_t *const end = x + 8 * octets; x != end; x += 4) {
            sums[4] = ec_smlad(ec_load_aligned(x), ec_load_aligned(x + 2), sums[4]);
        }
        sums[5] = 1;
    }
}

/* The same of four int8 as they are: the even ones, each by the odd one after it. */
static inline EC_UNUSED void ec_plain_products_s8_dsp(int32_t *sums, const int8_t *x,
                                                      int32_t quads) {
    if (sums[5] == 0) {
        sums[4] = 0;
        for (const int8_t *const end = x + 4 * quads; x != end; x += 4) {
            const int32_t inputs = ec_load_aligned(x);
            sums[4] = ec_smlad(ec_sxtb16(inputs), ec_sxtb16_odd(inputs), sums[4]);
        }
        sums[5] = 1;
    }
}

/* The sums of four channels, as above; `from` points at their biases. Returns the end of their
 * weights. sums[4] and sums[5] stay from call to call, and are zeros before the first one. */
static inline EC_UNUSED const int32_t *ec_four_sums_s8_dsp(int32_t *sums, const void *inputs,
                                                           const int32_t *from, int32_t octets) {
    const int16_t *x = (const int16_t *)inputs;
    int32_t kept[4] = { from[0], from[1], from[2], from[3] };
    const int32_t *const end = from + 4 + 8 * octets;
    ec_products_s8_dsp(sums, x, octets);
    for (from += 4; from != end; x += 8, from += 8) {
        ec_accumulate_1_s8_dsp(kept, ec_load_aligned(x), ec_load_aligned(x + 2), from);
        ec_accumulate_1_s8_dsp(kept, ec_load_aligned(x + 4), ec_load_aligned(x + 6), from + 4);
    }
    ec_keep_sums_1_s8_dsp(sums, kept);
    return end;
}

/* Four int8 as they are by their words of weights, added to sums. */
static inline EC_UNUSED void ec_accumulate_quad_s8_dsp(int32_t *sums, const int8_t *x,
                                                       const int32_t *from) {
    const int32_t inputs = ec_load_aligned(x);
    ec_accumulate_1_s8_dsp(sums, ec_sxtb16(inputs), ec_sxtb16_odd(inputs), from);
}

/* The same of int8 inputs as they are, four at a time. */
static inline EC_UNUSED const int32_t *ec_plain_quads_s8_dsp(int32_t *sums, const int8_t *x,
                                                             const int32_t *from, int32_t quads) {
    int32_t kept[4] = { from[0], from[1], from[2], from[3] };
    const int32_t *const end = from + 4 + 4 * quads;
    const int32_t *const most = from + 4 + 16 * (quads >> 2);
    ec_plain_products_s8_dsp(sums, x, quads);
    for (from += 4; from != most; x += 16, from += 16) {
        ec_accumulate_quad_s8_dsp(kept, x, from);
        ec_accumulate_quad_s8_dsp(kept, x + 4, from + 4);
        ec_accumulate_quad_s8_dsp(kept, x + 8, from + 8);
        ec_accumulate_quad_s8_dsp(kept, x + 12, from + 12);
    }
    for (; from != end; x += 4, from += 4) {
        ec_accumulate_quad_s8_dsp(kept, x, from);
    }
    ec_keep_sums_1_s8_dsp(sums, kept);
    return end;
}

/* The same, eight at a time. */
static inline EC_UNUSED const int32_t *
ec_four_plain_sums_s8_dsp(int32_t *sums, const void *inputs, const int32_t *from, int32_t octets) {
    return ec_plain_quads_s8_dsp(sums, (const int8_t *)inputs, from, 2 * octets);
}

/* Convert these sums to int8 by the constants at `at`; returns the end of the constants. */
static inline EC_INLINE const int32_t *ec_store_sums_s8_dsp(void *out, int32_t bytes, int32_t step,
                                                            int32_t unit, const int32_t *sums,
                                                            const int32_t *at,
                                                            const int32_t *limits) {
    int8_t *const to = (int8_t *)out;
    (void)bytes;
    if (unit == 2) {
        ec_store_pairs_s8_dsp(to, step, sums, sums + 3, 3, at, limits[0]);
        return at + 6;
    }
    ec_store_pairs_s8_dsp(to, step, sums, sums + 1, 1, at, limits[0]);
    ec_store_pairs_s8_dsp(to + 2, step, sums + 2, sums + 3, 1, at + 6, limits[0]);
    return at + 12;
}

/* Bytes of a result, words of a pixel's inputs, number of channels, and channels of a unit. */
typedef struct {
    int32_t bytes, size, channels, unit;
} ec_matrix_c_sizes;

/* Products in C: of three pixels by two channels at a time, or of one by four, as `unit` says, to
 * results of `bytes` each. `sums_of` gives the sums of a unit, `store` its results, `step` apart from
 * pixel to pixel. limits: the zero point, or minimum and maximum. */
static inline EC_INLINE void ec_matrix_c_dsp(
    void *out, const void *x, const int32_t *stream, const ec_matrix_c_sizes *n,
    const int32_t *(*sums_of)(int32_t *sums, const void *x, const int32_t *from, int32_t size),
    const int32_t *(*store)(void *out, int32_t bytes, int32_t step, int32_t unit,
                            const int32_t *sums, const int32_t *at, const int32_t *limits),
    const int32_t *limits) {
    int32_t sums[6] = { 0, 0, 0, 0, 0, 0 };
    for (int32_t o = 0; o < n->channels; o += n->unit) {
        const int32_t first = o + n->unit > n->channels ? n->channels - n->unit : o;
        const int32_t *const end = sums_of(sums, x, stream, n->size);
        stream = store((int8_t *)out + n->bytes * first, n->bytes, n->channels, n->unit, sums, end,
                       limits);
    }
}

#endif /* EC_MATRIX_C_S8_H */
