/* Products of four int8 at once, the instruction DP4A of NVIDIA GPUs since compute capability 6.1.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_DOT_S8_H
#define EC_CUDA_DOT_S8_H

#include "edgec/ec_kernel.h"

/* acc[i] += x[0] * w[4 * i] + ... + x[3] * w[4 * i + 3] for i < channels; modulo 2^32. x and w are
 * aligned to 4 bytes. Reads no byte past the last element; acc shares no byte with x or w. */
static inline EC_UNUSED void ec_dot4_s8(const int8_t *x, const int8_t *w, int32_t *acc,
                                        int32_t channels) {
#if defined(EC_DP4A)
    const int32_t inputs = EC_WORD_AT(x);
#endif
    for (int32_t i = 0; i < channels; ++i) {
#if defined(EC_DP4A)
        acc[i] = EC_DP4A(inputs, EC_WORD_AT(w + 4 * i), acc[i]);
#else
        for (int32_t k = 0; k < 4; ++k) {
            acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)(x[k] * w[4 * i + k]));
        }
#endif
    }
}

#endif /* EC_CUDA_DOT_S8_H */
