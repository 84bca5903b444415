/* Shared by the ports of 32-bit Cortex-A and Cortex-R: registers, and the interrupt function. */
#ifndef EC_CORTEX_AR_H
#define EC_CORTEX_AR_H

#include <stdint.h>

#include "ec_board.h"
#include "ec_cpu.h"
#include "ec_registers.h"
#include "ec_rx_queue.h"

/* Called once on a fault, with its place in the exception table and where it was. The weak one in
 * startup.c sends a line of text and stops. Does not return. */
void ec_abort(uint32_t number, uint32_t pc, uint32_t lr, uint32_t sp);

#endif /* EC_CORTEX_AR_H */
