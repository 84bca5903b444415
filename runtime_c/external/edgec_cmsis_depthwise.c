/* A depthwise convolution of CMSIS-NN: weights HWC. */
#include "edgec_cmsis_nn.h"

void edgec_cmsis_depthwise_s8(const int8_t *x, int8_t *out, const int8_t *weights,
                              const int32_t *bias, const int32_t *multiplier, const int32_t *shift,
                              const int32_t *sizes, int8_t *room);

void edgec_cmsis_depthwise_s8(const int8_t *x, int8_t *out, const int8_t *weights,
                              const int32_t *bias, const int32_t *multiplier, const int32_t *shift,
                              const int32_t *sizes, int8_t *room) {
    const int32_t *s = sizes;
    cmsis_nn_dw_conv_params params;
    const cmsis_nn_per_channel_quant_params quant = channels(multiplier, shift);
    const cmsis_nn_dims in = input(s);
    const cmsis_nn_dims made = output(s);
    const cmsis_nn_dims filter = dims(1, s[KERNEL_H], s[KERNEL_W], s[OUT_CHANNELS]);
    const cmsis_nn_dims added = dims(1, 1, 1, s[OUT_CHANNELS]);
    const cmsis_nn_context ctx = context(room, s[ROOM_BYTES]);
    params.input_offset = s[OFFSET];
    params.output_offset = s[ZERO_POINT];
    params.ch_mult = 1;
    params.stride = tile(s[STRIDE_H], s[STRIDE_W]);
    params.padding = tile(s[TOP], s[LEFT]);
    params.dilation = tile(s[DILATION_H], s[DILATION_W]);
    params.activation = limits(s[LOW], s[HIGH]);
    if (arm_depthwise_conv_wrapper_s8_get_buffer_size(&params, &in, &filter, &made) <=
        s[ROOM_BYTES]) {
        (void)arm_depthwise_conv_wrapper_s8(&ctx, &params, &quant, &in, x, &filter, weights, &added,
                                            bias, &made, out);
    }
}
