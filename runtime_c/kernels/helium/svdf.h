/* Filters over time for the vectors of Armv8.1-M (MVE): many short dot products.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_SVDF_H
#define EC_MVE_SVDF_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* Units of a filter over time, values of each, and the zero point of results. */
typedef struct {
    int32_t units, taps, zero_point;
} ec_svdf_sizes;

/* clang-format off */

/* Assembly: a dot product added to r0, of `taps` values at x and w, as many at a time as `lanes`. */
#define EC_MVE_DOT(lanes, type, load) \
    register int32_t r0 __asm__("r0") = acc; \
    __asm__ volatile("dlstp." lanes " lr, %3\n" \
                     "1:\n" \
                     load " q0, [%1], #16\n" \
                     load " q1, [%2], #16\n" \
                     "vmladava." type " %0, q0, q1\n" \
                     "letp lr, 1b\n" \
                     : "+r"(r0), "+r"(x), "+r"(w) \
                     : "r"(taps) \
                     : "lr", "q0", "q1", "cc", "memory"); \
    return r0

/* clang-format on */

/* The products of `taps` values of int8, added to acc; modulo 2^32. */
static inline EC_UNUSED int32_t ec_dot_s8_mve(int32_t acc, const int8_t *x, const int8_t *w,
                                              int32_t taps) {
#if EC_MVE_ASM
    EC_MVE_DOT("8", "s8", "vldrb.u8");
#else
    while (--taps >= 0) {
        acc = (int32_t)((uint32_t)acc + (uint32_t)(*x++ * *w++));
    }
    return acc;
#endif
}

/* The same of int16. */
static inline EC_UNUSED int32_t ec_dot_s16_mve(int32_t acc, const int16_t *x, const int16_t *w,
                                               int32_t taps) {
#if EC_MVE_ASM
    EC_MVE_DOT("16", "s16", "vldrh.u16");
#else
    while (--taps >= 0) {
        acc = (int32_t)((uint32_t)acc + (uint32_t)(*x++ * *w++));
    }
    return acc;
#endif
}

/* out[u] = bias[u] + the sum of x[u * taps + k] * w[u * taps + k] over k < taps, modulo 2^32, rescaled
 * by multiplier[0] and shift[0] < 0 with gemmlowp's double rounding, plus zero_point, limited to
 * int8, for u < units. One unit is read and then written; nothing needs an alignment. */
static EC_KERNEL void ec_svdf_time_s8_mve(int8_t *out, const int8_t *x, const int32_t *bias,
                                          const int8_t *w, const int32_t *multiplier,
                                          const int8_t *shift, const ec_svdf_sizes *n) {
    const int32_t taps = n->taps;
    int32_t units = n->units;
    const int32_t factor = *multiplier;
    const int32_t by = *shift;
    do {
        *out++ = ec_requantize_tflm_right_s8(ec_dot_s8_mve(*bias++, x, w, taps), factor, by,
                                             n->zero_point);
        x += taps;
        w += taps;
    } while (--units != 0);
}

/* The same of int16, aligned to 2 bytes. */
static EC_KERNEL void ec_svdf_time_s16_mve(int8_t *out, const int16_t *x, const int32_t *bias,
                                           const int16_t *w, const int32_t *multiplier,
                                           const int8_t *shift, const ec_svdf_sizes *n) {
    const int32_t taps = n->taps;
    int32_t units = n->units;
    const int32_t factor = *multiplier;
    const int32_t by = *shift;
    do {
        *out++ = ec_requantize_tflm_right_s8(ec_dot_s16_mve(*bias++, x, w, taps), factor, by,
                                             n->zero_point);
        x += taps;
        w += taps;
    } while (--units != 0);
}

#endif /* EC_MVE_SVDF_H */
