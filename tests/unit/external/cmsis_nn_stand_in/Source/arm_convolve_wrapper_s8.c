#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

arm_cmsis_nn_status
arm_convolve_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_conv_params *conv_params,
                        const cmsis_nn_per_channel_quant_params *quant_params,
                        const cmsis_nn_dims *input_dims, const int8_t *input_data,
                        const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                        const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                        const cmsis_nn_dims *output_dims, int8_t *output_data) {
    (void)ctx;
    (void)bias_dims;
    const int8_t *x = input_data;
    int8_t *out = output_data;
    for (int32_t n = 0; n < output_dims->n; ++n) {
        for (int32_t oh = 0; oh < output_dims->h; ++oh) {
            for (int32_t ow = 0; ow < output_dims->w; ++ow) {
                for (int32_t oc = 0; oc < output_dims->c; ++oc) {
                    int32_t sum = bias_data[oc];
                    for (int32_t kh = 0; kh < filter_dims->h; ++kh) {
                        for (int32_t kw = 0; kw < filter_dims->w; ++kw) {
                            const int32_t h = oh * conv_params->stride.h +
                                              kh * conv_params->dilation.h - conv_params->padding.h;
                            const int32_t w = ow * conv_params->stride.w +
                                              kw * conv_params->dilation.w - conv_params->padding.w;
                            if (h < 0 || w < 0 || h >= input_dims->h || w >= input_dims->w) {
                                continue;
                            }
                            const int8_t *at =
                                x + ((n * input_dims->h + h) * input_dims->w + w) * input_dims->c;
                            const int8_t *weight =
                                filter_data +
                                ((oc * filter_dims->h + kh) * filter_dims->w + kw) * input_dims->c;
                            for (int32_t c = 0; c < input_dims->c; ++c) {
                                sum += (at[c] + conv_params->input_offset) * weight[c];
                            }
                        }
                    }
                    sum = arm_nn_requantize(sum, quant_params->multiplier[oc],
                                            quant_params->shift[oc]);
                    *out++ = arm_nn_limit(sum + conv_params->output_offset,
                                          conv_params->activation.min, conv_params->activation.max);
                }
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}
