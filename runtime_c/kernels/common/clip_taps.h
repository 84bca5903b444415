/* Which taps of a window lie inside.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CLIP_TAPS_H
#define EC_CLIP_TAPS_H

#include "edgec/ec_kernel.h"

/* The taps of `kernel` that lie inside [0, extent), where tap 0 is at `at`: the first one, and above its
 * 32 bits the one after the last. Both halves stay in registers, where a struct would not. */
static EC_SHARED EC_PURE uint64_t ec_clip_taps(int32_t at, int32_t kernel, int32_t dilation,
                                               int32_t extent) {
    int32_t begin = 0;
    int32_t end = kernel;
    while (begin < end && at + begin * dilation < 0) {
        ++begin;
    }
    while (end > begin && at + (end - 1) * dilation >= extent) {
        --end;
    }
    return (uint64_t)(uint32_t)end << 32 | (uint32_t)begin;
}

/* The first of these taps. */
static inline EC_UNUSED int32_t ec_first_tap(uint64_t taps) {
    return (int32_t)(taps & 0xFFFFFFFFu);
}

/* The one after the last of these taps. */
static inline EC_UNUSED int32_t ec_taps_end(uint64_t taps) {
    return (int32_t)(taps >> 32);
}

#endif /* EC_CLIP_TAPS_H */
