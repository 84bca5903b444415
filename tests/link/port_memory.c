/* A device in the test's own process: bytes come and go through buffers.
 *
 * A traced run waits for the host, which here cannot speak in between: when the input ends, the
 * rescue bytes (a hello frame) are heard instead, which make the run go on to its end. */
#include "port_memory.h"

#include <string.h>

#include "ec_port.h"
#include "fake_model.h"

static const uint8_t *input;
static uint32_t input_left;
static uint8_t rescue[64];
static uint32_t rescue_bytes;
static uint8_t *output;
static uint32_t output_most;
static uint32_t output_count;
static uint32_t restarts;
static uint64_t now;

void device_set_rescue(const uint8_t *data, uint32_t bytes) {
    rescue_bytes = bytes < sizeof rescue ? bytes : (uint32_t)sizeof rescue;
    memcpy(rescue, data, rescue_bytes);
}

uint32_t device_feed(const uint8_t *data, uint32_t bytes, uint8_t *answer, uint32_t most) {
    input = data;
    input_left = bytes;
    output = answer;
    output_most = most;
    output_count = 0;
    ec_link_poll(&fake_model);
    return output_count;
}

uint32_t device_restarts(void) {
    return restarts;
}

void ec_port_init(void) {
}

void ec_port_putc(uint8_t byte) {
    if (output_count < output_most) {
        output[output_count] = byte;
    }
    output_count++;
}

int32_t ec_port_getc(void) {
    if (input_left == 0u) {
        return -1;
    }
    input_left--;
    return *input++;
}

void ec_port_idle(void) {
    input = rescue;
    input_left = rescue_bytes;
}

uint32_t ec_port_rx_lost(void) {
    return 0;
}

uint64_t ec_port_ticks(void) {
    return now++;
}

uint32_t ec_port_ticks_hz(void) {
    return 1000000u;
}

void ec_port_reset(void) {
    restarts++;
}

uint32_t ec_port_stack_high_water(void) {
    return 345;
}

uint32_t ec_port_stack_size(void) {
    return 2048;
}

void fake_spend(uint32_t ticks) {
    now += ticks;
}
