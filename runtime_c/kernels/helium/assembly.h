/* Assembly that kernels for the vectors of Armv8.1-M (MVE) share.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_ASSEMBLY_H
#define EC_MVE_ASSEMBLY_H

/* clang-format off */

/* Assembly: 1 less where `sums` are negative and shifted, for VRSHL to round ties away from zero.
 * VQDMLAH adds floor(2 * other * one / 2^32), which is -1 or 0; one: a register that holds 1. */
#define EC_TIES_MVE(sums, shifts, other, one) \
    "vand " other ", " sums ", " shifts "\n" \
    "vqdmlah.s32 " sums ", " other ", " one "\n"

/* clang-format on */

#endif /* EC_MVE_ASSEMBLY_H */
