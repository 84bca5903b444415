/* Matrices of int8 by a warp: 16 rows by 8 columns over 32 steps, the instruction IMMA of NVIDIA GPUs.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_MMA_S8_H
#define EC_CUDA_MMA_S8_H

#include "edgec/ec_kernel.h"

/* acc[2 * r + s] += the sum of x[r * x_step + k] * w[s * w_step + k] for k < 32; modulo 2^32.
 *
 * All lanes of a warp come to it together. With g = lane / 4 and q = lane % 4, x is row g of rows that
 * lie as close as the 32 steps of lane 4 and lane 0, and w is column 2 * q of the columns of lane 0;
 * acc shares no byte with them. x is aligned to 8 bytes, w to 4. A lane reads its own eight steps of
 * rows g and g + 8, and of column g, which other lanes multiply as well: the order of the 32 products
 * does not change a sum of integers. */
static inline EC_UNUSED void ec_mma_s8(const int8_t *x, const int8_t *w, int32_t *acc,
                                       int32_t x_step, int32_t w_step, int32_t lane) {
#if defined(EC_MMA_S8)
    const int32_t q = lane % 4;
    const int8_t *upper = x + 8 * q;
    const int8_t *lower = upper + x_step;
    const int8_t *column = w + (lane / 4 - 2 * q) * w_step + 8 * q;
    const int64_t first = EC_PAIR_AT(upper);
    const int64_t second = EC_PAIR_AT(lower);
    const int32_t rows[4] = { (int32_t)first, (int32_t)second, (int32_t)(first >> 32),
                              (int32_t)(second >> 32) };
    const int32_t columns[2] = { EC_WORD_AT(column), EC_WORD_AT(column + 4) };
    EC_MMA_S8(acc, rows, columns);
#else
    (void)lane;
    for (int32_t i = 0; i < 4; ++i) {
        for (int32_t k = 0; k < 32; ++k) {
            const int32_t product = x[(i / 2) * x_step + k] * w[(i % 2) * w_step + k];
            acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)product);
        }
    }
#endif
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

#endif /* EC_CUDA_MMA_S8_H */
