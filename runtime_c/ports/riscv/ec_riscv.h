/* Shared by the RISC-V ports: registers, and the interrupt function. */
#ifndef EC_RISCV_H
#define EC_RISCV_H

#include <stdint.h>

#include "ec_board.h"
#include "ec_cpu.h"
#include "ec_registers.h"
#include "ec_rx_queue.h"

/* Called once on an exception, with its cause (mcause) and where it was (mepc, ra, sp). The weak
 * one in startup.c sends a line of text and stops. Does not return. */
void ec_trap(uint32_t cause, uint32_t pc, uint32_t ra, uint32_t sp);

#endif /* EC_RISCV_H */
