/* Blocks of sums of int8 products for cores without vectors: some pixels by some channels.
 *
 * Each input is read once for all channels of a block, and each weight once for all its pixels. The
 * stream of a block has the biases of its channels, then for each input their weights.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_SUM_BLOCKS_S8_H
#define EC_SUM_BLOCKS_S8_H

#include "edgec/ec_kernel.h"

/* Whether the compiler takes GNU assembly of Armv7-M, and of Armv6-M. */
#if defined(__GNUC__) && defined(__thumb2__) && !defined(EC_NO_ASM)
#define EC_THUMB2_ASM 1
#define EC_THUMB1_ASM 0
#elif defined(__GNUC__) && defined(__thumb__) && !defined(EC_NO_ASM)
#define EC_THUMB2_ASM 0
#define EC_THUMB1_ASM 1
#else
#define EC_THUMB2_ASM 0
#define EC_THUMB1_ASM 0
#endif

/* acc[p][c] = bias[c] + the sum of x[p * step + k] * w[k][c] over k < depth, in C. */
static inline EC_UNUSED void ec_sums_in_c_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                             int32_t depth, int32_t step, int32_t pixels,
                                             int32_t channels) {
    for (int32_t p = 0; p < pixels; ++p, acc += channels, x += step) {
        const int8_t *w = (const int8_t *)(stream + channels);
        for (int32_t c = 0; c < channels; ++c) {
            acc[c] = stream[c];
        }
        for (int32_t k = 0; k < depth; ++k, w += channels) {
            for (int32_t c = 0; c < channels; ++c) {
                acc[c] += x[k] * w[c];
            }
        }
    }
}

/* Assembly of Armv7-M: r0 x, r1 weights, r2 step, r3 a weight, r4-r11 sums, r12 and lr inputs. On the
 * stack: the end of x, acc. Four inputs at a time, after the remainder. r7 or r11 may be the compiler's
 * frame pointer: registers that it does not expect to change are saved here. */
#define EC_SUMS_RUN(copy, each)                                          \
    register int32_t *r0 __asm__("r0") = acc;                            \
    register const int8_t *r1 __asm__("r1") = x;                         \
    register const int32_t *r2 __asm__("r2") = stream;                   \
    register int32_t r3 __asm__("r3") = depth;                           \
    register int32_t r12 __asm__("r12") = step;                          \
    __asm__ volatile(".syntax unified\n"                                 \
                     "push {r0, r4-r11, lr}\n"                           \
                     "add r3, r1\n"                                      \
                     "mov r0, r1\n"                                      \
                     "push {r3}\n" copy "mov r1, r2\n"                   \
                     "mov r2, r12\n"                                     \
                     "b 1f\n"                                            \
                     "0:\n" each "1:\n"                                  \
                     "ldr r3, [sp]\n"                                    \
                     "subs r3, r3, r0\n"                                 \
                     "lsls.w r12, r3, #30\n"                             \
                     "bne 0b\n"                                          \
                     "cmp r3, #0\n"                                      \
                     "beq.w 3f\n"                                        \
                     "2:\n" each each each each "ldr r3, [sp]\n"         \
                     "cmp r0, r3\n"                                      \
                     "bne.w 2b\n"                                        \
                     "3:\n"                                              \
                     "pop {r3}\n"                                        \
                     "pop {r0}\n"                                        \
                     "stmia r0!, {r4-r11}\n"                             \
                     "pop {r4-r11, lr}\n"                                \
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r12) \
                     :                                                   \
                     : "cc", "memory")

/* A weight by the inputs of two pixels. */
#define EC_SUMS_TWO(first, second)        \
    "ldrsb r3, [r1], #1\n"                \
    "mla " first ", r3, r12, " first "\n" \
    "mla " second ", r3, lr, " second "\n"

/* A weight by the input of one. */
#define EC_SUMS_ONE(sum)   \
    "ldrsb r3, [r1], #1\n" \
    "mla " sum ", r3, r12, " sum "\n"

/* Two pixels by four channels. acc, x and stream must not overlap. */
static EC_KERNEL void ec_sums_2x4_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                     int32_t depth, int32_t step) {
#if EC_THUMB2_ASM
    EC_SUMS_RUN("ldmia r2!, {r4-r7}\n"
                "mov r8, r4\n"
                "mov r9, r5\n"
                "mov r10, r6\n"
                "mov r11, r7\n",
                "ldrsb lr, [r0, r2]\n"
                "ldrsb r12, [r0], #1\n" EC_SUMS_TWO("r4", "r8") EC_SUMS_TWO("r5", "r9")
                    EC_SUMS_TWO("r6", "r10") EC_SUMS_TWO("r7", "r11"));
#else
    ec_sums_in_c_s8(acc, x, stream, depth, step, 2, 4);
#endif
}

/* One pixel by eight channels. */
static EC_KERNEL void ec_sums_1x8_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                     int32_t depth, int32_t step) {
#if EC_THUMB2_ASM
    EC_SUMS_RUN("ldmia r2!, {r4-r11}\n",
                "ldrsb r12, [r0], #1\n" EC_SUMS_ONE("r4") EC_SUMS_ONE("r5") EC_SUMS_ONE("r6")
                    EC_SUMS_ONE("r7") EC_SUMS_ONE("r8") EC_SUMS_ONE("r9") EC_SUMS_ONE("r10")
                        EC_SUMS_ONE("r11"));
#else
    ec_sums_in_c_s8(acc, x, stream, depth, step, 1, 8);
#endif
}

/* Loads after it stay there: otherwise gcc starts with all loads, for which there are not enough
 * registers. */
#if defined(__GNUC__)
#define EC_SUMS_IN_ORDER __asm__ volatile("" : : : "memory")
#else
#define EC_SUMS_IN_ORDER
#endif

/* Input k of a pixel by the weights of four channels, added to its sums. */
#define EC_SUMS_FOUR(sum, input)     \
    do {                             \
        const int32_t one = (input); \
        sum##0 += one * w0;          \
        sum##1 += one * w1;          \
        sum##2 += one * w2;          \
        sum##3 += one * w3;          \
        EC_SUMS_IN_ORDER;            \
    } while (0)

/* The weights of four channels by which input k is multiplied. */
#define EC_SUMS_FOUR_WEIGHTS(k) \
    const int32_t w0 = w[4 * (k)], w1 = w[4 * (k) + 1], w2 = w[4 * (k) + 2], w3 = w[4 * (k) + 3]

/* Input k of one pixel by the weights of four channels. */
#define EC_SUMS_OF_1(k)          \
    do {                         \
        EC_SUMS_FOUR_WEIGHTS(k); \
        EC_SUMS_FOUR(a, x[k]);   \
    } while (0)

/* Input k of four pixels. */
#define EC_SUMS_OF_4(k)          \
    do {                         \
        EC_SUMS_FOUR_WEIGHTS(k); \
        EC_SUMS_FOUR(a, x[k]);   \
        EC_SUMS_FOUR(b, y[k]);   \
        EC_SUMS_FOUR(c, z[k]);   \
        EC_SUMS_FOUR(d, v[k]);   \
    } while (0)

/* The sums of a pixel, stored from acc[at] on. */
#define EC_SUMS_STORE(at, sum) \
    acc[at] = sum##0;          \
    acc[(at) + 1] = sum##1;    \
    acc[(at) + 2] = sum##2;    \
    acc[(at) + 3] = sum##3

/* One pixel by four channels: the remainder of larger blocks. */
static EC_KERNEL void ec_sums_1x4_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                     int32_t depth, int32_t step) {
    const int8_t *w = (const int8_t *)(stream + 4);
    int32_t a0 = stream[0], a1 = stream[1], a2 = stream[2], a3 = stream[3];
    (void)step;
    for (const int8_t *const end = x + depth; x != end; ++x, w += 4) {
        EC_SUMS_OF_1(0);
    }
    EC_SUMS_STORE(0, a);
}

/* Four pixels by four channels, for cores with many registers. */
static EC_KERNEL void ec_sums_4x4_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                     int32_t depth, int32_t step) {
    const int8_t *y = x + step;
    const int8_t *z = y + step;
    const int8_t *v = z + step;
    const int8_t *w = (const int8_t *)(stream + 4);
    int32_t a0 = stream[0], a1 = stream[1], a2 = stream[2], a3 = stream[3];
    int32_t b0 = a0, b1 = a1, b2 = a2, b3 = a3;
    int32_t c0 = a0, c1 = a1, c2 = a2, c3 = a3;
    int32_t d0 = a0, d1 = a1, d2 = a2, d3 = a3;
    const int8_t *const end = x + depth;
    for (int32_t left = depth & 3; left > 0; --left, ++x, ++y, ++z, ++v, w += 4) {
        EC_SUMS_OF_4(0);
    }
    for (; x != end; x += 4, y += 4, z += 4, v += 4, w += 16) {
        EC_SUMS_OF_4(0);
        EC_SUMS_OF_4(1);
        EC_SUMS_OF_4(2);
        EC_SUMS_OF_4(3);
    }
    EC_SUMS_STORE(0, a);
    EC_SUMS_STORE(4, b);
    EC_SUMS_STORE(8, c);
    EC_SUMS_STORE(12, d);
}

/* Vectors of 16 sums: clang's of RISC-V, of any length from 128 bits on. */
#if defined(EC_SUMS_ON_VECTORS)
/* a test says so */
#elif defined(__clang__) && defined(__riscv_vector)
#define EC_SUMS_ON_VECTORS 1
#else
#define EC_SUMS_ON_VECTORS 0
#endif

/* Their types; lanes without a sign wrap. */
#define EC_SUMS_TYPES                                              \
    typedef int8_t weights_of_16 __attribute__((vector_size(16))); \
    typedef int32_t wide_of_16 __attribute__((vector_size(64)));   \
    typedef uint32_t sums_of_16 __attribute__((vector_size(64)))

/* The weights of an input, as wide as the sums. */
#define EC_SUMS_WEIGHTS(to, w)      \
    weights_of_16 row;              \
    EC_COPY(&row, (w), sizeof row); \
    const sums_of_16 to = (sums_of_16) __builtin_convertvector(row, wide_of_16)

/* One pixel by sixteen channels. */
static EC_KERNEL void ec_sums_1x16_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                      int32_t depth, int32_t step) {
#if EC_SUMS_ON_VECTORS
    EC_SUMS_TYPES;
    const int8_t *w = (const int8_t *)(stream + 16);
    sums_of_16 a;
    (void)step;
    EC_COPY(&a, stream, sizeof a);
    for (const int8_t *const end = x + depth; x != end; ++x, w += 16) {
        EC_SUMS_WEIGHTS(weights, w);
        a += (uint32_t)x[0] * weights;
    }
    EC_COPY(acc, &a, sizeof a);
#else
    ec_sums_in_c_s8(acc, x, stream, depth, step, 1, 16);
#endif
}

/* Four pixels by sixteen channels. */
static EC_KERNEL void ec_sums_4x16_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                      int32_t depth, int32_t step) {
#if EC_SUMS_ON_VECTORS
    EC_SUMS_TYPES;
    const int8_t *y = x + step;
    const int8_t *z = y + step;
    const int8_t *v = z + step;
    const int8_t *w = (const int8_t *)(stream + 16);
    sums_of_16 a, b, c, d;
    EC_COPY(&a, stream, sizeof a);
    b = c = d = a;
    for (int32_t k = 0; k < depth; ++k, w += 16) {
        EC_SUMS_WEIGHTS(weights, w);
        a += (uint32_t)x[k] * weights;
        b += (uint32_t)y[k] * weights;
        c += (uint32_t)z[k] * weights;
        d += (uint32_t)v[k] * weights;
    }
    EC_COPY(acc, &a, sizeof a);
    EC_COPY(acc + 16, &b, sizeof b);
    EC_COPY(acc + 32, &c, sizeof c);
    EC_COPY(acc + 48, &d, sizeof d);
#else
    ec_sums_in_c_s8(acc, x, stream, depth, step, 4, 16);
#endif
}

/* Assembly of Armv6-M: registers to preserve are pushed, r0 last. */
#define EC_SUMS_SAVE     \
    "push {r4-r7, lr}\n" \
    "mov r4, r8\n"       \
    "mov r5, r9\n"       \
    "mov r6, r10\n"      \
    "mov r7, r11\n"      \
    "push {r0, r4-r7}\n"

/* Assembly of Armv6-M: the same is popped, all but r0. */
#define EC_SUMS_RESTORE \
    "pop {r4-r7}\n"     \
    "mov r8, r4\n"      \
    "mov r9, r5\n"      \
    "mov r10, r6\n"     \
    "mov r11, r7\n"     \
    "pop {r4-r7}\n"     \
    "pop {r0}\n"        \
    "mov lr, r0\n"

/* Assembly of Armv6-M: the input by a weight, added to a sum. */
#define EC_SUMS_MOVED(at, sum) \
    "ldrb r4, [r1, #" at "]\n" \
    "muls r4, r3\n"            \
    "add " sum ", r4\n"

/* The same: the next input by the weights of eight channels, at these bytes. */
#define EC_SUMS_EIGHT(a, b, c, d, e, f, g, h)                                                 \
    "ldrsb r3, [r0, r2]\n"                                                                    \
    "adds r2, #1\n"                                                                           \
    "adds r7, r7, r3\n" EC_SUMS_MOVED(a, "r8") EC_SUMS_MOVED(b, "r9") EC_SUMS_MOVED(c, "r10") \
        EC_SUMS_MOVED(d, "r11") EC_SUMS_MOVED(e, "r12") EC_SUMS_MOVED(f, "lr")                \
            EC_SUMS_MOVED(g, "r5") EC_SUMS_MOVED(h, "r6")

/* Subtract the offset of stored weights. */
#define EC_SUMS_LESS(to, sum) \
    "mov " to ", " sum "\n"   \
    "subs " to ", " to ", r7\n"

/* An input by four weights of the block, from number k on, in C. */
#define EC_SUMS_UNSIGNED(to, k)    \
    do {                           \
        to##0 += one * w[k];       \
        EC_SUMS_IN_ORDER;          \
        to##1 += one * w[(k) + 1]; \
        EC_SUMS_IN_ORDER;          \
        to##2 += one * w[(k) + 2]; \
        EC_SUMS_IN_ORDER;          \
        to##3 += one * w[(k) + 3]; \
        EC_SUMS_IN_ORDER;          \
    } while (0)

/* Sums, less what their weights are more than they mean, stored from acc[at] on. */
#define EC_SUMS_STORE_LESS(at, from)          \
    acc[at] = (int32_t)(from##0 - sum);       \
    acc[(at) + 1] = (int32_t)(from##1 - sum); \
    acc[(at) + 2] = (int32_t)(from##2 - sum); \
    acc[(at) + 3] = (int32_t)(from##3 - sum)

/* One pixel by eight channels, whose weights are stored plus 128, as uint8: Armv6-M loads uint8 at an
 * immediate offset, but int8 only at a register offset.
 *
 * Registers: r0 the end of x, r1 weights, r2 minus the remaining bytes, r3 an input, r4 a weight, r7 the
 * sum of inputs; sums: r8-r12, lr, r5, r6. On the stack: acc. */
static EC_KERNEL void ec_sums_1x8_moved_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                           int32_t depth, int32_t step) {
    (void)step;
#if EC_THUMB1_ASM
    register int32_t *r0 __asm__("r0") = acc;
    register const int8_t *r1 __asm__("r1") = x;
    register const int32_t *r2 __asm__("r2") = stream;
    register int32_t r3 __asm__("r3") = depth;
    __asm__ volatile(
        ".syntax unified\n" EC_SUMS_SAVE "ldmia r2!, {r4-r7}\n"
        "mov r8, r4\n"
        "mov r9, r5\n"
        "mov r10, r6\n"
        "mov r11, r7\n"
        "ldmia r2!, {r4-r7}\n"
        "mov r12, r4\n"
        "mov lr, r5\n"
        "movs r5, r6\n"
        "movs r6, r7\n"
        "adds r0, r1, r3\n"
        "movs r1, r2\n"
        "rsbs r2, r3, #0\n"
        "movs r7, #0\n"
        "b 1f\n"
        "0:\n" EC_SUMS_EIGHT(
            "0", "1", "2", "3", "4", "5", "6",
            "7") "adds r1, #8\n"
                 "1:\n"
                 "lsls r3, r2, #30\n"
                 "bne 0b\n"
                 "cmp r2, #0\n"
                 "beq 3f\n"
                 "2:\n" EC_SUMS_EIGHT("0", "1", "2", "3", "4", "5", "6", "7") EC_SUMS_EIGHT(
                     "8", "9", "10", "11", "12", "13", "14", "15")
                     EC_SUMS_EIGHT("16", "17", "18", "19", "20", "21", "22", "23") EC_SUMS_EIGHT(
                         "24", "25", "26", "27", "28", "29", "30",
                         "31") "adds r1, #32\n"
                               "cmp r2, #0\n"
                               "bne 2b\n"
                               "3:\n"
                               "pop {r0}\n"
                               "lsls r7, r7, #7\n" EC_SUMS_LESS("r1", "r8") EC_SUMS_LESS(
                                   "r2", "r9") EC_SUMS_LESS("r3", "r10")
                                   EC_SUMS_LESS("r4", "r11") "stmia r0!, {r1-r4}\n" EC_SUMS_LESS(
                                       "r1", "r12") EC_SUMS_LESS("r2", "lr")
                                       EC_SUMS_LESS("r3", "r5") EC_SUMS_LESS(
                                           "r4", "r6") "stmia r0!, {r1-r4}\n" EC_SUMS_RESTORE
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r12", "cc", "memory");
#else
    const uint8_t *w = (const uint8_t *)(stream + 8);
    uint32_t a0 = (uint32_t)stream[0], a1 = (uint32_t)stream[1], a2 = (uint32_t)stream[2];
    uint32_t a3 = (uint32_t)stream[3], b0 = (uint32_t)stream[4], b1 = (uint32_t)stream[5];
    uint32_t b2 = (uint32_t)stream[6], b3 = (uint32_t)stream[7];
    uint32_t sum = 0u;
    for (const int8_t *const end = x + depth; x != end; ++x, w += 8) {
        const uint32_t one = (uint32_t)(int32_t)*x;
        sum += one;
        EC_SUMS_UNSIGNED(a, 0);
        EC_SUMS_UNSIGNED(b, 4);
    }
    sum *= 128u;
    EC_SUMS_STORE_LESS(0, a);
    EC_SUMS_STORE_LESS(4, b);
#endif
}

#endif /* EC_SUM_BLOCKS_S8_H */
