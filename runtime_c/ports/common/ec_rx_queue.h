/* The receive queue of every port: filled by the UART's interrupt, emptied by ec_port_getc. */
#ifndef EC_RX_QUEUE_H
#define EC_RX_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

bool ec_rx_push(uint8_t byte); /* false if it is full; the byte is then not taken */
bool ec_rx_is_full(void);
void ec_rx_count_loss(void);

/* A port implements it: let the receiver interrupt again after the queue was full. */
void ec_rx_resume(void);

#endif /* EC_RX_QUEUE_H */
