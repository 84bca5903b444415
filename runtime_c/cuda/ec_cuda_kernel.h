/* What kernels are written on: CUDA C++ as NVRTC compiles it, without any header, and the same names
 * for g++ in ec_cuda_emulation.cpp, which defines EC_CUDA_EMULATION. edgec puts this text at the top
 * of a model's kernels.
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
/* Of one block, whose threads share out the work of many; its memory is given when it starts. */
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
#define EC_WARP_BARRIER() __syncwarp()
/* Four int8 in a times four in b, added to sum; modulo 2^32. Of compute capability 6.1 and up. */
#define EC_DP4A(a, b, sum) __dp4a((int)(a), (int)(b), (int)(sum))
/* The word at a pointer that is aligned to 4 bytes: one load. */
#define EC_WORD_AT(pointer) (*(const int32_t *)(pointer))
#endif

/* C's words in C++. */
#define restrict __restrict__

/* The threads of one block copy bytes: words, where both places are aligned to 4 bytes. */
#define EC_BLOCK_COPY(to, from, bytes) ec_block_copy((to), (from), (bytes))
static inline void ec_block_copy(uint8_t *to, const uint8_t *from, int32_t bytes) {
    const bool aligned = (((uintptr_t)to | (uintptr_t)from) & 3u) == 0u;
    const int32_t words = aligned ? bytes / 4 : 0;
    for (int32_t i = EC_THREAD_X; i < words; i += EC_BLOCK_THREADS) {
        ((int32_t *)to)[i] = ((const int32_t *)from)[i];
    }
    for (int32_t i = words * 4 + EC_THREAD_X; i < bytes; i += EC_BLOCK_THREADS) {
        to[i] = from[i];
    }
}
