/* Arm's PL011 UART: received bytes go to the queue by interrupt. uart.c has ec_port_putc and
 * ec_rx_resume. */
#ifndef EC_PL011_H
#define EC_PL011_H

#include <stdint.h>

/* Set up the UART, which interrupts from now on; clock_hz: its clock. */
void ec_uart_start(uint32_t clock_hz);

/* Its interrupt: take what it received. */
void ec_uart_handler(void);

#endif /* EC_PL011_H */
