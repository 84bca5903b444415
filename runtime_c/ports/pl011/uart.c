/* Arm's PL011 UART: Technical Reference Manual (DDI 0183), registers. */
#include "ec_pl011.h"
#include "ec_cpu.h"
#include "ec_port.h"
#include "ec_registers.h"
#include "ec_rx_queue.h"

#define UART_DR EC_REG32(EC_UART_BASE + 0x00u)
#define UART_FR EC_REG32(EC_UART_BASE + 0x18u)
#define UART_IBRD EC_REG32(EC_UART_BASE + 0x24u)
#define UART_FBRD EC_REG32(EC_UART_BASE + 0x28u)
#define UART_LCR EC_REG32(EC_UART_BASE + 0x2Cu)
#define UART_CR EC_REG32(EC_UART_BASE + 0x30u)
#define UART_IMSC EC_REG32(EC_UART_BASE + 0x38u)
#define UART_MIS EC_REG32(EC_UART_BASE + 0x40u)
#define UART_ICR EC_REG32(EC_UART_BASE + 0x44u)
#define UART_8_BITS_FIFO (3u << 5 | 1u << 4)
#define UART_ON (1u << 9 | 1u << 8 | 1u) /* receiver, transmitter, UART */
#define FR_RX_EMPTY (1u << 4)
#define FR_TX_FULL (1u << 5)
#define INT_RX (1u << 4 | 1u << 6) /* FIFO level, and bytes that waited */
#define INT_OVERRUN (1u << 10)

void ec_pl011_start(uint32_t clock_hz) {
    /* 64 x clock / (16 x baud), rounded: the integer part and six bits of fraction. */
    const uint32_t divider = (clock_hz * 4u + EC_BAUD / 2u) / EC_BAUD;
    UART_CR = 0u;
    UART_IBRD = divider >> 6;
    UART_FBRD = divider & 63u;
    UART_LCR = UART_8_BITS_FIFO; /* also latches the divider */
    UART_CR = UART_ON;
    UART_IMSC = INT_RX | INT_OVERRUN;
}

void ec_port_putc(uint8_t byte) {
    while ((UART_FR & FR_TX_FULL) != 0u) {
    }
    UART_DR = byte;
}

void ec_pl011_receive(void) {
    if ((UART_MIS & INT_OVERRUN) != 0u) {
        ec_rx_count_loss();
    }
    UART_ICR = INT_RX | INT_OVERRUN;
    while ((UART_FR & FR_RX_EMPTY) == 0u) {
        if (ec_rx_is_full()) {
            UART_IMSC = INT_OVERRUN; /* what the FIFO holds waits there */
            return;
        }
        (void)ec_rx_push((uint8_t)UART_DR);
    }
}

void ec_rx_resume(void) {
    UART_IMSC = INT_RX | INT_OVERRUN;
    /* What is below the FIFO's level and has timed out already raises no interrupt again. */
    EC_DISABLE_INTERRUPTS();
    ec_pl011_receive();
    EC_ENABLE_INTERRUPTS();
}
