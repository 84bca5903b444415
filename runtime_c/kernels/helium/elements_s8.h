/* Element-wise functions of int8 for the vectors of Armv8.1-M (MVE).
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_ELEMENTS_S8_H
#define EC_MVE_ELEMENTS_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/mul_sizes.h"

/* The number of sums, and their constants. */
typedef struct {
    int32_t count, first, second, constant, shift, minimum, maximum;
} ec_linear_sum_sizes;

/* out[i] = (a[i] * first + b[i] * second + constant) >> shift, limited to [minimum, maximum], for
 * i < count. No sum overflows, whichever product is added first. Four elements at a time, which are
 * read before they are written; nothing needs an alignment. */
static EC_KERNEL void ec_linear_sum_s8_mve(int8_t *out, const int8_t *a, const int8_t *b,
                                           const ec_linear_sum_sizes *n) {
#if EC_MVE_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register const ec_linear_sum_sizes *r3 __asm__("r3") = n;
    /* clang-format off */
    __asm__ volatile(
        "push {r4-r10}\n"
        "vpush {d8-d11}\n"
        "ldm r3, {r4-r10}\n"
        "rsb r8, r8, #0\n" /* to the right */
        "vdup.32 q3, r5\n"
        "vdup.32 q4, r9\n"
        "vdup.32 q5, r10\n"
        "dlstp.32 lr, r4\n"
        "1:\n"
        "vldrb.s32 q0, [r1], #4\n"
        "vldrb.s32 q1, [r2], #4\n"
        "vmlas.s32 q0, q3, r7\n"
        "vmla.s32 q0, q1, r6\n"
        "vshl.s32 q0, r8\n"
        "vmax.s32 q0, q0, q4\n"
        "vmin.s32 q0, q0, q5\n"
        "vstrb.32 q0, [r0], #4\n"
        "letp lr, 1b\n"
        "vpop {d8-d11}\n"
        "pop {r4-r10}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "lr", "q0", "q1", "q3", "cc", "memory");
    /* clang-format on */
#else
    for (int32_t i = 0; i < n->count; ++i) {
        const int32_t value = (a[i] * n->first + n->constant + b[i] * n->second) >> n->shift;
        out[i] = (int8_t)ec_min_s32(ec_max_s32(value, n->minimum), n->maximum);
    }
#endif
}

/* clang-format off */

/* Assembly: a loop over eight products at a time begins; r4 counts elements, r5 and r6 are added. */
#define EC_MUL_PRODUCTS_MVE \
    "add lr, r4, #7\n" \
    "lsr lr, lr, #3\n" \
    "dls lr, lr\n" /* a tail of half-words would cut products in two */ \
    "1:\n" \
    "vctp.16 r4\n" \
    "sub r4, r4, #8\n" \
    "vpstt\n" \
    "vldrbt.s16 q0, [r1], #8\n" \
    "vldrbt.s16 q1, [r2], #8\n" \
    "vadd.i16 q0, q0, r5\n" \
    "vadd.i16 q1, q1, r6\n" \
    "vmullb.s16 q2, q0, q1\n" \
    "vmullt.s16 q0, q0, q1\n"

/* Assembly: the results are narrowed and stored, with a register added; the loop ends. */
#define EC_MUL_STORE_MVE(zero_point) \
    "vqmovnb.s32 q2, q2\n" \
    "vqmovnt.s32 q2, q0\n" \
    "vqadd.s16 q2, q2, " zero_point "\n" \
    "vqmovnb.s16 q2, q2\n" \
    "vpst\n" \
    "vstrbt.16 q2, [r0], #8\n" \
    "le lr, 1b\n"

/* clang-format on */

/* out[i] = (a[i] + first) * (b[i] + second) * multiplier * 2^(shift - 31) with gemmlowp's double
 * rounding, plus zero_point, limited to int8, for i < count; shift < 0. first and second are in
 * -127..128. Eight elements are read, then written, at a time; nothing needs an alignment. */
static EC_KERNEL void ec_mul_s8_mve(int8_t *out, const int8_t *a, const int8_t *b,
                                    const ec_mul_sizes *n) {
#if EC_MVE_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register const ec_mul_sizes *r3 __asm__("r3") = n;
    /* clang-format off */
    __asm__ volatile(
        "push {r4-r9}\n"
        "ldm r3, {r4-r9}\n"
        "movs r3, #1\n"
        EC_MUL_PRODUCTS_MVE
        "vqrdmulh.s32 q2, q2, r7\n"
        "vqrdmulh.s32 q0, q0, r7\n"
        "vqdmlah.s32 q2, q2, r3\n" /* negative ties go down */
        "vqdmlah.s32 q0, q0, r3\n"
        "vrshl.s32 q2, r8\n"
        "vrshl.s32 q0, r8\n"
        EC_MUL_STORE_MVE("r9")
        "pop {r4-r9}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    for (int32_t i = 0; i < n->count; ++i) {
        const int32_t product = (a[i] + n->first) * (b[i] + n->second);
        const int32_t sum = ec_requantize_tflm(product, n->multiplier, n->shift) + n->zero_point;
        out[i] = (int8_t)ec_min_s32(ec_max_s32(sum, -128), 127);
    }
#endif
}

/* out[i] = the upper word of (a[i] + first) * (b[i] + second) * multiplier + 2^31, plus zero_point,
 * limited to int8, for i < count. first and second are in -127..128, so that their sums with int8 fit in
 * 9 bits. Eight elements are read, then written, at a time; nothing needs an alignment. */
static EC_KERNEL void ec_mul_high_s8_mve(int8_t *out, const int8_t *a, const int8_t *b,
                                         int32_t count, int32_t first, int32_t second,
                                         int32_t multiplier, int32_t zero_point) {
#if EC_MVE_ASM
    const int32_t given[5] = { count, first, second, multiplier, zero_point };
    register int8_t *r0 __asm__("r0") = out;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register const int32_t *r3 __asm__("r3") = given;
    /* clang-format off */
    __asm__ volatile(
        "push {r4-r8}\n"
        "ldm r3, {r4-r8}\n"
        "vdup.32 q3, r7\n"
        EC_MUL_PRODUCTS_MVE
        "vrmulh.s32 q2, q2, q3\n"
        "vrmulh.s32 q0, q0, q3\n"
        EC_MUL_STORE_MVE("r8")
        "pop {r4-r8}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
#else
    for (int32_t i = 0; i < count; ++i) {
        const int32_t product = (a[i] + first) * (b[i] + second);
        const int32_t n = ec_multiply_add_high(product, multiplier, 0x8000, zero_point);
        out[i] = (int8_t)(n < -128 ? -128 : n > 127 ? 127 : n);
    }
#endif
}

#endif /* EC_MVE_ELEMENTS_S8_H */
