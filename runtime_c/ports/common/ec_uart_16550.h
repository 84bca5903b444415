/* A 16550 UART, for the port that includes this: received bytes go to the queue by interrupt.
 *
 * National Semiconductor PC16550D data sheet, registers; the board's [config] has the distance between
 * them in bytes. Functions in the port's own file take fewer bytes than functions in another file.
 */
#ifndef EC_UART_16550_H
#define EC_UART_16550_H

#include "ec_cpu.h"
#include "ec_registers.h"
#include "ec_rx_queue.h"

#define UART_REG(number) EC_REG8(EC_UART_BASE + EC_UART_STRIDE * (number))
#define UART_DATA UART_REG(0u)         /* RBR, THR */
#define UART_INTERRUPTS UART_REG(1u)   /* IER */
#define UART_FIFO_CONTROL UART_REG(2u) /* FCR */
#define UART_LINE_CONTROL UART_REG(3u) /* LCR */
#define UART_LINE_STATUS UART_REG(5u)  /* LSR */
#define UART_DIVISOR_LOW UART_REG(0u)  /* DLL, while LCR's bit 7 is set */
#define UART_DIVISOR_HIGH UART_REG(1u) /* DLM */
#define INTERRUPT_RECEIVED 1u
#define FIFO_ENABLE_AND_CLEAR 7u
#define LINE_8N1 3u
#define LINE_DIVISORS 0x80u
#define STATUS_RECEIVED 1u
#define STATUS_OVERRUN 2u
#define STATUS_CAN_SEND 0x20u

#define DIVISOR (EC_UART_CLOCK_HZ / (16u * EC_BAUD))

/* Set up the UART, which interrupts from now on; call with interrupts masked. */
static inline void ec_16550_start(void) {
    UART_INTERRUPTS = 0u;
    UART_LINE_CONTROL = LINE_DIVISORS | LINE_8N1;
    UART_DIVISOR_LOW = (uint8_t)DIVISOR;
    UART_DIVISOR_HIGH = (uint8_t)(DIVISOR >> 8);
    UART_LINE_CONTROL = LINE_8N1;
    UART_FIFO_CONTROL = FIFO_ENABLE_AND_CLEAR;
    UART_INTERRUPTS = INTERRUPT_RECEIVED;
}

/* What `ec_port_putc` does. */
static inline void ec_16550_send(uint8_t byte) {
    while ((UART_LINE_STATUS & STATUS_CAN_SEND) == 0u) {
    }
    UART_DATA = byte;
}

/* Take the received bytes from the UART; call it in its interrupt. */
static void ec_16550_receive(void) {
    uint8_t status = UART_LINE_STATUS; /* reading clears the overrun */
    while ((status & STATUS_RECEIVED) != 0u) {
        if ((status & STATUS_OVERRUN) != 0u) {
            ec_rx_count_loss();
        }
        if (ec_rx_is_full()) {
            /* The byte stays in the UART until the program has read some. */
            UART_INTERRUPTS = 0u;
            return;
        }
        (void)ec_rx_push(UART_DATA);
        status = UART_LINE_STATUS;
    }
}

/* What `ec_rx_resume` does. */
static inline void ec_16550_resume(void) {
    EC_DISABLE_INTERRUPTS();
    UART_INTERRUPTS = INTERRUPT_RECEIVED;
    ec_16550_receive();
    EC_ENABLE_INTERRUPTS();
}

#endif /* EC_UART_16550_H */
