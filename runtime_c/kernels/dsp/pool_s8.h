/* Means, sums and maxima of int8 channels for the DSP extension of Armv7E-M: four channels at a time,
 * or eight. Sums of up to 255 elements are kept as int16, two in a word.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_POOL_S8_H
#define EC_POOL_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* The larger of each of four int8. */
static inline EC_UNUSED int32_t ec_max_four_s8(int32_t x, int32_t y) {
#if EC_DSP_ASM
    int32_t most;
    __asm__("ssub8 %0, %1, %2\n"
            "sel %0, %1, %2"
            : "=&r"(most)
            : "r"(x), "r"(y)
            : "cc");
    return most;
#elif EC_DSP_ACLE
    (void)__ssub8(x, y);
    return (int32_t)__sel((uint8x4_t)x, (uint8x4_t)y);
#else
    uint32_t most = 0;
    for (uint32_t i = 0; i < 32; i += 8) {
        const int8_t a = (int8_t)((uint32_t)x >> i & 0xFFu);
        const int8_t b = (int8_t)((uint32_t)y >> i & 0xFFu);
        most |= ((uint32_t)(a > b ? a : b) & 0xFFu) << i;
    }
    return (int32_t)most;
#endif
}

/* Interleave the int16 of `even` and of `odd`. */
static inline EC_UNUSED void ec_store_pairs_dsp(int16_t *to, int32_t even, int32_t odd) {
#if EC_DSP_ASM
    int32_t low;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(low) : "r"(even), "r"(odd));
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(odd) : "r"(odd), "r"(even));
    ec_store_word(to, low);
    ec_store_word(to + 2, odd);
#else
    ec_store_word(to, ec_low_halves(even, odd));
    ec_store_word(to + 2, ec_high_halves(even, odd));
#endif
}

/* The sums of x[kh * pitch + kw * channels + i] over kh < kernel_h, kw < kernel_w, for i < 4, of 255
 * elements at most, as int16: of i = 0 and 2, and of 1 and 3. */
static inline EC_UNUSED void ec_sum_four_s8_dsp(int32_t *sums, const int8_t *x, int32_t kernel_h,
                                                int32_t kernel_w, int32_t channels, int32_t pitch) {
    int32_t even = 0;
    int32_t odd = 0;
    do {
        const int8_t *at = x;
        int32_t taps = kernel_w;
        do {
            const int32_t four = ec_load_word(at);
            at += channels;
            even = ec_sxtab16(even, four);
            odd = ec_sxtab16_odd(odd, four);
        } while (--taps != 0);
        x += pitch;
    } while (--kernel_h != 0);
    sums[0] = even;
    sums[1] = odd;
}

/* out[c] = the mean of x[kh * pitch + kw * channels + c] over kh < kernel_h, kw < kernel_w, ties away
 * from zero, limited to [minimum, maximum]; of 255 elements at most. channels is a multiple of 4, of
 * which each four are read and then written; nothing needs an alignment. */
static inline void ec_mean_s8_dsp(int8_t *out, const int8_t *x, int32_t kernel_h, int32_t kernel_w,
                                  int32_t channels, int32_t pitch, int32_t minimum,
                                  int32_t maximum) {
    const int32_t count = kernel_h * kernel_w;
    const int32_t is_whole = pitch == kernel_w * channels;
    for (int32_t c = 0; c < channels; c += 4) {
        int32_t pairs[2];
        int16_t sums[4];
        ec_sum_four_s8_dsp(pairs, x + c, is_whole ? 1 : kernel_h, is_whole ? count : kernel_w,
                           channels, pitch);
        ec_store_pairs_dsp(sums, pairs[0], pairs[1]);
        for (int32_t i = 0; i < 4; ++i) {
            const int32_t sum = sums[i];
            int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
            mean = minimum > -128 && mean < minimum ? minimum : mean;
            mean = maximum < 127 && mean > maximum ? maximum : mean;
            *out++ = (int8_t)mean;
        }
    }
}

/* The low int16 of pair added to x. */
static inline EC_UNUSED int32_t ec_sxtah(int32_t x, int32_t pair) {
#if EC_DSP_ASM
    int32_t sum;
    __asm__("sxtah %0, %1, %2" : "=r"(sum) : "r"(x), "r"(pair));
    return sum;
#else
    return x + (int16_t)((uint32_t)pair & 0xFFFFu);
#endif
}

/* out[i] = total[i] plus four int16, of i = 0 and 2, and of 1 and 3. */
static inline EC_UNUSED void ec_add_pairs_dsp(int32_t *out, const int32_t *total, int32_t even,
                                              int32_t odd) {
    const int32_t first = ec_sxtah(total[0], even);
    const int32_t second = ec_sxtah(total[1], odd);
    const int32_t third = total[2] + (even >> 16);
    const int32_t fourth = total[3] + (odd >> 16);
    out[0] = first;
    out[1] = second;
    out[2] = third;
    out[3] = fourth;
}

/* out[c] = total[c] plus the sum of x[k * channels + c] over k < count <= 255. channels is a multiple
 * of 8. Eight of total are read before these of out are written: they may be the same. out and total
 * are aligned to 4 bytes. */
static EC_KERNEL void ec_add_channels_s8_dsp(int32_t *out, const int8_t *x, const int32_t *total,
                                             int32_t count, int32_t channels) {
    const int8_t *const end = x + channels;
    do {
        int32_t even0 = 0;
        int32_t odd0 = 0;
        int32_t even1 = 0;
        int32_t odd1 = 0;
        const int8_t *at = x;
        int32_t taps = count;
        do {
            const int32_t first = ec_load_word(at);
            const int32_t second = ec_load_word(at + 4);
            at += channels;
            even0 = ec_sxtab16(even0, first);
            odd0 = ec_sxtab16_odd(odd0, first);
            even1 = ec_sxtab16(even1, second);
            odd1 = ec_sxtab16_odd(odd1, second);
        } while (--taps != 0);
        ec_add_pairs_dsp(out, total, even0, odd0);
        ec_add_pairs_dsp(out + 4, total + 4, even1, odd1);
        out += 8;
        total += 8;
        x += 8;
    } while (x != end);
}

/* out[c] = the sum of x[k * channels + c] over k < kernel_h * kernel_w. channels is a multiple of 8.
 * out is aligned to 4 bytes and overlaps x nowhere. */
static EC_KERNEL void ec_sum_channels_s8_dsp(int32_t *out, const int8_t *x, int32_t kernel_h,
                                             int32_t kernel_w, int32_t channels) {
    int32_t count = kernel_h * kernel_w;
    EC_FILL(out, 0, (size_t)channels * sizeof *out);
    do {
        const int32_t some = count < 255 ? count : 255;
        ec_add_channels_s8_dsp(out, x, out, some, channels);
        x += some * channels;
        count -= some;
    } while (count != 0);
}

/* out[c] = the largest of `lowest` and x[kh * pitch + kw * channels + c] over kh < kernel_h, kw <
 * kernel_w, at most `maximum`. channels is a multiple of 4, of which each four are read and then
 * written; nothing needs an alignment. */
static inline void ec_max_pool_s8_dsp(int8_t *out, const int8_t *x, int32_t kernel_h,
                                      int32_t kernel_w, int32_t channels, int32_t pitch,
                                      int32_t lowest, int32_t maximum) {
    const int32_t least = (int32_t)(((uint32_t)lowest & 0xFFu) * 0x01010101u);
    const int32_t limit = (int32_t)(((uint32_t)maximum & 0xFFu) * 0x01010101u);
    for (int32_t c = 0; c < channels; c += 4) {
        int32_t most = lowest > -128 ? least : ec_load_word(x + c);
        for (int32_t kh = 0; kh < kernel_h; ++kh) {
            for (int32_t kw = lowest > -128 || kh > 0 ? 0 : 1; kw < kernel_w; ++kw) {
                most = ec_max_four_s8(most, ec_load_word(x + kh * pitch + kw * channels + c));
            }
        }
        if (maximum < 127) { /* the smaller of two: the larger of their complements */
            most = ~ec_max_four_s8(~most, ~limit);
        }
        ec_store_word(out + c, most);
    }
}

#endif /* EC_POOL_S8_H */
