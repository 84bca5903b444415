/* Two results of int16 limited at once.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CLIP_PAIR_H
#define EC_CLIP_PAIR_H

/* clang-format off */

/* Assembly: limit both int16 in x to the int16 in low and high; `spare` may be changed. */
#define EC_CLIP_PAIR(x, low, high, spare) \
    "ssub16 " spare ", " x ", " low "\n" \
    "sel " x ", " x ", " low "\n" \
    "ssub16 " spare ", " high ", " x "\n" \
    "sel " x ", " x ", " high "\n"

/* Assembly: split the two limits in `both` into two words, each with its limit twice. */
#define EC_SPREAD_LIMITS(low, high, both) \
    "pkhbt " low ", " both ", " both ", lsl #16\n" \
    "pkhtb " high ", " both ", " both ", asr #16\n"

/* clang-format on */

#endif /* EC_CLIP_PAIR_H */
