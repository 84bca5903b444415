/* Matrix products of int16 inputs and int8 weights as in matrix_s16.h whose results are int8: rescaled
 * sums plus a zero point. Streams are those of that file.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S16_TO_S8_H
#define EC_MATRIX_S16_TO_S8_H

#include "microkernels/dsp/matrix_s16.h"

/* ec_matrix_1_s16_dsp to int8. */
static EC_KERNEL void ec_matrix_1_s16_s8_dsp(int8_t *out, const int16_t *x, const int32_t *stream,
                                             int32_t kernel_h, int32_t kernel_w,
                                             int32_t in_channels, int32_t channels,
                                             int32_t zero_point, int32_t minimum, int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    for (int32_t o = 0; o < channels; o += 4) {
        int8_t *const to = out + (o + 4 > channels ? channels - 4 : o);
        int32_t sums[4] = { stream[0], stream[1], stream[2], stream[3] };
        ec_four_sums_s16_dsp(sums, x, stream + 4, inputs);
        stream += 4 + inputs;
        for (int32_t i = 0; i < 4; ++i, stream += 3) {
            const int32_t high = (int32_t)(((int64_t)sums[i] * stream[0]) >> 32);
            const int32_t value = ((high + stream[1]) >> stream[2]) + zero_point;
            to[i] = (int8_t)ec_limited_s16(value, minimum, maximum);
        }
    }
}

/* ec_matrix_1_s16_any_dsp to int8. */
static EC_KERNEL void ec_matrix_1_s16_s8_any_dsp(int8_t *out, const int16_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t kernel_w, int32_t in_channels,
                                                 int32_t channels, int32_t zero_point,
                                                 int32_t minimum, int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    for (int32_t o = 0; o < channels; o += 4) {
        int8_t *const to = out + (o + 4 > channels ? channels - 4 : o);
        int32_t sums[4] = { stream[0], stream[1], stream[2], stream[3] };
        ec_four_sums_s16_dsp(sums, x, stream + 4, inputs);
        stream += 4 + inputs;
        const int64_t wide[4] = { sums[0], sums[1], sums[2], sums[3] };
        ec_store_four_s8(to, wide, stream, zero_point, minimum, maximum);
        stream += 8;
    }
}

/* ec_matrix_1_s16_s64_dsp to int8. */
static EC_KERNEL void ec_matrix_1_s16_s8_s64_dsp(int8_t *out, const int16_t *x,
                                                 const int32_t *stream, int32_t kernel_h,
                                                 int32_t kernel_w, int32_t in_channels,
                                                 int32_t channels, int32_t zero_point,
                                                 int32_t minimum, int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    for (int32_t o = 0; o < channels; o += 4) {
        int8_t *const to = out + (o + 4 > channels ? channels - 4 : o);
        int64_t sums[4];
        ec_load_four_s64(sums, stream);
        ec_four_sums_s16_s64_dsp(sums, x, stream + 8, inputs);
        stream += 8 + inputs;
        ec_store_four_s8(to, sums, stream, zero_point, minimum, maximum);
        stream += 8;
    }
}

#endif /* EC_MATRIX_S16_TO_S8_H */
