/* Sums of float32 products for one row of inputs.
 *
 * Each weight is used once, so loading weights limits the speed: eight are loaded at a time. Products are
 * added in the order of the inputs, with two roundings each.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_PRODUCTS_F32_H
#define EC_FPU_PRODUCTS_F32_H

#include "edgec/ec_kernel.h"
#include "kernels/cortex_m/accumulate_f32.h"

/* clang-format off */

/* Assembly: the weights in a, b, c and d times x, added to the sums s0 to s3. */
#define EC_ONE_INPUT_F32_ASM(x, a, b, c, d) \
    "vmul.f32 " a ", " a ", " x "\n" \
    "vmul.f32 " b ", " b ", " x "\n" \
    "vadd.f32 s0, s0, " a "\n" \
    "vmul.f32 " c ", " c ", " x "\n" \
    "vadd.f32 s1, s1, " b "\n" \
    "vmul.f32 " d ", " d ", " x "\n" \
    "vadd.f32 s2, s2, " c "\n" \
    "vadd.f32 s3, s3, " d "\n"

/* Assembly: two inputs and their eight weights at %2, which advances. */
#define EC_TWO_INPUTS_F32_ASM(x, y) \
    "vldmia %2!, {s8-s15}\n" \
    EC_ONE_INPUT_F32_ASM(x, "s8", "s9", "s10", "s11") \
    EC_ONE_INPUT_F32_ASM(y, "s12", "s13", "s14", "s15")

/* Assembly: %3 inputs at %1 and their weights at %2, which go on, four inputs at a time. */
#define EC_INPUTS_F32_ASM \
    "subs %3, %3, #4\n" \
    "blt 2f\n" \
    "1:\n" \
    "vldmia %1!, {s4-s7}\n" \
    EC_TWO_INPUTS_F32_ASM("s4", "s5") \
    EC_TWO_INPUTS_F32_ASM("s6", "s7") \
    "subs %3, %3, #4\n" \
    "bge 1b\n" \
    "2:\n" \
    "adds %3, %3, #4\n" \
    "beq 4f\n" \
    "3:\n" \
    "vldmia %1!, {s4}\n" \
    "vldmia %2!, {s8-s11}\n" \
    EC_ONE_INPUT_F32_ASM("s4", "s8", "s9", "s10", "s11") \
    "subs %3, %3, #1\n" \
    "bne 3b\n" \
    "4:\n"

/* Assembly: s4 in place of each of four sums, if it is on this side of it; a NaN stays one. */
#define EC_LIMIT_FOUR_F32_ASM(side) \
    ".irp d, s0, s1, s2, s3\n" \
    "vcmp.f32 s4, \\d\n" \
    "vmrs APSR_nzcv, fpscr\n" \
    "it " side "\n" \
    "vmov" side ".f32 \\d, s4\n" \
    ".endr\n"

/* clang-format on */

/* sums[c] += x[k] * w[4 * k + c] for c < 4 and k < count, k in order. */
static EC_KERNEL void ec_add_products_f32(float *sums, const float *x, const float *w,
                                          int32_t count) {
#if EC_MVE_FLOAT_ASM
    uint32_t flushed;
    const float *from = x, *weights = w;
    /* clang-format off */
    __asm__ volatile(
        "vmrs r0, fpscr\n"
        "bic r0, r0, #0x88\n"
        "vmsr fpscr, r0\n"
        "vldrw.32 q0, [%3]\n"
        "lsrs r0, %4, #1\n"
        "wls lr, r0, 2f\n"
        "1:\n"
        "ldrd r0, r12, [%1], #8\n"
        "vldrw.32 q1, [%2], #16\n"
        "vmul.f32 q1, q1, r0\n"
        "vldrw.32 q2, [%2], #16\n"
        "vadd.f32 q0, q0, q1\n"
        "vmul.f32 q2, q2, r12\n"
        "vadd.f32 q0, q0, q2\n"
        "le lr, 1b\n"
        "2:\n"
        "lsls r0, %4, #31\n"
        "beq 3f\n"
        "ldr r0, [%1]\n"
        "vldrw.32 q1, [%2]\n"
        "vmul.f32 q1, q1, r0\n"
        "vadd.f32 q0, q0, q1\n"
        "3:\n"
        "vmrs %0, fpscr\n"
        "ands %0, %0, #0x88\n"
        "bne 4f\n"
        "vstrw.32 q0, [%3]\n"
        "4:\n"
        : "=&r"(flushed), "+r"(from), "+r"(weights)
        : "r"(sums), "r"(count)
        : "r0", "r12", "lr", "q0", "q1", "q2", "cc", "memory");
    /* clang-format on */
    if (flushed ==
        0) { /* else a denormal was flushed, and nothing is stored: see accumulate_f32_mve.h */
        return;
    }
#endif
#if EC_DSP_FPU_ASM
    /* clang-format off */
    __asm__ volatile(
        "vldmia %0, {s0-s3}\n"
        EC_INPUTS_F32_ASM
        "vstmia %0, {s0-s3}\n"
        : "+r"(sums), "+r"(x), "+r"(w), "+r"(count)
        :
        : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13",
          "s14", "s15", "cc", "memory");
    /* clang-format on */
#else
    for (int32_t k = 0; k < count; ++k) {
        for (int32_t c = 0; c < 4; ++c) {
            sums[c] += x[k] * w[4 * k + c];
        }
    }
#endif
}

/* A row of a dense layer: the inputs, the outputs, and their limits, as of ec_store_sums_f32; low and high are
 * the bits of floats. */
typedef struct {
    int32_t depth, channels, bounds, low, high;
} ec_dense_row_sizes;

/* The last outputs of a row, which assembly does not take; without it, all. */
static EC_KERNEL void ec_dense_rest_f32(float *out, const float *x, const float *stream,
                                        const ec_dense_row_sizes *n) {
    const float low = ec_f32_from_bits((uint32_t)n->low);
    const float high = ec_f32_from_bits((uint32_t)n->high);
    for (int32_t left = EC_DSP_FPU_ASM ? n->channels % 4 : n->channels; left > 0; left -= 4) {
        const int32_t lanes = left < 4 ? left : 4;
        float sums[4];
        for (int32_t c = 0; c < lanes; ++c) {
            sums[c] = stream[c];
            for (int32_t k = 0; k < n->depth; ++k) {
                sums[c] += x[k] * stream[(k + 1) * lanes + c];
            }
        }
        stream += (n->depth + 1) * lanes;
        for (int32_t c = 0; c < lanes; ++c) {
            const float sum = (n->bounds & 1) != 0 ? ec_at_least_f32(sums[c], low) : sums[c];
            *out++ = (n->bounds & 2) != 0 ? ec_at_most_f32(sum, high) : sum;
        }
    }
}

/* The bits of a number of outputs that are more than whole units. A model whose rows have only these defines
 * EC_DENSE_ROW_WHOLE. */
#if defined(EC_DENSE_ROW_WHOLE)
#define EC_DENSE_ROW_REST 0
#else
#define EC_DENSE_ROW_REST 3
#endif

/* out[c] = the sum of stream's biases and x[k] * weights, limited as by ec_store_sums_f32, for
 * c < channels and k < depth. stream: as ec_conv_row_f32 has it. Four outputs are written after
 * all of their inputs were read. */
static EC_KERNEL void ec_dense_row_f32(float *out, const float *x, const float *stream,
                                       const ec_dense_row_sizes *n) {
#if EC_DSP_FPU_ASM
    const float *const end = out + (n->channels & ~3);
    const float *from;
    int32_t left;
    if (out != end) {
        /* clang-format off */
        __asm__ volatile(
            ".syntax unified\n"
            "0:\n"
            "mov %1, %4\n"
            "ldr %3, [%5]\n"
            "vldmia %2!, {s0-s3}\n"
            EC_INPUTS_F32_ASM
            "ldr %3, [%5, #8]\n"
            "lsls %3, %3, #31\n"
            "bpl 5f\n"
            "vldr s4, [%5, #12]\n"
            EC_LIMIT_FOUR_F32_ASM("gt")
            "5:\n"
            "ldr %3, [%5, #8]\n"
            "lsls %3, %3, #30\n"
            "bpl 6f\n"
            "vldr s4, [%5, #16]\n"
            EC_LIMIT_FOUR_F32_ASM("mi")
            "6:\n"
            "vstmia %0!, {s0-s3}\n"
            "cmp %0, %6\n"
            "bne 0b\n"
            : "+r"(out), "=&r"(from), "+r"(stream), "=&r"(left)
            : "r"(x), "r"(n), "r"(end)
            : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12",
              "s13", "s14", "s15", "cc", "memory");
        /* clang-format on */
    }
    if ((n->channels & EC_DENSE_ROW_REST) == 0) {
        return;
    }
#endif
    ec_dense_rest_f32(out, x, stream, n);
}

#endif /* EC_FPU_PRODUCTS_F32_H */
