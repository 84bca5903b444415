/* Matrices of floats by a warp: 16 rows by 8 columns over 8 steps, by the instruction for TF32 of NVIDIA
 * GPUs since Ampere.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_MMA_F32_H
#define EC_CUDA_MMA_F32_H

#include "edgec/ec_kernel.h"

/* acc[2 * r + s] += the sum of x[r * x_step + k] * w[s * w_step + k] for k < 8, in the instruction's
 * order.
 *
 * All lanes of a warp call it together, with pointers as for ec_mma_s8. Each number is a sum of two TF32
 * numbers of 11 bits; the product of the smaller ones is omitted, so a product has a relative error of
 * about 2^-21. If the larger one is infinite, so is the number. */
static inline EC_UNUSED void ec_mma_f32(const float *x, const float *w, float *acc, int32_t x_step,
                                        int32_t w_step, int32_t lane) {
#if defined(EC_MMA_TF32)
    const int32_t q = lane % 4;
    const float *upper = x + 2 * q;
    const float *lower = upper + x_step;
    const float *column = w + (lane / 4 - 2 * q) * w_step + 2 * q;
    const float numbers[6] = { upper[0], lower[0], upper[1], lower[1], column[0], column[1] };
    int32_t large[6];
    int32_t small[6];
    for (int32_t i = 0; i < 6; ++i) {
        large[i] = EC_TF32(numbers[i]);
        small[i] = EC_TF32_REST(numbers[i], large[i]);
    }
    EC_MMA_TF32(acc, small, large + 4);
    EC_MMA_TF32(acc, large, small + 4);
    EC_MMA_TF32(acc, large, large + 4);
#else
    (void)lane;
    for (int32_t i = 0; i < 4; ++i) {
        for (int32_t k = 0; k < 8; ++k) {
            acc[i] = acc[i] + x[(i / 2) * x_step + k] * w[(i % 2) * w_step + k];
        }
    }
#endif
}

#endif /* EC_CUDA_MMA_F32_H */
