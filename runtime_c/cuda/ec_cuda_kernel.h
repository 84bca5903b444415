/* The base of all kernels: CUDA C++ for NVRTC, without any header, and the same names for g++ in
 * ec_cuda_emulation.cpp, which defines EC_CUDA_EMULATION. edgec puts this text at the top of a model's
 * kernels.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDA_EMULATION
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ULL
#define INT32_C(value) (value)
#define UINT32_C(value) (value##u)
#define INT64_C(value) (value##LL)
#define UINT64_C(value) (value##ULL)

#define EC_GLOBAL extern "C" __global__
/* Of one launch for a whole model, whose threads share out the work of many; the memory of its blocks
 * is given when it starts. */
#define EC_BLOCK_THREADS 512
#define EC_BLOCK_GLOBAL extern "C" __global__ __launch_bounds__(EC_BLOCK_THREADS)
#define EC_BLOCK_MEMORY(name) extern __shared__ __align__(16) uint8_t name[]
#define EC_BLOCK_X ((int32_t)blockIdx.x)
#define EC_BLOCK_Y ((int32_t)blockIdx.y)
#define EC_BLOCK_Z ((int32_t)blockIdx.z)
#define EC_THREAD_X ((int32_t)threadIdx.x)
#define EC_THREAD_Y ((int32_t)threadIdx.y)
#define EC_THREAD_Z ((int32_t)threadIdx.z)
#define EC_SHARED_ARRAY(type, name, elements) __shared__ __align__(16) type name[elements]
#define EC_BLOCK_BARRIER() __syncthreads()
/* Of a group's threads alone; a multiple of 32. The block's own barrier has number 0. */
#define EC_GROUP_BARRIER(group, threads) \
    asm volatile("bar.sync %0, %1;" : : "r"((group) + 1), "r"(threads) : "memory")
#define EC_GRID_BLOCKS ((int32_t)gridDim.x)
#define EC_GRID_BARRIER() ec_grid_barrier()
#if defined(EC_HAS_CLUSTER)
/* All blocks are one cluster, of compute capability 9.0 and up. PTX ISA, "barrier.cluster". */
static inline void ec_grid_barrier() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" : : : "memory");
}
#elif defined(EC_HAS_GRID)
/* How many blocks have come, modulo 2^31; the highest bit turns when all have. */
__device__ uint32_t ec_grid_arrived;
/* All blocks are on the GPU at once. As NVIDIA's cooperative groups do it: block 0 adds what turns
 * the highest bit together with the others. */
static inline void ec_grid_barrier() {
    __syncthreads();
    if (threadIdx.x == 0 && gridDim.x > 1) {
        const uint32_t part = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1u) : 1u;
        __threadfence();
        const uint32_t before = atomicAdd(&ec_grid_arrived, part);
        while (((before ^ *(volatile uint32_t *)&ec_grid_arrived) & 0x80000000u) == 0u) {
        }
        __threadfence();
    }
    __syncthreads();
}
#endif
#define EC_WARP_BARRIER() __syncwarp()
/* Four int8 in a times four in b, added to sum; modulo 2^32. Of compute capability 6.1 and up. */
#define EC_DP4A(a, b, sum) __dp4a((int)(a), (int)(b), (int)(sum))
/* The word at a pointer that is aligned to 4 bytes: one load. */
#define EC_WORD_AT(pointer) (*(const int32_t *)(pointer))
/* Two words at a pointer that is aligned to 8 bytes. */
#define EC_PAIR_AT(pointer) (*(const int64_t *)(pointer))
/* sums += rows * columns, by all lanes of a warp: 16 rows by 8 columns of int8 over 32 steps. With
 * g = lane / 4 and q = lane % 4, a lane has four steps of row g, four of row g + 8, four more of each,
 * and eight of column g, the same ones; and the sums of rows g and g + 8 by columns 2 q and 2 q + 1.
 * NVIDIA, PTX ISA, "Matrix Fragments for mma.m16n8k32" and "mma.m8n8k16", which Turing has. */
#define EC_MMA_S8(sums, rows, columns) ec_mma_16832((sums), (rows), (columns))
static inline void ec_mma_16832(int32_t *sums, const int32_t *rows, const int32_t *columns) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(columns[0]),
                   "r"(columns[1]));
#else
    for (int part = 0; part < 4; ++part) { /* a half of the rows by a half of the steps */
        int32_t *half = sums + 2 * (part % 2);
        asm volatile(
            "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+r"(half[0]), "+r"(half[1])
            : "r"(rows[part]), "r"(columns[part / 2]));
    }
#endif
}
/* The nearest float16, as its bits. */
#define EC_HALF(number) ec_half(number)
static inline uint16_t ec_half(float number) {
    uint16_t found;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(found) : "f"(number));
    return found;
}
/* Likewise of float16, over 16 steps: "Matrix Fragments for mma.m16n8k16", and "mma.m16n8k8" on Turing. */
#define EC_MMA_F16(sums, rows, columns) ec_mma_16816((sums), (rows), (columns))
static inline void ec_mma_16816(float *sums, const int32_t *rows, const int32_t *columns) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(columns[0]),
                   "r"(columns[1]));
#else
    for (int part = 0; part < 2; ++part) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(rows[2 * part]), "r"(rows[2 * part + 1]), "r"(columns[part]));
    }
#endif
}
#if __CUDA_ARCH__ >= 800
/* The nearest TF32 number as bits, and the rest of a number beyond it. */
#define EC_TF32(number) ec_tf32(number)
#define EC_TF32_REST(number, large) \
    (((large)&0x7f800000) == 0x7f800000 ? 0 : ec_tf32((number)-__int_as_float(large)))
static inline int32_t ec_tf32(float number) {
    int32_t found;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(found) : "f"(number));
    return found;
}
/* sums += rows * columns of TF32 over 8 steps; lanes have the rows and columns that they have above,
 * and two steps of them. NVIDIA, PTX ISA, "Matrix Fragments for mma.m16n8k8". */
#define EC_MMA_TF32(sums, rows, columns) ec_mma_1688((sums), (rows), (columns))
static inline void ec_mma_1688(float *sums, const int32_t *rows, const int32_t *columns) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(columns[0]),
                   "r"(columns[1]));
}
#endif
#endif

/* C's words in C++. */
#define restrict __restrict__

/* Numbers of a grid's threads: consecutive within a warp, the warps of all blocks in turn, so that little
 * work still runs on all multiprocessors. */
#define EC_GRID_THREADS (EC_GRID_BLOCKS * EC_BLOCK_THREADS)
#define EC_GRID_THREAD ((EC_THREAD_X / 32 * EC_GRID_BLOCKS + EC_BLOCK_X) * 32 + EC_THREAD_X % 32)

/* The threads of one block, or of all, copy bytes: words, where both places are aligned to 4 bytes. */
#define EC_BLOCK_COPY(to, from, bytes) ec_copy((to), (from), (bytes), EC_THREAD_X, EC_BLOCK_THREADS)
#define EC_GRID_COPY(to, from, bytes) \
    ec_copy((to), (from), (bytes), EC_GRID_THREAD, EC_GRID_THREADS)
static inline void ec_copy(uint8_t *to, const uint8_t *from, int32_t bytes, int32_t first,
                           int32_t threads) {
    const bool aligned = (((uintptr_t)to | (uintptr_t)from) & 3u) == 0u;
    const int32_t words = aligned ? bytes / 4 : 0;
    for (int32_t i = first; i < words; i += threads) {
        ((int32_t *)to)[i] = ((const int32_t *)from)[i];
    }
    for (int32_t i = words * 4 + first; i < bytes; i += threads) {
        to[i] = from[i];
    }
}
