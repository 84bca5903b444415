/* Sums of float32 products on the vectors of MVE, for accumulate_f32.h.
 *
 * The vectors of MVE flush denormals to zero, and set a flag in FPSCR (IDC: an input was one, UFC: a
 * result would have been one). If a flag is set, scalar code, which keeps denormals, computes the outputs
 * again. All other results have the same bits, except for the sign and payload of a NaN.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_ACCUMULATE_F32_MVE_H
#define EC_FPU_ACCUMULATE_F32_MVE_H

/* clang-format off */

/* Assembly: four vectors of sums for MVE. `first` loads the biases at r2 into q0 to q3, and what
 * `each` keeps in vectors; `each` adds one product to each. r0 points to words: 0 the first of four
 * pointers, which are a to d in `each`, 1 the bytes from one to the next (lr in `first`), 2 another
 * pointer (`other`), 3 runs, 4 steps of a run, 5 and 6 what the four and the other advance between
 * runs, 7 biases, 8 output, 9 the bytes from vector to vector of it, 10 bounds, 11 limits, 12 what
 * r3 is. `each` may use the registers r0 to r3 and r8 to r12 that are no pointers, and q4 to q7. `steps`
 * runs it for a run, and keeps r5. Sets r0 to 0; or, if a denormal was flushed, to another value and
 * stores nothing. */
#define EC_SUMS_F32_MVE(first, steps, a, b, c, d, other) \
    "push {r4-r11, lr}\n" \
    "vpush {d8-d15}\n" \
    "vmrs r1, fpscr\n" \
    "bic r1, r1, #0x88\n" \
    "vmsr fpscr, r1\n" \
    "push {r0}\n" \
    "ldr r3, [r0, #48]\n" \
    "ldrd " other ", r4, [r0, #8]\n" \
    "ldrd r5, r6, [r0, #16]\n" \
    "ldrd r7, r2, [r0, #24]\n" \
    "ldrd " a ", lr, [r0]\n" \
    first \
    "add " b ", " a ", lr\n" \
    "add " c ", " b ", lr\n" \
    "add " d ", " c ", lr\n" \
    "2:\n" \
    steps \
    ".irp d, " a ", " b ", " c ", " d "\n" \
    "add \\d, \\d, r6\n" \
    ".endr\n" \
    "add " other ", " other ", r7\n" \
    "subs r4, r4, #1\n" \
    "bne 2b\n" \
    "pop {r12}\n" \
    "vmrs r0, fpscr\n" \
    "ands r0, r0, #0x88\n" \
    "bne 9f\n" \
    "ldrd r1, r2, [r12, #40]\n" \
    "lsls r3, r1, #31\n" \
    "beq 3f\n" \
    "ldr r3, [r2]\n" \
    "vdup.32 q4, r3\n" \
    ".irp d, q0, q1, q2, q3\n" \
    "vcmp.f32 gt, q4, \\d\n" \
    "vpsel \\d, q4, \\d\n" \
    ".endr\n" \
    "3:\n" \
    "lsls r3, r1, #30\n" \
    "bpl 4f\n" \
    "ldr r3, [r2, #4]\n" \
    "vdup.32 q4, r3\n" \
    ".irp d, q0, q1, q2, q3\n" \
    "vcmp.f32 gt, \\d, r3\n" \
    "vpsel \\d, q4, \\d\n" \
    ".endr\n" \
    "4:\n" \
    "ldrd r1, r2, [r12, #32]\n" \
    ".irp d, q0, q1, q2, q3\n" \
    "vstrw.32 \\d, [r1]\n" \
    "add r1, r1, r2\n" \
    ".endr\n" \
    "9:\n" \
    "vpop {d8-d15}\n" \
    "pop {r4-r11, lr}\n"

/* Assembly: run `each` r5 times. */
#define EC_STEPS_F32_MVE(each) \
    "dls lr, r5\n" \
    "1:\n" \
    each \
    "le lr, 1b\n"

/* Assembly: r5 groups. `begin` makes the steps of one and ends with dls for its inputs; r is free. */
#define EC_GROUPS_F32_MVE(begin, each, r) \
    "5:\n" \
    begin \
    "1:\n" \
    each \
    "le lr, 1b\n" \
    "subs r5, r5, #1\n" \
    "bne 5b\n" \
    "ldr " r ", [sp]\n" \
    "ldr r5, [" r ", #16]\n"

/* Assembly: vcvtb.f32.f16 of vector n into itself, as a number: GNU as 2.40 encodes it wrongly. */
#define EC_WIDEN_HALVES_MVE(n) ".inst.w 0xfe3f0e01 + " n " * 0x2002\n"

/* The body of a kernel that runs EC_SUMS_F32_MVE on `words`, with the `steps` of a run. */
#define EC_RUN_STEPS_F32_MVE(words, first, steps, a, b, c, d, other) \
    register uintptr_t r0 __asm__("r0") = (uintptr_t)(words); \
    __asm__ volatile(EC_SUMS_F32_MVE(first, steps, a, b, c, d, other) \
        : "+r"(r0) \
        : \
        : "r1", "r2", "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory"); \
    return (int32_t)r0

/* The same, with the code of `each` step. */
#define EC_RUN_SUMS_F32_MVE(words, first, each, a, b, c, d, other) \
    EC_RUN_STEPS_F32_MVE(words, first, EC_STEPS_F32_MVE(each), a, b, c, d, other)

/* Assembly: one unit's biases for four vectors. */
#define EC_SAME_BIASES_F32_MVE \
    "vldrw.32 q0, [r2]\n" \
    "vmov q1, q0\n" \
    "vmov q2, q0\n" \
    "vmov q3, q0\n"

/* Assembly: the biases of four units, which are lr bytes apart. */
#define EC_FOUR_BIASES_F32_MVE \
    ".irp d, q0, q1, q2, q3\n" \
    "vldrw.32 \\d, [r2]\n" \
    "add r2, r2, lr\n" \
    ".endr\n"

/* Assembly: the weights of four channels times the inputs of four pixels. `load` reads the weights at
 * r1 into q4, `widen` and `scale` make floats of them. */
#define EC_FOUR_PIXELS_F32_MVE(load, widen, scale) \
    load \
    "ldr r0, [r8], #4\n" \
    widen \
    "ldr r2, [r9], #4\n" \
    scale \
    "ldr r3, [r10], #4\n" \
    "vmul.f32 q5, q4, r0\n" \
    "ldr r0, [r11], #4\n" \
    "vmul.f32 q6, q4, r2\n" \
    "vadd.f32 q0, q0, q5\n" \
    "vmul.f32 q5, q4, r3\n" \
    "vadd.f32 q1, q1, q6\n" \
    "vmul.f32 q6, q4, r0\n" \
    "vadd.f32 q2, q2, q5\n" \
    "vadd.f32 q3, q3, q6\n"

/* The body of a kernel that does this for four pixels, on `words`. `first` as above, after the biases. */
#define EC_RUN_FOUR_PIXELS_F32_MVE(words, first, load, widen, scale) \
    EC_RUN_SUMS_F32_MVE(words, EC_SAME_BIASES_F32_MVE first, \
        EC_FOUR_PIXELS_F32_MVE(load, widen, scale), "r8", "r9", "r10", "r11", "r1")

/* clang-format on */

#endif /* EC_FPU_ACCUMULATE_F32_MVE_H */
