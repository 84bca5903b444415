/* Blocks of sums of int8 products for cores without vectors: four pixels in three sums.
 *
 * Inputs of four pixels p, q, r and s are packed as three words: p + 256 * q, q + 256 * r, r + 256 * s.
 * Their products by a weight add up to the words that four_sums.h takes apart, if every sum has 24
 * bits: a weight takes three multiplications for four products. The stream of a block has the biases of
 * its channels, then for each input their weights.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_SUM_FOURS_S8_H
#define EC_SUM_FOURS_S8_H

#include "kernels/common/sum_blocks_s8.h"
#include "kernels/common/four_sums.h"

/* The word of an int8 and 256 times another, which is aligned to 4 bytes. */
static inline EC_UNUSED void ec_pack_two_s8(int8_t *to, int32_t first, int32_t second) {
    const uint32_t word = (uint32_t)first + ((uint32_t)second << 8);
    EC_COPY(EC_WORDS(to), &word, sizeof word);
}

/* to: three words for each of `depth` inputs of the pixels that lie `step` bytes apart, from x on. It is
 * aligned to 4 bytes. */
static EC_KERNEL void ec_pack_fours_s8(int8_t *to, const int8_t *x, int32_t depth, int32_t step) {
    const int8_t *y = x + step;
    const int8_t *z = y + step;
    const int8_t *v = z + step;
    for (const int8_t *const end = x + depth; x != end; ++x, ++y, ++z, ++v, to += 12) {
        ec_pack_two_s8(to, *x, *y);
        ec_pack_two_s8(to + 4, *y, *z);
        ec_pack_two_s8(to + 8, *z, *v);
    }
}

/* A bias of four pixels. */
#define EC_FOURS_BEGIN(sum, bias)              \
    uint32_t sum##t = 257u * (uint32_t)(bias); \
    uint32_t sum##u = sum##t;                  \
    uint32_t sum##s = sum##t

/* Loads after it stay there, and these sums are made before. */
#if defined(__GNUC__)
#define EC_FOURS_IN_ORDER(s, t, u) __asm__ volatile("" : "+r"(s), "+r"(t), "+r"(u) : : "memory")
#else
#define EC_FOURS_IN_ORDER(s, t, u)
#endif

/* An input of four pixels by a weight. */
#define EC_FOURS_BY(sum, weight)                          \
    do {                                                  \
        const uint32_t one = (uint32_t)(int32_t)(weight); \
        sum##t += t * one;                                \
        sum##u += u * one;                                \
        sum##s += s * one;                                \
        EC_FOURS_IN_ORDER(sum##s, sum##t, sum##u);        \
    } while (0)

/* The words of input k of four pixels. */
#define EC_FOURS_INPUT(k)                                           \
    const uint32_t t = (uint32_t)ec_load_aligned(x + 12 * (k) + 4); \
    const uint32_t u = (uint32_t)ec_load_aligned(x + 12 * (k) + 8); \
    const uint32_t s = (uint32_t)ec_load_aligned(x + 12 * (k))

/* Input k by the weights of four channels. */
#define EC_FOURS_OF_4(k)                \
    do {                                \
        EC_FOURS_INPUT(k);              \
        EC_FOURS_BY(a, w[4 * (k)]);     \
        EC_FOURS_BY(b, w[4 * (k) + 1]); \
        EC_FOURS_BY(c, w[4 * (k) + 2]); \
        EC_FOURS_BY(d, w[4 * (k) + 3]); \
    } while (0)

/* The sums of four pixels of a channel, stored `channels` apart. */
static inline EC_UNUSED void ec_store_four_s8(int32_t *acc, int32_t channels, uint32_t s,
                                              uint32_t t, uint32_t u) {
    const int32_t sums[3] = { (int32_t)s, (int32_t)t, (int32_t)u };
    int32_t above[4];
    ec_take_apart_4_s8(above, sums);
    acc[0] = above[0] >> 8;
    acc[channels] = above[1] >> 8;
    acc[2 * channels] = above[2] >> 8;
    acc[3 * channels] = above[3] >> 8;
}

/* Four pixels by four channels, for cores with many registers: acc[p][c] = bias[c] + the sum of x[k][p] *
 * w[k][c] over k < depth. */
static EC_KERNEL void ec_sums_4x4_packed_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                            int32_t depth, int32_t step) {
    const int8_t *w = (const int8_t *)(stream + 4);
    const int8_t *const end = x + 12 * depth;
    EC_FOURS_BEGIN(a, stream[0]);
    EC_FOURS_BEGIN(b, stream[1]);
    EC_FOURS_BEGIN(c, stream[2]);
    EC_FOURS_BEGIN(d, stream[3]);
    (void)step;
    for (int32_t left = depth & 3; left > 0; --left, x += 12, w += 4) {
        EC_FOURS_OF_4(0);
    }
    for (; x != end; x += 48, w += 16) {
        EC_FOURS_OF_4(0);
        EC_FOURS_OF_4(1);
        EC_FOURS_OF_4(2);
        EC_FOURS_OF_4(3);
    }
    ec_store_four_s8(acc, 4, as, at, au);
    ec_store_four_s8(acc + 1, 4, bs, bt, bu);
    ec_store_four_s8(acc + 2, 4, cs, ct, cu);
    ec_store_four_s8(acc + 3, 4, ds, dt, du);
}

/* Assembly: inputs by two weights, four at a time after the remainder, from r0 to the end of x in `end`;
 * `one` is an input without a step of r1, `step` such a step, `four` are four inputs. */
#define EC_FOURS_LOOP(end, one, step, four) \
    "b 1f\n"                                \
    "0:\n" one step "1:\n"                  \
    "subs r2, " end ", r0\n"                \
    "lsls r2, r2, #28\n"                    \
    "bne 0b\n"                              \
    "cmp r0, " end "\n"                     \
    "beq 3f\n"                              \
    "2:\n" four "cmp r0, " end "\n"         \
    "bne 2b\n"                              \
    "3:\n"

/* Assembly of Armv7-M: r0 x, r1 weights, r2-r4 words, r5 a weight, r6-r8 and r9-r11 sums. */
#define EC_FOURS_ARMV7M      \
    "ldmia r0!, {r2-r4}\n"   \
    "ldrsb r5, [r1], #1\n"   \
    "mla r6, r2, r5, r6\n"   \
    "mla r7, r3, r5, r7\n"   \
    "mla r8, r4, r5, r8\n"   \
    "ldrsb r5, [r1], #1\n"   \
    "mla r9, r2, r5, r9\n"   \
    "mla r10, r3, r5, r10\n" \
    "mla r11, r4, r5, r11\n"

/* Assembly of Armv7-M: words s, t and u to 256 times the sums of q, r and s there, and of p in `p`. */
#define EC_FOURS_APART(s, t, u, p, x)    \
    "sub " p ", " s ", " t ", lsl #8\n"  \
    "add " x ", " u ", " p ", asr #16\n" \
    "bfi " p ", " x ", #16, #16\n"       \
    "lsl " p ", " p ", #8\n"             \
    "sub " s ", " s ", " p ", asr #8\n"  \
    "sub " t ", " t ", " s ", asr #8\n"  \
    "sub " u ", " u ", " t ", asr #8\n"

/* Assembly of Armv6-M: r0 x, r1 weights, r2-r4 words, r5 a weight, r6 a product, r8-r10 and r11, r12, lr sums.
 * `a` and `b` are where the two weights lie. */
#define EC_FOURS_ARMV6M(a, b) \
    "ldmia r0!, {r2-r4}\n"    \
    "movs r5, #" a "\n"       \
    "ldrsb r5, [r1, r5]\n"    \
    "movs r6, r5\n"           \
    "muls r6, r2\n"           \
    "add r8, r6\n"            \
    "movs r6, r5\n"           \
    "muls r6, r3\n"           \
    "add r9, r6\n"            \
    "muls r5, r4\n"           \
    "add r10, r5\n"           \
    "movs r5, #" b "\n"       \
    "ldrsb r5, [r1, r5]\n"    \
    "muls r2, r5\n"           \
    "add r11, r2\n"           \
    "muls r3, r5\n"           \
    "add r12, r3\n"           \
    "muls r4, r5\n"           \
    "add lr, r4\n"

/* Assembly of Armv6-M: a channel's sums of pixels to r0, at these bytes. */
#define EC_FOURS_STORE(s, t, u, p, q, r, v) \
    "mov r2, " s "\n"                       \
    "mov r3, " t "\n"                       \
    "mov r4, " u "\n"                       \
    "lsls r5, r3, #8\n"                     \
    "subs r5, r2, r5\n"                     \
    "asrs r6, r5, #16\n"                    \
    "adds r6, r4, r6\n"                     \
    "lsls r6, r6, #16\n"                    \
    "uxth r5, r5\n"                         \
    "orrs r5, r6\n"                         \
    "lsls r5, r5, #8\n"                     \
    "asrs r5, r5, #8\n"                     \
    "subs r2, r2, r5\n"                     \
    "asrs r2, r2, #8\n"                     \
    "subs r3, r3, r2\n"                     \
    "asrs r3, r3, #8\n"                     \
    "subs r4, r4, r3\n"                     \
    "asrs r4, r4, #8\n"                     \
    "str r5, [r0, #" p "]\n"                \
    "str r2, [r0, #" q "]\n"                \
    "str r3, [r0, #" r "]\n"                \
    "str r4, [r0, #" v "]\n"

/* Runs assembly with acc, x, stream and depth in r0 to r3; the code saves registers that the compiler
 * does not expect to change. */
#define EC_FOURS_RUN(code)                                    \
    register int32_t *r0 __asm__("r0") = acc;                 \
    register const int8_t *r1 __asm__("r1") = x;              \
    register const int32_t *r2 __asm__("r2") = stream;        \
    register int32_t r3 __asm__("r3") = depth;                \
    __asm__ volatile(".syntax unified\n" code                 \
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3) \
                     :                                        \
                     : "r12", "cc", "memory")

/* Four pixels by two channels. */
static EC_KERNEL void ec_sums_4x2_packed_s8(int32_t *acc, const int8_t *x, const int32_t *stream,
                                            int32_t depth, int32_t step) {
    (void)step;
#if EC_THUMB2_ASM
    EC_FOURS_RUN("push {r0, r4-r11, lr}\n"
                 "ldmia r2!, {r6, r9}\n"
                 "add r6, r6, r6, lsl #8\n"
                 "mov r7, r6\n"
                 "mov r8, r6\n"
                 "add r9, r9, r9, lsl #8\n"
                 "mov r10, r9\n"
                 "mov r11, r9\n"
                 "add r12, r3, r3, lsl #1\n"
                 "add r12, r1, r12, lsl #2\n"
                 "mov r0, r1\n"
                 "mov r1, r2\n" EC_FOURS_LOOP(
                     "r12", EC_FOURS_ARMV7M, "",
                     EC_FOURS_ARMV7M EC_FOURS_ARMV7M EC_FOURS_ARMV7M EC_FOURS_ARMV7M)
                     EC_FOURS_APART("r6", "r7", "r8", "r2", "r3")
                         EC_FOURS_APART("r9", "r10", "r11", "r3",
                                        "r4") ".irp x, r2, r3, r6, r7, r8, r9, r10, r11\n"
                                              "asr \\x, \\x, #8\n"
                                              ".endr\n"
                                              "pop {r0}\n"
                                              "strd r2, r3, [r0]\n"
                                              "strd r6, r9, [r0, #8]\n"
                                              "strd r7, r10, [r0, #16]\n"
                                              "strd r8, r11, [r0, #24]\n"
                                              "pop {r4-r11, lr}\n");
#elif EC_THUMB1_ASM
    EC_FOURS_RUN(
        EC_SUMS_SAVE
        "ldmia r2!, {r4, r5}\n"
        "lsls r6, r4, #8\n"
        "adds r4, r4, r6\n"
        "mov r8, r4\n"
        "mov r9, r4\n"
        "mov r10, r4\n"
        "lsls r6, r5, #8\n"
        "adds r5, r5, r6\n"
        "mov r11, r5\n"
        "mov r12, r5\n"
        "mov lr, r5\n"
        "lsls r4, r3, #1\n"
        "adds r3, r3, r4\n"
        "lsls r3, r3, #2\n"
        "adds r7, r1, r3\n"
        "movs r0, r1\n"
        "movs r1, r2\n" EC_FOURS_LOOP(
            "r7", EC_FOURS_ARMV6M("0", "1"), "adds r1, #2\n",
            EC_FOURS_ARMV6M("0", "1") EC_FOURS_ARMV6M("2", "3") EC_FOURS_ARMV6M("4", "5")
                EC_FOURS_ARMV6M(
                    "6", "7") "adds r1, #8\n") "pop {r0}\n" EC_FOURS_STORE("r8", "r9", "r10", "0",
                                                                           "8", "16", "24")
            EC_FOURS_STORE("r11", "r12", "lr", "4", "12", "20", "28") EC_SUMS_RESTORE);
#else
    const int8_t *w = (const int8_t *)(stream + 2);
    EC_FOURS_BEGIN(a, stream[0]);
    EC_FOURS_BEGIN(b, stream[1]);
    for (const int8_t *const end = x + 12 * depth; x != end; x += 12, w += 2) {
        EC_FOURS_INPUT(0);
        EC_FOURS_BY(a, w[0]);
        EC_FOURS_BY(b, w[1]);
    }
    ec_store_four_s8(acc, 2, as, at, au);
    ec_store_four_s8(acc + 1, 2, bs, bt, bu);
#endif
}

#endif /* EC_SUM_FOURS_S8_H */
