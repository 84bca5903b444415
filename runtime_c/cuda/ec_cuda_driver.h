/* A model on a GPU by the CUDA driver alone: opened at run time, through prototypes of our own, so that a
 * program builds and starts without CUDA. Included by the model's .c only.
 *
 * Names and meanings: NVIDIA, CUDA Driver API. Every function here keeps the first error in the
 * struct and does nothing after one.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_DRIVER_H
#define EC_CUDA_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "ec_cuda.h"

/* Another driver, as of edgec's emulation. */
#ifndef EC_CUDA_LIBRARY
#define EC_CUDA_LIBRARY "libcuda.so.1"
#endif

/* A model may do without some: with a GPU's graph there is nothing to launch. */
#if defined(__GNUC__)
#define EC_CUDA_PART static __attribute__((unused))
#else
#define EC_CUDA_PART static
#endif

/* The value of `error` without a driver: CUDA_ERROR_SHARED_OBJECT_INIT_FAILED. */
#define EC_CU_NO_DRIVER 303
/* CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL */
#define EC_CU_NON_BLOCKING 1u
#define EC_CU_THREAD_LOCAL 1

/* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
#define EC_CU_MOST_SHARED 8
#define EC_CU_ANY_CLUSTER 14
/* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, and how many blocks of a cluster every GPU that has them takes */
#define EC_CU_CLUSTER 4
#define EC_CU_PORTABLE_CLUSTER 8u
/* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH */
#define EC_CU_MULTIPROCESSORS 16
#define EC_CU_COOPERATIVE 95
/* CU_DEVICE_ATTRIBUTE_INTEGRATED, CU_MEMHOSTREGISTER_DEVICEMAP */
#define EC_CU_INTEGRATED 18
#define EC_CU_DEVICE_MAP 2u
/* Arguments of a kernel, at most. */
#define EC_CU_ARGUMENTS 64u

/* Call a function of the driver, unless something failed before. */
#define EC_CU(gpu, number, type, arguments)                               \
    do {                                                                  \
        if ((gpu)->error == 0) {                                          \
            (gpu)->error = ((int(*) type)(gpu)->driver[number])arguments; \
        }                                                                 \
    } while (0)

/* Find the driver's functions. */
EC_CUDA_PART void ec_cuda_open_driver(ec_cuda *gpu) {
    static const char *const names[EC_CU_COUNT] = {
        "cuInit",
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuDevicePrimaryCtxRelease_v2",
        "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",
        "cuModuleLoadData",
        "cuModuleUnload",
        "cuModuleGetFunction",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuMemHostRegister_v2",
        "cuMemHostGetDevicePointer_v2",
        "cuMemHostUnregister",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuStreamCreate",
        "cuStreamDestroy_v2",
        "cuStreamSynchronize",
        "cuEventRecord",
        "cuFuncSetAttribute",
        "cuLaunchKernel",
        "cuLaunchCooperativeKernel",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuDeviceGetAttribute",
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
        "cuGraphDestroy",
        "cuLaunchKernelEx",
        "cuOccupancyMaxPotentialClusterSize",
    };
    gpu->error = EC_CU_NO_DRIVER;
    gpu->library = dlopen(EC_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (gpu->library == NULL) {
        return;
    }
    for (int i = 0; i < EC_CU_COUNT; ++i) {
        void *found = dlsym(gpu->library, names[i]);
        if (found == NULL && i < EC_CU_LAUNCH_CLUSTER) { /* drivers before CUDA 11.8 have no more */
            return;
        }
        /* C has no conversion from data to functions; POSIX says that they have one size. */
        (void)memcpy(&gpu->driver[i], &found, sizeof found);
    }
    gpu->error = 0;
}

EC_CUDA_PART void ec_cuda_enter(ec_cuda *gpu) {
    EC_CU(gpu, EC_CU_CONTEXT_PUSH, (void *), (gpu->context));
}

/* Also after an error: the application's own context is current again. */
EC_CUDA_PART void ec_cuda_leave(ec_cuda *gpu) {
    void *before = NULL;
    if (gpu->context != NULL) {
        (void)((int (*)(void **))gpu->driver[EC_CU_CONTEXT_POP])(&before);
    }
}

EC_CUDA_PART uint64_t ec_cuda_allocate(ec_cuda *gpu, size_t bytes) {
    uint64_t address = 0u;
    EC_CU(gpu, EC_CU_ALLOCATE, (uint64_t *, size_t), (&address, bytes == 0u ? 1u : bytes));
    return address;
}

/* Copies to and from the device; where both have one memory, there is nothing to copy. */
EC_CUDA_PART void ec_cuda_write(ec_cuda *gpu, uint64_t to, const void *from, size_t bytes) {
    if (gpu->is_mapped == 0) {
        EC_CU(gpu, EC_CU_TO_DEVICE, (uint64_t, const void *, size_t, void *),
              (to, from, bytes, gpu->stream));
    }
}

EC_CUDA_PART void ec_cuda_read(ec_cuda *gpu, void *to, uint64_t from, size_t bytes) {
    if (gpu->is_mapped == 0) {
        EC_CU(gpu, EC_CU_TO_HOST, (void *, uint64_t, size_t, void *),
              (to, from, bytes, gpu->stream));
    }
}

EC_CUDA_PART void ec_cuda_wait(ec_cuda *gpu) {
    EC_CU(gpu, EC_CU_STREAM_WAIT, (void *), (gpu->stream));
}

/* At the end of a run's launches: record it for the application, or wait for it. */
EC_CUDA_PART void ec_cuda_end(ec_cuda *gpu) {
    if (gpu->is_async == 0) {
        ec_cuda_wait(gpu);
        return;
    }
    if (gpu->event != NULL) {
        EC_CU(gpu, EC_CU_EVENT_RECORD, (void *, void *), (gpu->event, gpu->stream));
    }
    gpu->is_pending = 1;
}

/* The first of some machine codes that the GPU takes: exact ones, then PTX, which the driver
 * compiles. */
EC_CUDA_PART void ec_cuda_load(ec_cuda *gpu, const void *const *images, uint32_t count) {
    for (uint32_t i = 0u; i < count && gpu->module == NULL && gpu->context != NULL; ++i) {
        gpu->error = 0;
        EC_CU(gpu, EC_CU_MODULE_LOAD, (void **, const void *), (&gpu->module, images[i]));
        if (gpu->error != 0) {
            gpu->module = NULL;
        }
    }
}

/* The host's memory is its own again. */
EC_CUDA_PART void ec_cuda_unmap(ec_cuda *gpu) {
    for (int i = 0; i < 2; ++i) {
        if (gpu->mapped[i] != NULL) {
            EC_CU(gpu, EC_CU_UNMAP, (void *), (gpu->mapped[i]));
            gpu->mapped[i] = NULL;
        }
    }
    if (gpu->is_mapped != 0) {
        gpu->arena = gpu->state = 0u;
        gpu->is_mapped = 0;
    }
}

/* Let a GPU that shares the processor's memory, as Jetson's does, use the host's arena and state:
 * both, or none where the driver refuses one. */
EC_CUDA_PART void ec_cuda_map(ec_cuda *gpu, void *const *host, const size_t *bytes) {
    uint64_t *const places[2] = { &gpu->arena, &gpu->state };
    EC_CU(gpu, EC_CU_DEVICE_ATTRIBUTE, (int *, int, int),
          (&gpu->is_mapped, EC_CU_INTEGRATED, gpu->device));
    if (gpu->error != 0 || gpu->is_mapped == 0) {
        return;
    }
    for (int i = 0; i < 2 && gpu->error == 0; ++i) {
        if (bytes[i] != 0u) {
            EC_CU(gpu, EC_CU_MAP, (void *, size_t, unsigned),
                  (host[i], bytes[i], EC_CU_DEVICE_MAP));
            gpu->mapped[i] = gpu->error == 0 ? host[i] : NULL;
            EC_CU(gpu, EC_CU_MAPPED, (uint64_t *, void *, unsigned), (places[i], host[i], 0u));
        }
    }
    if (gpu->error != 0) {
        gpu->error = 0;
        ec_cuda_unmap(gpu);
    }
}

/* Find the GPU, load the kernels and the weights, and find memory that a run uses. host, bytes: the
 * arena and the state. Leaves the GPU's context current. */
EC_CUDA_PART void ec_cuda_open(ec_cuda *gpu, const void *const *images, uint32_t count,
                               void *const *host, const size_t *bytes, const void *weights,
                               size_t weights_bytes) {
    const ec_cuda nothing = { 0 };
    *gpu = nothing;
    ec_cuda_open_driver(gpu);
    EC_CU(gpu, EC_CU_INIT, (unsigned), (0u));
    EC_CU(gpu, EC_CU_DEVICE_GET, (int *, int), (&gpu->device, 0));
    EC_CU(gpu, EC_CU_CONTEXT_RETAIN, (void **, int), (&gpu->context, gpu->device));
    gpu->context = gpu->error == 0 ? gpu->context : NULL;
    ec_cuda_enter(gpu);
    if (gpu->error == 0) {
        ec_cuda_load(gpu, images, count);
    }
    EC_CU(gpu, EC_CU_STREAM_CREATE, (void **, unsigned), (&gpu->own_stream, EC_CU_NON_BLOCKING));
    gpu->stream = gpu->own_stream;
    gpu->weights = ec_cuda_allocate(gpu, weights_bytes);
    gpu->constants = (const uint8_t *)weights;
    if (weights_bytes != 0u) {
        ec_cuda_write(gpu, gpu->weights, weights, weights_bytes);
    }
    ec_cuda_map(gpu, host, bytes);
    if (gpu->is_mapped == 0) {
        gpu->arena = ec_cuda_allocate(gpu, bytes[0]);
        gpu->state = ec_cuda_allocate(gpu, bytes[1]);
    }
    gpu->ports = gpu->arena;
}

/* Let one launch find inputs in the host's arena, and leave outputs there, where the GPU has a memory
 * of its own; where the driver refuses that, they are copied before and after. */
EC_CUDA_PART void ec_cuda_map_ports(ec_cuda *gpu, void *arena, size_t bytes) {
    if (gpu->error != 0 || gpu->is_mapped != 0 || bytes == 0u) {
        return;
    }
    EC_CU(gpu, EC_CU_MAP, (void *, size_t, unsigned), (arena, bytes, EC_CU_DEVICE_MAP));
    gpu->mapped[0] = gpu->error == 0 ? arena : NULL;
    EC_CU(gpu, EC_CU_MAPPED, (uint64_t *, void *, unsigned), (&gpu->ports, arena, 0u));
    if (gpu->error != 0) {
        gpu->error = 0;
        ec_cuda_unmap(gpu);
        gpu->ports = gpu->arena;
    }
}

/* Find a kernel, and its arguments. Each has 8 bytes, little endian; the driver reads the size of the
 * kernel's parameter. shared_bytes: memory of each block in addition to the kernel's declarations. */
EC_CUDA_PART void *ec_cuda_kernel(ec_cuda *gpu, const char *kernel, uint32_t shared_bytes,
                                  void **pointers, uint64_t *arguments, uint32_t count) {
    void *function = NULL;
    if (gpu->error == 0 && count > EC_CU_ARGUMENTS) {
        gpu->error = 1; /* CUDA_ERROR_INVALID_VALUE */
        return NULL;
    }
    for (uint32_t i = 0u; i < count; ++i) {
        pointers[i] = &arguments[i];
    }
    EC_CU(gpu, EC_CU_FUNCTION, (void **, void *, const char *), (&function, gpu->module, kernel));
    if (shared_bytes != 0u) {
        EC_CU(gpu, EC_CU_ATTRIBUTE, (void *, int, int),
              (function, EC_CU_MOST_SHARED, (int)shared_bytes));
    }
    return function;
}

/* Start a kernel after all that was started before. size: blocks, then threads. */
EC_CUDA_PART void ec_cuda_launch(ec_cuda *gpu, const char *kernel, const uint32_t *size,
                                 uint32_t shared_bytes, uint64_t *arguments, uint32_t count) {
    void *pointers[EC_CU_ARGUMENTS];
    void *function = ec_cuda_kernel(gpu, kernel, shared_bytes, pointers, arguments, count);
    EC_CU(gpu, EC_CU_LAUNCH,
          (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
           void **, void **),
          (function, size[0], size[1], size[2], size[3], size[4], size[5], shared_bytes,
           gpu->stream, pointers, NULL));
}

/* The same for a kernel whose blocks wait for each other, so that all must fit on the GPU: as many as
 * fit, at most size[0]; one block if the GPU does not guarantee that. The results are the same. */
EC_CUDA_PART void ec_cuda_launch_grid(ec_cuda *gpu, const char *kernel, const uint32_t *size,
                                      uint32_t shared_bytes, uint64_t *arguments, uint32_t count) {
    void *pointers[EC_CU_ARGUMENTS];
    void *function = ec_cuda_kernel(gpu, kernel, shared_bytes, pointers, arguments, count);
    int resident = 0, multiprocessors = 0, cooperates = 0;
    unsigned blocks = size[0];
    EC_CU(gpu, EC_CU_RESIDENT, (int *, void *, int, size_t),
          (&resident, function, (int)size[3], shared_bytes));
    EC_CU(gpu, EC_CU_DEVICE_ATTRIBUTE, (int *, int, int),
          (&multiprocessors, EC_CU_MULTIPROCESSORS, gpu->device));
    EC_CU(gpu, EC_CU_DEVICE_ATTRIBUTE, (int *, int, int),
          (&cooperates, EC_CU_COOPERATIVE, gpu->device));
    if (cooperates == 0) {
        const uint32_t one[6] = { 1u, 1u, 1u, size[3], 1u, 1u };
        ec_cuda_launch(gpu, kernel, one, shared_bytes, arguments, count);
        return;
    }
    if ((unsigned)(resident * multiprocessors) < blocks) {
        blocks = (unsigned)(resident * multiprocessors);
    }
    EC_CU(gpu, EC_CU_LAUNCH_GRID,
          (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
           void **),
          (function, blocks, 1u, 1u, size[3], 1u, 1u, shared_bytes, gpu->stream, pointers));
}

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct ec_cu_attribute {
    int id;
    char unused[4];
    unsigned blocks[16];
} ec_cu_attribute;

typedef struct ec_cu_config {
    unsigned size[6];
    unsigned shared_bytes;
    void *stream;
    const ec_cu_attribute *attributes;
    unsigned attributes_count;
} ec_cu_config;

/* The same for a kernel whose blocks form a cluster, as large as the GPU allows. */
EC_CUDA_PART void ec_cuda_launch_cluster(ec_cuda *gpu, const char *kernel, const uint32_t *size,
                                         uint32_t shared_bytes, uint64_t *arguments,
                                         uint32_t count) {
    void *pointers[EC_CU_ARGUMENTS];
    void *function = ec_cuda_kernel(gpu, kernel, shared_bytes, pointers, arguments, count);
    ec_cu_attribute cluster = { EC_CU_CLUSTER, { 0 }, { size[0], 1u, 1u } };
    ec_cu_config config = {
        { size[0], 1u, 1u, size[3], 1u, 1u }, shared_bytes, gpu->stream, &cluster, 1u
    };
    int most = (int)size[0];
    if (size[0] > EC_CU_PORTABLE_CLUSTER) {
        EC_CU(gpu, EC_CU_ATTRIBUTE, (void *, int, int), (function, EC_CU_ANY_CLUSTER, 1));
    }
    EC_CU(gpu, EC_CU_CLUSTER_BLOCKS, (int *, void *, const ec_cu_config *),
          (&most, function, &config));
    if ((unsigned)most < size[0]) {
        config.size[0] = cluster.blocks[0] = most > 1 ? (unsigned)most : 1u;
    }
    EC_CU(gpu, EC_CU_LAUNCH_CLUSTER, (const ec_cu_config *, void *, void **, void **),
          (&config, function, pointers, NULL));
}

/* Between these two calls, launches are recorded as graph `number`, which ec_cuda_replay starts. */
EC_CUDA_PART void ec_cuda_record(ec_cuda *gpu) {
    EC_CU(gpu, EC_CU_CAPTURE_BEGIN, (void *, int), (gpu->stream, EC_CU_THREAD_LOCAL));
}

EC_CUDA_PART void ec_cuda_finish(ec_cuda *gpu, uint32_t number) {
    void *graph = NULL;
    EC_CU(gpu, EC_CU_CAPTURE_END, (void *, void **), (gpu->stream, &graph));
    EC_CU(gpu, EC_CU_GRAPH_CREATE, (void **, void *, unsigned long long),
          (&gpu->graphs[number], graph, 0u));
    EC_CU(gpu, EC_CU_GRAPH_PLAN_DESTROY, (void *), (graph));
}

EC_CUDA_PART void ec_cuda_replay(ec_cuda *gpu, uint32_t number) {
    EC_CU(gpu, EC_CU_GRAPH_LAUNCH, (void *, void *), (gpu->graphs[number], gpu->stream));
}

/* Free everything; harmless after an error, and if nothing was opened. */
EC_CUDA_PART void ec_cuda_close(ec_cuda *gpu) {
    const ec_cuda nothing = { 0 };
    if (gpu->context != NULL) {
        gpu->error = 0;
        ec_cuda_enter(gpu);
        if (gpu->is_pending != 0) {
            ec_cuda_wait(gpu);
        }
        ec_cuda_unmap(gpu);
        const uint64_t memory[3] = { gpu->arena, gpu->state, gpu->weights };
        for (int i = 0; i < 3; ++i) {
            if (memory[i] != 0u) {
                EC_CU(gpu, EC_CU_FREE, (uint64_t), (memory[i]));
            }
        }
        for (uint32_t i = 0u; i < EC_CUDA_GRAPHS; ++i) {
            if (gpu->graphs[i] != NULL) {
                EC_CU(gpu, EC_CU_GRAPH_DESTROY, (void *), (gpu->graphs[i]));
            }
        }
        if (gpu->own_stream != NULL) {
            EC_CU(gpu, EC_CU_STREAM_DESTROY, (void *), (gpu->own_stream));
        }
        if (gpu->module != NULL) {
            EC_CU(gpu, EC_CU_MODULE_UNLOAD, (void *), (gpu->module));
        }
        ec_cuda_leave(gpu);
        (void)((int (*)(int))gpu->driver[EC_CU_CONTEXT_RELEASE])(gpu->device);
    }
    if (gpu->library != NULL) {
        (void)dlclose(gpu->library);
    }
    *gpu = nothing;
}

#endif /* EC_CUDA_DRIVER_H */
