#ifndef PORT_MEMORY_H
#define PORT_MEMORY_H

#include <stdint.h>

/* What the device hears when a traced run waits and nothing is left. */
void device_set_rescue(const uint8_t *data, uint32_t bytes);

/* Let the device hear `bytes` of `data`; returns how many bytes it said, `most` of which are in
 * `answer`. */
uint32_t device_feed(const uint8_t *data, uint32_t bytes, uint8_t *answer, uint32_t most);

/* How often it was told to restart. */
uint32_t device_restarts(void);

#endif
