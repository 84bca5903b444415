/* Sums of 24 bits of four pixels p, q, r and s in three words, modulo 2^32:
 *   S = p + 256 * q, T = r + 256 * s, U = s + 256 * p.
 *
 * T - 256 * U is r - 65536 * p, whose lower half is that of r; its upper half and S give the rest of r.
 * Then T gives s, U gives p, and S gives q.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FOUR_SUMS_H
#define EC_FOUR_SUMS_H

#include "edgec/ec_kernel.h"

/* 256 times the sums of pixels p to s, in that order, from the words S, T and U. */
static inline EC_UNUSED void ec_take_apart_4_s8(int32_t *above, const int32_t *sums) {
    const uint32_t s = (uint32_t)sums[0];
    const uint32_t t = (uint32_t)sums[1];
    const uint32_t u = (uint32_t)sums[2];
    const uint32_t low = t - (u << 8);
    const uint32_t high = s + (uint32_t)((int32_t)low >> 16);
    above[2] = (int32_t)((low & 0xFFFFu) << 8 | high << 24);
    above[3] = (int32_t)(t - (uint32_t)(above[2] >> 8));
    above[0] = (int32_t)(u - (uint32_t)(above[3] >> 8));
    above[1] = (int32_t)(s - (uint32_t)(above[0] >> 8));
}

#endif /* EC_FOUR_SUMS_H */
