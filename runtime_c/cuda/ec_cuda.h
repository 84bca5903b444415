/* A model's GPU: the part of a model's context for it. The fields are private.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_H
#define EC_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* Functions of the CUDA driver (libcuda.so.1), by their place in a table. */
enum {
    EC_CU_INIT,
    EC_CU_DEVICE_GET,
    EC_CU_CONTEXT_RETAIN,
    EC_CU_CONTEXT_RELEASE,
    EC_CU_CONTEXT_PUSH,
    EC_CU_CONTEXT_POP,
    EC_CU_MODULE_LOAD,
    EC_CU_MODULE_UNLOAD,
    EC_CU_FUNCTION,
    EC_CU_ALLOCATE,
    EC_CU_FREE,
    EC_CU_MAP,
    EC_CU_MAPPED,
    EC_CU_UNMAP,
    EC_CU_TO_DEVICE,
    EC_CU_TO_HOST,
    EC_CU_STREAM_CREATE,
    EC_CU_STREAM_DESTROY,
    EC_CU_STREAM_WAIT,
    EC_CU_EVENT_RECORD,
    EC_CU_ATTRIBUTE,
    EC_CU_LAUNCH,
    EC_CU_LAUNCH_GRID,
    EC_CU_RESIDENT,
    EC_CU_DEVICE_ATTRIBUTE,
    EC_CU_CAPTURE_BEGIN,
    EC_CU_CAPTURE_END,
    EC_CU_GRAPH_CREATE,
    EC_CU_GRAPH_LAUNCH,
    EC_CU_GRAPH_DESTROY,
    EC_CU_GRAPH_PLAN_DESTROY,
    EC_CU_LAUNCH_CLUSTER,
    EC_CU_CLUSTER_BLOCKS,
    EC_CU_COUNT
};

/* Graphs that a model may have; parts of a run beyond them start their kernels one by one. */
#define EC_CUDA_GRAPHS 16u

/* context, module, stream, graphs: the driver's handles. arena, state, weights: addresses on the device;
 * constants: the host's copy of the weights. ports: inputs and outputs of one launch, in the arena or in
 * the host's memory. mapped: the host's arena and state if the GPU uses them, NULL if it has its own;
 * is_mapped: whether it uses them. error: the driver's number of the first error, 0 for none. stream: of
 * a run, own_stream or the application's; event: the application's, for the run's end, or NULL. is_async:
 * do not wait for the run; is_pending: it may still run. */
typedef struct ec_cuda {
    void *library;
    void (*driver[EC_CU_COUNT])(void);
    int device;
    void *context;
    void *module;
    void *own_stream;
    void *stream;
    void *event;
    int is_async;
    int is_pending;
    void *graphs[EC_CUDA_GRAPHS];
    uint64_t arena;
    uint64_t ports;
    uint64_t state;
    uint64_t weights;
    const uint8_t *constants;
    void *mapped[2];
    int is_mapped;
    int error;
} ec_cuda;

/* Functions of cuDNN that ec_cudnn.h calls. */
#define EC_DNN_COUNT 18

/* A model's cuDNN (--external cudnn): the library, its functions and handle, and scratch memory of its
 * calls on the device. */
typedef struct ec_cudnn {
    void *library;
    void (*functions[EC_DNN_COUNT])(void);
    void *handle;
    uint64_t workspace;
    size_t workspace_bytes;
} ec_cudnn;

/* A model's TensorRT (--external tensorrt): the library with ec_tensorrt.cpp, its functions, and its
 * engines. */
typedef struct ec_tensorrt {
    void *library;
    void (*functions[2])(void);
    void *engines;
} ec_tensorrt;

#endif /* EC_CUDA_H */
