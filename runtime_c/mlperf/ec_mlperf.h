/* The device's end of the MLPerf Tiny benchmark protocol (docs/mlperf_tiny.md).
 *
 * Text over the board's UART: the host's commands end with '%', answers are lines, and "m-ready"
 * is the last line of each. With EC_MLPERF_ENERGY a time stamp is a pulse on a pin, for a meter,
 * and the line runs at 9600 baud.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MLPERF_H
#define EC_MLPERF_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest command without its '%'. */
#define EC_MLPERF_COMMAND 80u

/* The host's name of the device's maker. */
#ifndef EC_MLPERF_VENDOR
#define EC_MLPERF_VENDOR "edgec"
#endif

/* A model as the benchmark sees it. */
typedef struct ec_mlperf_model {
    const char *id;        /* "kws01", "vww01", "ad01", "ic01", ... */
    uint8_t *buffer;       /* the host's input, as stored in the official data sets */
    uint32_t buffer_bytes; /* the most that it can load */
    int32_t (*init)(void); /* returns an ec_status, as run does */
    void (*load)(void);    /* turn the buffer into the model's input */
    int32_t (*run)(void);
    uint32_t result_count;
    float (*result)(uint32_t index);
} ec_mlperf_model;

#ifdef EC_MLPERF_ENERGY
/* The application's: pull the pin that the meter watches low for at least a microsecond. */
void ec_mlperf_pulse(void);
#endif

/* Say who is there, then answer commands for ever. Call after ec_port_init. */
void ec_mlperf_serve(const ec_mlperf_model *model);

#ifdef __cplusplus
}
#endif

#endif /* EC_MLPERF_H */
