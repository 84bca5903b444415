/* Weights of float32 as streams of kernels hold them.
 *
 * A stream holds bias and weights in the order of use. Per unit of four channels (the last one may have
 * fewer): the biases, then for each input of a window the weights of the unit's channels. `stored` is the
 * bytes of a weight: 4 a float32; 2 a float16; 1 an int8 that is multiplied by its channel's step; the
 * steps follow the biases. A stored weight becomes a float32 before use, with one rounding if it is a
 * product with a step.
 *
 * 0: int4 weights, also multiplied by their channel's step. A unit has eight channels, the last one
 * too: biases and steps of the first four, then of the second four, then four bytes for each input.
 * The low halves of these bytes are the weights of the first four channels. `second` chooses four
 * channels of a unit: 0 the first, 4 the second; it is 0 for all other weights.
 *
 * -1: int4 weights with steps of groups of inputs. Four bytes precede the weights of a group, laid
 * out like the four bytes of an input: each half multiplies the step of its channel. A stream may
 * omit them: its channels then have one step each.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_STORED_WEIGHTS_F32_H
#define EC_STORED_WEIGHTS_F32_H

#include "edgec/ec_kernel.h"
#include "math/ec_float.h"

/* The float at p, which is aligned to 4 bytes. */
static inline EC_INLINE float ec_load_f32(const void *p) {
    float value;
    EC_COPY(&value, EC_WORDS(p), sizeof value);
    return value;
}

/* Bytes of biases and steps before the weights of a unit. */
static inline EC_INLINE int32_t ec_unit_head(int32_t lanes, int32_t stored) {
    if (stored <= 0) {
        return 64;
    }
    return stored == 1 ? 8 * lanes : 4 * lanes;
}

/* Bytes of a unit's weights for one input. */
static inline EC_INLINE int32_t ec_unit_tap(int32_t lanes, int32_t stored) {
    return stored <= 0 ? 4 : lanes * stored;
}

/* Bytes to the biases of the four channels from c on, from those before; unit: bytes of a unit. */
static inline EC_INLINE int32_t ec_next_four(int32_t unit, int32_t stored, int32_t c) {
    if (stored > 0) {
        return unit;
    }
    return (c & 4) != 0 ? 32 : unit - 32;
}

/* Which four of a unit those from c on are (see `second`). */
static inline EC_INLINE int32_t ec_second_four(int32_t stored, int32_t c) {
    return stored <= 0 ? c & 4 : 0;
}

/* The four bits of a word from bit `from` on, as a number with a sign. */
static inline EC_INLINE float ec_s4_f32(uint32_t word, int32_t from) {
    const int32_t high = (int32_t)(word << (28 - from));
    return (float)(high >> 28);
}

/* The float16 of these bits. */
static inline EC_INLINE float ec_half_f32(uint32_t bits) {
#if EC_DSP_FPU_ASM
    float wide;
    __asm__("vcvtb.f32.f16 %0, %1" : "=t"(wide) : "t"(ec_f32_from_bits(bits)));
    return wide;
#else
    return ec_f32_from_f16(bits);
#endif
}

/* The two float16 of the word at p, which is aligned to 4 bytes. */
static inline EC_INLINE void ec_two_halves_f32(float *low, float *high, const void *p) {
#if EC_DSP_FPU_ASM
    const float both = ec_load_f32(p);
    __asm__("vcvtb.f32.f16 %0, %1" : "=t"(*low) : "t"(both));
    __asm__("vcvtt.f32.f16 %0, %1" : "=t"(*high) : "t"(both));
#else
    const uint32_t both = (uint32_t)ec_load_aligned(p);
    *low = ec_f32_from_f16(both & 0xFFFFu);
    *high = ec_f32_from_f16(both >> 16);
#endif
}

/* Four weights at v, of the channels whose steps are given. */
static inline EC_INLINE void ec_four_weights_f32(float *weights, const uint8_t *v, int32_t stored,
                                                 const float *steps, int32_t second) {
    if (stored == 4) {
        weights[0] = ec_load_f32(v);
        weights[1] = ec_load_f32(v + 4);
        weights[2] = ec_load_f32(v + 8);
        weights[3] = ec_load_f32(v + 12);
    } else if (stored == 2) {
        ec_two_halves_f32(weights, weights + 1, v);
        ec_two_halves_f32(weights + 2, weights + 3, v + 4);
    } else if (stored <= 0) {
        const uint32_t word = (uint32_t)ec_load_aligned(v) >> second;
        weights[0] = ec_s4_f32(word, 0) * steps[0];
        weights[1] = ec_s4_f32(word, 8) * steps[1];
        weights[2] = ec_s4_f32(word, 16) * steps[2];
        weights[3] = ec_s4_f32(word, 24) * steps[3];
    } else {
        weights[0] = (float)(int8_t)v[0] * steps[0];
        weights[1] = (float)(int8_t)v[1] * steps[1];
        weights[2] = (float)(int8_t)v[2] * steps[2];
        weights[3] = (float)(int8_t)v[3] * steps[3];
    }
}

/* Weight `position` of the weights at v, in a channel with this step. */
static inline EC_INLINE float ec_weight_f32(const uint8_t *v, int32_t position, int32_t stored,
                                            float step, int32_t second) {
    if (stored <= 0) {
        return ec_s4_f32(v[position], second) * step;
    }
    if (stored == 4) {
        return ec_load_f32(v + 4 * position);
    }
    if (stored == 2) {
        const uint32_t low = v[2 * position];
        return ec_half_f32(low | (uint32_t)v[2 * position + 1] << 8);
    }
    return (float)(int8_t)v[position] * step;
}

/* The steps of a group of four channels: v stands before its weights, w at the biases. */
static EC_SHARED void ec_steps_of_group_f32(float *steps, const uint8_t *v, const uint8_t *w,
                                            int32_t second) {
    float own[4];
    ec_four_weights_f32(own, w + 16, 4, steps, 0);
    ec_four_weights_f32(steps, v, 0, own, second);
}

#endif /* EC_STORED_WEIGHTS_F32_H */
