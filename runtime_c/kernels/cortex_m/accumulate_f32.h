/* Sums of float32 products in a fixed order, shared by the kernels of convolutions.
 *
 * Each output starts from its bias and adds product after product in the order of the window, with two
 * roundings each. Kernels only choose which outputs are computed together.
 *
 * Two arrays describe a window. `runs`: the number of its runs of inputs, the inputs of a run, the floats
 * from one run to the next, and the inputs of a run that share steps. `window` counts inputs, and the
 * step of a group as one input: of a whole window, before the first input used, from one run to the
 * next, of a run. Inputs of neighbouring channels are `apart` floats from each other (0: channels
 * share them), inputs of a run `tap` floats.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_ACCUMULATE_F32_H
#define EC_FPU_ACCUMULATE_F32_H

#include "edgec/ec_kernel.h"
#include "kernels/common/clip_taps.h"
#include "kernels/common/stored_weights_f32.h"

/* A row of windows over x [height, width, across]: its first taps are at (row * stride_h - top, p *
 * stride_w - left). A tap has `depth` inputs of each channel, of which `group` in a row share steps,
 * or all if it is 0 or weights are not stored in groups. bounds: 1 if there is a lower limit, plus
 * 2 if there is an upper one; low and high are the bits of these floats. four, one: functions that
 * compute whole units of four pixels and of one by vectors; they return 0 if they stored results. */
typedef struct {
    int32_t stored, height, width, across, depth, apart, tap, kernel_h, kernel_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, top, left, pixels, channels;
    int32_t bounds, low, high, group;
    int32_t (*four)(const uintptr_t *);
    int32_t (*one)(const uintptr_t *);
} ec_row_f32_sizes;

/* The inputs of a run that share steps. */
static inline EC_INLINE int32_t ec_same_steps(int32_t stored, const int32_t *runs) {
    return stored < 0 ? runs[3] : runs[1];
}

/* Whether steps stand before the weights of a group. */
static inline EC_INLINE int ec_has_groups(int32_t stored, const int32_t *window,
                                          const int32_t *runs) {
    return stored < 0 && window[3] != runs[1];
}

/* Store the assembly's data about groups: room for 16 steps, whether steps stand before the weights of a
 * group, its inputs, and the shift that leaves these four channels' bits of a byte: 28 up, or 4 down. */
static inline EC_UNUSED void ec_describe_groups_f32(uint32_t *facts, int has_groups, int32_t inputs,
                                                    int32_t second) {
    facts[16] = (uint32_t)has_groups;
    facts[17] = (uint32_t)inputs;
    facts[18] = 28U - 8U * (uint32_t)second;
}

/* The larger of a value and a limit; a NaN stays one. Of the C below GCC makes a conditional move
 * also for cores with MVE, which can select a float: 2 bytes longer. */
static inline EC_UNUSED EC_PURE float ec_at_least_f32(float x, float low) {
#if EC_DSP_FPU_ASM && defined(__ARM_FEATURE_MVE)
    float result;
    __asm__("vcmp.f32 %2, %1\n"
            "vmrs APSR_nzcv, fpscr\n"
            "vselgt.f32 %0, %2, %1"
            : "=t"(result)
            : "t"(x), "t"(low)
            : "cc");
    return result;
#else
    return low > x ? low : x;
#endif
}

/* The smaller of a value and a limit; a NaN stays one. */
static inline EC_UNUSED EC_PURE float ec_at_most_f32(float x, float high) {
#if EC_DSP_FPU_ASM && defined(__ARM_FEATURE_MVE)
    float result;
    __asm__("vcmp.f32 %1, %2\n"
            "vmrs APSR_nzcv, fpscr\n"
            "vselgt.f32 %0, %2, %1"
            : "=t"(result)
            : "t"(x), "t"(high)
            : "cc");
    return result;
#else
    return high < x ? high : x;
#endif
}

/* Four sums limited and stored: by limits[0] from below if bounds is odd, by limits[1] from above
 * if it is 2 or 3. A NaN stays one. */
static inline void ec_store_sums_f32(float *out, float a, float b, float c, float d, int32_t bounds,
                                     const float *limits) {
    if ((bounds & 1) != 0) {
        a = ec_at_least_f32(a, limits[0]);
        b = ec_at_least_f32(b, limits[0]);
        c = ec_at_least_f32(c, limits[0]);
        d = ec_at_least_f32(d, limits[0]);
    }
    if ((bounds & 2) != 0) {
        a = ec_at_most_f32(a, limits[1]);
        b = ec_at_most_f32(b, limits[1]);
        c = ec_at_most_f32(c, limits[1]);
        d = ec_at_most_f32(d, limits[1]);
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* One input of each channel times its weight, added to four sums; x goes on to the next. */
#define EC_FOUR_PRODUCTS_F32(x, a, b, c, d) \
    do {                                    \
        a += (x)[0] * weight[0];            \
        b += (x)[apart] * weight[1];        \
        c += (x)[2 * apart] * weight[2];    \
        d += (x)[3 * apart] * weight[3];    \
        (x) += tap;                         \
    } while (0)

/* clang-format off */

/* Assembly: the four weights in s8 to s11 times x, added to the sums %0 to %3. */
#define EC_ADD_PRODUCTS_F32_ASM(x) \
    "vmul.f32 s8, s8, " x "\n" \
    "vmul.f32 s9, s9, " x "\n" \
    "vadd.f32 %0, %0, s8\n" \
    "vmul.f32 s10, s10, " x "\n" \
    "vadd.f32 %1, %1, s9\n" \
    "vmul.f32 s11, s11, " x "\n" \
    "vadd.f32 %2, %2, s10\n" \
    "vadd.f32 %3, %3, s11\n"

/* Assembly: the four float16 in two words as s8 to s11. */
#define EC_WIDEN_FOUR_F32_ASM(low, high) \
    "vcvtb.f32.f16 s8, " low "\n" \
    "vcvtt.f32.f16 s9, " low "\n" \
    "vcvtb.f32.f16 s10, " high "\n" \
    "vcvtt.f32.f16 s11, " high "\n"

/* Assembly: the four int8 at %4 + n in r0 to r3. */
#define EC_FOUR_BYTES_F32_ASM(n) \
    "ldrsb r0, [%4, #" n "]\n" \
    "ldrsb r1, [%4, #" n " + 1]\n" \
    "ldrsb r2, [%4, #" n " + 2]\n" \
    "ldrsb r3, [%4, #" n " + 3]\n"

/* Assembly: the low halves of the four bytes at %4 + n in r0 to r3. */
#define EC_LOW_HALVES_F32_ASM(n) \
    "ldr r3, [%4, #" n "]\n" \
    "sbfx r0, r3, #0, #4\n" \
    "sbfx r1, r3, #8, #4\n" \
    "sbfx r2, r3, #16, #4\n" \
    "sbfx r3, r3, #24, #4\n"

/* Assembly: their high halves. */
#define EC_HIGH_HALVES_F32_ASM(n) \
    "ldr r3, [%4, #" n "]\n" \
    "sbfx r0, r3, #4, #4\n" \
    "sbfx r1, r3, #12, #4\n" \
    "sbfx r2, r3, #20, #4\n" \
    "sbfx r3, r3, #28, #4\n"

/* Assembly: the four numbers in r0 to r3 times their steps %7 to %10 as s8 to s11. */
#define EC_SCALE_FOUR_F32_ASM \
    "vmov s8, s9, r0, r1\n" \
    "vmov s10, s11, r2, r3\n" \
    "vcvt.f32.s32 s8, s8\n" \
    "vcvt.f32.s32 s9, s9\n" \
    "vcvt.f32.s32 s10, s10\n" \
    "vcvt.f32.s32 s11, s11\n" \
    "vmul.f32 s8, s8, %7\n" \
    "vmul.f32 s9, s9, %8\n" \
    "vmul.f32 s10, s10, %9\n" \
    "vmul.f32 s11, s11, %10\n"

/* Two inputs at a time times numbers of steps, which `four` reads, in ec_add_pairs_f32. */
#define EC_ADD_SCALED_PAIRS_F32(four) \
    __asm__ volatile( \
        "1:\n" \
        "vldmia %5!, {s12-s13}\n" \
        four("0") \
        EC_SCALE_FOUR_F32_ASM \
        EC_ADD_PRODUCTS_F32_ASM("s12") \
        four("4") \
        EC_SCALE_FOUR_F32_ASM \
        EC_ADD_PRODUCTS_F32_ASM("s13") \
        "add %4, %4, #8\n" \
        "subs %6, %6, #1\n" \
        "bne 1b\n" \
        : "+t"(sums[0]), "+t"(sums[1]), "+t"(sums[2]), "+t"(sums[3]), "+r"(v), "+r"(x), \
          "+r"(pairs) \
        : "t"(steps[0]), "t"(steps[1]), "t"(steps[2]), "t"(steps[3]) \
        : "r0", "r1", "r2", "r3", "s8", "s9", "s10", "s11", "s12", "s13", "cc", "memory")

/* clang-format on */

/* Add to four sums the products of the inputs at x, which lie together, and their weights at v: two
 * inputs at a time, `pairs` times and at least once. */
static inline EC_INLINE void ec_add_pairs_f32(float *sums, const float *x, const uint8_t *v,
                                              int32_t stored, const float *steps, int32_t second,
                                              int32_t pairs) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    if (stored == 2) {
        __asm__ volatile(
            "1:\n"
            "vldmia %4!, {s12-s15}\n"
            "vldmia %5!, {s16-s17}\n"
            EC_WIDEN_FOUR_F32_ASM("s12", "s13")
            EC_ADD_PRODUCTS_F32_ASM("s16")
            EC_WIDEN_FOUR_F32_ASM("s14", "s15")
            EC_ADD_PRODUCTS_F32_ASM("s17")
            "subs %6, %6, #1\n"
            "bne 1b\n"
            : "+t"(sums[0]), "+t"(sums[1]), "+t"(sums[2]), "+t"(sums[3]), "+r"(v), "+r"(x),
              "+r"(pairs)
            :
            : "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", "s16", "s17", "cc", "memory");
    } else if (stored <= 0 && second == 0) {
        EC_ADD_SCALED_PAIRS_F32(EC_LOW_HALVES_F32_ASM);
    } else if (stored <= 0) {
        EC_ADD_SCALED_PAIRS_F32(EC_HIGH_HALVES_F32_ASM);
    } else {
        EC_ADD_SCALED_PAIRS_F32(EC_FOUR_BYTES_F32_ASM);
    }
    /* clang-format on */
#else
    for (int32_t i = 0; i < 2 * pairs; ++i) {
        float weights[4];
        ec_four_weights_f32(weights, v + ec_unit_tap(4, stored) * i, stored, steps, second);
        sums[0] += x[i] * weights[0];
        sums[1] += x[i] * weights[1];
        sums[2] += x[i] * weights[2];
        sums[3] += x[i] * weights[3];
    }
#endif
}

/* out[p * channels + c] for p < 4 and c < whole, a multiple of 4: the sums of the windows of
 * x + p * stride_w * across, limited. w: the stream. */
static inline EC_INLINE void ec_sums_of_four_f32(float *out, int32_t whole, const float *x,
                                                 const uint8_t *w, const int32_t *window,
                                                 const int32_t *runs, const float *limits,
                                                 const ec_row_f32_sizes *n) {
    const int32_t stored = n->stored, apart = n->apart, tap = n->tap;
    const int32_t channels = n->channels, step = n->stride_w * n->across, bounds = n->bounds;
    const int32_t head = ec_unit_head(4, stored);
    const int32_t each = ec_unit_tap(4, stored);
    const int32_t unit = head + each * window[0];
    const int32_t inputs = runs[1];
    const int32_t same = ec_same_steps(stored, runs);
    const int has_groups = ec_has_groups(stored, window, runs);
#if EC_MVE_FLOAT_ASM
    uint32_t facts[19];
#endif
    for (int32_t c = 0; c < whole; c += 4, w += ec_next_four(unit, stored, c)) {
        const int32_t second = ec_second_four(stored, c);
        const float *from = x + c * apart;
        const uint8_t *weights = w + head - 8 * second + each * window[1];
#if EC_MVE_FLOAT_ASM
        if (stored < 0) {
            ec_describe_groups_f32(facts, has_groups, same, second);
        }
        const uintptr_t words[13] = {
            (uintptr_t)from,
            (uintptr_t)(4 * step),
            (uintptr_t)weights,
            (uintptr_t)runs[0],
            (uintptr_t)(has_groups   ? window[3] - inputs
                        : stored < 0 ? 1
                                     : inputs),
            (uintptr_t)(4 * (runs[2] - tap * inputs)),
            (uintptr_t)(each * (window[2] - window[3])),
            (uintptr_t)w,
            (uintptr_t)(out + c),
            (uintptr_t)(4 * channels),
            (uintptr_t)bounds,
            (uintptr_t)limits,
            stored < 0    ? (uintptr_t)facts
            : stored == 0 ? (uintptr_t)(28 - 8 * second)
                          : (uintptr_t)(4 * tap),
        };
        if (runs[0] * inputs > 0 && n->four(words) == 0) {
            continue;
        }
#endif
        float weight[4], steps[4];
        ec_four_weights_f32(steps, stored < 2 ? w + 16 : w, 4, limits, 0);
        float a0 = ec_load_f32(w), a1 = ec_load_f32(w + 4);
        float a2 = ec_load_f32(w + 8), a3 = ec_load_f32(w + 12);
        float b0 = a0, b1 = a1, b2 = a2, b3 = a3;
        float c0 = a0, c1 = a1, c2 = a2, c3 = a3;
        float d0 = a0, d1 = a1, d2 = a2, d3 = a3;
        for (int32_t row = 0; row < runs[0]; ++row) {
            const float *xa = from;
            const float *xb = xa + step;
            const float *xc = xb + step;
            const float *xd = xc + step;
            const uint8_t *v = weights;
            int32_t most = inputs;
            do {
                if (has_groups != 0) {
                    ec_steps_of_group_f32(steps, v, w, second);
                    v += each;
                }
                for (int32_t i = same; i > 0; --i) {
                    ec_four_weights_f32(weight, v, stored, steps, second);
                    v += each;
                    EC_FOUR_PRODUCTS_F32(xa, a0, a1, a2, a3);
                    EC_FOUR_PRODUCTS_F32(xb, b0, b1, b2, b3);
                    EC_FOUR_PRODUCTS_F32(xc, c0, c1, c2, c3);
                    EC_FOUR_PRODUCTS_F32(xd, d0, d1, d2, d3);
                }
                most -= same;
            } while (stored < 0 && most > 0);
            from += runs[2];
            weights += each * window[2];
        }
        ec_store_sums_f32(out + c, a0, a1, a2, a3, bounds, limits);
        ec_store_sums_f32(out + channels + c, b0, b1, b2, b3, bounds, limits);
        ec_store_sums_f32(out + 2 * channels + c, c0, c1, c2, c3, bounds, limits);
        ec_store_sums_f32(out + 3 * channels + c, d0, d1, d2, d3, bounds, limits);
    }
}

/* The same of one pixel. */
static inline EC_INLINE void ec_sums_of_one_f32(float *out, int32_t whole, const float *x,
                                                const uint8_t *w, const int32_t *window,
                                                const int32_t *runs, const float *limits,
                                                const ec_row_f32_sizes *n) {
    const int32_t stored = n->stored, apart = n->apart, tap = n->tap;
    const int32_t bounds = n->bounds;
    const int32_t head = ec_unit_head(4, stored);
    const int32_t each = ec_unit_tap(4, stored);
    const int32_t unit = head + each * window[0];
    const int32_t inputs = runs[1];
    const int32_t same = ec_same_steps(stored, runs);
    const int has_groups = ec_has_groups(stored, window, runs);
    int32_t c = 0;
    while (c < whole) {
        const int32_t second = ec_second_four(stored, c);
        const float *from = x + c * apart;
        const uint8_t *weights = w + head - 8 * second + each * window[1];
#if EC_MVE_FLOAT_ASM
        float room[16]; /* for steps */
        uint32_t facts[19];
        if (stored < 0) {
            ec_describe_groups_f32(facts, has_groups, same, second);
        }
        const uintptr_t words[13] = {
            (uintptr_t)weights,
            (uintptr_t)unit,
            (uintptr_t)from,
            (uintptr_t)runs[0],
            (uintptr_t)(has_groups   ? window[3] - inputs
                        : stored < 0 ? 1
                                     : inputs),
            (uintptr_t)(each * (window[2] - window[3])),
            (uintptr_t)(4 * (runs[2] - tap * inputs)),
            (uintptr_t)w,
            (uintptr_t)(out + c),
            16,
            (uintptr_t)bounds,
            (uintptr_t)limits,
            stored < 0                  ? (uintptr_t)facts
            : stored == 1 && apart == 0 ? (uintptr_t)room
                                        : (uintptr_t)(4 * tap),
        };
        if (whole - c >= 16 && second == 0 && runs[0] * inputs > 0 && n->one(words) == 0) {
            c += 16;
            w += (stored <= 0 ? 2 : 4) * unit;
            continue;
        }
#endif
        float weight[4], steps[4];
        ec_four_weights_f32(steps, stored < 2 ? w + 16 : w, 4, limits, 0);
        float a0 = ec_load_f32(w), a1 = ec_load_f32(w + 4);
        float a2 = ec_load_f32(w + 8), a3 = ec_load_f32(w + 12);
        for (int32_t row = 0; row < runs[0]; ++row) {
            const float *xa = from;
            const uint8_t *v = weights;
            int32_t most = inputs;
            do {
                int32_t i = same;
                if (has_groups != 0) {
                    ec_steps_of_group_f32(steps, v, w, second);
                    v += each;
                }
                if (stored != 4 && apart == 0 && i > 1) {
                    float sums[4] = { a0, a1, a2, a3 };
                    ec_add_pairs_f32(sums, xa, v, stored, steps, second, i / 2);
                    a0 = sums[0];
                    a1 = sums[1];
                    a2 = sums[2];
                    a3 = sums[3];
                    xa += i / 2 * 2;
                    v += each * (i / 2 * 2);
                    i %= 2;
                }
                for (; i > 0; --i) {
                    ec_four_weights_f32(weight, v, stored, steps, second);
                    v += each;
                    EC_FOUR_PRODUCTS_F32(xa, a0, a1, a2, a3);
                }
                most -= same;
            } while (stored < 0 && most > 0);
            from += runs[2];
            weights += each * window[2];
        }
        ec_store_sums_f32(out + c, a0, a1, a2, a3, bounds, limits);
        c += 4;
        w += ec_next_four(unit, stored, c);
    }
}

/* out[c] for c < lanes, fewer than four: the channels of a unit that is not whole, one pixel. w: the
 * biases of the unit; an int4 unit has two sets of four. */
static inline EC_INLINE void ec_sums_of_rest_f32(float *out, int32_t lanes, const float *x,
                                                 const uint8_t *w, const int32_t *window,
                                                 const int32_t *runs, const float *limits,
                                                 const ec_row_f32_sizes *n) {
    const int32_t stored = n->stored, apart = n->apart, tap = n->tap;
    const int32_t bounds = n->bounds, second = ec_second_four(stored, n->channels - lanes);
    const int32_t head = ec_unit_head(lanes, stored);
    const int32_t each = ec_unit_tap(lanes, stored);
    const uint8_t *const steps = stored <= 0 ? w + 16 : w + head - 4 * lanes;
    const int32_t next = stored <= 0 ? 4 : lanes;
    const int32_t same = ec_same_steps(stored, runs);
    const int has_groups = ec_has_groups(stored, window, runs);
    for (int32_t c = 0; c < lanes; ++c) {
        const float *from = x + c * apart;
        const uint8_t *weights = w + head - 8 * second + each * window[1];
        const float own = ec_load_f32(steps + 4 * c);
        float step = own;
        float sum = ec_load_f32(w + 4 * c);
        weights += stored <= 0 ? c : c * stored;
        for (int32_t row = 0; row < runs[0]; ++row) {
            int32_t heads = 0;
            int32_t i = 0;
            do {
                if (has_groups != 0) {
                    step = ec_weight_f32(weights, (i + heads) * next, 0, own, second);
                    ++heads;
                }
                const int32_t end = i + same;
                while (i < end) {
                    const int32_t position = (i + heads) * next;
                    sum += from[i * tap] * ec_weight_f32(weights, position, stored, step, second);
                    ++i;
                }
            } while (stored < 0 && i < runs[1]);
            from += runs[2];
            weights += each * window[2];
        }
        if ((bounds & 1) != 0) {
            sum = ec_at_least_f32(sum, limits[0]);
        }
        if ((bounds & 2) != 0) {
            sum = ec_at_most_f32(sum, limits[1]);
        }
        out[c] = sum;
    }
}

/* out[p][c] for p < pixels and c < channels: bias[c], and the window of output `row` and column p;
 * what lies outside of x is left out. Pixels are computed in order. Nothing is read but x, within its
 * rows, and the stream. */
static inline EC_INLINE void ec_row_of_sums_f32(float *out, const float *x, const void *stream,
                                                const ec_row_f32_sizes *n, int32_t row) {
    const int32_t bits[2] = { n->low, n->high };
    const int32_t depth = n->depth, group = n->group;
    const int32_t first = row * n->stride_h - n->top;
    const int32_t reach = (n->kernel_w - 1) * n->dilation_w + 1;
    const int32_t held = n->stored < 0 && group > 0 ? depth + depth / group : depth;
    const int32_t pitch = n->kernel_w * held;
    const int32_t whole = n->channels / 4 * 4;
    const uint8_t *const first_unit = stream;
    const uint8_t *const last =
        n->stored <= 0
            ? first_unit + whole / 8 * (64 + 4 * n->kernel_h * pitch) + 8 * (whole & 4)
            : first_unit + ec_unit_head(whole, n->stored) + whole * n->stored * n->kernel_h * pitch;
    float limits[2];
    int32_t runs[4];
    int32_t window[4];
    EC_COPY(limits, bits, sizeof limits);
    uint64_t taps = ec_clip_taps(first, n->kernel_h, n->dilation_h, n->height);
    int32_t from = ec_first_tap(taps);
    int32_t to = ec_taps_end(taps);
    runs[0] = to - from;
    runs[2] = n->dilation_h * n->width * n->across;
    window[0] = n->kernel_h * pitch;
    window[2] = pitch;
    const float *const rows = x + (first + from * n->dilation_h) * n->width * n->across;
    const int32_t above = from * pitch;
    int32_t p = 0;
    while (p < n->pixels) {
        const int32_t column = p * n->stride_w - n->left;
        int32_t some = 1;
        taps = ec_clip_taps(column, n->kernel_w, n->dilation_w, n->width);
        from = ec_first_tap(taps);
        to = ec_taps_end(taps);
        if (to - from == n->kernel_w && n->pixels - p >= 4 &&
            column + 3 * n->stride_w + reach <= n->width) {
            some = 4;
        }
        runs[1] = (to - from) * depth;
        runs[3] = group > 0 && to > from ? group : runs[1];
        window[1] = above + from * held;
        window[3] = (to - from) * held;
        const float *inputs = rows + (column + from * n->dilation_w) * n->across;
        if (some == 4) {
            ec_sums_of_four_f32(out, whole, inputs, first_unit, window, runs, limits, n);
        } else {
            ec_sums_of_one_f32(out, whole, inputs, first_unit, window, runs, limits, n);
        }
        for (; some > 0; --some, ++p) {
            ec_sums_of_rest_f32(out + whole, n->channels - whole, inputs + whole * n->apart, last,
                                window, runs, limits, n);
            inputs += n->stride_w * n->across;
            out += n->channels;
        }
    }
}

#endif /* EC_FPU_ACCUMULATE_F32_H */
