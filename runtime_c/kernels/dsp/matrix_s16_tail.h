/* Matrix products of int16 inputs, whose number is no multiple of four, and int8 weights: as in
 * matrix_s16.h and matrix_s16_to_s8.h. The last words of weights of four channels are zero where
 * there are no inputs.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S16_TAIL_H
#define EC_MATRIX_S16_TAIL_H

#include "kernels/dsp/matrix_s16.h"

/* The inputs of x behind the last whole four, and zeros: at `tail`, two words. */
static inline EC_UNUSED const int16_t *ec_tail_s16_dsp(void *tail, const int16_t *x,
                                                       int32_t inputs) {
    int16_t *const to = (int16_t *)tail;
    const int32_t left = inputs % 4;
    for (int32_t i = 0; i < 4; ++i) {
        to[i] = i < left ? x[inputs - left + i] : (int16_t)0;
    }
    return to;
}

/* ec_matrix_1_s16_dsp of any number of inputs from four on. */
static EC_KERNEL void ec_matrix_1_tail_s16_dsp(int16_t *out, const int16_t *x,
                                               const int32_t *stream, int32_t kernel_h,
                                               int32_t kernel_w, int32_t in_channels,
                                               int32_t channels, int32_t minimum, int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    int32_t tail[2];
    ec_matrix_1_s16_to_dsp(out, 2, x, ec_tail_s16_dsp(tail, x, inputs), stream, inputs / 4 * 4,
                           channels, 0, minimum, maximum);
}

/* The same by any factor. */
static EC_KERNEL void ec_matrix_1_tail_s16_any_dsp(int16_t *out, const int16_t *x,
                                                   const int32_t *stream, int32_t kernel_h,
                                                   int32_t kernel_w, int32_t in_channels,
                                                   int32_t channels, int32_t minimum,
                                                   int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    int32_t tail[2];
    ec_matrix_1_s16_to_any_dsp(out, 2, x, ec_tail_s16_dsp(tail, x, inputs), stream, inputs / 4 * 4,
                               channels, 0, minimum, maximum);
}

/* The same with sums of 64 bits. */
static EC_KERNEL void ec_matrix_1_tail_s16_s64_dsp(int16_t *out, const int16_t *x,
                                                   const int32_t *stream, int32_t kernel_h,
                                                   int32_t kernel_w, int32_t in_channels,
                                                   int32_t channels, int32_t minimum,
                                                   int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    int32_t tail[2];
    ec_matrix_1_s16_to_s64_dsp(out, 2, x, ec_tail_s16_dsp(tail, x, inputs), stream, inputs / 4 * 4,
                               channels, 0, minimum, maximum);
}

/* ec_matrix_1_s16_s8_dsp of any number of inputs from four on. */
static EC_KERNEL void ec_matrix_1_tail_s16_s8_dsp(int8_t *out, const int16_t *x,
                                                  const int32_t *stream, int32_t kernel_h,
                                                  int32_t kernel_w, int32_t in_channels,
                                                  int32_t channels, int32_t zero_point,
                                                  int32_t minimum, int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    int32_t tail[2];
    ec_matrix_1_s16_to_dsp(out, 1, x, ec_tail_s16_dsp(tail, x, inputs), stream, inputs / 4 * 4,
                           channels, zero_point, minimum, maximum);
}

/* The same by any factor. */
static EC_KERNEL void ec_matrix_1_tail_s16_s8_any_dsp(int8_t *out, const int16_t *x,
                                                      const int32_t *stream, int32_t kernel_h,
                                                      int32_t kernel_w, int32_t in_channels,
                                                      int32_t channels, int32_t zero_point,
                                                      int32_t minimum, int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    int32_t tail[2];
    ec_matrix_1_s16_to_any_dsp(out, 1, x, ec_tail_s16_dsp(tail, x, inputs), stream, inputs / 4 * 4,
                               channels, zero_point, minimum, maximum);
}

/* The same with sums of 64 bits. */
static EC_KERNEL void ec_matrix_1_tail_s16_s8_s64_dsp(int8_t *out, const int16_t *x,
                                                      const int32_t *stream, int32_t kernel_h,
                                                      int32_t kernel_w, int32_t in_channels,
                                                      int32_t channels, int32_t zero_point,
                                                      int32_t minimum, int32_t maximum) {
    const int32_t inputs = kernel_h * kernel_w * in_channels;
    int32_t tail[2];
    ec_matrix_1_s16_to_s64_dsp(out, 1, x, ec_tail_s16_dsp(tail, x, inputs), stream, inputs / 4 * 4,
                               channels, zero_point, minimum, maximum);
}

#endif /* EC_MATRIX_S16_TAIL_H */
