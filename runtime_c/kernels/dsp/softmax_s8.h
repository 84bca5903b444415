/* Rows of int8 for softmax, for the DSP extension of Armv7E-M: four elements at a time. Each function
 * goes through a row once: for its largest element, for the sum of its exponentials, for the results.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_SOFTMAX_S8_H
#define EC_SOFTMAX_S8_H

#include "edgec/ec_kernel.h"
#include "kernels/dsp/pool_s8.h"

/* Four bytes less four others, each modulo 2^8. */
static inline EC_UNUSED uint32_t ec_sub_four(uint32_t x, uint32_t y) {
#if EC_DSP_ASM
    uint32_t difference;
    __asm__("usub8 %0, %1, %2" : "=r"(difference) : "r"(x), "r"(y) : "cc");
    return difference;
#elif EC_DSP_ACLE
    return __usub8(x, y);
#else
    const uint32_t even = ((x | 0xFF00FF00u) - (y & 0x00FF00FFu)) & 0x00FF00FFu;
    const uint32_t odd = ((x >> 8 | 0xFF00FF00u) - (y >> 8 & 0x00FF00FFu)) & 0x00FF00FFu;
    return even | odd << 8;
#endif
}

/* An int8 in each of four bytes. */
static inline EC_UNUSED uint32_t ec_in_four(int32_t x) {
    return ((uint32_t)x & 0xFFu) * 0x01010101u;
}

/* largest[0] = the maximum of largest[0], itself in int8's range, and x[i] for i < count; count is at
 * least 4. Only largest needs an alignment. */
static EC_KERNEL void ec_largest_s8_dsp(int32_t *largest, const int8_t *x, int32_t count) {
    const int8_t *const last = x + (count - 4);
    int32_t four = ec_max_four_s8((int32_t)ec_in_four(largest[0]), ec_load_word(last));
    while (x < last) {
        four = ec_max_four_s8(four, ec_load_word(x));
        x += 4;
    }
    four = ec_max_four_s8(four, (int32_t)((uint32_t)four >> 16 | (uint32_t)four << 16));
    four = ec_max_four_s8(four, (int32_t)((uint32_t)four >> 8 | (uint32_t)four << 24));
    largest[0] = (int8_t)((uint32_t)four & 0xFFu);
}

/* An exponential of 31 fraction bits with 19 of them, rounded half up. */
static inline EC_UNUSED int32_t ec_shorter_exponential(int32_t exponential) {
    return (int32_t)(((uint32_t)exponential + 2048u) >> 12);
}

/* total[0] += exponentials[largest[0] - x[i]] / 2^12, rounded half up, for i < count. All of these are
 * in 0..255, no exponential is below 0, and no sum leaves int32. x needs no alignment. */
static EC_KERNEL void ec_sum_exponentials_s8_dsp(int32_t *total, const int8_t *x,
                                                 const int32_t *largest,
                                                 const int32_t *exponentials, int32_t count) {
    const uint32_t four = ec_in_four(largest[0]);
    int32_t sum = total[0];
    while (count >= 4) {
        const uint32_t d = ec_sub_four(four, (uint32_t)ec_load_word(x));
        sum += ec_shorter_exponential(exponentials[d & 0xFFu]);
        sum += ec_shorter_exponential(exponentials[d >> 8 & 0xFFu]);
        sum += ec_shorter_exponential(exponentials[d >> 16 & 0xFFu]);
        sum += ec_shorter_exponential(exponentials[d >> 24]);
        x += 4;
        count -= 4;
    }
    for (; count > 0; --count) {
        sum += ec_shorter_exponential(exponentials[(four - (uint32_t)*x++) & 0xFFu]);
    }
    total[0] = sum;
}

/* exponential * reciprocal, divided by 2^31 and rounded half up, then divided by 2^(shift + 1) and rounded
 * in the same way: 256 at most, limited to 255. Adding both halves first has the same result, since two
 * floor divisions are one. `half` is the second half, 2^(shift - 1), in the upper word of the sum. */
static inline EC_UNUSED uint32_t ec_share(int32_t exponential, uint32_t reciprocal, uint32_t half,
                                          int32_t shift) {
    const uint64_t both = (uint64_t)half << 32 | 0x40000000u;
    const uint64_t product = (uint64_t)(uint32_t)exponential * reciprocal + both;
    const uint32_t share = (uint32_t)(product >> 32) >> shift;
    return share - (share >> 8);
}

/* out[i] = exponentials[largest[0] - x[i]] * reciprocal[0] / 2^31 / 2^(35 - headroom[0]), each rounded
 * half up, less 128, limited to int8, for i < count. All differences are in 0..255, no exponential is
 * below 0, reciprocal is from 2^30 on and headroom in 1..12. Four elements at a time, which are read
 * before they are written; neither x nor out needs an alignment. */
static EC_KERNEL void ec_softmax_s8_dsp(int8_t *out, const int8_t *x, const int32_t *largest,
                                        const int32_t *reciprocal, const int32_t *headroom,
                                        const int32_t *exponentials, int32_t count) {
    const uint32_t four = ec_in_four(largest[0]);
    /* Above 31 all results are 0. */
    const int32_t is_small = headroom[0] < 4;
    const uint32_t factor = is_small ? 0 : (uint32_t)reciprocal[0];
    const int32_t shift = is_small ? 30 : 34 - headroom[0];
    const uint32_t half = UINT32_C(1) << (shift - 1);
    while (count >= 4) {
        const uint32_t d = ec_sub_four(four, (uint32_t)ec_load_word(x));
        const uint32_t s0 = ec_share(exponentials[d & 0xFFu], factor, half, shift);
        const uint32_t s1 = ec_share(exponentials[d >> 8 & 0xFFu], factor, half, shift);
        const uint32_t s2 = ec_share(exponentials[d >> 16 & 0xFFu], factor, half, shift);
        const uint32_t s3 = ec_share(exponentials[d >> 24], factor, half, shift);
        const uint32_t all = s0 | s1 << 8 | s2 << 16 | s3 << 24;
        ec_store_word(out, (int32_t)(all ^ 0x80808080u));
        x += 4;
        out += 4;
        count -= 4;
    }
    for (; count > 0; --count) {
        const int32_t exponential = exponentials[(four - (uint32_t)*x++) & 0xFFu];
        *out++ = (int8_t)((int32_t)ec_share(exponential, factor, half, shift) - 128);
    }
}

#endif /* EC_SOFTMAX_S8_H */
