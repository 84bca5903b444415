/* EC_TRACE on the host: the least time of each layer over many runs, and the core's peak rates.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#define _POSIX_C_SOURCE 199309L
#include <time.h>

#include "kernels/aarch64/base_s8.h"
#include "kernels/x86/base_s8.h"

/* Larger trace ids are not timed. */
#define EC_CLOCKED_IDS 4096u
#define EC_NEVER UINT64_MAX

typedef int ec_run_fn(void *context, const void *const *inputs, void *const *outputs);

void ec_trace(const void *context, uint32_t id, const void *data, uint32_t row, uint32_t bytes);
void ec_clock_runs(ec_run_fn *run, void *context, const void *const *inputs, void *const *outputs,
                   uint32_t rounds, uint64_t *least, uint32_t ids);
uint64_t ec_peak_s8(uint32_t rounds);
uint64_t ec_peak_f32(uint32_t rounds);
uint64_t ec_peak_bytes(uint32_t rounds);

static uint64_t ec_spent[EC_CLOCKED_IDS];
static uint64_t ec_before;

static uint64_t ec_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time since the last event counts for this one; the end of this call begins the next. */
void ec_trace(const void *context, uint32_t id, const void *data, uint32_t row, uint32_t bytes) {
    const uint64_t now = ec_now();
    (void)context, (void)data, (void)row, (void)bytes;
    if (id < EC_CLOCKED_IDS) {
        ec_spent[id] += now - ec_before;
    }
    ec_before = ec_now();
}

/* Run so often; least[id]: nanoseconds of the events of an id in the run that took the fewest, less what
 * reading the clock takes. */
void ec_clock_runs(ec_run_fn *run, void *context, const void *const *inputs, void *const *outputs,
                   uint32_t rounds, uint64_t *least, uint32_t ids) {
    uint64_t clock = EC_NEVER;
    for (uint32_t i = 0; i < 1000u; ++i) {
        const uint64_t before = ec_now(), taken = ec_now() - before;
        clock = taken < clock ? taken : clock;
    }
    for (uint32_t id = 0; id < ids; ++id) {
        least[id] = EC_NEVER;
    }
    for (uint32_t round = 0; round < rounds; ++round) {
        for (uint32_t id = 0; id < ids && id < EC_CLOCKED_IDS; ++id) {
            ec_spent[id] = 0u;
        }
        ec_before = ec_now();
        (void)run(context, inputs, outputs);
        for (uint32_t id = 0; id < ids && id < EC_CLOCKED_IDS; ++id) {
            const uint64_t spent = ec_spent[id] > clock ? ec_spent[id] - clock : 0u;
            least[id] = spent < least[id] ? spent : least[id];
        }
    }
}

/* Sums whose additions do not wait for each other. EC_AGAIN: a value that the compiler must take for a
 * new one, and needs. EC_S8: the core's best products of int8 that are added to sums of int32, EC_S8_MACS of them;
 * EC_F32 the same of floats. */
#define EC_SUMS 12
#if EC_X86_LANES == 16
#define EC_AGAIN(v) __asm__ volatile("" : "+v"(v))
#define EC_INTS __m512i
#define EC_INTS_ALL(n) _mm512_set1_epi8(n)
#define EC_S8(sum, x, w) ec_dot_vnni((sum), (x), (w))
#define EC_S8_MACS 64u
#define EC_FLOATS __m512
#define EC_FLOATS_ALL(n) _mm512_set1_ps(n)
#define EC_F32(sum, x, w) _mm512_fmadd_ps((x), (w), (sum))
#define EC_F32_MACS 16u
#elif EC_X86_LANES == 8
#define EC_AGAIN(v) __asm__ volatile("" : "+x"(v))
#define EC_INTS __m256i
#define EC_INTS_ALL(n) _mm256_set1_epi8(n)
#define EC_S8(sum, x, w) _mm256_add_epi32((sum), _mm256_madd_epi16((x), (w)))
#define EC_S8_MACS 16u
#define EC_FLOATS __m256
#define EC_FLOATS_ALL(n) _mm256_set1_ps(n)
#define EC_F32(sum, x, w) _mm256_fmadd_ps((x), (w), (sum))
#define EC_F32_MACS 8u
#elif EC_NEON
#define EC_AGAIN(v) __asm__ volatile("" : "+w"(v))
#define EC_INTS int32x4_t
#define EC_INTS_ALL(n) vreinterpretq_s32_s8(vdupq_n_s8(n))
#if EC_I8MM
#define EC_S8(sum, x, w) vmmlaq_s32((sum), vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w))
#define EC_S8_MACS 32u
#elif EC_DOTPROD
#define EC_S8(sum, x, w) vdotq_s32((sum), vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w))
#define EC_S8_MACS 16u
#else
#define EC_S8(sum, x, w)                                                             \
    vpadalq_s16((sum), vmlal_high_s8(vmull_s8(vget_low_s8(vreinterpretq_s8_s32(x)),  \
                                              vget_low_s8(vreinterpretq_s8_s32(w))), \
                                     vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w)))
#define EC_S8_MACS 16u
#endif
#define EC_FLOATS float32x4_t
#define EC_FLOATS_ALL(n) vdupq_n_f32(n)
#define EC_F32(sum, x, w) vfmaq_f32((sum), (x), (w))
#define EC_F32_MACS 4u
#else
#define EC_AGAIN(v) ((void)(v))
#define EC_INTS int32_t
#define EC_INTS_ALL(n) (n)
#define EC_S8(sum, x, w) ((sum) + (x) * (w))
#define EC_S8_MACS 1u
#define EC_FLOATS float
#define EC_FLOATS_ALL(n) (n)
#define EC_F32(sum, x, w) ((sum) + (x) * (w))
#define EC_F32_MACS 1u
#endif

/* `rounds` rounds of int8 products; returns the number of products. */
uint64_t ec_peak_s8(uint32_t rounds) {
    EC_INTS sums[EC_SUMS], x = EC_INTS_ALL(1), w = EC_INTS_ALL(1);
    for (uint32_t i = 0; i < EC_SUMS; ++i) {
        sums[i] = EC_INTS_ALL(0);
    }
    for (uint32_t round = 0; round < rounds; ++round) {
        _Pragma("GCC unroll 12") for (uint32_t i = 0; i < EC_SUMS; ++i) {
            EC_AGAIN(x);
            sums[i] = EC_S8(sums[i], x, w);
        }
    }
    for (uint32_t i = 0; i < EC_SUMS; ++i) {
        EC_AGAIN(sums[i]);
    }
    return (uint64_t)rounds * EC_SUMS * EC_S8_MACS;
}

/* The same of floats. */
uint64_t ec_peak_f32(uint32_t rounds) {
    EC_FLOATS sums[EC_SUMS], x = EC_FLOATS_ALL(0.5f), w = EC_FLOATS_ALL(0.25f);
    for (uint32_t i = 0; i < EC_SUMS; ++i) {
        sums[i] = EC_FLOATS_ALL(0.0f);
    }
    for (uint32_t round = 0; round < rounds; ++round) {
        _Pragma("GCC unroll 12") for (uint32_t i = 0; i < EC_SUMS; ++i) {
            EC_AGAIN(x);
            sums[i] = EC_F32(sums[i], x, w);
        }
    }
    for (uint32_t i = 0; i < EC_SUMS; ++i) {
        EC_AGAIN(sums[i]);
    }
    return (uint64_t)rounds * EC_SUMS * EC_F32_MACS;
}

/* Read memory of the size of a second-level cache `rounds` times; returns the bytes read. */
uint64_t ec_peak_bytes(uint32_t rounds) {
    static EC_FLOATS memory[(1u << 18) / sizeof(EC_FLOATS)];
    const uint32_t count = (uint32_t)(sizeof memory / sizeof memory[0]);
    EC_FLOATS sums[4] = { memory[0], memory[1], memory[2], memory[3] };
    for (uint32_t round = 0; round < rounds; ++round) {
        for (uint32_t i = 0; i + 4u <= count; i += 4u) {
            for (uint32_t k = 0; k < 4u; ++k) {
                EC_FLOATS read = memory[i + k];
                EC_AGAIN(read);
                sums[k] = read;
            }
        }
    }
    for (uint32_t k = 0; k < 4u; ++k) {
        EC_AGAIN(sums[k]);
    }
    return (uint64_t)rounds * sizeof memory;
}
