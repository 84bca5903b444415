/* A max pool of CMSIS-NN. */
#include "edgec_cmsis_nn.h"

void edgec_cmsis_max_pool_s8(const int8_t *x, int8_t *out, const int32_t *sizes, int8_t *room);

void edgec_cmsis_max_pool_s8(const int8_t *x, int8_t *out, const int32_t *sizes, int8_t *room) {
    const cmsis_nn_pool_params params = pool(sizes);
    const cmsis_nn_dims in = input(sizes);
    const cmsis_nn_dims made = output(sizes);
    const cmsis_nn_dims filter = dims(1, sizes[KERNEL_H], sizes[KERNEL_W], 1);
    const cmsis_nn_context ctx = context(room, sizes[ROOM_BYTES]);
    (void)arm_max_pool_s8(&ctx, &params, &in, x, &filter, &made, out);
}
