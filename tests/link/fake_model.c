#include "fake_model.h"

#include <stddef.h>
#include <string.h>

static uint8_t large[FAKE_INPUT_BYTES];
static uint8_t small[FAKE_SMALL_BYTES];
static uint8_t result[FAKE_INPUT_BYTES];
static uint32_t runs;

static ec_link_buffer get_input(uint32_t index) {
    const ec_link_buffer buffers[] = { { large, sizeof large }, { small, sizeof small } };
    return buffers[index];
}

static ec_link_buffer get_output(uint32_t index) {
    const ec_link_buffer buffers[] = { { result, sizeof result }, { &runs, sizeof runs } };
    return buffers[index];
}

#ifdef EC_TRACE_HOOK
#define TRACE(id, data, row, bytes) ec_trace(NULL, (id), (data), (row), (bytes))
#else
#define TRACE(id, data, row, bytes) ((void)0)
#endif

/* Steps 0 and 1; value 2 in two rows after step 0, value 3 after step 1. */
static int32_t run(void) {
    for (uint32_t i = 0; i < sizeof large; i++) {
        result[i] = (uint8_t)(3u * large[i] + small[i % sizeof small]);
    }
    fake_spend(FAKE_TICKS / 4u);
    TRACE(0u, NULL, 0u, 0u);
    TRACE(2u, result, 0u, 3000u);
    TRACE(2u, result + 3000, 1u, 2000u);
    runs++;
    fake_spend(FAKE_TICKS - FAKE_TICKS / 4u);
    TRACE(1u, NULL, 0u, 0u);
    TRACE(3u, &runs, 0u, sizeof runs);
    return small[0] == 255u ? -1 : 0;
}

static int32_t selftest(void) {
    return runs == 0u ? 0 : -5;
}

static int32_t reset(void) {
    runs = 0;
    return 0;
}

const ec_link_model fake_model = {
    .name = "fake",
    .board = "test",
    .version = "0.1.0",
    .hash = 0x12345678u,
    .clock_hz = 1000000u,
    .tick_unit = EC_LINK_TICK_CYCLES,
    .input_count = 2,
    .output_count = 2,
    .input = get_input,
    .output = get_output,
    .run = run,
    .selftest = selftest,
    .reset = reset,
};
