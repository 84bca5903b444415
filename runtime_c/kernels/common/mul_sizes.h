/* Numbers of products of int8.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MUL_SIZES_H
#define EC_MUL_SIZES_H

#include <stdint.h>

/* The number of products (a + first) * (b + second), and their rescaling. */
typedef struct {
    int32_t count, first, second, multiplier, shift, zero_point;
} ec_mul_sizes;

#endif /* EC_MUL_SIZES_H */
