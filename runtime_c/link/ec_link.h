/* The device's end of the serial link: docs/serial_protocol.md describes every byte.
 *
 * The generated main.c fills an `ec_link_model` and hands it to `ec_link_serve`, which never
 * returns; an application of its own calls `ec_link_poll` from its main loop instead. Both stand
 * on the functions of ec_port.h. No heap, no libc; one frame of EC_LINK_CHUNK data bytes is the
 * only buffer, so there is one link in a program.
 *
 * A generated main.c looks like this, and simulators that call a model without the link rely on
 * the four names, which are therefore not static:
 *
 *     kws_context      ec_main_context;
 *     KWS_ARENA(       ec_main_arena);                 an aligned array
 *     KWS_STATE(       ec_main_state);                 only where the model has state
 *     const kws_memory ec_main_memory = { ec_main_arena, ... };
 *
 *     static ec_link_buffer input(uint32_t index) { ... }
 *     static const ec_link_model model = { .name = "kws", ..., .input = input, ... };
 *
 *     int main(void)
 *     {
 *         ec_port_init();
 *         model_status = kws_init(&ec_main_context, &ec_main_memory);
 *         ec_link_serve(&model);
 *     }
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_LINK_H
#define EC_LINK_H

#include "ec_link_key.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the frames; a host that speaks another one is refused by name. */
#define EC_LINK_VERSION 1u

/* Version of the C interface between a model and the tools, reported to the host. */
#define EC_LINK_ABI 1u

/* Most data bytes in one frame, from 128 to 4096; the host asks and obeys. */
#ifndef EC_LINK_CHUNK
#define EC_LINK_CHUNK 256u
#endif

/* The unit of ec_port_ticks, for `ec_link_model.tick_unit`. */
#define EC_LINK_TICK_TIME 0u         /* a separate clock, such as a 16 MHz timer */
#define EC_LINK_TICK_CYCLES 1u       /* core clock cycles, counted by hardware */
#define EC_LINK_TICK_INSTRUCTIONS 2u /* an emulator whose virtual time counts instructions */

/* A model's input or output: where it lies and how long it is. `data` may be null when the
 * model did not initialize. */
typedef struct ec_link_buffer {
    void *data;
    uint32_t bytes;
} ec_link_buffer;

/* All that the link knows of a model. Fields that are null pointers answer "not supported". */
typedef struct ec_link_model {
    const char *name;    /* the model's C name, at most 40 characters */
    const char *board;   /* the board's name, at most 40 characters */
    const char *version; /* of the edgec that made the project, at most 20 characters */
    uint32_t hash;       /* build_hash of the project's manifest */
    uint32_t clock_hz;   /* core clock as the board file states it */
    uint8_t tick_unit;   /* EC_LINK_TICK_... */
    uint8_t input_count;
    uint8_t output_count;
    ec_link_buffer (*input)(uint32_t index);
    ec_link_buffer (*output)(uint32_t index);
    int32_t (*run)(void);      /* one inference; returns an ec_status, 0 is good */
    int32_t (*selftest)(void); /* returns an ec_status */
    int32_t (*reset)(void);    /* state back to its initial values; returns an ec_status */
#if EC_LINK_KEYED
    /* 32 random bits, from hardware that has them; null: the clock alone makes each session's
     * number differ from those before a restart. */
    uint32_t (*random)(void);
#endif
} ec_link_model;

/* Answer the host for ever. */
void ec_link_serve(const ec_link_model *model);

/* Answer the bytes received so far, then return. Bytes of an unfinished frame are kept. */
void ec_link_poll(const ec_link_model *model);

/* The hook of a build with -DEC_TRACE_HOOK: EC_TRACE calls it. Outside a traced run it returns at once.
 * In a traced run it stops the inference until the host has read the `bytes` at `data` that it wants and
 * continues the run; the time spent here is not counted in the run's ticks. */
void ec_trace(const void *context, uint32_t id, const void *data, uint32_t row, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* EC_LINK_H */
