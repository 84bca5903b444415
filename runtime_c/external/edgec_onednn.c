/* Convolutions of oneDNN as functions of pointers, for `edgec.external.onednn()`.
 *
 * A primitive and its weights, in the order that oneDNN likes, are made at the first call and kept,
 * by the addresses of the constants, until the program ends. The function is not reentrant.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

#include "edgec_convolution.h"

void edgec_dnnl_conv_f32(const float *x, float *out, const float *weights, const float *bias,
                         const float *limits, const int32_t *sizes);

/* Objects that are made once for a layer. */
struct layer {
    const void *weights;
    const int32_t *sizes;
    dnnl_primitive_t convolution;
    dnnl_memory_t x, filter, bias, out;
};
static struct layer edgec_layers[512];
static int32_t edgec_count;
static dnnl_engine_t edgec_engine;
static dnnl_stream_t edgec_stream;

/* oneDNN refused: that is found when edgec compares the kernel, never later. */
static void require(dnnl_status_t status) {
    if (status != dnnl_success) {
        abort();
    }
}

/* Float32 with these steps between elements of each dimension. */
static dnnl_memory_desc_t strided(int rank, const dnnl_dim_t *dims, const dnnl_dim_t *steps) {
    dnnl_memory_desc_t made;
    require(dnnl_memory_desc_init_by_strides(&made, rank, dims, dnnl_f32, steps));
    return made;
}

/* An image, NHWC in memory, in oneDNN's order of dimensions. */
static dnnl_memory_desc_t image(dnnl_dim_t n, dnnl_dim_t c, dnnl_dim_t h, dnnl_dim_t w) {
    const dnnl_dims_t dims = { n, c, h, w };
    const dnnl_dims_t steps = { h * w * c, 1, w * c, c };
    return strided(4, dims, steps);
}

/* Weights as edgec has them: OHWI, or HWC of a depthwise convolution. */
static dnnl_memory_desc_t filter(const int32_t *s) {
    const dnnl_dim_t c = s[CHANNELS];
    const dnnl_dim_t h = s[KERNEL_H];
    const dnnl_dim_t w = s[KERNEL_W];
    if (s[DEPTHWISE]) {
        const dnnl_dims_t dims = { c, 1, 1, h, w };
        const dnnl_dims_t steps = { 1, h * w * c, h * w * c, w * c, c };
        return strided(5, dims, steps);
    }
    const dnnl_dims_t dims = { s[OUT_CHANNELS], c, h, w };
    const dnnl_dims_t steps = { h * w * c, 1, w * c, c };
    return strided(4, dims, steps);
}

/* Outputs along a side. */
static dnnl_dim_t outs(int32_t extent, int32_t before, int32_t after, int32_t kernel,
                       int32_t dilation, int32_t stride) {
    const int32_t window = (kernel - 1) * dilation + 1;
    return (extent + before + after - window) / stride + 1;
}

/* Run something that oneDNN has made. */
static void execute(dnnl_primitive_t made, int count, const dnnl_exec_arg_t *given) {
    require(dnnl_primitive_execute(made, edgec_stream, count, given));
    require(dnnl_stream_wait(edgec_stream));
}

/* The weights in the order that a primitive wants. */
static dnnl_memory_t ordered(const dnnl_memory_desc_t *own, const dnnl_memory_desc_t *wanted,
                             const float *weights) {
    dnnl_memory_t from;
    dnnl_memory_t to;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t reorder;
    union {
        const float *in;
        void *out;
    } pointer = { weights }; /* oneDNN takes constants by plain pointers, and only reads them */
    require(dnnl_memory_create(&from, own, edgec_engine, pointer.out));
    require(dnnl_memory_create(&to, wanted, edgec_engine, DNNL_MEMORY_ALLOCATE));
    require(
        dnnl_reorder_primitive_desc_create(&desc, own, edgec_engine, wanted, edgec_engine, NULL));
    require(dnnl_primitive_create(&reorder, desc));
    const dnnl_exec_arg_t given[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
    execute(reorder, 2, given);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(desc);
    dnnl_memory_destroy(from);
    return to;
}

/* How a layer is computed: any order of the weights, and the limits of the results. */
static dnnl_primitive_desc_t description(const int32_t *s, const dnnl_memory_desc_t *x,
                                         const dnnl_memory_desc_t *own,
                                         const dnnl_memory_desc_t *bias,
                                         const dnnl_memory_desc_t *out, const float *limits) {
    const dnnl_dims_t strides = { s[STRIDE_H], s[STRIDE_W] };
    const dnnl_dims_t dilations = { s[DILATION_H] - 1, s[DILATION_W] - 1 };
    const dnnl_dims_t before = { s[TOP], s[LEFT] };
    const dnnl_dims_t after = { s[BOTTOM], s[RIGHT] };
    dnnl_memory_desc_t any;
    dnnl_convolution_desc_t convolution;
    dnnl_post_ops_t ops;
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t desc;
    require(
        dnnl_memory_desc_init_by_tag(&any, own->ndims, own->dims, dnnl_f32, dnnl_format_tag_any));
    require(dnnl_dilated_convolution_forward_desc_init(&convolution, dnnl_forward_inference,
                                                       dnnl_convolution_direct, x, &any, bias, out,
                                                       strides, dilations, before, after));
    require(dnnl_post_ops_create(&ops));
    require(dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_clip, limits[0], limits[1]));
    require(dnnl_primitive_attr_create(&attributes));
    require(dnnl_primitive_attr_set_post_ops(attributes, ops));
    require(dnnl_primitive_desc_create(&desc, &convolution, attributes, edgec_engine, NULL));
    dnnl_primitive_attr_destroy(attributes);
    dnnl_post_ops_destroy(ops);
    return desc;
}

/* Make a layer. */
static void make(struct layer *made, const float *weights, const float *bias, const float *limits,
                 const int32_t *s) {
    const dnnl_dim_t h =
        outs(s[HEIGHT], s[TOP], s[BOTTOM], s[KERNEL_H], s[DILATION_H], s[STRIDE_H]);
    const dnnl_dim_t w = outs(s[WIDTH], s[LEFT], s[RIGHT], s[KERNEL_W], s[DILATION_W], s[STRIDE_W]);
    const dnnl_dims_t channels = { s[OUT_CHANNELS] };
    const dnnl_dims_t one = { 1 };
    const dnnl_memory_desc_t x = image(s[BATCH], s[CHANNELS], s[HEIGHT], s[WIDTH]);
    const dnnl_memory_desc_t out = image(s[BATCH], s[OUT_CHANNELS], h, w);
    const dnnl_memory_desc_t own = filter(s);
    const dnnl_memory_desc_t added = strided(1, channels, one);
    union {
        const float *in;
        void *out;
    } pointer = { bias };
    if (edgec_engine == NULL) {
        require(dnnl_engine_create(&edgec_engine, dnnl_cpu, 0));
        require(dnnl_stream_create(&edgec_stream, edgec_engine, dnnl_stream_default_flags));
    }
    dnnl_primitive_desc_t desc = description(s, &x, &own, &added, &out, limits);
    require(dnnl_primitive_create(&made->convolution, desc));
    made->filter =
        ordered(&own, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0), weights);
    require(dnnl_memory_create(&made->x, &x, edgec_engine, DNNL_MEMORY_NONE));
    require(dnnl_memory_create(&made->out, &out, edgec_engine, DNNL_MEMORY_NONE));
    require(dnnl_memory_create(&made->bias, &added, edgec_engine, pointer.out));
    dnnl_primitive_desc_destroy(desc);
    made->weights = weights;
    made->sizes = s;
}

/* out[batch, h, w, o] of float32. limits: low, high. */
void edgec_dnnl_conv_f32(const float *x, float *out, const float *weights, const float *bias,
                         const float *limits, const int32_t *sizes) {
    int32_t i = 0;
    union {
        const float *in;
        void *out;
    } pointer = { x };
    while (i < edgec_count &&
           (edgec_layers[i].weights != weights || edgec_layers[i].sizes != sizes)) {
        ++i;
    }
    if (i == (int32_t)(sizeof edgec_layers / sizeof edgec_layers[0])) {
        abort();
    }
    if (i == edgec_count) {
        make(&edgec_layers[i], weights, bias, limits, sizes);
        ++edgec_count;
    }
    const struct layer *layer = &edgec_layers[i];
    require(dnnl_memory_set_data_handle(layer->x, pointer.out));
    require(dnnl_memory_set_data_handle(layer->out, out));
    const dnnl_exec_arg_t given[] = { { DNNL_ARG_SRC, layer->x },
                                      { DNNL_ARG_WEIGHTS, layer->filter },
                                      { DNNL_ARG_BIAS, layer->bias },
                                      { DNNL_ARG_DST, layer->out } };
    execute(layer->convolution, 4, given);
}
