/* A 16550 UART: received bytes go to the queue by interrupt. uart.c has ec_port_putc and
 * ec_rx_resume. */
#ifndef EC_UART_16550_H
#define EC_UART_16550_H

/* Set up the UART, which interrupts from now on; call with interrupts masked. */
void ec_16550_start(void);

/* Take what the UART received; call it in its interrupt. */
void ec_16550_receive(void);

#endif /* EC_UART_16550_H */
