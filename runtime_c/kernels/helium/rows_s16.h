/* Rows of an image of int16 on MVE, as in rows_s8.h.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_ROWS_S16_H
#define EC_MVE_ROWS_S16_H

#include "kernels/helium/rows_s8.h"

/* ec_pad_rows_s8_mve with zeros. */
static inline void ec_pad_rows_s16_mve(int16_t *to, const int16_t *x,
                                       const ec_pad_rows_mve_sizes *n, int32_t row) {
    ec_pad_rows_s8_mve((int8_t *)to, (const int8_t *)x, n, row);
}

/* ec_columns_mve of int16. */
static EC_KERNEL void ec_columns_s16_mve(int16_t *to, const int16_t *x,
                                         const ec_columns_mve_sizes *n) {
    ec_columns_mve((int8_t *)to, (const int8_t *)x, 2, n);
}

#endif /* EC_MVE_ROWS_S16_H */
