/* Products of four channels at once, for windows over single channels.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_DEPTHWISE_S8_H
#define EC_CUDA_DEPTHWISE_S8_H

#include "edgec/ec_kernel.h"

/* acc[i] += (x[i] + offset) * w[i] for i < 4; modulo 2^32. x and w are aligned to 4 bytes: one load
 * each. acc shares no byte with them. */
static inline EC_UNUSED void ec_multiply4_s8(const int8_t *x, const int8_t *w, int32_t *acc,
                                             int32_t offset) {
#if defined(EC_WORD_AT)
    const uint32_t inputs = (uint32_t)EC_WORD_AT(x);
    const uint32_t weights = (uint32_t)EC_WORD_AT(w);
#endif
    for (int32_t i = 0; i < 4; ++i) {
#if defined(EC_WORD_AT)
        const int32_t input = (int8_t)(uint8_t)(inputs >> (8 * i));
        const int32_t weight = (int8_t)(uint8_t)(weights >> (8 * i));
#else
        const int32_t input = x[i];
        const int32_t weight = w[i];
#endif
        acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)((input + offset) * weight));
    }
}

#endif /* EC_CUDA_DEPTHWISE_S8_H */
