/* Sums of 24 bits of four pixels p, q, r and s in three words, modulo 2^32:
 *   S = p + 256 * q, T = q + 256 * r, U = r + 256 * s.
 *
 * S - 256 * T is p - 65536 * r, whose lower half equals p's; its upper half and U determine the rest of
 * p. Then S determines q, T determines r, and U determines s.
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
    const uint32_t low = s - (t << 8);
    const uint32_t high = u + (uint32_t)((int32_t)low >> 16);
    above[0] = (int32_t)((low & 0xFFFFu) << 8 | high << 24);
    above[1] = (int32_t)(s - (uint32_t)(above[0] >> 8));
    above[2] = (int32_t)(t - (uint32_t)(above[1] >> 8));
    above[3] = (int32_t)(u - (uint32_t)(above[2] >> 8));
}

#endif /* EC_FOUR_SUMS_H */
