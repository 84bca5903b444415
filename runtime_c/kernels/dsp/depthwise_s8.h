/* Depthwise 3x3 convolutions of int8 for the DSP extension of Armv7E-M, one channel at a time.
 *
 * The channel's input is first copied to a plane of int16, column by column, so that two rows of
 * a column are one word: P = (row r, row r + 1). With weights as the words (w0, w1) and (w1, w2)
 * of each of their three columns, four multiplications of a word of inputs by a word of weights
 * give what a column adds to two outputs, one above the other.
 *
 * A stream holds a channel's constants in the order of use, in words: the weights of each
 * column, bytes (w1, w0, w2, w1), so that its high bytes, and one byte further its low ones, are
 * these words times 256; the bias times 256, plus e; M. Sums x are so 256 times the accumulators,
 * and rescaled by M * 2^(-39 - e), e from 1 to 16, with gemmlowp's double rounding, to a zero
 * point of -128: that is (high word of x * M) + C, shifted right by e + 7, where C has the halves
 * of both roundings and the zero point. Ties of negative sums round in the other direction, but the
 * lower limit hides that.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_S8_H
#define EC_DEPTHWISE_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"

/* Assembly: store two rows of a channel, at r1 and r2 bytes apart, as a word at r0. */
#define EC_PACK_TWO_ROWS          \
    "ldrsb r4, [r1]\n"            \
    "ldrsb r5, [r1, r2]\n"        \
    "add r1, r1, r2, lsl #1\n"    \
    "pkhbt r4, r4, r5, lsl #16\n" \
    "str r4, [r0], #4\n"

/* Assembly: store the bytes of four channels of two rows, in r4 and r5, as a word for each channel, at
 * r0 and r8, 2 * r8 and r9 bytes after it; advance r0. */
#define EC_STORE_TWO_ROWS_4       \
    "pkhtb r7, r5, r4, asr #16\n" \
    "pkhbt r6, r4, r5, lsl #16\n" \
    "sxtb16 r12, r7\n"            \
    "str r12, [r0, r8, lsl #1]\n" \
    "sxtb16 r12, r6, ror #8\n"    \
    "str r12, [r0, r8]\n"         \
    "sxtb16 r12, r7, ror #8\n"    \
    "str r12, [r0, r9]\n"         \
    "sxtb16 r12, r6\n"            \
    "str r12, [r0], #4\n"

/* Assembly: two rows of four channels, from r1 on, which lie r2 bytes apart. */
#define EC_LOAD_TWO_ROWS_4 \
    "ldr r4, [r1]\n"       \
    "ldr r5, [r1, r2]\n"   \
    "add r1, r1, r2, lsl #1\n"

/* Assembly: the end of a column of x, whose `sizes` are at r11; its first instructions are at 1. */
#define EC_NEXT_COLUMN          \
    "ldrd r3, r4, [r11, #20]\n" \
    "ldr r5, [r11, #28]\n"      \
    "add r0, r0, r3\n"          \
    "add r1, r1, r4\n"          \
    "subs r5, #1\n"             \
    "str r5, [r11, #28]\n"      \
    "bne 1b\n"                  \
    "ldr r3, [r11, #36]\n"      \
    "cmp r3, #0\n"              \
    "it gt\n"                   \
    "blgt 9f\n"                 \
    "pop {r7, r11}\n"           \
    "b 11f\n"

/* The sizes of ec_pack_columns_s8_dsp and ec_pack_columns_4_s8_dsp. */
typedef struct {
    uint16_t height, width, step, columns, plane;
    uint8_t top, left, pairs;
    int8_t fill;
} ec_pack_columns_sizes;

/* Plan how the columns of a channel are packed. The plan is, in the order of use: bytes from row to row
 * of x; whether a row above x comes first; pairs of rows of x; whether a pair of one row of x and one
 * row below it follows; pairs of rows below x; bytes from the end of a column of int16, and of x, to the
 * next; columns of x. Returns the address in x at which packing begins. The compiler knows most of this
 * after inlining. */
static inline int32_t ec_plan_columns(int32_t *sizes, const ec_pack_columns_sizes *n, int32_t first,
                                      int32_t column) {
    const int32_t row = n->width * n->step;
    const int32_t above = first < n->top ? 1 : 0;
    const int32_t before = column < n->left ? 1 : 0;
    const int32_t below = n->height - first + n->top;
    const int32_t after = n->width - column + n->left;
    const int32_t rows = (below < 2 * n->pairs ? below : 2 * n->pairs) - above;
    const int32_t count = (after < n->columns ? after : n->columns) - before;
    sizes[0] = row;
    sizes[1] = above;
    sizes[2] = (rows - above) / 2;
    sizes[3] = (rows - above) & 1;
    sizes[4] = n->pairs - above - (rows - above + 1) / 2;
    sizes[5] = 64 - 4 * n->pairs;
    sizes[6] = n->step - rows * row;
    sizes[7] = count;
    return (first - n->top + above) * row + (column - n->left + before) * n->step;
}

#if EC_DSP_ASM
/* A channel of an image from x on, by the plan of its columns whose first word is `fill` twice. where:
 * four times the bytes from row to row of x, plus two if a column outside of x comes first, plus one
 * if one comes last. */
static EC_KERNEL void ec_pack_planned_s8_dsp(int16_t *to, const int8_t *x, const int32_t *plan,
                                             int32_t where) {
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = x;
    register const int32_t *r2 __asm__("r2") = plan;
    register int32_t r3 __asm__("r3") = where;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r7, r11}\n"
        "mov r11, r2\n"
        "lsrs r2, r3, #2\n"
        "ldr r10, [r11]\n"
        "ldr r9, [r11, #28]\n"
        "and r8, r3, #1\n"
        "add r7, r2, r2, lsl #1\n"
        "it cs\n"
        "blcs 9f\n"
        "1:\n"
        "ldrd r3, r4, [r11, #4]\n"
        "cbz r3, 2f\n"
        "ldrsb r5, [r1]\n"
        "add r1, r1, r2\n"
        "pkhbt r5, r10, r5, lsl #16\n"
        "str r5, [r0], #4\n"
        "2:\n"
        "lsrs r3, r4, #1\n"
        "bcc 3f\n" EC_PACK_TWO_ROWS
        "3:\n"
        "beq 5f\n"
        "4:\n" /* four rows */
        "ldrsb r4, [r1]\n"
        "ldrsb r5, [r1, r2]\n"
        "pkhbt r4, r4, r5, lsl #16\n"
        "ldrsb r12, [r1, r2, lsl #1]\n"
        "ldrsb r5, [r1, r7]\n"
        "pkhbt r5, r12, r5, lsl #16\n"
        "add r1, r1, r2, lsl #2\n"
        "strd r4, r5, [r0], #8\n"
        "subs r3, #1\n"
        "bne 4b\n"
        "5:\n"
        "ldrd r3, r4, [r11, #12]\n"
        "cbz r3, 6f\n"
        "ldrsb r5, [r1]\n"
        "add r1, r1, r2\n"
        "pkhbt r5, r5, r10, lsl #16\n"
        "str r5, [r0], #4\n"
        "6:\n"
        "cbz r4, 7f\n"
        "str r10, [r0], #4\n"
        "7:\n"
        "ldrd r3, r4, [r11, #20]\n"
        "add r0, r0, r3\n"
        "add r1, r1, r4\n"
        "subs r9, #1\n"
        "bne 1b\n"
        "cmp r8, #0\n"
        "it ne\n"
        "blne 9f\n"
        "pop {r7, r11}\n"
        "b 11f\n"
        "9:\n" /* a column of `fill` alone, and one more where words are odd */
        "ldr r4, [r11, #20]\n"
        "rsb r3, r4, #64\n"
        "10:\n"
        "strd r10, r10, [r0], #8\n"
        "subs r3, #8\n"
        "bhi 10b\n"
        "add r0, r0, r3\n"
        "add r0, r0, r4\n"
        "bx lr\n"
        "11:\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r4", "r5", "r8", "r9", "r10", "r12", "lr", "cc", "memory");
    /* clang-format on */
}
#endif

/* One channel of an image as columns of int16: to[w * 32 + i] = x[first + i - top][column + w -
 * left] for i < 2 * pairs and w < columns, `fill` outside of x. x[h][w] is `step` bytes after its
 * left neighbour and has `height` rows of `width`. first, column >= 0; top and left are 0 or 1;
 * pairs <= 16; first - top + 2 * pairs <= height + 3; column - left + columns <= width + 1. to is
 * aligned to 4 bytes. Of a column, one word after those that are used may be written. */
static inline void ec_pack_columns_s8_dsp(int16_t *to, const int8_t *x,
                                          const ec_pack_columns_sizes *n, int32_t first,
                                          int32_t column) {
#if EC_DSP_ASM
    int32_t plan[8];
    const int32_t row = n->width * n->step;
    const int32_t after = column - n->left + n->columns > n->width ? 1 : 0;
    const int32_t from = ec_plan_columns(plan, n, first, column);
    plan[0] = (int32_t)(((uint32_t)n->fill & 0xFFFFu) * 0x00010001u);
    ec_pack_planned_s8_dsp(to, x + from, plan, 4 * row + (column < n->left ? 2 : 0) + after);
#else
    const int32_t above = first < n->top ? n->top - first : 0;
    const int32_t inside =
        n->height - first + n->top < 2 * n->pairs ? n->height - first + n->top : 2 * n->pairs;
    for (int32_t w = 0; w < n->columns; ++w, to += 32) {
        const int32_t z = column + w - n->left;
        const int8_t *from = x + ((first - n->top + above) * n->width + z) * n->step;
        int32_t i = 0;
        if (z >= 0 && z < n->width) {
            for (; i < above; ++i) {
                to[i] = (int16_t)n->fill;
            }
            for (; i < inside; ++i, from += n->width * n->step) {
                to[i] = *from;
            }
        }
        for (; i < 2 * n->pairs; ++i) {
            to[i] = (int16_t)n->fill;
        }
    }
#endif
}

/* Four neighbouring channels of an image as columns of int16: as ec_pack_columns_s8_dsp, each
 * channel begins `plane` int16 after the one before; x needs no alignment. After the plan stand
 * the pairs of a column, the columns to the right of x, `fill` and bytes from plane to plane. */
static EC_KERNEL void ec_pack_columns_4_s8_dsp(int16_t *to, const int8_t *x,
                                               const ec_pack_columns_sizes *n, int32_t first,
                                               int32_t column) {
#if EC_DSP_ASM
    int32_t sizes[12];
    const int32_t from = ec_plan_columns(sizes, n, first, column);
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = x + from;
    register int32_t *r2 __asm__("r2") = sizes;
    register int32_t r3 __asm__("r3") = column < n->left;
    sizes[8] = n->pairs;
    sizes[9] = n->columns - sizes[7] - (column < n->left ? 1 : 0);
    sizes[10] = (int32_t)(((uint32_t)n->fill & 0xFFu) * 0x01010101u);
    sizes[11] = 2 * n->plane;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r7, r11}\n"
        "mov r11, r2\n"
        "ldr r2, [r11]\n"
        "ldrd r10, r8, [r11, #40]\n"
        "add r9, r8, r8, lsl #1\n"
        "cmp r3, #0\n"
        "it ne\n"
        "blne 9f\n"
        "1:\n"
        "ldrd r3, r12, [r11, #4]\n"
        "cbz r3, 2f\n"
        "mov r4, r10\n"
        "ldr r5, [r1]\n"
        "add r1, r1, r2\n"
        "mov r3, r12\n"
        "bl 8f\n"
        "mov r12, r3\n"
        "2:\n"
        "movs r3, r12\n"
        "beq 5f\n"
        "4:\n" EC_LOAD_TWO_ROWS_4 EC_STORE_TWO_ROWS_4
        "subs r3, #1\n"
        "bne 4b\n"
        "5:\n"
        "ldr r3, [r11, #12]\n"
        "cbz r3, 6f\n"
        "ldr r4, [r1]\n"
        "add r1, r1, r2\n"
        "mov r5, r10\n"
        "bl 8f\n"
        "6:\n"
        "ldr r3, [r11, #16]\n"
        "cbz r3, 7f\n"
        "mov r4, r10\n"
        "mov r5, r10\n"
        "bl 8f\n"
        "7:\n" EC_NEXT_COLUMN
        "8:\n" EC_STORE_TWO_ROWS_4
        "bx lr\n"
        "9:\n" /* a column of `fill` alone */
        "sxtb16 r12, r10\n"
        "ldr r3, [r11, #32]\n"
        "10:\n"
        "str r12, [r0, r8, lsl #1]\n"
        "str r12, [r0, r8]\n"
        "str r12, [r0, r9]\n"
        "str r12, [r0], #4\n"
        "subs r3, #1\n"
        "bne 10b\n"
        "ldr r3, [r11, #20]\n"
        "add r0, r0, r3\n"
        "bx lr\n"
        "11:\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory");
    /* clang-format on */
#else
    const int32_t outside = (int32_t)(((uint32_t)n->fill & 0xFFu) * 0x01010101u);
    for (int32_t w = 0; w < n->columns; ++w, to += 32) {
        const int32_t z = column + w - n->left;
        const int32_t rows = z >= 0 && z < n->width ? n->height : 0;
        const int8_t *from = x + ((first - n->top) * n->width + z) * n->step;
        int16_t *at = to;
        for (int32_t h = first - n->top; h < first - n->top + 2 * n->pairs; h += 2, at += 2) {
            const int32_t upper = h >= 0 && h < rows ? ec_load_word(from) : outside;
            const int32_t lower = h + 1 < rows ? ec_load_word(from + n->width * n->step) : outside;
            const int32_t low = ec_low_halves(upper, lower);
            const int32_t high = ec_high_halves(upper, lower);
            ec_store_word(at, ec_sxtb16(low));
            ec_store_word(at + n->plane, ec_sxtb16_odd(low));
            ec_store_word(at + 2 * n->plane, ec_sxtb16(high));
            ec_store_word(at + 3 * n->plane, ec_sxtb16_odd(high));
            from += 2 * n->width * n->step;
        }
    }
#endif
}

/* Assembly: add one column of inputs, r2 and lr, to two outputs, one above the other. */
#define EC_DEPTHWISE_COLUMN(above, below, w01, w12) \
    "smlad " above ", r2, " w01 ", " above "\n"     \
    "smlatb " below ", r2, " w01 ", " below "\n"    \
    "smlabt " above ", lr, " w12 ", " above "\n"    \
    "smlad " below ", lr, " w12 ", " below "\n"

/* Assembly: convert rescaled sums in registers to int8, for e = 6, e = 7 and any other e; each ends at
 * the label `to`. */
#define EC_DEPTHWISE_LIMIT(sums, to) \
    ".irp e, 13, 14\n"               \
    ".irp x, " sums "\n"             \
    "ssat \\x, #8, \\x, asr #\\e\n"  \
    ".endr\n"                        \
    "b.w " to "\n"                   \
    ".endr\n"                        \
    "ldr.w r2, [sp, #32]\n"          \
    ".irp x, " sums "\n"             \
    "asr \\x, \\x, r2\n"             \
    "ssat \\x, #8, \\x\n"            \
    ".endr\n"

/* Assembly: at the end of a column: whether its odd last row is left, which is then computed twice. */
#define EC_DEPTHWISE_ODD_ROW \
    "ldr r9, [sp, #4]\n"     \
    "ldr r10, [sp, #60]\n"   \
    "movs r2, #0\n"          \
    "str r2, [sp, #4]\n"     \
    "cmp r10, #0\n"          \
    "it ne\n"                \
    "cmpne r9, #0\n"

/* clang-format off */

/* Assembly: fill the stack, and unpack the weights of three columns; then r9, r10 are the last two words of
 * the stream. */
#define EC_DEPTHWISE_3X3_BEGIN \
    "push {r7-r11, lr}\n" \
    "sub sp, #68\n" \
    "str r5, [sp]\n" \
    "strd r1, r0, [sp, #40]\n" \
    "bic r9, r3, #1\n" \
    "mul r9, r9, r6\n" \
    "strd r6, r9, [sp, #48]\n" \
    "and r3, r3, #1\n" \
    "strd r4, r3, [sp, #56]\n" \
    "ldmia r2, {r3, r5, r7, r9, r10}\n" \
    "mov r2, #0xFF00FF00\n" \
    "and r4, r2, r3, lsl #8\n" \
    "and r3, r3, r2\n" \
    "and r6, r2, r5, lsl #8\n" \
    "and r5, r5, r2\n" \
    "and r8, r2, r7, lsl #8\n" \
    "and r7, r7, r2\n"

/* Assembly: constants of gemmlowp's rounding. */
#define EC_DEPTHWISE_3X3_TFLM \
    "uxtb r2, r9\n" \
    "bfc r9, #0, #8\n" \
    "strd r9, r9, [sp, #16]\n" \
    "mvn r1, #254\n" /* -255, which is 1 - 2 * 128 */ \
    "subs r0, r2, #6\n" \
    "adds r2, #6\n" \
    "lsls r1, r2\n" \
    "adds r1, #64\n" \
    "adds r2, #1\n" \
    "cmp r0, #2\n" \
    "it hs\n" \
    "movhs r0, #2\n" \
    "strd r10, r1, [sp, #24]\n" \
    "str r2, [sp, #32]\n" \
    "str r0, [sp, #64]\n"

/* Assembly: compute r11, the address of the code that turns four sums into results, from r12. */
#define EC_DEPTHWISE_3X3_CHOOSE_TFLM \
    "adr.w r11, 3f\n" \
    "add r11, r11, #1\n" \
    "movs r2, #20\n" \
    "mla r11, r12, r2, r11\n"

/* Assembly: four sums rescaled with gemmlowp's rounding, which ends at 4; and two. */
#define EC_DEPTHWISE_3X3_FOUR_TFLM \
    "ldrd r2, lr, [sp, #24]\n" \
    ".irp x, r9, r10, r11, r12\n" \
    "smmla \\x, \\x, r2, lr\n" \
    ".endr\n" \
    "ldr pc, [sp, #12]\n" \
    ".balign 4\n" \
    "3:\n" EC_DEPTHWISE_LIMIT( "r9, r10, r11, r12", "4f")

/* Assembly: two sums rescaled with gemmlowp's rounding. */
#define EC_DEPTHWISE_3X3_TWO_TFLM \
    "ldrd r2, lr, [sp, #24]\n" \
    "smmla r9, r9, r2, lr\n" \
    "smmla r10, r10, r2, lr\n" \
    "ldr r2, [sp, #32]\n" \
    "asr r9, r9, r2\n" \
    "asr r10, r10, r2\n" \
    "ssat r9, #8, r9\n" \
    "ssat r10, #8, r10\n"

/* Assembly: all columns of outputs, and the end; `choose`, `four` and `two` rescale, `store` is the
 * instruction that stores a result. */
#define EC_DEPTHWISE_3X3_COLUMNS(choose, four, two, store) \
    "1:\n" /* two columns, or the last one */ \
    "ldrd r0, r1, [sp, #40]\n" \
    "ldrd r9, r10, [sp, #48]\n" \
    "ldr r11, [sp, #56]\n" \
    "ldr r12, [sp, #64]\n" \
    "add r10, r1, r10\n" \
    "strd r9, r10, [sp, #4]\n" \
    "subs r11, r11, #2\n" \
    "str r11, [sp, #56]\n" \
    "blo.w 5f\n" \
    choose \
    "add r9, r0, #128\n" \
    "ldr r10, [sp]\n" \
    "add r10, r1, r10, lsl #1\n" \
    "strd r9, r10, [sp, #40]\n" \
    "str r11, [sp, #12]\n" \
    "2:\n" /* two rows of two columns */ \
    "ldrd r9, r10, [sp, #16]\n" \
    "ldrd r2, lr, [r0], #4\n" \
    "ldrd r11, r12, [sp, #16]\n" EC_DEPTHWISE_COLUMN( "r9", "r10", "r3", "r4") \
    "ldrd r2, lr, [r0, #60]\n" EC_DEPTHWISE_COLUMN("r9", "r10", "r5", "r6") \
    EC_DEPTHWISE_COLUMN("r11", "r12", "r3", "r4") \
    "ldrd r2, lr, [r0, #124]\n" EC_DEPTHWISE_COLUMN("r9", "r10", "r7", "r8") \
    EC_DEPTHWISE_COLUMN("r11", "r12", "r5", "r6") \
    "ldrd r2, lr, [r0, #188]\n" EC_DEPTHWISE_COLUMN( "r11", "r12", "r7", "r8") \
    four \
    "4:\n" \
    "ldrd r2, lr, [sp]\n" \
    "add lr, r1, lr\n" \
    store " r10, [lr]\n" /* first: an odd last row has one address for both */ \
    store " r12, [lr, r2]\n" \
    store " r9, [r1]\n" \
    store " r11, [r1, r2]\n" \
    "rsb r1, r1, lr, lsl #1\n" \
    "ldr r9, [sp, #8]\n" \
    "cmp r1, r9\n" \
    "bne.w 2b\n" EC_DEPTHWISE_ODD_ROW \
    "bne.w 2b\n" \
    "b.w 1b\n" \
    "5:\n" /* the last column alone */ \
    "adds r11, r11, #1\n" \
    "bne.w 9f\n" \
    "6:\n" \
    "ldrd r9, r10, [sp, #16]\n" \
    "ldrd r2, lr, [r0], #4\n" EC_DEPTHWISE_COLUMN("r9", "r10", "r3", "r4") \
    "ldrd r2, lr, [r0, #60]\n" EC_DEPTHWISE_COLUMN( "r9", "r10", "r5", "r6") \
    "ldrd r2, lr, [r0, #124]\n" EC_DEPTHWISE_COLUMN("r9", "r10", "r7", "r8") \
    two \
    "ldrd r2, r11, [sp, #4]\n" \
    "add lr, r1, r2\n" \
    store " r10, [lr]\n" \
    store " r9, [r1]\n" \
    "rsb r1, r1, lr, lsl #1\n" \
    "cmp r1, r11\n" \
    "bne.w 6b\n" EC_DEPTHWISE_ODD_ROW \
    "bne.w 6b\n" \
    "9:\n" \
    "add sp, #68\n" \
    "pop {r7-r11, lr}\n"

/* clang-format on */

/* Add a column of inputs at x to the sums of a window and of the window below it. The weights are
 * (w0, w1) and (w1, w2), times 256. */
static inline EC_UNUSED void ec_depthwise_column_s8_dsp(int32_t *above, int32_t *below,
                                                        const int16_t *x, int32_t w01,
                                                        int32_t w12) {
    const int32_t first = ec_load_word(x); /* an odd last row begins between words */
    const int32_t second = ec_load_word(x + 2);
    const int32_t last = (int16_t)((uint32_t)second & 0xFFFFu) * (int16_t)(w12 >> 16);
    const int32_t next = (int16_t)(first >> 16) * (int16_t)((uint32_t)w01 & 0xFFFFu);
    *above = (int32_t)((uint32_t)ec_smlad(first, w01, *above) + (uint32_t)last);
    *below = (int32_t)((uint32_t)ec_smlad(second, w12, *below) + (uint32_t)next);
}

/* The sums of a window and of the window below it: bias plus 256 times their products. x is the first
 * input; weights: of three columns. */
static inline EC_UNUSED void ec_depthwise_two_sums_s8_dsp(int32_t *sums, const int16_t *x,
                                                          const int32_t *weights, int32_t bias) {
    int32_t above = bias;
    int32_t below = bias;
    ec_depthwise_column_s8_dsp(&above, &below, x, weights[0], weights[1]);
    ec_depthwise_column_s8_dsp(&above, &below, x + 32, weights[2], weights[3]);
    ec_depthwise_column_s8_dsp(&above, &below, x + 64, weights[4], weights[5]);
    sums[0] = above;
    sums[1] = below;
}

/* Read these words of weights from a stream. */
static inline EC_UNUSED void ec_depthwise_weights_s8_dsp(int32_t *weights, const int32_t *stream) {
    /* bytes w1, w0, w2, w1 */
    weights[0] = (int32_t)((uint32_t)stream[0] & 0xFF00FF00u);
    weights[1] = (int32_t)((uint32_t)stream[0] << 8 & 0xFF00FF00u);
    weights[2] = (int32_t)((uint32_t)stream[1] & 0xFF00FF00u);
    weights[3] = (int32_t)((uint32_t)stream[1] << 8 & 0xFF00FF00u);
    weights[4] = (int32_t)((uint32_t)stream[2] & 0xFF00FF00u);
    weights[5] = (int32_t)((uint32_t)stream[2] << 8 & 0xFF00FF00u);
}

/* out[(h * out_width + w) * channels] for h < height, w < width, of windows that step by one: int8
 * of the rescaled sum over kh, kw of plane[(w + kw) * 32 + h + kh] * weights[kh][kw] + bias.
 *
 * 2 <= height <= 30. plane and stream are aligned to 4 bytes; stream: see the top of this file.
 * Of a column, one int16 after those that are used may be read, never used. out and plane must
 * not overlap.
 *
 * Registers: r0 plane, r1 out, r2 and lr two words of a column, r3-r8 weights, r9-r12 sums of
 * two columns. On the stack: bytes to the right output, to the one below, the end of the column of
 * outputs, what limits results, twice the bias, M, C, the last shift, the first column, its
 * output, bytes to the output below, bytes of all pairs of rows, columns that are left, whether
 * rows are odd, which of the ways to limit. */
static EC_KERNEL void ec_depthwise_3x3_s8_dsp(int8_t *out, const int16_t *plane,
                                              const int32_t *stream, int32_t height, int32_t width,
                                              int32_t out_width, int32_t channels) {
#if EC_DSP_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int16_t *r1 __asm__("r1") = plane;
    register const int32_t *r2 __asm__("r2") = stream;
    register int32_t r3 __asm__("r3") = height;
    register int32_t r4 __asm__("r4") = width;
    register int32_t r5 __asm__("r5") = channels;
    register int32_t r6 __asm__("r6") = channels * out_width;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_DEPTHWISE_3X3_BEGIN
        EC_DEPTHWISE_3X3_TFLM
        EC_DEPTHWISE_3X3_COLUMNS(EC_DEPTHWISE_3X3_CHOOSE_TFLM, EC_DEPTHWISE_3X3_FOUR_TFLM,
                                 EC_DEPTHWISE_3X3_TWO_TFLM, "strb")
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6)
        :
        : "r12", "cc", "memory");
    /* clang-format on */
#else
    const int32_t bias = (int32_t)((uint32_t)stream[3] & 0xFFFFFF00u);
    const int32_t exponent = stream[3] & 255;
    const int32_t offset = 64 - 255 * (1 << (exponent + 6));
    const int32_t multiplier = stream[4];
    const int32_t step = out_width * channels;
    int32_t weights[6];
    ec_depthwise_weights_s8_dsp(weights, stream);
    for (int32_t w = 0; w < width; ++w) {
        const int16_t *x = plane + w * 32;
        int8_t *at = out + w * channels;
        for (int32_t h = 0; h < height; h += 2, x += 2, at += 2 * step) {
            int32_t sums[2];
            if (h == height - 1) { /* an odd one, with the one above it */
                x -= 1;
                at -= step;
            }
            ec_depthwise_two_sums_s8_dsp(sums, x, weights, bias);
            const int32_t above = (int32_t)(((int64_t)sums[0] * multiplier) >> 32);
            const int32_t below = (int32_t)(((int64_t)sums[1] * multiplier) >> 32);
            at[0] = ec_saturate_s8((above + offset) >> (exponent + 7));
            at[step] = ec_saturate_s8((below + offset) >> (exponent + 7));
        }
    }
#endif
}

#endif /* EC_DEPTHWISE_S8_H */
