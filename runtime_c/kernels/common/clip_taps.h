/* Which taps of a window lie inside.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CLIP_TAPS_H
#define EC_CLIP_TAPS_H

#include "edgec/ec_kernel.h"

/* The taps [*first, *last) of `kernel` that lie inside [0, extent); tap 0 is at `at`. */
static EC_SHARED void ec_clip_taps(int32_t *first, int32_t *last, int32_t at, int32_t kernel,
                                   int32_t dilation, int32_t extent) {
    int32_t begin = 0;
    int32_t end = kernel;
    while (begin < end && at + begin * dilation < 0) {
        ++begin;
    }
    while (end > begin && at + (end - 1) * dilation >= extent) {
        --end;
    }
    *first = begin;
    *last = end;
}

#endif /* EC_CLIP_TAPS_H */
