/* Crystal oscillator and UART0 of the nRF51 and nRF52 series (without EasyDMA): registers and
 * start; uart.c has the rest.
 *
 * Registers: nRF51 Series Reference Manual and nRF52840 Product Specification, chapters CLOCK,
 * GPIO, UART. Tasks start by writing 1; events read 1 once they happened, until 0 is written.
 */
#ifndef EC_NORDIC_H
#define EC_NORDIC_H

#include "ec_cortex_m.h"

#define CLOCK_TASKS_HFCLKSTART EC_REG32(0x40000000u)
#define CLOCK_EVENTS_HFCLKSTARTED EC_REG32(0x40000100u)

#define UART_TASKS_STARTRX EC_REG32(0x40002000u)
#define UART_TASKS_STARTTX EC_REG32(0x40002008u)
#define UART_EVENTS_RXDRDY EC_REG32(0x40002108u)
#define UART_EVENTS_TXDRDY EC_REG32(0x4000211Cu)
#define UART_EVENTS_ERROR EC_REG32(0x40002124u)
#define UART_INTENSET EC_REG32(0x40002304u)
#define UART_INTENCLR EC_REG32(0x40002308u)
#define UART_ERRORSRC EC_REG32(0x40002480u)
#define UART_ENABLE EC_REG32(0x40002500u)
#define UART_PSELTXD EC_REG32(0x4000250Cu)
#define UART_PSELRXD EC_REG32(0x40002514u)
#define UART_RXD EC_REG32(0x40002518u)
#define UART_TXD EC_REG32(0x4000251Cu)
#define UART_BAUDRATE EC_REG32(0x40002524u)

#define GPIO_OUTSET EC_REG32(0x50000508u)
#define GPIO_DIRSET EC_REG32(0x50000518u)

#define UART_INT_RXDRDY (1u << 2)
#define UART_INT_ERROR (1u << 9)
#define UART_ERROR_OVERRUN 1u
#define WAIT_LIMIT 100000u /* polls; the crystal starts in about 1 ms */

/* Start oscillator and UART, on the board's pins, and the UART's interrupt. */
static inline void ec_nordic_start(void) {
    CLOCK_TASKS_HFCLKSTART = 1u;
    for (uint32_t i = 0; i < WAIT_LIMIT && CLOCK_EVENTS_HFCLKSTARTED == 0u; i++) {
        /* The internal oscillator serves until then, and instead if the crystal never starts. */
    }
    GPIO_OUTSET = 1u << EC_UART_TX_PIN;
    GPIO_DIRSET = 1u << EC_UART_TX_PIN;
    UART_PSELTXD = EC_UART_TX_PIN;
    UART_PSELRXD = EC_UART_RX_PIN;
    UART_BAUDRATE = EC_UART_BAUD_REG;
    UART_ENABLE = 4u;
    UART_TASKS_STARTTX = 1u;
    UART_TASKS_STARTRX = 1u;
    UART_INTENSET = UART_INT_RXDRDY | UART_INT_ERROR;
    ec_irq_enable(EC_UART_IRQ);
}

#endif /* EC_NORDIC_H */
