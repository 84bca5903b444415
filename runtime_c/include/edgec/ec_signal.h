/* Integer functions of audio front ends.
 *
 * edgec copies the functions a model uses into the model's own .c; they never travel as a header.
 * Each function stands after a comment of its own and ends with a brace in the first column, so
 * that it can be cut out.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_SIGNAL_H
#define EC_SIGNAL_H

#include <stdint.h>

#include "edgec/ec_fixed_point.h"

/* number of bits up to the highest that is set; 0 for 0 */
static inline int32_t ec_bit_length_u32(uint32_t x) {
    return x == 0u ? 0 : 32 - ec_count_leading_zeros((int32_t)x);
}

/* the square root, rounded to the nearest integer but limited to 16 bits for arguments of 32 */
static inline uint32_t ec_rounded_sqrt_u64(uint64_t x) {
    const uint32_t largest = (x >> 32) == 0u ? 0xFFFFu : 0xFFFFFFFFu;
    uint64_t root = 0u;
    uint64_t bit = (x >> 32) == 0u ? (uint64_t)1u << 30 : (uint64_t)1u << 62;
    while (bit > x) {
        bit >>= 2;
    }
    while (bit != 0u) {
        if (x >= root + bit) {
            x -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
        bit >>= 2;
    }
    return (uint32_t)root + (x > root && root != largest ? 1u : 0u);
}

#endif /* EC_SIGNAL_H */
