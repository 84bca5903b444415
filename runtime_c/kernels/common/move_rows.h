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

/* x[i] = x[i + by] for i in 0 .. rows - by, `row` elements each; 0 < by <= rows. */
static inline void ec_move_rows_s8(int8_t *x, int32_t rows, int32_t row, int32_t by) {
    ec_move_down(x, x + by * row, (rows - by) * row);
}

/* The same for 16 bits. */
static inline void ec_move_rows_s16(int16_t *x, int32_t rows, int32_t row, int32_t by) {
    ec_move_down(x, x + by * row, (rows - by) * row * 2);
}

/* The same for 32 bits. */
static inline void ec_move_rows_s32(int32_t *x, int32_t rows, int32_t row, int32_t by) {
    ec_move_down(x, x + by * row, (rows - by) * row * 4);
}

/* The same for floats. */
static inline void ec_move_rows_f32(float *x, int32_t rows, int32_t row, int32_t by) {
    ec_move_down(x, x + by * row, (rows - by) * row * 4);
}

/* to[i] = x[i] for `row` elements. */
static inline void ec_copy_row_s8(const int8_t *x, int8_t *to, int32_t row) {
    (void)memcpy(to, x, (size_t)row);
}

/* to[i] = x[i] for `row` elements. */
static inline void ec_copy_row_s16(const int16_t *x, int16_t *to, int32_t row) {
    (void)memcpy(to, x, (size_t)row * 2u);
}

/* to[i] = x[i] for `row` elements. */
static inline void ec_copy_row_s32(const int32_t *x, int32_t *to, int32_t row) {
    (void)memcpy(to, x, (size_t)row * 4u);
}

/* to[i] = x[i] for `row` elements. */
static inline void ec_copy_row_f32(const float *x, float *to, int32_t row) {
    (void)memcpy(to, x, (size_t)row * 4u);
}

/* to[i] = x[i] for `row` elements, a few: as loads and stores. */
static inline void ec_put_row_s8(const int8_t *x, int8_t *to, int32_t row) {
    EC_COPY(to, x, (size_t)row);
}

/* The same for 16 bits. */
static inline void ec_put_row_s16(const int16_t *x, int16_t *to, int32_t row) {
    EC_COPY(to, x, (size_t)row * 2u);
}

/* The same for 32 bits. */
static inline void ec_put_row_s32(const int32_t *x, int32_t *to, int32_t row) {
    EC_COPY(to, x, (size_t)row * 4u);
}

/* The same for floats. */
static inline void ec_put_row_f32(const float *x, float *to, int32_t row) {
    EC_COPY(to, x, (size_t)row * 4u);
}

/* to[i] = x[i] for `row` elements, all read before the first is written. */
static inline void ec_shift_row_s8(const int8_t *x, int8_t *to, int32_t row) {
    (void)memmove(to, x, (size_t)row);
}

/* The same for 16 bits. */
static inline void ec_shift_row_s16(const int16_t *x, int16_t *to, int32_t row) {
    (void)memmove(to, x, (size_t)row * 2u);
}

/* The same for 32 bits. */
static inline void ec_shift_row_s32(const int32_t *x, int32_t *to, int32_t row) {
    (void)memmove(to, x, (size_t)row * 4u);
}

/* The same for floats. */
static inline void ec_shift_row_f32(const float *x, float *to, int32_t row) {
    (void)memmove(to, x, (size_t)row * 4u);
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

/* to[i] = x[i] for `row` elements, which may lie where they are written: long rows, and whole values
 * that grow where they are. */
static inline void ec_move_row_s8(const int8_t *x, int8_t *to, int32_t row) {
    ec_move_bytes(to, x, row);
}

/* The same. */
static inline void ec_move_row_s16(const int16_t *x, int16_t *to, int32_t row) {
    ec_move_bytes(to, x, row * 2);
}

/* The same. */
static inline void ec_move_row_s32(const int32_t *x, int32_t *to, int32_t row) {
    ec_move_bytes(to, x, row * 4);
}

/* The same. */
static inline void ec_move_row_f32(const float *x, float *to, int32_t row) {
    ec_move_bytes(to, x, row * 4);
}

/* Copies a row of a size that a compiler knows, 32 bytes at a time as loads and stores; of words,
 * where cores cannot load these anywhere, if the row lies on them. */
static inline void ec_take_bytes(const int8_t *from, int8_t *to, int32_t bytes) {
#if defined(__ARM_FEATURE_UNALIGNED)
    for (; bytes >= 32; bytes -= 32, from += 32, to += 32) {
        EC_COPY(to, from, 32u);
    }
    EC_COPY(to, from, (size_t)bytes);
#else
    ec_move_bytes(to, from, bytes);
#endif
}

/* The same of words. */
static inline void ec_take_words(const void *from, void *to, int32_t words) {
    const int32_t *high = (const int32_t *)from;
    int32_t *low = (int32_t *)to;
    for (; words >= 8; words -= 8, high += 8, low += 8) {
        EC_COPY(EC_WORDS(low), EC_WORDS(high), 32u);
    }
    EC_COPY(EC_WORDS(low), EC_WORDS(high), (size_t)words * 4u);
}

/* to[i] = x[place][i] for `row` elements of one of the rows. */
static inline void ec_take_row_s8(const int8_t *x, const int32_t *place, int8_t *to, int32_t rows,
                                  int32_t row) {
    (void)rows;
    ec_take_bytes(x + *place * row, to, row);
}

/* The same. */
static inline void ec_take_row_s16(const int16_t *x, const int32_t *place, int16_t *to,
                                   int32_t rows, int32_t row) {
    (void)rows;
    ec_take_bytes((const int8_t *)(x + *place * row), (int8_t *)to, row * 2);
}

/* The same. */
static inline void ec_take_row_s32(const int32_t *x, const int32_t *place, int32_t *to,
                                   int32_t rows, int32_t row) {
    (void)rows;
    ec_take_words(x + *place * row, to, row);
}

/* The same. */
static inline void ec_take_row_f32(const float *x, const int32_t *place, float *to, int32_t rows,
                                   int32_t row) {
    (void)rows;
    ec_take_words(x + *place * row, to, row);
}

#endif /* EC_MOVE_ROWS_H */
