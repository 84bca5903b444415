/* Moves the memory of a filter over time down by one value; the oldest is dropped.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_SHIFT_DOWN_H
#define EC_SHIFT_DOWN_H

#include "edgec/ec_kernel.h"

/* Moves bytes to `to`, from an address that is not below it, four words at a time: all four are read
 * before they are written. */
static EC_SHARED void ec_shift_bytes(void *to, const void *from, int32_t bytes) {
    int8_t *out = (int8_t *)to;
    const int8_t *x = (const int8_t *)from;
    for (; bytes >= 16; bytes -= 16, out += 16, x += 16) {
        const int32_t first = ec_load_word(x);
        const int32_t second = ec_load_word(x + 4);
        const int32_t third = ec_load_word(x + 8);
        const int32_t fourth = ec_load_word(x + 12);
        ec_store_word(out, first);
        ec_store_word(out + 4, second);
        ec_store_word(out + 8, third);
        ec_store_word(out + 12, fourth);
    }
    while (--bytes >= 0) {
        *out++ = *x++;
    }
}

/* out[i] = x[i + 1] for i < count; out and x may be the same. */
static inline void ec_shift_down_s8(int8_t *out, const int8_t *x, int32_t count) {
    ec_shift_bytes(out, x + 1, count);
}

/* The same of 16 bits. */
static inline void ec_shift_down_s16(int16_t *out, const int16_t *x, int32_t count) {
    ec_shift_bytes(out, x + 1, count * 2);
}

#endif /* EC_SHIFT_DOWN_H */
