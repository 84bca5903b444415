/* Means and maxima of int8 channels for the vectors of Armv8.1-M (MVE).
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_POOL_S8_H
#define EC_MVE_POOL_S8_H

#include "edgec/ec_kernel.h"

/* Windows in a row, and the limits of each result. */
typedef struct {
    int32_t kernel_h, kernel_w, channels, pitch, step, pixels, lowest, maximum;
} ec_max_pool_sizes;

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
                         : "+&r"(r0), "+&r"(r1)
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
 * limited to [minimum, maximum]. 16 channels after the other are read and then written. */
static inline void ec_mean_s8_mve(int8_t *out, const int8_t *x, int32_t kernel_h, int32_t kernel_w,
                                  int32_t channels, int32_t minimum, int32_t maximum) {
    const int32_t count = kernel_h * kernel_w;
    const int32_t half = count / 2;
    for (int32_t c = 0; c < channels; c += 16) {
        const int32_t lanes = channels - c < 16 ? channels - c : 16;
        int32_t sums[16];
        EC_FILL(sums, 0, sizeof(sums));
        if (lanes == 16) {
            ec_add_channels_s8_mve(sums, x + c, count, channels);
        } else {
            for (int32_t k = 0; k < count; ++k) {
                for (int32_t i = 0; i < lanes; ++i) {
                    sums[i] += x[k * channels + c + i];
                }
            }
        }
        for (int32_t i = 0; i < lanes; ++i) {
            const int32_t mean = (sums[i] > 0 ? sums[i] + half : sums[i] - half) / count;
            out[c + i] = (int8_t)(mean < minimum ? minimum : mean > maximum ? maximum : mean);
        }
    }
}

/* out[p * channels + c] for `pixels` in a row: the largest of `lowest` and x[kh * pitch + kw *
 * channels + p * step + c] over kh < kernel_h, kw < kernel_w, at most `maximum`. A predicate masks the
 * bytes of the last vector that are not the pixel's. A pixel's inputs are read again after its first
 * outputs are written. */
static EC_KERNEL void ec_max_pool_s8_mve(int8_t *out, const int8_t *x, const ec_max_pool_sizes *n) {
    /* Here: for a compiler, assembly may write what n points to. */
    const int32_t kernel_h = n->kernel_h;
    const int32_t kernel_w = n->kernel_w;
    const int32_t channels = n->channels;
    const int32_t pitch = n->pitch;
    const int32_t step = n->step;
    const int32_t pixels = n->pixels;
    const int32_t lowest = n->lowest;
    const int32_t maximum = n->maximum;
    for (int32_t p = 0; p < pixels; ++p) {
        for (int32_t c = 0; c < channels; c += 16) {
            const int32_t lanes = channels - c < 16 ? channels - c : 16;
#if EC_MVE_ASM
            const int8_t *from = x + c;
            int32_t rows = kernel_h;
            __asm__ volatile("vctp.8 %3\n"
                             "vdup.8 q0, %4\n"
                             "vdup.8 q2, %5\n"
                             "1:\n"
                             "dls lr, %6\n"
                             "2:\n"
                             "vpst\n"
                             "vldrbt.8 q1, [%0]\n"
                             "vmax.s8 q0, q0, q1\n"
                             "add %0, %0, %7\n"
                             "le lr, 2b\n"
                             "add %0, %0, %8\n"
                             "subs %1, %1, #1\n"
                             "bne 1b\n"
                             "vmin.s8 q0, q0, q2\n"
                             "vpst\n"
                             "vstrbt.8 q0, [%2]\n"
                             : "+&r"(from), "+&r"(rows)
                             : "r"(out + c), "r"(lanes), "r"(lowest), "r"(maximum), "r"(kernel_w),
                               "r"(channels), "r"(pitch - kernel_w * channels)
                             : "lr", "q0", "q1", "q2", "cc", "memory");
#else
            for (int32_t i = c; i < c + lanes; ++i) {
                int32_t most = lowest;
                for (int32_t kh = 0; kh < kernel_h; ++kh) {
                    for (int32_t kw = 0; kw < kernel_w; ++kw) {
                        const int32_t value = x[kh * pitch + kw * channels + i];
                        most = value > most ? value : most;
                    }
                }
                out[i] = (int8_t)(most > maximum ? maximum : most);
            }
#endif
        }
        out += channels;
        x += step;
    }
}

#endif /* EC_MVE_POOL_S8_H */
