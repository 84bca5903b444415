/* UART0 of the nRF51 and nRF52 series at work. */
#include "ec_nordic.h"
#include "ec_port.h"

static bool is_sending;

void ec_port_putc(uint8_t byte) {
    if (is_sending) {
        while (UART_EVENTS_TXDRDY == 0u) {
        }
        UART_EVENTS_TXDRDY = 0u;
    }
    UART_TXD = byte;
    is_sending = true;
}

void ec_uart_handler(void) {
    if (UART_EVENTS_ERROR != 0u) {
        UART_EVENTS_ERROR = 0u;
        const uint32_t error = UART_ERRORSRC;
        UART_ERRORSRC = error; /* write one to clear */
        if ((error & UART_ERROR_OVERRUN) != 0u) {
            ec_rx_count_loss();
        }
    }
    while (UART_EVENTS_RXDRDY != 0u) {
        if (ec_rx_is_full()) {
            UART_INTENCLR = UART_INT_RXDRDY; /* six bytes wait in hardware from here on */
            return;
        }
        /* Clear first: reading RXD brings up the next byte, and its event. */
        UART_EVENTS_RXDRDY = 0u;
        (void)ec_rx_push((uint8_t)UART_RXD);
    }
}

void ec_rx_resume(void) {
    UART_INTENSET = UART_INT_RXDRDY;
}
