/* The few things a program asks of a board: bytes, time, reset, idle and stack.
 *
 * Every folder beside this file implements it for one chip family. A program calls ec_port_init
 * once before anything else; after that no function here waits for anything but the UART's own
 * transmit register, and none uses a heap or libc.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_PORT_H
#define EC_PORT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set up clock, UART and tick counter. Gives up on a clock that does not start, and then runs on the
 * reset clock: the UART divider and ec_port_ticks_hz follow the actual clock. */
void ec_port_init(void);

/* Send one byte, waiting while the transmit register is full. */
void ec_port_putc(uint8_t byte);

/* Return the next received byte, 0 to 255, or -1 if none is waiting. Received bytes are queued by
 * hardware or by interrupt; `ec_port_rx_lost` says whether any were lost. */
int32_t ec_port_getc(void);

/* Return how many times the receiver lost bytes since start-up: an overrun of the hardware or
 * of the queue. The lowest meaning is "zero or not": one overrun can be many bytes. */
uint32_t ec_port_rx_lost(void);

/* Return ticks since ec_port_init: 64 bits, never goes back. Call from the main program only,
 * not from an interrupt handler. */
uint64_t ec_port_ticks(void);

/* Return how many ticks are one second. */
uint32_t ec_port_ticks_hz(void);

/* Wait until something may have happened (an interrupt) or return at once; for polling loops. */
void ec_port_idle(void);

/* Take care of every interrupt that the port enables. RISC-V, Xtensa, Cortex-A and Cortex-R have
 * one entry for all of them, which calls this; on Cortex-M each has its own. */
void ec_interrupt(void);

/* Restart the board as its reset pin would. Does not return. */
void ec_port_reset(void);

/* Return the most bytes of stack used at any time since start-up, from the paint that start-up
 * put on it. */
uint32_t ec_port_stack_high_water(void);

/* Return the size of the stack in the linker script, in bytes, to compare the high-water mark with. */
uint32_t ec_port_stack_size(void);

#ifdef __cplusplus
}
#endif

#endif /* EC_PORT_H */
