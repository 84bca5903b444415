/* A "model" for the tests of ec_mlperf.c: its results are the floats that the host loads. */
#include <stddef.h>

#include "ec_mlperf.h"
#include "ec_port.h"

void *memcpy(void *to, const void *from, size_t count);

static uint8_t buffer[64];
static float input[16];
static float output[16];
static uint32_t runs;

#ifdef EC_MLPERF_ENERGY
void ec_mlperf_pulse(void) {
    ec_port_putc('^');
}
#endif

static int32_t init(void) {
    return 0;
}

static void load(void) {
    memcpy(input, buffer, sizeof input);
}

/* Fails when its first input is 99; the sixteenth result counts the runs. */
static int32_t run(void) {
    memcpy(output, input, sizeof input);
    output[15] = (float)++runs;
    return input[0] > 98.5f && input[0] < 99.5f ? -7 : 0;
}

static float result(uint32_t index) {
    return output[index];
}

int main(void) {
    static const ec_mlperf_model model = { "fake01", buffer, sizeof buffer, init, load,
                                           run,      16,     result };
    ec_port_init();
    ec_mlperf_serve(&model);
    return 0;
}
