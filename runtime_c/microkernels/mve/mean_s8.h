/* Means of int8 channels for the vectors of Armv8.1-M (MVE).
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MEAN_S8_H
#define EC_MVE_MEAN_S8_H

#include "edgec/ec_kernel.h"

/* sums[0..16) += x[k * step + i] over k < count, 16 channels. int16 holds 255 values of int8. */
static EC_KERNEL void ec_add_channels_s8_mve(int32_t *sums, const int8_t *x, int32_t count,
                                             int32_t step) {
#if EC_MVE_ASM
    while (count > 0) {
        const int32_t some = count < 255 ? count : 255;
        int16_t part[16];
        register const int8_t *r0 __asm__("r0") = x;
        register int16_t *r1 __asm__("r1") = part;
        __asm__ volatile("vmov.i32 q0, #0\n"
                         "vmov.i32 q1, #0\n"
                         "dls lr, %2\n"
                         "1:\n"
                         "vldrb.s16 q2, [r0]\n"
                         "vldrb.s16 q3, [r0, #8]\n"
                         "vadd.i16 q0, q0, q2\n"
                         "vadd.i16 q1, q1, q3\n"
                         "add r0, r0, %3\n"
                         "le lr, 1b\n"
                         "vstrh.16 q0, [r1]\n"
                         "vstrh.16 q1, [r1, #16]\n"
                         : "+r"(r0), "+r"(r1)
                         : "r"(some), "r"(step)
                         : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
        for (int32_t i = 0; i < 16; ++i) {
            sums[i] += part[i];
        }
        x += some * step;
        count -= some;
    }
#else
    for (int32_t k = 0; k < count; ++k) {
        for (int32_t i = 0; i < 16; ++i) {
            sums[i] += x[k * step + i];
        }
    }
#endif
}

/* out[c]: the mean of x[k * channels + c] over all k < kernel_h * kernel_w, ties away from zero,
 * limited to [minimum, maximum]. channels >= 16; the last 16 may overlap those before. out and x
 * must not overlap. */
static inline void ec_mean_s8_mve(int8_t *out, const int8_t *x, int32_t kernel_h, int32_t kernel_w,
                                  int32_t channels, int32_t minimum, int32_t maximum) {
    const int32_t count = kernel_h * kernel_w;
    const int32_t half = count / 2;
    for (int32_t c = 0; c < channels; c += 16) {
        const int32_t first = c + 16 > channels ? channels - 16 : c;
        int32_t sums[16];
        EC_FILL(sums, 0, sizeof(sums));
        ec_add_channels_s8_mve(sums, x + first, count, channels);
        for (int32_t i = 0; i < 16; ++i) {
            const int32_t mean = (sums[i] > 0 ? sums[i] + half : sums[i] - half) / count;
            out[first + i] = (int8_t)(mean < minimum ? minimum : mean > maximum ? maximum : mean);
        }
    }
}

#endif /* EC_MVE_MEAN_S8_H */
