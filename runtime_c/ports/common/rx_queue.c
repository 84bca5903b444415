/* Received bytes between the UART's interrupt (writer) and the main program (reader).
 *
 * One writer, one reader, each owning one index: no masking of interrupts is needed. One slot
 * stays empty to distinguish full from empty.
 */
#include "ec_board.h"
#include "ec_cpu.h"
#include "ec_port.h"
#include "ec_rx_queue.h"

#ifndef EC_PORT_RX_BYTES
#define EC_PORT_RX_BYTES 512
#endif

static uint8_t rx_bytes[EC_PORT_RX_BYTES];
static volatile uint32_t rx_head; /* next to write; the interrupt's */
static volatile uint32_t rx_tail; /* next to read; the main program's */
static volatile uint32_t rx_losses;

static uint32_t after(uint32_t index) {
    return index + 1u == (uint32_t)sizeof rx_bytes ? 0u : index + 1u;
}

bool ec_rx_is_full(void) {
    return after(rx_head) == rx_tail;
}

bool ec_rx_push(uint8_t byte) {
    const uint32_t head = rx_head;
    const uint32_t next = after(head);
    if (next == rx_tail) {
        return false;
    }
    rx_bytes[head] = byte;
    rx_head = next; /* volatile: stays after the byte on a single core */
    return true;
}

void ec_rx_count_loss(void) {
    rx_losses = rx_losses + 1u;
}

uint32_t ec_port_rx_lost(void) {
    return rx_losses;
}

int32_t ec_port_getc(void) {
    const uint32_t tail = rx_tail;
    if (tail == rx_head) {
        return -1;
    }
    const bool was_full = after(rx_head) == tail;
    const uint8_t byte = rx_bytes[tail];
    rx_tail = after(tail);
    if (was_full) {
        ec_rx_resume();
    }
    return (int32_t)byte;
}

void ec_port_idle(void) {
    /* Masked, an interrupt still wakes the core but is taken only below, so that a byte which
     * arrives between the test and the wait is not slept through. */
    EC_DISABLE_INTERRUPTS();
    if (rx_tail == rx_head) {
        EC_WAIT_FOR_INTERRUPT();
    }
    EC_ENABLE_INTERRUPTS();
}
