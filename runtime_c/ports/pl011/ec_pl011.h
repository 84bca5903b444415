/* Arm's PL011 UART: received bytes go to the queue by interrupt. uart.c has ec_port_putc and
 * ec_rx_resume. */
#ifndef EC_PL011_H
#define EC_PL011_H

#include <stdint.h>

/* Set up the UART, which interrupts from now on; clock_hz: its clock. */
void ec_pl011_start(uint32_t clock_hz);

/* Take what the UART received; call it in its interrupt. */
void ec_pl011_receive(void);

#endif /* EC_PL011_H */
