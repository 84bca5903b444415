/* Matrix products of int8 by int4 weights that are shifted group by group of inputs, rescaled
 * as in matrix_s8_onnx.h.
 *
 * A step is a part of a group: up to 32 inputs, which one round of a loop takes. Registers hold the sums
 * of this step only, multiplied by 4096. SMLAW* multiplies each by 16 << shift, divides by 65536, without
 * a remainder, and adds the result to the channel's sum on the stack: so sums may have more bits than in
 * matrix_s8_int4.h. SMUAD begins a step, without an addend.
 *
 * Per two or four channels a stream has, in words: the biases; a byte 16 << shift for each step and
 * channel, the channels of a step together, up to a whole word; the weights; the scales. For three
 * pixels weights lie as in matrix_s8_int4.h. For one pixel, a word has the weights for two inputs, one
 * word of x; a half-word has the weights of the four channels from its highest bits down, which the same
 * mask extracts.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_ONNX_GROUPS_H
#define EC_MATRIX_S8_ONNX_GROUPS_H

#include "kernels/dsp/matrix_s8_onnx.h"

/* clang-format off */

/* As EC_S4_3_SUMS, from nothing. */
#define EC_GROUPS_3_PRODUCTS(w, s0, s1, s2) \
    "smuad " s0 ", r2, " w "\n" \
    "smuad " s1 ", r3, " w "\n" \
    "smuad " s2 ", r4, " w "\n"

/* Three pixels: two channels begin. The stack has their sums after 36 bytes, then the address of the next
 * step's bytes, and the number of bytes of all steps. */
#define EC_GROUPS_3_PAIR \
    "0:\n" \
    "str r0, [sp, #16]\n" \
    "ldmia r1!, {r2, r5}\n" \
    "mov r3, r2\n" \
    "mov r4, r2\n" \
    "mov r6, r5\n" \
    "mov r7, r5\n" \
    "add r0, sp, #36\n" \
    "stmia r0, {r2-r7}\n" \
    "ldr r2, [sp, #64]\n" \
    "str r1, [sp, #60]\n" \
    "add r1, r1, r2\n" \
    "ldr r0, [sp, #8]\n"

/* A step: its sums are in r8-r10 and r11, r12, lr. */
#define EC_GROUPS_3_STEP \
    "3:\n" \
    "mov.w r7, #0xF000F000\n" \
    EC_S4_3_QUAD(EC_GROUPS_3_PRODUCTS) \
    "ldr pc, [sp]\n" \
    ".rept 7\n" \
    EC_S4_3_QUAD(EC_S4_3_SUMS) \
    ".endr\n" \
    "4:\n"

/* Add the sums of a step to the sums of the channels; go on to the next step, if any. */
#define EC_GROUPS_3_ADD \
    "ldr r5, [sp, #60]\n" \
    "ldrh r6, [r5], #2\n" \
    "str r5, [sp, #60]\n" \
    "orr r6, r6, r6, lsl #8\n" \
    "uxtb16 r6, r6\n" \
    "add r7, sp, #36\n" \
    "ldmia r7, {r2-r4}\n" \
    "smlawb r2, r8, r6, r2\n" \
    "smlawb r3, r9, r6, r3\n" \
    "smlawb r4, r10, r6, r4\n" \
    "stmia r7!, {r2-r4}\n" \
    "ldmia r7, {r2-r4}\n" \
    "smlawt r2, r11, r6, r2\n" \
    "smlawt r3, r12, r6, r3\n" \
    "smlawt r4, lr, r6, r4\n" \
    "stmia r7, {r2-r4}\n" \
    "ldr r2, [sp, #12]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n"

/* One pixel: a word w of weights by the inputs x, by `sum` of a channel's sum. r9 is the mask. */
#define EC_GROUPS_1_WORD(sum, x, w) \
    "and.w r8, r9, " w "\n" \
    sum("r10", x, "r8") \
    "and.w r8, r9, " w ", lsl #4\n" \
    sum("r11", x, "r8") \
    "and.w r8, r9, " w ", lsl #8\n" \
    sum("r12", x, "r8") \
    "and.w r8, r9, " w ", lsl #12\n" \
    sum("lr", x, "r8")

/* Add a word's products to a channel's sum in a step. */
#define EC_GROUPS_1_SUM(sum, x, w) "smlad " sum ", " x ", " w ", " sum "\n"

/* The sum of a step's first word. */
#define EC_GROUPS_1_PRODUCT(sum, x, w) "smuad " sum ", " x ", " w "\n"

/* Eight inputs that `load` loads, 134 bytes of code if they are packed; `first` computes the sums of the
 * first word. */
#define EC_GROUPS_1_OCTET(load, first) \
    load \
    "ldmia r1!, {r6, r7}\n" \
    EC_GROUPS_1_WORD(first, "r2", "r6") \
    EC_GROUPS_1_WORD(EC_GROUPS_1_SUM, "r3", "r7") \
    "ldmia r1!, {r6, r7}\n" \
    EC_GROUPS_1_WORD(EC_GROUPS_1_SUM, "r4", "r6") \
    EC_GROUPS_1_WORD(EC_GROUPS_1_SUM, "r5", "r7")

/* One pixel begins: r4 gets the octets of a step after its first one, r6 the size of all bytes of four
 * channels, s8 the zero point. The stack has the sums, then the address of the next step's bytes: one
 * instruction loads all of these, and one stores them. Then follow the address of the last four results,
 * a free word, the address at which a step continues after its first octet, that size, the inputs, their
 * end, and the results. */
#define EC_GROUPS_1_BEGIN(octet, bytes) \
    "sub sp, #48\n" \
    "add r7, r1, r4, lsl #" octet "\n" \
    "strd r1, r7, [sp, #36]\n" \
    "adds r5, r0, r5\n" \
    "subs r5, #4\n" \
    "str r5, [sp, #20]\n" \
    "vmov s8, r6\n" \
    "mov r1, r2\n" \
    "ldrd r4, r6, [r3, #12]\n" \
    "movs r5, #" bytes "\n" \
    "adr.w r7, 4f + 1\n" \
    "mls r7, r4, r5, r7\n" \
    "strd r7, r6, [sp, #28]\n" \
    "mov.w r9, #0xF000F000\n"

/* The sums of four channels. */
#define EC_GROUPS_1_SUMS(load) \
    "0:\n" \
    "str r0, [sp, #44]\n" \
    "ldmia r1!, {r2-r5}\n" \
    "ldr r7, [sp, #32]\n" \
    "mov r6, r1\n" \
    "add r1, r1, r7\n" \
    "stmia sp, {r2-r6}\n" \
    "ldr r0, [sp, #36]\n" \
    "3:\n" \
    EC_GROUPS_1_OCTET(load, EC_GROUPS_1_PRODUCT) \
    "ldr pc, [sp, #28]\n" \
    ".rept 3\n" \
    EC_GROUPS_1_OCTET(load, EC_GROUPS_1_SUM) \
    ".endr\n" \
    "4:\n" \
    "ldmia sp, {r2-r6}\n" \
    "ldr r7, [r6], #4\n" \
    "uxtb16 r8, r7\n" \
    "uxtb16 r7, r7, ror #8\n" \
    "smlawb r2, r10, r8, r2\n" \
    "smlawb r3, r11, r7, r3\n" \
    "smlawt r4, r12, r8, r4\n" \
    "smlawt r5, lr, r7, r5\n" \
    "stmia sp, {r2-r6}\n" \
    "ldr r2, [sp, #40]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n" \
    "ldmia sp, {r10-r12, lr}\n" \
    "ldr r0, [sp, #44]\n"

/* One whole pixel; `load` loads inputs; octet, bytes: as in EC_MATRIX_1_BEGIN. */
#define EC_GROUPS_1_RUN(octet, bytes, load) \
    const int32_t sizes[5] = { octets, channels, zero_point, group - 1, octets / group * 4 }; \
    EC_MATRIX_RUN_BY(sizes, \
        EC_GROUPS_1_BEGIN(octet, bytes) \
        EC_GROUPS_1_SUMS(load) \
        EC_MATRIX_1_ONNX_END("48", EC_MATRIX_1_STORE_S8, "4"), \
        EC_MATRIX_FLOATS)

/* clang-format on */

/* Word k of the inputs of pixel p of three. */
static inline EC_UNUSED int32_t ec_word_of_3_dsp(const void *x, int32_t k, int32_t p) {
    return ec_load_word((const int16_t *)x + 6 * k + 2 * p);
}

/* Word k of the inputs of one pixel. */
static inline EC_UNUSED int32_t ec_word_of_1_dsp(const void *x, int32_t k, int32_t p) {
    (void)p;
    return ec_load_word((const int16_t *)x + 2 * k);
}

/* Word k of int8 inputs that are not packed. */
static inline EC_UNUSED int32_t ec_word_of_plain_dsp(const void *x, int32_t k, int32_t p) {
    (void)p;
    const int32_t both = ec_load_aligned((const int8_t *)x + 4 * (k >> 1));
    return (k & 1) != 0 ? ec_sxtb16_odd(both) : ec_sxtb16(both);
}

/* The pixels and channels that ec_groups_c_dsp computes at once, and words of weights, `each` in a step. */
typedef struct {
    int32_t pixels, unit, words, each, channels, zero_point;
} ec_groups_c_sizes;

/* The products of some pixels, two or four channels at a time, by `words` of inputs, which come in
 * steps of `each`. */
static inline EC_UNUSED void ec_groups_c_dsp(int8_t *out, const void *x,
                                             int32_t (*word_of)(const void *, int32_t, int32_t),
                                             const int32_t *stream, const ec_groups_c_sizes *n) {
    const int32_t bytes = n->words / n->each * n->unit;
    for (int32_t o = 0; o < n->channels; o += n->unit) {
        const uint8_t *const factors = (const uint8_t *)(stream + n->unit);
        const int32_t *const weights = stream + n->unit + (bytes + 3) / 4;
        const int32_t *const end = weights + n->words * n->unit / 4;
        const int32_t first = o + n->unit > n->channels ? n->channels - n->unit : o;
        for (int32_t at = 0; at < n->pixels * n->unit; ++at) {
            const int32_t i = at % n->unit;
            uint32_t sum = (uint32_t)stream[i];
            for (int32_t k = 0; k < n->words; k += n->each) {
                int32_t part = 0;
                for (int32_t m = k; m < k + n->each; ++m) {
                    const int32_t up = 4 * i + (n->unit == 2 ? 8 * (m & 1) : 0);
                    const uint32_t w = (uint32_t)weights[m * n->unit / 4] << up & 0xF000F000u;
                    part = ec_smlad(word_of(x, m, at / n->unit), (int32_t)w, part);
                }
                sum += (uint32_t)(part / 4096) * (factors[k / n->each * n->unit + i] / 16u);
            }
            const float scale = ec_f32_from_bits((uint32_t)end[i]);
            out[at / n->unit * n->channels + first + i] =
                ec_requantize_onnx_s8((int32_t)sum, scale, n->zero_point);
        }
        stream = end + n->unit;
    }
}

/* ec_matrix_3_onnx_s8_dsp with the stream that the top of this file describes, in steps of `group` quads,
 * 2 to 8, which divide all. Registers as in ec_matrix_3_s4_onnx_s8_dsp. */
static EC_KERNEL void ec_matrix_3_groups_onnx_s8_dsp(int8_t *out, const int16_t *x,
                                                     const int32_t *stream, int32_t quads,
                                                     int32_t group, int32_t channels,
                                                     int32_t zero_point) {
#if EC_DSP_FPU_ASM
    const int32_t sizes[5] = { quads, channels, zero_point, group - 1,
                               (quads / group + 1) / 2 * 4 };
    /* clang-format off */
    EC_MATRIX_RUN_BY(sizes,
        EC_S4_3_BEGIN("68",
            "ldr r4, [r3, #16]\n"
            "str r4, [sp, #64]\n"
            "ldr r4, [r3, #12]\n")
        EC_GROUPS_3_PAIR
        EC_GROUPS_3_STEP
        EC_GROUPS_3_ADD
        "add r7, sp, #36\n"
        "ldmia r7, {r8-r12, lr}\n"
        EC_MATRIX_3_ONNX
        EC_MATRIX_3_STORE_S8
        EC_MATRIX_NEXT("r0", "1")
        "9:\n"
        "add sp, #68\n",
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    const ec_groups_c_sizes n = { 3, 2, 2 * quads, 2 * group, channels, zero_point };
    ec_groups_c_dsp(out, x, ec_word_of_3_dsp, stream, &n);
#endif
}

/* ec_matrix_1_onnx_s8_dsp with the stream that the top of this file describes, in steps of `group` octets,
 * 1 to 4, which divide all. Registers as there, but that r6 and r7 are words of weights, r8 is an
 * operand and r9 the mask. */
static EC_KERNEL void ec_matrix_1_groups_onnx_s8_dsp(int8_t *out, const int16_t *x,
                                                     const int32_t *stream, int32_t octets,
                                                     int32_t group, int32_t channels,
                                                     int32_t zero_point) {
#if EC_DSP_FPU_ASM
    EC_GROUPS_1_RUN("4", "134", EC_MATRIX_1_PACKED);
#else
    const ec_groups_c_sizes n = { 1, 4, 4 * octets, 4 * group, channels, zero_point };
    ec_groups_c_dsp(out, x, ec_word_of_1_dsp, stream, &n);
#endif
}

/* ec_matrix_1_plain_onnx_s8_dsp with this stream. */
static EC_KERNEL void ec_matrix_1_plain_groups_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                           const int32_t *stream, int32_t octets,
                                                           int32_t group, int32_t channels,
                                                           int32_t zero_point) {
#if EC_DSP_FPU_ASM
    EC_GROUPS_1_RUN("3", "150", EC_MATRIX_1_PLAIN);
#else
    const ec_groups_c_sizes n = { 1, 4, 4 * octets, 4 * group, channels, zero_point };
    ec_groups_c_dsp(out, x, ec_word_of_plain_dsp, stream, &n);
#endif
}

#endif /* EC_MATRIX_S8_ONNX_GROUPS_H */
