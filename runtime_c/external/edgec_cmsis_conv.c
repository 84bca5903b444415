/* A convolution of CMSIS-NN: weights OHWI. */
#include "edgec_cmsis_nn.h"

void edgec_cmsis_conv_s8(const int8_t *x, int8_t *out, const int8_t *weights, const int32_t *bias,
                         const int32_t *multiplier, const int32_t *shift, const int32_t *sizes,
                         int8_t *room);

static cmsis_nn_conv_params convolution(const int32_t *s) {
    cmsis_nn_conv_params made;
    made.input_offset = s[OFFSET];
    made.output_offset = s[ZERO_POINT];
    made.stride = tile(s[STRIDE_H], s[STRIDE_W]);
    made.padding = tile(s[TOP], s[LEFT]);
    made.dilation = tile(s[DILATION_H], s[DILATION_W]);
    made.activation = limits(s[LOW], s[HIGH]);
    return made;
}

void edgec_cmsis_conv_s8(const int8_t *x, int8_t *out, const int8_t *weights, const int32_t *bias,
                         const int32_t *multiplier, const int32_t *shift, const int32_t *sizes,
                         int8_t *room) {
    const int32_t *s = sizes;
    const cmsis_nn_conv_params params = convolution(s);
    const cmsis_nn_per_channel_quant_params quant = channels(multiplier, shift);
    const cmsis_nn_dims in = input(s);
    const cmsis_nn_dims made = output(s);
    const cmsis_nn_dims filter = dims(s[OUT_CHANNELS], s[KERNEL_H], s[KERNEL_W], s[CHANNELS]);
    const cmsis_nn_dims added = dims(1, 1, 1, s[OUT_CHANNELS]);
    const cmsis_nn_context ctx = context(room, s[ROOM_BYTES]);
    if (arm_convolve_wrapper_s8_get_buffer_size(&params, &in, &filter, &made) <= s[ROOM_BYTES]) {
        (void)arm_convolve_wrapper_s8(&ctx, &params, &quant, &in, x, &filter, weights, &added, bias,
                                      &made, out);
    }
}
