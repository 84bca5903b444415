/* Shared by the Cortex-M ports: registers of the core and interrupts.
 *
 * Register addresses: Arm v6-M and v7-M Architecture Reference Manuals (DDI 0419 B3.2, DDI 0403
 * B3.2 system control space).
 */
#ifndef EC_CORTEX_M_H
#define EC_CORTEX_M_H

#include <stdbool.h>
#include <stdint.h>

#include "ec_board.h"
#include "ec_cpu.h"
#include "ec_registers.h"
#include "ec_rx_queue.h"

#define EC_SYST_CSR EC_REG32(0xE000E010u) /* SysTick control and status */
#define EC_SYST_RVR EC_REG32(0xE000E014u) /* SysTick reload */
#define EC_SYST_CVR EC_REG32(0xE000E018u) /* SysTick current value */
#define EC_NVIC_ISER(irq) EC_REG32(0xE000E100u + ((irq) / 32u) * 4u)
#define EC_SCB_ICSR EC_REG32(0xE000ED04u)  /* interrupt control and state */
#define EC_SCB_VTOR EC_REG32(0xE000ED08u)  /* vector table offset; not on v6-M */
#define EC_SCB_AIRCR EC_REG32(0xE000ED0Cu) /* application interrupt and reset control */
#define EC_SCB_CCR EC_REG32(0xE000ED14u)   /* configuration and control */
#define EC_SCB_CPACR EC_REG32(0xE000ED88u) /* coprocessor access; not on v6-M */

/* Ask the interrupt controller to deliver external interrupt `irq`. */
static inline void ec_irq_enable(uint32_t irq) {
    EC_NVIC_ISER(irq) = 1u << (irq % 32u);
}

/* Interrupt handlers that the vector table names; a port implements those that it enables. */
void ec_uart_handler(void);
void ec_timer_handler(void);
void ec_systick_handler(void);

/* Called once on a fault, with the exception number (IPSR) and the stacked r0-r3, r12, lr, pc,
 * xpsr. The weak one in startup.c sends a line of text and stops. Does not return. */
void ec_fault(uint32_t exception, const uint32_t *frame);

/* Start the tick counter; systick.c implements it for cores that have SysTick. */
void ec_ticks_start(uint32_t clock_hz);

#endif /* EC_CORTEX_M_H */
