/* Element-wise functions of int8 for the DSP extension of Armv7E-M: four elements at a time.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_ELEMENTS_S8_H
#define EC_ELEMENTS_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/mul_sizes.h"

/* The upper word of a * b + 2^31, plus c. */
static inline EC_UNUSED int32_t ec_smmlar(int32_t a, int32_t b, int32_t c) {
#if EC_DSP_ASM
    int32_t sum;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
#else
    return ec_multiply_add_high(a, b, 0x8000, c);
#endif
}

/* The low half-words of four numbers, each limited to int8, as bytes. */
static inline EC_UNUSED int32_t ec_four_s8(int32_t n0, int32_t n1, int32_t n2, int32_t n3) {
#if EC_DSP_ASM
    int32_t even;
    int32_t odd;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(even) : "r"(n0), "r"(n2));
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(odd) : "r"(n1), "r"(n3));
    __asm__("ssat16 %0, #8, %0\n"
            "uxtb16 %0, %0"
            : "+r"(even));
    __asm__("ssat16 %0, #8, %0\n"
            "uxtb16 %0, %0"
            : "+r"(odd));
    return even | (int32_t)((uint32_t)odd << 8);
#else
    const int32_t numbers[4] = { n0, n1, n2, n3 };
    uint32_t four = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        const int32_t n = numbers[i];
        four |= ((uint32_t)(n < -128 ? -128 : n > 127 ? 127 : n) & 0xFFu) << 8 * i;
    }
    return (int32_t)four;
#endif
}

/* The product of the low halves of x and y. */
static inline EC_UNUSED int32_t ec_low_product(int32_t x, int32_t y) {
    return (int16_t)((uint32_t)x & 0xFFFFu) * (int16_t)((uint32_t)y & 0xFFFFu);
}

/* (product * multiplier + 2^31) / 2^32 + added, less one for a negative product, then >> shift. */
static inline EC_UNUSED int32_t ec_rescale_product(int32_t product, int32_t multiplier,
                                                   int32_t added, int32_t shift) {
    return (ec_smmlar(product, multiplier, added) + (product >> 31)) >> shift;
}

/* out[i] = (a[i] + first) * (b[i] + second) * multiplier * 2^(shift - 31) with gemmlowp's double
 * rounding, plus zero_point, limited to int8, for i < count; -20 <= shift < 0, so that the result fits
 * in int16 before it is limited. first and second are in -127..128. Four elements are read, then
 * written, at a time; nothing needs an alignment. */
static EC_KERNEL void ec_mul_s8_dsp(int8_t *out, const int8_t *a, const int8_t *b,
                                    const ec_mul_sizes *n) {
    const int32_t multiplier = n->multiplier;
    int32_t count = n->count;
    const int32_t right = -n->shift;
    const int32_t added = (1 << (right - 1)) + n->zero_point * (1 << right);
    const int32_t firsts = ec_low_halves(n->first, n->first);
    const int32_t seconds = ec_low_halves(n->second * 2, n->second * 2);
    const int8_t *const end = a + (count & ~3);
    while (a != end) {
        const int32_t x = ec_load_word(a);
        const int32_t y = ec_load_word(b);
        const int32_t x0 = ec_sxtab16(firsts, x);
        const int32_t x1 = ec_sxtab16_odd(firsts, x);
        const int32_t y0 = ec_sxtab16(ec_sxtab16(seconds, y), y); /* twice: no doubling later */
        const int32_t y1 = ec_sxtab16_odd(ec_sxtab16_odd(seconds, y), y);
        const int32_t n0 = ec_rescale_product(ec_low_product(x0, y0), multiplier, added, right);
        const int32_t n1 = ec_rescale_product(ec_low_product(x1, y1), multiplier, added, right);
        const int32_t n2 = ec_rescale_product((x0 >> 16) * (y0 >> 16), multiplier, added, right);
        const int32_t n3 = ec_rescale_product((x1 >> 16) * (y1 >> 16), multiplier, added, right);
        ec_store_word(out, ec_four_s8(n0, n1, n2, n3));
        a += 4;
        b += 4;
        out += 4;
    }
    for (count &= 3; count != 0; --count) {
        const int32_t product = (*a++ + n->first) * (*b++ + n->second) * 2;
        const int32_t sum = ec_rescale_product(product, multiplier, added, right);
        *out++ = (int8_t)(sum < -128 ? -128 : sum > 127 ? 127 : sum);
    }
}

/* out[i] = the upper word of (a[i] + first) * (b[i] + second) * multiplier + 2^31, plus zero_point,
 * limited to int8, for i < count; before it is limited it fits in int16. first and second are in
 * -127..128. Four elements are read, then written, at a time; nothing needs an alignment. */
static EC_KERNEL void ec_mul_high_s8_dsp(int8_t *out, const int8_t *a, const int8_t *b,
                                         int32_t count, int32_t first, int32_t second,
                                         int32_t multiplier, int32_t zero_point) {
    const int32_t firsts = ec_low_halves(first, first);
    const int32_t seconds = ec_low_halves(second, second);
    const int8_t *const end = a + (count & ~3);
    while (a != end) {
        const int32_t x = ec_load_word(a);
        const int32_t y = ec_load_word(b);
        const int32_t x0 = ec_sxtab16(firsts, x);
        const int32_t x1 = ec_sxtab16_odd(firsts, x);
        const int32_t y0 = ec_sxtab16(seconds, y);
        const int32_t y1 = ec_sxtab16_odd(seconds, y);
        const int32_t n0 = ec_smmlar(ec_low_product(x0, y0), multiplier, zero_point);
        const int32_t n1 = ec_smmlar(ec_low_product(x1, y1), multiplier, zero_point);
        const int32_t n2 = ec_smmlar((x0 >> 16) * (y0 >> 16), multiplier, zero_point);
        const int32_t n3 = ec_smmlar((x1 >> 16) * (y1 >> 16), multiplier, zero_point);
        ec_store_word(out, ec_four_s8(n0, n1, n2, n3));
        a += 4;
        b += 4;
        out += 4;
    }
    for (count &= 3; count != 0; --count) {
        const int32_t n = ec_smmlar((*a++ + first) * (*b++ + second), multiplier, zero_point);
        *out++ = (int8_t)(n < -128 ? -128 : n > 127 ? 127 : n);
    }
}

#endif /* EC_ELEMENTS_S8_H */
