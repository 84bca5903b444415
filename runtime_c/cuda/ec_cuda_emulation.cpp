/* A GPU in C++ for tests: the driver's functions that ec_cuda_driver.h calls, and kernels as g++ compiles
 * them. Blocks run one after the other, except in a grid whose blocks wait for each other. So do the
 * threads of a block if none waits; else each is a fiber, which a barrier stops until all others of its
 * scope have reached it. The GPU has 3 multiprocessors.
 *
 * Built with -DEC_CUDA_KERNELS="a model's kernels". Environment variables set the kind of GPU:
 * EC_MULTIPROCESSORS, EC_COOPERATES, EC_CLUSTER_BLOCKS, EC_INTEGRATED, EC_MOST_MAPPED. EC_CUDA_REVERSE=1
 * runs threads and blocks from the last to the first: no result may change.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

/* The indices of the thread that runs: blocks x, y, z, then threads. */
static int32_t ec_index[6];
/* Shared memory of a block in addition to its kernel's declarations; malloc aligns it to 16 bytes. */
static std::vector<std::vector<uint8_t>> ec_block_memory;
/* Blocks of the grid that runs. */
static uint32_t ec_blocks;
/* Launches of kernels so far. */
static int ec_launches;
static void ec_barrier(int scope);
static void ec_group_barrier(int group, int threads);
static void ec_fail(void);
static void ec_emulated_mma(int32_t *sums, const int32_t *rows, const int32_t *columns);
static void ec_emulated_f16(float *sums, const int32_t *rows, const int32_t *columns);
static void ec_emulated_tf32(float *sums, const int32_t *rows, const int32_t *columns);
enum { EC_OF_WARP, EC_OF_BLOCK, EC_OF_GRID, EC_SCOPES };

#define EC_CUDA_EMULATION
#define EC_GLOBAL static
#define EC_BLOCK_THREADS 512
#define EC_BLOCK_GLOBAL static
#define EC_BLOCK_MEMORY(name) uint8_t *const name = ec_block_memory[(size_t)ec_index[0]].data()
#define EC_GRID_BLOCKS ((int32_t)ec_blocks)
#define EC_BLOCK_X ec_index[0]
#define EC_BLOCK_Y ec_index[1]
#define EC_BLOCK_Z ec_index[2]
#define EC_THREAD_X ec_index[3]
#define EC_THREAD_Y ec_index[4]
#define EC_THREAD_Z ec_index[5]
/* The blocks of such a kernel run one after the other, so one array serves all. */
#define EC_SHARED_ARRAY(type, name, elements) alignas(16) static type name[elements]
#define EC_BLOCK_BARRIER() ec_barrier(EC_OF_BLOCK)
#define EC_WARP_BARRIER() ec_barrier(EC_OF_WARP)
#define EC_GROUP_BARRIER(group, threads) ec_group_barrier((group), (threads))
#define EC_GRID_BARRIER() ec_barrier(EC_OF_GRID)
#define EC_DP4A(a, b, sum) ec_dp4a((uint32_t)(a), (uint32_t)(b), (int32_t)(sum))

#define EC_MMA_S8(sums, rows, columns) ec_emulated_mma((sums), (rows), (columns))
#define EC_MMA_F16(sums, rows, columns) ec_emulated_f16((sums), (rows), (columns))
#define EC_MMA_TF32(sums, rows, columns) ec_emulated_tf32((sums), (rows), (columns))
#define EC_TF32(number) ec_tf32(number)
#define EC_TF32_REST(number, large) \
    (((large) & 0x7f800000) == 0x7f800000 ? 0 : ec_tf32((number) - ec_float_of(large)))
#define EC_WORD_AT(pointer) ec_word_at(pointer)
#define EC_PAIR_AT(pointer) ec_pair_at(pointer)

static inline float ec_float_of(int32_t word) {
    float number;
    memcpy(&number, &word, sizeof number);
    return number;
}

/* Rounded to 10 bits of the fraction, half away from zero. */
static inline int32_t ec_tf32(float number) {
    int32_t word;
    memcpy(&word, &number, sizeof word);
    return number != number ? word : (int32_t)(((uint32_t)word + 0x1000u) & 0xFFFFE000u);
}

/* A GPU traps where the address is not aligned. */
static inline int32_t ec_word_at(const void *pointer) {
    int32_t word;
    if (((uintptr_t)pointer & 3u) != 0u) {
        ec_fail();
    }
    memcpy(&word, pointer, sizeof word);
    return word;
}

static inline int64_t ec_pair_at(const void *pointer) {
    int64_t pair;
    if (((uintptr_t)pointer & 7u) != 0u) {
        ec_fail();
    }
    memcpy(&pair, pointer, sizeof pair);
    return pair;
}

static inline int32_t ec_dp4a(uint32_t a, uint32_t b, int32_t sum) {
    uint32_t total = (uint32_t)sum;
    for (int byte = 0; byte < 4; ++byte) {
        total += (uint32_t)((int8_t)(a >> (8 * byte)) * (int8_t)(b >> (8 * byte)));
    }
    return (int32_t)total;
}

struct ec_kernel {
    const char *name;
    void (*call)(void **arguments);
    size_t count;
    bool waits;
};

/* Calls a kernel with the arguments of the driver's caller. */
template <typename... A, size_t... I>
static void ec_call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*(A *)arguments[I]...);
    (void)arguments;
}

template <typename... A>
static void ec_call(void (*kernel)(A...), void **arguments) {
    ec_call(kernel, arguments, std::index_sequence_for<A...>());
}

template <typename... A>
static constexpr size_t ec_count(void (*)(A...)) {
    return sizeof...(A);
}

#define EC_EMULATED(kernel, waits) {#kernel, [](void **a) { ec_call(kernel, a); }, ec_count(kernel), waits}

#include EC_CUDA_KERNELS

/* Threads that wait for each other: how many there are, have come, and how often all had. */
struct ec_group {
    uint32_t members = 0, come = 0, rounds = 0;
};
/* A thread: its position, its group of each scope, and the round for which it waits in each. */
struct ec_fiber {
    ucontext_t context; /* where it starts */
    jmp_buf point;
    std::unique_ptr<char[]> stack;
    uint32_t thread = 0, block = 0;
    ec_group *groups[EC_SCOPES] = {};
    ec_group *waits = NULL;
    uint32_t round = 0;
    bool is_done = false, is_started = false;
    /* Its operands of the matrix instruction, for all other threads. */
    int32_t given[2][6];
    uint32_t products = 0;
};
static const size_t EC_STACK_BYTES = 64 * 1024;
static const uint32_t EC_WARP = 32;
static std::vector<ec_fiber> ec_fibers;
static ucontext_t ec_scheduler;
static jmp_buf ec_scheduler_point;
static ec_fiber *ec_current;
static const ec_kernel *ec_running;
static void **ec_arguments;

/* setjmp switches to a fiber that has started: swapcontext asks the operating system for signals, which
 * takes longer than most kernels. But the address sanitizer follows no other change of stacks. */
#ifdef __SANITIZE_ADDRESS__
static void ec_leave(void) { swapcontext(&ec_current->context, &ec_scheduler); }
static void ec_enter(ec_fiber *fiber) { swapcontext(&ec_scheduler, &fiber->context); }
#else
__attribute__((noinline)) static void ec_leave(void) {
    if (_setjmp(ec_current->point) == 0) {
        _longjmp(ec_scheduler_point, 1);
    }
}

__attribute__((noinline)) static void ec_enter(ec_fiber *fiber) {
    if (_setjmp(ec_scheduler_point) == 0) {
        if (fiber->is_started) {
            _longjmp(fiber->point, 1);
        }
        fiber->is_started = true;
        setcontext(&fiber->context);
    }
}
#endif

/* CUDA_ERROR_LAUNCH_FAILED, from the first fault on until cuInit; a thread that waits ends with it. */
static const int EC_LAUNCH_FAILED = 719;
static int ec_fault;
static void ec_fail(void) {
    ec_fault = EC_LAUNCH_FAILED;
    if (ec_current != NULL) {
        ec_leave();
    }
}

static void ec_wait(ec_group *group) {
    group->come += 1;
    if (group->come == group->members) {
        group->come = 0;
        group->rounds += 1;
        return;
    }
    ec_current->waits = group;
    ec_current->round = group->rounds;
    ec_leave();
}

static void ec_barrier(int scope) { ec_wait(ec_current->groups[scope]); }

/* By block and number: as hardware has them, 15 beside the block's own. */
static std::map<std::pair<uint32_t, int>, ec_group> ec_named;
static void ec_group_barrier(int group, int threads) {
    if (group < 0 || group > 14 || threads % (int)EC_WARP != 0) {
        ec_fail();
    }
    ec_group &found = ec_named[{ec_current->block, group}];
    if (found.come != 0 && found.members != (uint32_t)threads) {
        ec_fail(); /* threads that wait for different numbers of others */
    }
    found.members = (uint32_t)threads;
    ec_wait(&found);
}

/* The instruction by its lanes: each passes its words, and takes the words of the lanes with its rows and
 * columns. add: a word of a row by one of a column to a sum. */
template <typename Sum, typename Add>
static void ec_exchange(Sum *sums, const int32_t *rows, const int32_t *columns, Add add) {
    const uint32_t turn = ec_current->products % 2, lane = ec_current->thread % EC_WARP;
    const ec_fiber *warp = ec_current - lane;
    memcpy(ec_current->given[turn], rows, 4 * sizeof rows[0]);
    memcpy(ec_current->given[turn] + 4, columns, 2 * sizeof columns[0]);
    ec_current->products += 1;
    ec_barrier(EC_OF_WARP);
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t row = lane / 4, column = 2 * (lane % 4) + i % 2;
        for (uint32_t q = 0; q < 4; ++q) {
            const int32_t *of_row = warp[4 * row + q].given[turn] + i / 2;
            const int32_t *of_column = warp[4 * column + q].given[turn] + 4;
            sums[i] = add(of_row[0], of_column[0], sums[i]);
            sums[i] = add(of_row[2], of_column[1], sums[i]);
        }
    }
}

static void ec_emulated_mma(int32_t *sums, const int32_t *rows, const int32_t *columns) {
    ec_exchange(sums, rows, columns, [](int32_t a, int32_t b, int32_t sum) {
        return ec_dp4a((uint32_t)a, (uint32_t)b, sum);
    });
}

/* A float16 of IEEE 754. */
static float ec_half(uint32_t bits) {
    const int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
    const float number = exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                         : exponent > 0 ? ldexpf((float)(mantissa + 1024), exponent - 25)
                                        : ldexpf((float)mantissa, -24);
    return (bits & 0x8000u) != 0 ? -number : number;
}

static void ec_emulated_f16(float *sums, const int32_t *rows, const int32_t *columns) {
    ec_exchange(sums, rows, columns, [](int32_t a, int32_t b, float sum) {
        const uint32_t row = (uint32_t)a, column = (uint32_t)b;
        sum += ec_half(row & 0xFFFFu) * ec_half(column & 0xFFFFu);
        return sum + ec_half(row >> 16) * ec_half(column >> 16);
    });
}

static void ec_emulated_tf32(float *sums, const int32_t *rows, const int32_t *columns) {
    ec_exchange(sums, rows, columns, [](int32_t a, int32_t b, float sum) {
        return sum + ec_float_of(a) * ec_float_of(b);
    });
}

static void ec_fiber_start(void) {
    ec_running->call(ec_arguments);
    ec_current->is_done = true;
    ec_leave();
}

/* A property of the GPU: from the environment, or the default here. */
static size_t ec_gpu(const char *name, size_t usual) {
    const char *said = getenv(name);
    return said == NULL ? usual : strtoul(said, NULL, 10);
}

static bool ec_is_reversed;
static uint32_t ec_order(uint32_t step, uint32_t steps) { return ec_is_reversed ? steps - 1 - step : step; }

static void ec_set_thread(uint32_t thread, const uint32_t *size) {
    ec_index[3] = (int32_t)(thread % size[3]);
    ec_index[4] = (int32_t)(thread / size[3] % size[4]);
    ec_index[5] = (int32_t)(thread / size[3] / size[4]);
}

static void ec_set_block(uint32_t block, const uint32_t *size) {
    ec_index[0] = (int32_t)(block % size[0]);
    ec_index[1] = (int32_t)(block / size[0] % size[1]);
    ec_index[2] = (int32_t)(block / size[0] / size[1]);
}

/* A fiber for each thread of some blocks, which start together. */
static void ec_make_fibers(uint32_t first, uint32_t blocks, uint32_t threads) {
    static std::vector<ec_group> warps, groups;
    const uint32_t of_block = (threads + EC_WARP - 1) / EC_WARP;
    warps.assign(blocks * of_block, ec_group());
    groups.assign(blocks + 1, ec_group());
    ec_named.clear();
    if (ec_fibers.size() < blocks * threads) {
        ec_fibers.resize(blocks * threads);
    }
    for (uint32_t i = 0; i < blocks * threads; ++i) {
        ec_fiber &fiber = ec_fibers[i];
        if (fiber.stack == NULL) {
            fiber.stack.reset(new char[EC_STACK_BYTES]);
        }
        fiber.thread = i % threads;
        fiber.block = first + i / threads;
        fiber.groups[EC_OF_WARP] = &warps[i / threads * of_block + fiber.thread / EC_WARP];
        fiber.groups[EC_OF_BLOCK] = &groups[i / threads];
        fiber.groups[EC_OF_GRID] = &groups[blocks];
        for (ec_group *group : fiber.groups) {
            group->members += 1;
        }
        fiber.waits = NULL;
        fiber.is_done = fiber.is_started = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = EC_STACK_BYTES;
        fiber.context.uc_link = &ec_scheduler;
        makecontext(&fiber.context, ec_fiber_start, 0);
    }
}

static void ec_run_fibers(uint32_t count, const uint32_t *size) {
    for (bool is_left = true; is_left;) {
        bool is_going = false;
        is_left = false;
        for (uint32_t step = 0; step < count; ++step) {
            ec_fiber &fiber = ec_fibers[ec_order(step, count)];
            if (fiber.is_done) {
                continue;
            }
            if (fiber.waits == NULL || fiber.waits->rounds != fiber.round) {
                fiber.waits = NULL;
                ec_current = &fiber;
                ec_set_block(fiber.block, size);
                ec_set_thread(fiber.thread, size);
                ec_enter(&fiber);
                is_going = true;
            }
            is_left = is_left || !fiber.is_done;
        }
        if (is_left && !is_going) {
            ec_fault = EC_LAUNCH_FAILED; /* some threads wait for others that never come */
        }
        if (ec_fault != 0) {
            break;
        }
    }
    ec_current = NULL;
}

static void ec_run(const ec_kernel *kernel, const uint32_t *size, void **arguments,
                   size_t shared_bytes, bool is_grid) {
    ec_launches += 1;
    ec_is_reversed = ec_gpu("EC_CUDA_REVERSE", 0) != 0;
    const uint32_t threads = size[3] * size[4] * size[5];
    ec_blocks = size[0] * size[1] * size[2];
    /* a GPU's memory holds anything */
    ec_block_memory.assign(ec_blocks, std::vector<uint8_t>(shared_bytes, 0x5A));
    ec_running = kernel;
    ec_arguments = arguments;
    const uint32_t at_once = is_grid ? ec_blocks : 1;
    for (uint32_t step = 0; step < ec_blocks; step += at_once) {
        const uint32_t block = is_grid ? 0 : ec_order(step, ec_blocks);
        if (kernel->waits) {
            ec_make_fibers(block, at_once, threads);
            ec_run_fibers(at_once * threads, size);
            continue;
        }
        ec_set_block(block, size);
        for (uint32_t thread = 0; thread < threads; ++thread) {
            ec_set_thread(ec_order(thread, threads), size);
            kernel->call(arguments);
        }
    }
}

/* Launches in each stream that have not run: they run when the program waits for them, no sooner, so that
 * a test finds results used too early. */
typedef std::vector<std::function<void()>> ec_work;
static std::map<void *, ec_work> ec_streams;

static void ec_finish(void *stream) {
    const ec_work work = std::move(ec_streams[stream]);
    ec_streams[stream].clear();
    for (const std::function<void()> &call : work) {
        call();
    }
}

/* Launches between the begin and the end of a capture, with copies of the arguments. */
typedef ec_work ec_graph;
static ec_graph *ec_capturing;
static const int EC_GOOD = 0, EC_INVALID_VALUE = 1, EC_NOT_FOUND = 500;
/* CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE */
static const int EC_TOO_LARGE = 720;
#define EC_MULTIPROCESSORS ((int)ec_gpu("EC_MULTIPROCESSORS", 3))
/* Whether blocks of a grid may wait for each other. */
#define EC_COOPERATES ((int)ec_gpu("EC_COOPERATES", 1))
/* Blocks of a cluster, at most. */
#define EC_CLUSTER_BLOCKS ((int)ec_gpu("EC_CLUSTER_BLOCKS", 2))
/* Whether the GPU has the host's memory, as on a Jetson, and how many bytes of it it takes at once. */
#define EC_INTEGRATED ((int)ec_gpu("EC_INTEGRATED", 0))
#define EC_MOST_MAPPED ec_gpu("EC_MOST_MAPPED", SIZE_MAX)
/* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */
static const int EC_ALREADY_MAPPED = 712;
/* Copies so far. */
static int ec_copies;
/* Of every buffer on the device, so that a test sees what was not given back. */
static int ec_live;
/* The driver refuses more than 48 KB of shared memory unless a kernel requests it. */
static unsigned ec_most_shared;

extern "C" {
int cuInit(unsigned) { return ec_fault = EC_GOOD; }
int cuDeviceGet(int *device, int) { return *device = 0, EC_GOOD; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = &ec_live, EC_GOOD; }
int cuDevicePrimaryCtxRelease_v2(int) { return EC_GOOD; }
int cuCtxPushCurrent_v2(void *) { return EC_GOOD; }
int cuCtxPopCurrent_v2(void **) { return EC_GOOD; }
int cuModuleLoadData(void **module, const void *image) {
    *module = &ec_live;
    return image == NULL ? EC_INVALID_VALUE : EC_GOOD;
}
int cuModuleUnload(void *) { return EC_GOOD; }
int cuModuleGetFunction(void **function, void *, const char *name) {
    for (const ec_kernel &kernel : ec_kernels) {
        if (strcmp(kernel.name, name) == 0) {
            return *function = (void *)&kernel, EC_GOOD;
        }
    }
    return EC_NOT_FOUND;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    void *memory = malloc(bytes);
    if (memory != NULL) {
        memset(memory, 0x5A, bytes); /* a GPU's memory holds anything */
        ec_live += 1;
    }
    *address = (uint64_t)(uintptr_t)memory;
    return memory == NULL ? EC_INVALID_VALUE : EC_GOOD;
}
int cuMemFree_v2(uint64_t address) {
    for (const auto &stream : ec_streams) {
        ec_finish(stream.first);
    }
    free((void *)(uintptr_t)address);
    ec_live -= 1;
    return EC_GOOD;
}
/* The host memory that the GPU may use, by its address. */
static std::map<char *, size_t> ec_mapped;
int cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags) {
    char *const start = (char *)host;
    for (const auto &known : ec_mapped) {
        if (start < known.first + known.second && known.first < start + bytes) {
            return EC_ALREADY_MAPPED;
        }
    }
    if (flags != 2u || bytes > EC_MOST_MAPPED) {
        return EC_INVALID_VALUE;
    }
    ec_mapped[start] = bytes;
    return ec_live += 1, EC_GOOD;
}
int cuMemHostGetDevicePointer_v2(uint64_t *address, void *host, unsigned) {
    *address = (uint64_t)(uintptr_t)host;
    return ec_mapped.count((char *)host) == 0 ? EC_INVALID_VALUE : EC_GOOD;
}
int cuMemHostUnregister(void *host) {
    ec_live -= 1;
    return ec_mapped.erase((char *)host) == 0 ? EC_INVALID_VALUE : EC_GOOD;
}
/* As from memory that cannot be swapped out: it is read and written when the copy runs. */
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    ec_copies += 1;
    ec_streams[stream].push_back([=]() { memcpy((void *)(uintptr_t)to, from, bytes); });
    return EC_GOOD;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    ec_copies += 1;
    ec_streams[stream].push_back([=]() { memcpy(to, (const void *)(uintptr_t)from, bytes); });
    return EC_GOOD;
}
int cuStreamCreate(void **stream, unsigned) { return *stream = new char(), EC_GOOD; }
int cuStreamDestroy_v2(void *stream) {
    ec_finish(stream);
    ec_streams.erase(stream);
    return delete (char *)stream, EC_GOOD;
}
int cuStreamSynchronize(void *stream) { return ec_finish(stream), ec_fault; }
/* An event is a number, of how often it came. */
int cuEventRecord(void *event, void *stream) {
    ec_streams[stream].push_back([=]() { *(int *)event += 1; });
    return EC_GOOD;
}
int cuFuncSetAttribute(void *, int attribute, int value) {
    ec_most_shared = attribute == 8 ? (unsigned)value : ec_most_shared;
    return EC_GOOD;
}
static int ec_launch(const ec_kernel *kernel, const std::vector<uint32_t> &size,
                     unsigned shared_bytes, void *stream, void **arguments, bool is_grid) {
    if (shared_bytes > 48 * 1024 && shared_bytes > ec_most_shared) {
        return EC_INVALID_VALUE;
    }
    std::vector<uint64_t> values; /* ec_cuda_driver.h has 8 bytes for each */
    for (size_t i = 0; i < kernel->count; ++i) {
        values.push_back(*(const uint64_t *)arguments[i]);
    }
    ec_work &work = ec_capturing != NULL ? *ec_capturing : ec_streams[stream];
    work.push_back([=]() {
        std::vector<uint64_t> own = values;
        std::vector<void *> pointers;
        for (uint64_t &value : own) {
            pointers.push_back(&value);
        }
        ec_run(kernel, size.data(), pointers.data(), shared_bytes, is_grid);
    });
    return EC_GOOD;
}
/* A function of the host's, in the order of the stream: what stands in for a library calls it. */
int cuLaunchHostFunc(void *stream, void (*call)(void *), void *given) {
    ec_work &work = ec_capturing != NULL ? *ec_capturing : ec_streams[stream];
    work.push_back([=]() { call(given); });
    return EC_GOOD;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                   unsigned tz, unsigned shared_bytes, void *stream, void **arguments, void **) {
    const ec_kernel *kernel = (const ec_kernel *)function;
    return ec_launch(kernel, {x, y, z, tx, ty, tz}, shared_bytes, stream, arguments, false);
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    *value = attribute == 16 ? EC_MULTIPROCESSORS : attribute == 18 ? EC_INTEGRATED : EC_COOPERATES;
    return EC_GOOD;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int, size_t) {
    return *blocks = 1, EC_GOOD;
}
int cuLaunchCooperativeKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned tx,
                              unsigned ty, unsigned tz, unsigned shared_bytes, void *stream,
                              void **arguments) {
    if (x * y * z > (unsigned)EC_MULTIPROCESSORS || !EC_COOPERATES) {
        return EC_TOO_LARGE;
    }
    const ec_kernel *kernel = (const ec_kernel *)function;
    return ec_launch(kernel, {x, y, z, tx, ty, tz}, shared_bytes, stream, arguments, true);
}
/* CUlaunchConfig, with one attribute: the blocks of a cluster. */
struct ec_config {
    unsigned size[6], shared_bytes;
    void *stream;
    const unsigned *attributes;
    unsigned count;
};
int cuOccupancyMaxPotentialClusterSize(int *blocks, void *, const ec_config *) {
    return *blocks = EC_CLUSTER_BLOCKS, EC_GOOD;
}
int cuLaunchKernelEx(const ec_config *config, void *function, void **arguments, void **) {
    const unsigned *cluster = config->attributes, blocks = config->size[0];
    if (config->count != 1 || cluster[0] != 4 || cluster[2] != blocks || blocks > (unsigned)EC_CLUSTER_BLOCKS) {
        return EC_INVALID_VALUE;
    }
    const std::vector<uint32_t> size(config->size, config->size + 6);
    return ec_launch((const ec_kernel *)function, size, config->shared_bytes, config->stream,
                     arguments, true);
}
int cuStreamBeginCapture_v2(void *, int) { return ec_capturing = new ec_graph(), EC_GOOD; }
int cuStreamEndCapture(void *, void **graph) {
    *graph = ec_capturing;
    ec_capturing = NULL;
    return EC_GOOD;
}
int cuGraphInstantiateWithFlags(void **plan, void *graph, unsigned long long) {
    return *plan = new ec_graph(*(ec_graph *)graph), EC_GOOD;
}
int cuGraphLaunch(void *graph, void *stream) {
    const ec_graph &calls = *(ec_graph *)graph;
    ec_streams[stream].insert(ec_streams[stream].end(), calls.begin(), calls.end());
    return EC_GOOD;
}
int cuGraphExecDestroy(void *plan) { return delete (ec_graph *)plan, EC_GOOD; }
int cuGraphDestroy(void *graph) { return delete (ec_graph *)graph, EC_GOOD; }
int ec_cuda_live_buffers(void) { return ec_live; }
int ec_cuda_launches(void) { return ec_launches; }
int ec_cuda_copies(void) { return ec_copies; }
}
