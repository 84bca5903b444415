/* Convolutions of XNNPACK as functions of pointers, for `edgec.external.xnnpack()`.
 *
 * XNNPACK packs weights when it makes an operator. Each operator is made at its first call and kept,
 * by the addresses of its constants, until the program ends. The functions are not reentrant.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <xnnpack.h>

#include "edgec_convolution.h"

void edgec_xnn_conv_f32(const float *x, float *out, const float *weights, const float *bias,
                        const float *limits, const int32_t *sizes);
void edgec_xnn_conv_s8(const int8_t *x, int8_t *out, const int8_t *weights, const int32_t *bias,
                       const float *scale, const int32_t *sizes);

/* Operators that were made, by their weights and sizes. */
struct made {
    const void *weights;
    const int32_t *sizes;
    xnn_operator_t op;
};
static struct made edgec_made[512];
static int32_t edgec_count;

/* XNNPACK refused: that is found when edgec compares the kernel, never later. */
static void require(enum xnn_status status) {
    if (status != xnn_status_success) {
        abort();
    }
}

/* The operator of these constants; NULL where it is to be made. */
static xnn_operator_t known(const void *weights, const int32_t *sizes) {
    for (int32_t i = 0; i < edgec_count; ++i) {
        if (edgec_made[i].weights == weights && edgec_made[i].sizes == sizes) {
            return edgec_made[i].op;
        }
    }
    require(xnn_initialize(NULL));
    return NULL;
}

/* Keep an operator. */
static xnn_operator_t keep(const void *weights, const int32_t *sizes, xnn_operator_t op) {
    if (edgec_count == (int32_t)(sizeof edgec_made / sizeof edgec_made[0])) {
        abort();
    }
    edgec_made[edgec_count++] = (struct made){ weights, sizes, op };
    return op;
}

/* A number of the sizes that is not negative. */
static uint32_t u(const int32_t *sizes, int32_t index) {
    return (uint32_t)sizes[index];
}

static uint32_t groups_of(const int32_t *s) {
    return s[DEPTHWISE] ? u(s, CHANNELS) : 1u;
}

static uint32_t flags_of(const int32_t *s) {
    return s[DEPTHWISE] ? XNN_FLAG_DEPTHWISE_CONVOLUTION : 0u;
}

/* out[batch, h, w, o]: float32, weights OHWI, or HWC of a depthwise convolution. limits: low, high. */
void edgec_xnn_conv_f32(const float *x, float *out, const float *weights, const float *bias,
                        const float *limits, const int32_t *sizes) {
    const int32_t *s = sizes;
    xnn_operator_t op = known(weights, s);
    if (op == NULL) {
        const size_t in = s[DEPTHWISE] ? 1u : u(s, CHANNELS);
        const size_t outs = s[DEPTHWISE] ? 1u : u(s, OUT_CHANNELS);
        require(xnn_create_convolution2d_nhwc_f32(
            u(s, TOP), u(s, RIGHT), u(s, BOTTOM), u(s, LEFT), u(s, KERNEL_H), u(s, KERNEL_W),
            u(s, STRIDE_H), u(s, STRIDE_W), u(s, DILATION_H), u(s, DILATION_W), groups_of(s), in,
            outs, u(s, CHANNELS), u(s, OUT_CHANNELS), weights, bias, limits[0], limits[1],
            flags_of(s), &op));
        op = keep(weights, s, op);
    }
    require(
        xnn_setup_convolution2d_nhwc_f32(op, u(s, BATCH), u(s, HEIGHT), u(s, WIDTH), x, out, NULL));
    require(xnn_run_operator(op, NULL));
}

/* The same of int8: sums times `scale` of their channel, rounded half to even. */
void edgec_xnn_conv_s8(const int8_t *x, int8_t *out, const int8_t *weights, const int32_t *bias,
                       const float *scale, const int32_t *sizes) {
    const int32_t *s = sizes;
    xnn_operator_t op = known(weights, s);
    if (op == NULL) {
        const size_t in = s[DEPTHWISE] ? 1u : u(s, CHANNELS);
        const size_t outs = s[DEPTHWISE] ? 1u : u(s, OUT_CHANNELS);
        require(xnn_create_convolution2d_nhwc_qc8(
            u(s, TOP), u(s, RIGHT), u(s, BOTTOM), u(s, LEFT), u(s, KERNEL_H), u(s, KERNEL_W),
            u(s, STRIDE_H), u(s, STRIDE_W), u(s, DILATION_H), u(s, DILATION_W), groups_of(s), in,
            outs, u(s, CHANNELS), u(s, OUT_CHANNELS), (int8_t)-s[OFFSET], 1.0f, scale, weights,
            bias, (int8_t)s[ZERO_POINT], 1.0f, (int8_t)s[LOW], (int8_t)s[HIGH], flags_of(s), &op));
        op = keep(weights, s, op);
    }
    require(
        xnn_setup_convolution2d_nhwc_qc8(op, u(s, BATCH), u(s, HEIGHT), u(s, WIDTH), x, out, NULL));
    require(xnn_run_operator(op, NULL));
}
