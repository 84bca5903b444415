/* Matrices of int8 and of float16 by a warp, the instructions IMMA and HMMA of NVIDIA GPUs: 16 rows by 8
 * columns over 32 bytes of each.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_MMA_H
#define EC_CUDA_MMA_H

#include "edgec/ec_kernel.h"
#include "math/ec_float.h"

/* A lane's operands of an instruction: its eight bytes of rows g and g + 8, and of column g, with g =
 * lane / 4 and q = lane % 4. x is row g, with the row distance of lane 4 and lane 0, w is column 2 * q of
 * the columns of lane 0. They are aligned to 8 and 4 bytes. Other lanes use these operands too: the
 * instruction has its own order of the steps of a sum. */
static inline EC_UNUSED void ec_mma_words(const uint8_t *x, const uint8_t *w, int32_t x_bytes,
                                          int32_t w_bytes, int32_t lane, int32_t *words) {
#if defined(EC_MMA_S8)
    const int32_t q = lane % 4;
    const uint8_t *upper = x + 8 * q;
    const uint8_t *lower = upper + x_bytes;
    const uint8_t *column = w + (lane / 4 - 2 * q) * w_bytes + 8 * q;
    const int64_t first = EC_PAIR_AT(upper);
    const int64_t second = EC_PAIR_AT(lower);
    words[0] = (int32_t)first;
    words[1] = (int32_t)second;
    words[2] = (int32_t)(first >> 32);
    words[3] = (int32_t)(second >> 32);
    words[4] = EC_WORD_AT(column);
    words[5] = EC_WORD_AT(column + 4);
#else
    (void)x, (void)w, (void)x_bytes, (void)w_bytes, (void)lane, (void)words;
#endif
}

/* acc[2 * r + s] += the sum of (x[r * x_step + k] + x_offset) * (w[s * w_step + k] + w_offset) for
 * k < 32; modulo 2^32. All lanes of a warp come to it together; x and w lie as ec_mma_words says, acc
 * shares no byte with them. Sums of rows and columns alone, which offsets need, are products by 1. */
static inline EC_UNUSED void ec_mma_s8(const int8_t *x, const int8_t *w, int32_t *acc,
                                       int32_t x_step, int32_t w_step, int32_t x_offset,
                                       int32_t w_offset, int32_t lane) {
#if defined(EC_MMA_S8)
    int32_t words[6];
    ec_mma_words((const uint8_t *)x, (const uint8_t *)w, x_step, w_step, lane, words);
    EC_MMA_S8(acc, words, words + 4);
    if (x_offset != 0 || w_offset != 0) {
        const int32_t ones[4] = { 0x01010101, 0x01010101, 0x01010101, 0x01010101 };
        int32_t of_rows[4] = { 0, 0, 0, 0 };
        int32_t of_columns[4] = { 0, 0, 0, 0 };
        if (w_offset != 0) {
            EC_MMA_S8(of_rows, words, ones);
        }
        if (x_offset != 0) {
            EC_MMA_S8(of_columns, ones, words + 4);
        }
        for (int32_t i = 0; i < 4; ++i) {
            const int32_t more =
                w_offset * of_rows[i] + x_offset * (of_columns[i] + 32 * w_offset); /* below 2^22 */
            acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)more);
        }
    }
#else
    (void)lane;
    for (int32_t i = 0; i < 4; ++i) {
        for (int32_t k = 0; k < 32; ++k) {
            const int32_t row = x[(i / 2) * x_step + k] + x_offset;
            const int32_t column = w[(i % 2) * w_step + k] + w_offset;
            acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)(row * column));
        }
    }
#endif
}

/* acc[2 * r + s] += the sum of x[r * x_step + k] * w[s * w_step + k] for k < 16, of float16, in the
 * instruction's order. All lanes of a warp call it together, with pointers as for ec_mma_s8. Products are
 * exact. */
static inline EC_UNUSED void ec_mma_f16(const uint16_t *x, const uint16_t *w, float *acc,
                                        int32_t x_step, int32_t w_step, int32_t lane) {
#if defined(EC_MMA_F16)
    int32_t words[6];
    ec_mma_words((const uint8_t *)x, (const uint8_t *)w, 2 * x_step, 2 * w_step, lane, words);
    EC_MMA_F16(acc, words, words + 4);
#else
    (void)lane;
    for (int32_t i = 0; i < 4; ++i) {
        for (int32_t k = 0; k < 16; ++k) {
            const float row = ec_widen_f32(x[(i / 2) * x_step + k], 16, 10, 15, 0);
            acc[i] = acc[i] + row * ec_widen_f32(w[(i % 2) * w_step + k], 16, 10, 15, 0);
        }
    }
#endif
}

/* out[i] = x[i * x_step] for i < 4, rounded to float16. */
static inline EC_UNUSED void ec_copy4_f16(const float *x, uint16_t *out, int32_t x_step) {
    for (int32_t i = 0; i < 4; ++i) {
#if defined(EC_HALF)
        out[i] = EC_HALF(x[i * x_step]);
#else
        out[i] = (uint16_t)ec_narrow_f32(x[i * x_step], 16, 10, 15, 0, 0);
#endif
    }
}

/* out[i] = x[i] for i < 4. Both are aligned to 4 bytes. */
static inline EC_UNUSED void ec_copy4_s8(const int8_t *x, int8_t *out) {
#if defined(EC_MMA_S8)
    *(int32_t *)(void *)out = EC_WORD_AT(x);
#else
    for (int32_t i = 0; i < 4; ++i) {
        out[i] = x[i];
    }
#endif
}

#endif /* EC_CUDA_MMA_H */
