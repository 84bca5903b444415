/* What the Nordic ports share: the crystal oscillator and UART0, both in nordic/uart.c. */
#ifndef EC_NORDIC_H
#define EC_NORDIC_H

#include "ec_cortex_m.h"

/* Start the crystal oscillator, which the UART's rate needs; gives up if it does not start. */
void ec_nordic_clock_start(void);

/* Start UART0 on the board's pins, and its interrupt. */
void ec_nordic_uart_start(void);

#endif /* EC_NORDIC_H */
