/* Arm's PL011 UART, for the port that includes this: received bytes go to the queue by interrupt.
 *
 * Technical Reference Manual (DDI 0183), registers. Functions in the port's own file take fewer bytes
 * than functions in another file.
 */
#ifndef EC_PL011_H
#define EC_PL011_H

#include "ec_cpu.h"
#include "ec_registers.h"
#include "ec_rx_queue.h"

#define UART_DATA EC_REG32(EC_UART_BASE + 0x00u)       /* DR */
#define UART_ERRORS EC_REG32(EC_UART_BASE + 0x04u)     /* RSR, ECR */
#define UART_FLAGS EC_REG32(EC_UART_BASE + 0x18u)      /* FR */
#define UART_DIVISOR EC_REG32(EC_UART_BASE + 0x24u)    /* IBRD */
#define UART_FRACTION EC_REG32(EC_UART_BASE + 0x28u)   /* FBRD, in 64ths */
#define UART_LINE EC_REG32(EC_UART_BASE + 0x2Cu)       /* LCR_H */
#define UART_CTRL EC_REG32(EC_UART_BASE + 0x30u)       /* CR */
#define UART_INTERRUPTS EC_REG32(EC_UART_BASE + 0x38u) /* IMSC */
#define ERRORS_OVERRUN 8u
#define FLAGS_RX_EMPTY 0x10u
#define FLAGS_TX_FULL 0x20u
#define LINE_8N1_FIFO 0x70u
#define CTRL_ENABLE 0x301u        /* UART, transmitter, receiver */
#define INTERRUPTS_RECEIVED 0x50u /* FIFO level, and bytes that waited */

/* Set up the UART, which interrupts from now on; clock_hz: its clock. */
static inline void ec_pl011_start(uint32_t clock_hz) {
    const uint32_t divisor = (8u * clock_hz / EC_BAUD + 1u) / 2u; /* in 64ths */
    UART_CTRL = 0u;
    UART_DIVISOR = divisor / 64u;
    UART_FRACTION = divisor % 64u;
    UART_LINE = LINE_8N1_FIFO; /* also latches the divisor */
    UART_INTERRUPTS = INTERRUPTS_RECEIVED;
    UART_CTRL = CTRL_ENABLE;
}

/* What `ec_port_putc` does. */
static inline void ec_pl011_send(uint8_t byte) {
    while ((UART_FLAGS & FLAGS_TX_FULL) != 0u) {
    }
    UART_DATA = byte;
}

/* Take the received bytes from the UART; call it in its interrupt. */
static void ec_pl011_receive(void) {
    if ((UART_ERRORS & ERRORS_OVERRUN) != 0u) {
        UART_ERRORS = 0u; /* any write clears it */
        ec_rx_count_loss();
    }
    while ((UART_FLAGS & FLAGS_RX_EMPTY) == 0u) {
        if (ec_rx_is_full()) {
            /* The byte stays in the UART until the program has read some. */
            UART_INTERRUPTS = 0u;
            return;
        }
        (void)ec_rx_push((uint8_t)UART_DATA);
    }
}

/* What `ec_rx_resume` does. */
static inline void ec_pl011_resume(void) {
    EC_DISABLE_INTERRUPTS();
    UART_INTERRUPTS = INTERRUPTS_RECEIVED;
    ec_pl011_receive();
    EC_ENABLE_INTERRUPTS();
}

#endif /* EC_PL011_H */
