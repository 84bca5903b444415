/* Rows of convolutions of float32 whose channels are whole units of four: four pixels of a unit at a
 * time, or one, in the registers of a floating-point unit.
 *
 * Each output starts from its bias and adds product after product in the order of the window, with two
 * roundings each. A product and its addition are two instructions: VMLA has the same bits, but takes
 * three cycles on a Cortex-M4. conv_f32.h describes the stream and the order of pixels. Biases are
 * neither NaN nor -0: edgec replaces -0 by 0.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_UNITS_F32_H
#define EC_FPU_UNITS_F32_H

#include "edgec/ec_kernel.h"
#include "kernels/common/clip_taps.h"
#include "math/ec_float.h"

/* A row of windows over x [height, width, in_channels], or each of as many channels as the output has:
 * its first taps are at (row * stride_h - top, p * stride_w - left). bounds: 1 if results are at least 0,
 * plus 2 if there is an upper limit, which is not below 0; high is the bits of this float. */
typedef struct {
    int16_t height, width, in_channels;
    int16_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int16_t top, left, pixels, channels, bounds;
    int32_t high;
} ec_row_of_units_sizes;

/* Pixels whose windows have equally many taps. x: the first input of the first pixel; the next pixel's
 * lies `pixel` bytes after it. A window has `runs` runs (may be 0) of `inputs`, `tap` bytes apart; between
 * runs pointers to inputs and weights go on by `skip` and `weights_skip`. The first weights lie `first`
 * bytes after the biases, and the next unit `unit` bytes after this one. The outputs of the first pixel
 * end at `end`; the next pixel's outputs lie `pitch` bytes after them. fpscr: room for that register. */
typedef struct {
    const float *x;
    int32_t pixel, runs, inputs, skip, weights_skip, first, unit;
    const float *stream;
    float *out;
    int32_t pitch;
    const float *end;
    int32_t bounds;
    float high;
    int32_t tap, fpscr;
} ec_units_f32_sizes;

/* A kernel's body: assembly if the compiler takes it, else C. */
#if defined(__ARM_FP) && EC_DSP_ASM
#define EC_RUN_UNITS_F32(units, pixels, own, begin, run, skip, end) \
    EC_RUN_UNITS_F32_FPU(units, begin, run, skip, end)
#else
#define EC_RUN_UNITS_F32(units, pixels, own, begin, run, skip, end) \
    ec_units_in_c_f32(units, pixels, own)
#endif

/* clang-format off */

/* Assembly: units of four channels, one after the other; r0 points to ec_units_f32_sizes.
 *
 * `begin` loads biases at r1, which advances, and computes the pointers from the first input, r2; `run`
 * adds a run of r6 inputs and keeps r8-r10; `skip` adds r12 to the pointers; `end` limits and stores the
 * sums at r9, which advances by a unit, and may change r1-r6. r7 and r11 may be the compiler's frame
 * pointer. During this, every computed NaN is the default one, which has no sign. */
#define EC_UNITS_F32_FPU(begin, run, skip, end) \
    "vmrs r1, fpscr\n" \
    "str r1, [r0, #60]\n" \
    "orr r1, r1, #0x2000000\n" \
    "vmsr fpscr, r1\n" \
    "ldrd r10, r9, [r0, #32]\n" \
    "1:\n" \
    "mov r1, r10\n" \
    "ldrd r2, r12, [r0]\n" \
    begin \
    "ldrd r6, lr, [r0, #24]\n" \
    "add r1, r1, r6\n" \
    "add r10, r10, lr\n" \
    "ldr r8, [r0, #8]\n" \
    "cmp r8, #0\n" \
    "beq 9f\n" \
    "2:\n" \
    "ldr r6, [r0, #12]\n" \
    run \
    "ldrd r12, lr, [r0, #16]\n" \
    skip \
    "add r1, r1, lr\n" \
    "subs r8, r8, #1\n" \
    "bne 2b\n" \
    "9:\n" \
    end \
    "ldr r1, [r0, #44]\n" \
    "cmp r9, r1\n" \
    "bne 1b\n" \
    "ldr r1, [r0, #60]\n" \
    "vmsr fpscr, r1\n"

/* Assembly: limit these sums from above, by four instructions each, with C's meaning; a NaN stays one.
 * Leaves bounds in r1. */
#define EC_LIMIT_F32_FPU(sums) \
    "ldr r1, [r0, #48]\n" \
    "lsls r2, r1, #30\n" \
    "bpl 3f\n" \
    "vldr s16, [r0, #52]\n" \
    ".irp d, " sums "\n" \
    "vcmp.f32 s16, \\d\n" \
    "vmrs APSR_nzcv, fpscr\n" \
    "it mi\n" \
    "vmovmi.f32 \\d, s16\n" \
    ".endr\n" \
    "3:\n" \
    "lsls r2, r1, #31\n"

/* Assembly: no upper limit. Leaves bounds in r1. */
#define EC_NO_UPPER_F32_FPU(sums) \
    "ldr r1, [r0, #48]\n" \
    "lsls r2, r1, #31\n"

/* The limits of convolutions. A model whose layers have no upper limit defines EC_CONV_UNITS_NO_UPPER. */
#if defined(EC_CONV_UNITS_NO_UPPER)
#define EC_CONV_LIMIT_F32_FPU EC_NO_UPPER_F32_FPU
#else
#define EC_CONV_LIMIT_F32_FPU EC_LIMIT_F32_FPU
#endif

/* The same of depthwise convolutions. */
#if defined(EC_DEPTHWISE_UNITS_NO_UPPER)
#define EC_DEPTHWISE_LIMIT_F32_FPU EC_NO_UPPER_F32_FPU
#else
#define EC_DEPTHWISE_LIMIT_F32_FPU EC_LIMIT_F32_FPU
#endif

/* The most pixels at once. A model defines EC_CONV_UNITS_ONE if no layer has four with whole windows. */
#if defined(EC_CONV_UNITS_ONE)
#define EC_CONV_UNITS_PIXELS 1
#else
#define EC_CONV_UNITS_PIXELS 4
#endif

/* The same of depthwise convolutions. */
#if defined(EC_DEPTHWISE_UNITS_ONE)
#define EC_DEPTHWISE_UNITS_PIXELS 1
#else
#define EC_DEPTHWISE_UNITS_PIXELS 4
#endif

/* Assembly: limit four sums by 0 from below and store them at r12. A number with a sign becomes 0: no sum
 * is -0, as no bias is, and a NaN has no sign. */
#define EC_STORE_LIMITED_F32_FPU(a, b, c, d) \
    "vmov r1, r2, " a ", " b "\n" \
    "vmov r3, r4, " c ", " d "\n" \
    "bic r1, r1, r1, asr #31\n" \
    "bic r2, r2, r2, asr #31\n" \
    "bic r3, r3, r3, asr #31\n" \
    "bic r4, r4, r4, asr #31\n" \
    "stmia r12, {r1-r4}\n"

/* Assembly: the pointers to four pixels and their sums, s0 to s15, which begin with the biases. */
#define EC_BEGIN_FOUR_F32_FPU \
    "add r3, r2, r12\n" \
    "add r4, r3, r12\n" \
    "add r5, r4, r12\n" \
    "vldmia r1, {s0-s3}\n" \
    "vldmia r1, {s4-s7}\n" \
    "vldmia r1, {s8-s11}\n" \
    "vldmia r1!, {s12-s15}\n"

/* Assembly: their pointers at the next run. */
#define EC_SKIP_FOUR_F32_FPU \
    ".irp x, r2, r3, r4, r5\n" \
    "add \\x, \\x, r12\n" \
    ".endr\n"

/* Assembly: their results. */
#define EC_END_FOUR_F32_FPU(limit) \
    limit("s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15") \
    "ldr lr, [r0, #40]\n" \
    "mov r12, r9\n" \
    "add r9, r9, #16\n" \
    "bne 4f\n" \
    "vstmia r12, {s0-s3}\n" \
    "add r12, r12, lr\n" \
    "vstmia r12, {s4-s7}\n" \
    "add r12, r12, lr\n" \
    "vstmia r12, {s8-s11}\n" \
    "add r12, r12, lr\n" \
    "vstmia r12, {s12-s15}\n" \
    "b 5f\n" \
    "4:\n" \
    EC_STORE_LIMITED_F32_FPU("s0", "s1", "s2", "s3") \
    "add r12, r12, lr\n" \
    EC_STORE_LIMITED_F32_FPU("s4", "s5", "s6", "s7") \
    "add r12, r12, lr\n" \
    EC_STORE_LIMITED_F32_FPU("s8", "s9", "s10", "s11") \
    "add r12, r12, lr\n" \
    EC_STORE_LIMITED_F32_FPU("s12", "s13", "s14", "s15") \
    "5:\n"

/* Assembly: an input of a pixel by the weights w0 to w3, added to its sums a to d. */
#define EC_INPUT_F32_FPU(x, w0, w1, w2, w3, a, b, c, d) \
    "vmul.f32 s28, " x ", " w0 "\n" \
    "vmul.f32 s29, " x ", " w1 "\n" \
    "vmul.f32 s30, " x ", " w2 "\n" \
    "vmul.f32 s31, " x ", " w3 "\n" \
    "vadd.f32 " a ", " a ", s28\n" \
    "vadd.f32 " b ", " b ", s29\n" \
    "vadd.f32 " c ", " c ", s30\n" \
    "vadd.f32 " d ", " d ", s31\n"

/* Assembly: one input of a pixel, by the weights in s16 to s19. */
#define EC_ONE_INPUT_F32_FPU(x, a, b, c, d) \
    "vldmia " x "!, {s24}\n" \
    EC_INPUT_F32_FPU("s24", "s16", "s17", "s18", "s19", a, b, c, d)
/* Assembly: the same of two inputs. */
#define EC_TWO_INPUTS_F32_FPU(x, a, b, c, d) \
    "vldmia " x "!, {s24-s25}\n" \
    EC_INPUT_F32_FPU("s24", "s16", "s17", "s18", "s19", a, b, c, d) \
    EC_INPUT_F32_FPU("s25", "s20", "s21", "s22", "s23", a, b, c, d)

/* Assembly: the same of four channels of one input each, with weights in s16 to s19. */
#define EC_OWN_INPUTS_F32_FPU(x, a, b, c, d) \
    "vldmia " x ", {s20-s23}\n" \
    "vmul.f32 s28, s20, s16\n" \
    "vmul.f32 s29, s21, s17\n" \
    "vmul.f32 s30, s22, s18\n" \
    "vmul.f32 s31, s23, s19\n" \
    "add " x ", " x ", r12\n" \
    "vadd.f32 " a ", " a ", s28\n" \
    "vadd.f32 " b ", " b ", s29\n" \
    "vadd.f32 " c ", " c ", s30\n" \
    "vadd.f32 " d ", " d ", s31\n"

/* Assembly: the inputs of four pixels. */
#define EC_FOUR_PIXELS_F32_FPU(each) \
    each("r2", "s0", "s1", "s2", "s3") \
    each("r3", "s4", "s5", "s6", "s7") \
    each("r4", "s8", "s9", "s10", "s11") \
    each("r5", "s12", "s13", "s14", "s15")

/* Assembly: a run of inputs that channels share, two at a time. */
#define EC_SHARED_RUN_F32_FPU(pixels) \
    "lsrs r6, r6, #1\n" \
    "bcc 5f\n" \
    "vldmia r1!, {s16-s19}\n" \
    pixels(EC_ONE_INPUT_F32_FPU) \
    "5:\n" \
    "beq 7f\n" \
    "6:\n" \
    "vldmia r1!, {s16-s23}\n" \
    pixels(EC_TWO_INPUTS_F32_FPU) \
    "subs r6, r6, #1\n" \
    "bne 6b\n" \
    "7:\n"

/* Assembly: a run of inputs that each channel has for itself. */
#define EC_OWN_RUN_F32_FPU(pixels) \
    "ldr r12, [r0, #56]\n" \
    "6:\n" \
    "vldmia r1!, {s16-s19}\n" \
    pixels(EC_OWN_INPUTS_F32_FPU) \
    "subs r6, r6, #1\n" \
    "bne 6b\n"

/* Assembly: advance to the inputs of the next unit, which follow this unit's. */
#define EC_NEXT_INPUTS_F32_FPU \
    "ldr r1, [r0]\n" \
    "adds r1, r1, #16\n" \
    "str r1, [r0]\n"

/* Assembly: the sums of one pixel. */
#define EC_BEGIN_ONE_F32_FPU "vldmia r1!, {s0-s3}\n"
/* Assembly: its pointer at the next run. */
#define EC_SKIP_ONE_F32_FPU "add r2, r2, r12\n"
/* Assembly: its results. */
#define EC_END_ONE_F32_FPU(limit) \
    limit("s0, s1, s2, s3") \
    "mov r12, r9\n" \
    "add r9, r9, #16\n" \
    "bne 4f\n" \
    "vstmia r12, {s0-s3}\n" \
    "b 5f\n" \
    "4:\n" \
    EC_STORE_LIMITED_F32_FPU("s0", "s1", "s2", "s3") \
    "5:\n"

/* Assembly: its inputs. */
#define EC_ONE_PIXEL_F32_FPU(each) each("r2", "s0", "s1", "s2", "s3")

/* The body of a kernel that runs EC_UNITS_F32_FPU on `units`. */
#define EC_RUN_UNITS_F32_FPU(units, begin, run, skip, end) \
    register ec_units_f32_sizes *r0 __asm__("r0") = (units); \
    __asm__ volatile(".syntax unified\n" EC_UNITS_F32_FPU(begin, run, skip, end) \
        : "+r"(r0) \
        : \
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "s0", "s1", "s2", "s3", \
          "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", "s16", "s17", \
          "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27", "s28", "s29", "s30", \
          "s31", "cc", "memory")

/* clang-format on */

/* The same in C, for units of `pixels` pixels. own: 1 if each channel has its own inputs, else 0. */
static inline EC_UNUSED void ec_units_in_c_f32(const ec_units_f32_sizes *n, int32_t pixels,
                                               int32_t own) {
    const float *x = n->x;
    const float *unit = n->stream;
    for (float *out = n->out; out != n->end; out += 4, unit += n->unit / 4, x += 4 * own) {
        float sums[16];
        for (int32_t i = 0; i < 4 * pixels; ++i) {
            const int32_t c = i % 4;
            const float *from = x + i / 4 * (n->pixel / 4) + own * c;
            const float *w = unit + 4 + n->first / 4 + c;
            float sum = unit[c];
            for (int32_t run = 0; run < n->runs; ++run) {
                for (int32_t k = 0; k < n->inputs; ++k) {
                    sum += from[0] * w[0];
                    from += n->tap / 4;
                    w += 4;
                }
                from += n->skip / 4;
                w += n->weights_skip / 4;
            }
            sum = (n->bounds & 1) != 0 && sum < 0.0f ? 0.0f : sum;
            sum = (n->bounds & 2) != 0 && n->high < sum ? n->high : sum;
            sums[i] = sum;
        }
        for (int32_t i = 0; i < 4 * pixels; ++i) {
            out[i / 4 * (n->pitch / 4) + i % 4] = sums[i];
        }
    }
}

/* Four pixels whose channels share inputs. */
static EC_KERNEL void ec_conv_four_units_f32(ec_units_f32_sizes *units) {
    EC_RUN_UNITS_F32(units, 4, 0, EC_BEGIN_FOUR_F32_FPU,
                     EC_SHARED_RUN_F32_FPU(EC_FOUR_PIXELS_F32_FPU), EC_SKIP_FOUR_F32_FPU,
                     EC_END_FOUR_F32_FPU(EC_CONV_LIMIT_F32_FPU));
}

/* One pixel whose channels share inputs. */
static EC_KERNEL void ec_conv_one_units_f32(ec_units_f32_sizes *units) {
    EC_RUN_UNITS_F32(units, 1, 0, EC_BEGIN_ONE_F32_FPU, EC_SHARED_RUN_F32_FPU(EC_ONE_PIXEL_F32_FPU),
                     EC_SKIP_ONE_F32_FPU, EC_END_ONE_F32_FPU(EC_CONV_LIMIT_F32_FPU));
}

/* Four pixels whose channels have inputs of their own. */
static EC_KERNEL void ec_depthwise_four_units_f32(ec_units_f32_sizes *units) {
    EC_RUN_UNITS_F32(units, 4, 1, EC_BEGIN_FOUR_F32_FPU, EC_OWN_RUN_F32_FPU(EC_FOUR_PIXELS_F32_FPU),
                     EC_SKIP_FOUR_F32_FPU,
                     EC_END_FOUR_F32_FPU(EC_DEPTHWISE_LIMIT_F32_FPU) EC_NEXT_INPUTS_F32_FPU);
}

/* One pixel whose channels have inputs of their own. */
static EC_KERNEL void ec_depthwise_one_units_f32(ec_units_f32_sizes *units) {
    EC_RUN_UNITS_F32(units, 1, 1, EC_BEGIN_ONE_F32_FPU, EC_OWN_RUN_F32_FPU(EC_ONE_PIXEL_F32_FPU),
                     EC_SKIP_ONE_F32_FPU,
                     EC_END_ONE_F32_FPU(EC_DEPTHWISE_LIMIT_F32_FPU) EC_NEXT_INPUTS_F32_FPU);
}

/* A row of outputs: what lies outside of x is left out, and pixels are computed in order. own: as above.
 * at_once: four pixels may be taken at once, or only one. */
static inline EC_INLINE void ec_row_of_units_f32(float *out, const float *x, const float *stream,
                                                 const ec_row_of_units_sizes *n, int32_t row,
                                                 int32_t own, int32_t at_once) {
    const int32_t across = own != 0 ? n->channels : n->in_channels;
    const int32_t depth = own != 0 ? 1 : n->in_channels;
    const int32_t apart = own != 0 ? n->dilation_w : 1;
    const int32_t first = row * n->stride_h - n->top;
    const int32_t line = n->dilation_h * n->width * across;
    ec_units_f32_sizes units;
    uint64_t taps = ec_clip_taps(first, n->kernel_h, n->dilation_h, n->height);
    int32_t from = ec_first_tap(taps);
    int32_t to = ec_taps_end(taps);
    const float *const rows = x + first * n->width * across + from * line;
    const int32_t runs = to - from;
    const int32_t above = from * n->kernel_w;
    units.pixel = 4 * n->stride_w * across;
    units.unit = 16 + 16 * n->kernel_h * n->kernel_w * depth;
    units.stream = stream;
    units.pitch = 4 * n->channels;
    units.bounds = n->bounds;
    units.high = ec_f32_from_bits((uint32_t)n->high);
    units.tap = own != 0 ? 4 * apart * across : 4;
    int32_t p = 0;
    while (p < n->pixels) {
        const int32_t column = p * n->stride_w - n->left;
        const int32_t last = column + 3 * n->stride_w + (n->kernel_w - 1) * apart;
        taps = ec_clip_taps(column, n->kernel_w, apart, n->width);
        from = ec_first_tap(taps);
        to = ec_taps_end(taps);
        const int32_t is_whole =
            at_once == 4 && to - from == n->kernel_w && n->pixels - p >= 4 && last < n->width;
        const int32_t some = is_whole != 0 ? 4 : 1;
        units.x = rows + (column + from * apart) * across;
        units.inputs = (to - from) * depth;
        units.runs = to > from ? runs : 0;
        units.skip = 4 * line - units.tap * units.inputs;
        units.weights_skip = 16 * (n->kernel_w * depth - units.inputs);
        units.first = 16 * (above + from) * depth;
        units.out = out;
        units.end = out + n->channels;
        if (own == 0 && some == 4) {
            ec_conv_four_units_f32(&units);
        } else if (own == 0) {
            ec_conv_one_units_f32(&units);
        } else if (some == 4) {
            ec_depthwise_four_units_f32(&units);
        } else {
            ec_depthwise_one_units_f32(&units);
        }
        p += some;
        out += some * n->channels;
    }
}

/* out[p][c] for p < pixels and c < channels, a multiple of four: a row of a convolution over all channels
 * of x. Nothing is read but x, within its rows, and the stream. */
static EC_SHARED void ec_conv_units_f32(float *out, const float *x, const float *stream,
                                        const ec_row_of_units_sizes *n, int32_t row) {
    ec_row_of_units_f32(out, x, stream, n, row, 0, EC_CONV_UNITS_PIXELS);
}

/* The same where each channel of x has windows of its own. */
static EC_SHARED void ec_depthwise_units_f32(float *out, const float *x, const float *stream,
                                             const ec_row_of_units_sizes *n, int32_t row) {
    ec_row_of_units_f32(out, x, stream, n, row, 1, EC_DEPTHWISE_UNITS_PIXELS);
}

#endif /* EC_FPU_UNITS_F32_H */
