/* Shared by the functions of `edgec.external.cmsis_nn()`: numbers as CMSIS-NN's structs.
 *
 * Numbers come as arrays, in the order of the enums. `room` is CMSIS-NN's buffer, of ROOM_BYTES: a layer
 * that needs more is not computed, which edgec finds when it compares the kernel.
 */
#ifndef EDGEC_CMSIS_NN_H
#define EDGEC_CMSIS_NN_H

#include <stddef.h>
#include <stdint.h>

#include "arm_nnfunctions.h"
#include "edgec_convolution.h"

/* Numbers after a convolution's numbers. */
enum {
    OUT_HEIGHT = HIGH + 1,
    OUT_WIDTH,
    ROOM_BYTES
};

static inline cmsis_nn_dims dims(int32_t n, int32_t h, int32_t w, int32_t c) {
    cmsis_nn_dims made;
    made.n = n;
    made.h = h;
    made.w = w;
    made.c = c;
    return made;
}

static inline cmsis_nn_tile tile(int32_t h, int32_t w) {
    cmsis_nn_tile made;
    made.h = h;
    made.w = w;
    return made;
}

static inline cmsis_nn_activation limits(int32_t low, int32_t high) {
    cmsis_nn_activation made;
    made.min = low;
    made.max = high;
    return made;
}

static inline cmsis_nn_context context(int8_t *room, int32_t bytes) {
    cmsis_nn_context made;
    made.buf = room;
    made.size = bytes;
    return made;
}

static inline cmsis_nn_dims input(const int32_t *s) {
    return dims(s[BATCH], s[HEIGHT], s[WIDTH], s[CHANNELS]);
}

static inline cmsis_nn_dims output(const int32_t *s) {
    return dims(s[BATCH], s[OUT_HEIGHT], s[OUT_WIDTH], s[OUT_CHANNELS]);
}

static inline cmsis_nn_per_channel_quant_params channels(const int32_t *multiplier,
                                                         const int32_t *shift) {
    union {
        const int32_t *in;
        int32_t *out;
    } multipliers = { multiplier }, shifts = { shift }; /* CMSIS-NN only reads them */
    cmsis_nn_per_channel_quant_params made;
    made.multiplier = multipliers.out;
    made.shift = shifts.out;
    return made;
}

static inline cmsis_nn_pool_params pool(const int32_t *s) {
    cmsis_nn_pool_params made;
    made.stride = tile(s[STRIDE_H], s[STRIDE_W]);
    made.padding = tile(s[TOP], s[LEFT]);
    made.activation = limits(s[LOW], s[HIGH]);
    return made;
}

#endif
