/* Rolling windows: the rows that are still needed move to the front, and a new one comes in.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MOVE_ROWS_H
#define EC_MOVE_ROWS_H

#include "edgec/ec_kernel.h"

/* Moves bytes to a lower address, eight words at a time where both are aligned and far apart. */
static EC_SHARED void ec_move_down(void *to, const void *from, int32_t bytes) {
    int8_t *low = (int8_t *)to;
    const int8_t *high = (const int8_t *)from;
    if ((((uintptr_t)low | (uintptr_t)high) & 3u) == 0u && high - low >= 32) {
        for (; bytes >= 32; bytes -= 32, low += 32, high += 32) {
            EC_COPY(EC_WORDS(low), EC_WORDS(high), 32u);
        }
    }
    (void)memmove(low, high, (size_t)bytes);
}

/* Moves bytes that may overlap, eight words at a time where both are aligned and far apart. */
static EC_SHARED void ec_move_bytes(void *to, const void *from, int32_t bytes) {
    int8_t *low = (int8_t *)to;
    const int8_t *high = (const int8_t *)from;
    const uintptr_t up = (uintptr_t)to - (uintptr_t)from;
    if (up == 0u) { /* where a value grows at both ends */
        return;
    }
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0u && up >= (uintptr_t)bytes &&
        (uintptr_t)from - (uintptr_t)to >= 32u) {
        for (; bytes >= 32; bytes -= 32, low += 32, high += 32) {
            EC_COPY(EC_WORDS(low), EC_WORDS(high), 32u);
        }
    }
    (void)memmove(low, high, (size_t)bytes);
}

/* Copies a row of a size that a compiler knows, 32 bytes at a time as loads and stores; of words,
 * where cores cannot load these anywhere, if the row lies on them. */
static inline void ec_take_bytes(const void *from, void *to, int32_t bytes) {
#if defined(__ARM_FEATURE_UNALIGNED)
    const int8_t *high = (const int8_t *)from;
    int8_t *low = (int8_t *)to;
    for (; bytes >= 32; bytes -= 32, high += 32, low += 32) {
        EC_COPY(low, high, 32u);
    }
    EC_COPY(low, high, (size_t)bytes);
#else
    ec_move_bytes(to, from, bytes);
#endif
}

/* The same of words. */
static inline void ec_take_words(const void *from, void *to, int32_t bytes) {
    const int32_t *high = (const int32_t *)from;
    int32_t *low = (int32_t *)to;
    for (; bytes >= 32; bytes -= 32, high += 8, low += 8) {
        EC_COPY(EC_WORDS(low), EC_WORDS(high), 32u);
    }
    EC_COPY(EC_WORDS(low), EC_WORDS(high), (size_t)bytes);
}

#define EC_OF(name) name##_s8
#define EC_ELEMENT int8_t
#define EC_TAKE ec_take_bytes
#include "kernels/common/move_rows.inc"

#define EC_OF(name) name##_s16
#define EC_ELEMENT int16_t
#define EC_TAKE ec_take_bytes
#include "kernels/common/move_rows.inc"

#define EC_OF(name) name##_s32
#define EC_ELEMENT int32_t
#define EC_TAKE ec_take_words
#include "kernels/common/move_rows.inc"

#define EC_OF(name) name##_f32
#define EC_ELEMENT float
#define EC_TAKE ec_take_words
#include "kernels/common/move_rows.inc"

#endif /* EC_MOVE_ROWS_H */
