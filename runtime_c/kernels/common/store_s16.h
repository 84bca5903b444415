/* Shared by matrix products of int16: sums to results of int16 or int8, biases of 64 bits.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_STORE_S16_H
#define EC_STORE_S16_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* Inputs and outputs of a pixel of a product with inputs of int16, and what results become. */
typedef struct {
    int32_t kernel_h, kernel_w, in_channels, channels, zero_point, minimum, maximum;
} ec_matrix_s16_sizes;

/* x limited to [minimum, maximum], which int16 can hold. */
static inline EC_UNUSED int16_t ec_limited_s16(int32_t x, int32_t minimum, int32_t maximum) {
    return (int16_t)(x < minimum ? minimum : x > maximum ? maximum : x);
}

/* Two limits of int16 in a word, the lower one below. */
static inline EC_UNUSED int32_t ec_both_limits(int32_t minimum, int32_t maximum) {
    return (int32_t)(((uint32_t)maximum << 16) | (uint16_t)minimum);
}

/* Where element i of int8 or int16 is, this many bytes each. */
static inline EC_INLINE void *ec_element(void *out, int32_t bytes, int32_t i) {
    return bytes == 1 ? (void *)((int8_t *)out + i) : (void *)((int16_t *)out + i);
}

/* x limited and stored as element i of int8 or int16, this many bytes each. */
static inline EC_INLINE void ec_store_limited(void *out, int32_t bytes, int32_t i, int32_t x,
                                              int32_t minimum, int32_t maximum) {
    const int32_t limited = x < minimum ? minimum : x > maximum ? maximum : x;
    if (bytes == 1) {
        ((int8_t *)out)[i] = (int8_t)limited;
    } else {
        ((int16_t *)out)[i] = (int16_t)limited;
    }
}

/* Four sums rescaled, each by the next M and shift of ec_requantize_tflm16, plus a zero point, limited
 * and stored. */
static inline EC_UNUSED void ec_store_four_s16(void *out, int32_t bytes, const int64_t *sums,
                                               const int32_t *scales, int32_t zero_point,
                                               int32_t minimum, int32_t maximum) {
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t value = ec_requantize_tflm16(sums[i], scales[2 * i], scales[2 * i + 1]);
        const uint32_t moved = (uint32_t)value + (uint32_t)zero_point;
        ec_store_limited(out, bytes, i, (int32_t)moved, minimum, maximum);
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
