#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

arm_cmsis_nn_status arm_avgpool_s8(const cmsis_nn_context *ctx,
                                   const cmsis_nn_pool_params *pool_params,
                                   const cmsis_nn_dims *input_dims, const int8_t *input_data,
                                   const cmsis_nn_dims *filter_dims,
                                   const cmsis_nn_dims *output_dims, int8_t *output_data) {
    (void)ctx;
    for (int32_t n = 0; n < output_dims->n; ++n) {
        for (int32_t oh = 0; oh < output_dims->h; ++oh) {
            for (int32_t ow = 0; ow < output_dims->w; ++ow) {
                for (int32_t oc = 0; oc < output_dims->c; ++oc) {
                    int32_t found = 0;
                    for (int32_t kh = 0; kh < filter_dims->h; ++kh) {
                        for (int32_t kw = 0; kw < filter_dims->w; ++kw) {
                            const int32_t h = oh * pool_params->stride.h + kh;
                            const int32_t w = ow * pool_params->stride.w + kw;
                            const int32_t x =
                                input_data[((n * input_dims->h + h) * input_dims->w + w) *
                                               input_dims->c +
                                           oc];
                            found += x;
                        }
                    }
                    const int32_t count = filter_dims->h * filter_dims->w;
                    found = (found > 0 ? found + count / 2 : found - count / 2) / count;
                    *output_data++ = arm_nn_limit(found, pool_params->activation.min,
                                                  pool_params->activation.max);
                }
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}
