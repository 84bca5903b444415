/* What matrix products of int16 share: sums to results of int16 or int8, biases of 64 bits.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_STORE_S16_H
#define EC_STORE_S16_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* x limited to [minimum, maximum], which int16 can hold. */
static inline EC_UNUSED int16_t ec_limited_s16(int32_t x, int32_t minimum, int32_t maximum) {
    return (int16_t)(x < minimum ? minimum : x > maximum ? maximum : x);
}

/* Four sums rescaled, each by the next M and shift of ec_requantize_tflm16, and limited. */
static inline EC_UNUSED void ec_store_four_s16(int16_t *out, const int64_t *sums,
                                               const int32_t *scales, int32_t minimum,
                                               int32_t maximum) {
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t value = ec_requantize_tflm16(sums[i], scales[2 * i], scales[2 * i + 1]);
        out[i] = ec_limited_s16(value, minimum, maximum);
    }
}

/* The same to int8, plus a zero point. */
static inline EC_UNUSED void ec_store_four_s8(int8_t *out, const int64_t *sums,
                                              const int32_t *scales, int32_t zero_point,
                                              int32_t minimum, int32_t maximum) {
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t value = ec_requantize_tflm16(sums[i], scales[2 * i], scales[2 * i + 1]);
        const uint32_t moved = (uint32_t)value + (uint32_t)zero_point;
        out[i] = (int8_t)ec_limited_s16((int32_t)moved, minimum, maximum);
    }
}

/* Four biases of 64 bits, the lower word of each first. */
static inline EC_UNUSED void ec_load_four_s64(int64_t *sums, const int32_t *words) {
    for (int32_t i = 0; i < 4; ++i) {
        const uint64_t high = (uint64_t)(uint32_t)words[2 * i + 1] << 32;
        sums[i] = (int64_t)(high | (uint32_t)words[2 * i]);
    }
}

#endif /* EC_STORE_S16_H */
