/* Shared by the Xtensa ports: registers, and the interrupt function. */
#ifndef EC_XTENSA_H
#define EC_XTENSA_H

#include <stdint.h>

#include "ec_board.h"
#include "ec_cpu.h"
#include "ec_registers.h"
#include "ec_rx_queue.h"

/* Called once on an exception, with its cause (EXCCAUSE) and where it was (its address, a0, sp).
 * The weak one in startup.c sends a line of text and stops. Does not return. */
void ec_exception(uint32_t cause, uint32_t pc, uint32_t lr, uint32_t sp);

#endif /* EC_XTENSA_H */
