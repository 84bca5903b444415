/* A dense layer of CMSIS-NN: weights OI, one multiplier and shift for all channels. */
#include "edgec_cmsis_nn.h"

void edgec_cmsis_dense_s8(const int8_t *x, int8_t *out, const int8_t *weights, const int32_t *bias,
                          const int32_t *sizes, int32_t multiplier, int32_t shift, int8_t *room);

void edgec_cmsis_dense_s8(const int8_t *x, int8_t *out, const int8_t *weights, const int32_t *bias,
                          const int32_t *sizes, int32_t multiplier, int32_t shift, int8_t *room) {
    const int32_t *s = sizes;
    cmsis_nn_fc_params params;
    cmsis_nn_per_tensor_quant_params quant;
    const cmsis_nn_dims in = dims(s[WIDTH], 1, 1, s[CHANNELS]);
    const cmsis_nn_dims made = dims(s[WIDTH], 1, 1, s[OUT_CHANNELS]);
    const cmsis_nn_dims filter = dims(s[CHANNELS], 1, 1, s[OUT_CHANNELS]);
    const cmsis_nn_dims added = dims(1, 1, 1, s[OUT_CHANNELS]);
    const cmsis_nn_context ctx = context(room, s[ROOM_BYTES]);
    params.input_offset = s[OFFSET];
    params.filter_offset = 0;
    params.output_offset = s[ZERO_POINT];
    params.activation = limits(s[LOW], s[HIGH]);
    quant.multiplier = multiplier;
    quant.shift = shift;
    if (arm_fully_connected_s8_get_buffer_size(&filter) <= s[ROOM_BYTES]) {
        (void)arm_fully_connected_s8(&ctx, &params, &quant, &in, x, &filter, weights, &added, bias,
                                     &made, out);
    }
}
