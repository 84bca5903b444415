/* Port of Arm's MPS2 and MPS3 FPGA boards: the CMSDK APB UART, no clock set-up.
 *
 * Registers: Arm Cortex-M System Design Kit TRM (DDI 0479), APB UART programmer's model.
 */
#include "ec_cortex_m.h"
#include "ec_port.h"

#define UART_DATA EC_REG32(EC_UART_BASE + 0x00u)
#define UART_STATE EC_REG32(EC_UART_BASE + 0x04u)
#define UART_CTRL EC_REG32(EC_UART_BASE + 0x08u)
#define UART_INTCLEAR EC_REG32(EC_UART_BASE + 0x0Cu)
#define UART_BAUDDIV EC_REG32(EC_UART_BASE + 0x10u)

#define STATE_TX_FULL 1u
#define STATE_RX_FULL 2u
#define STATE_RX_OVERRUN 8u
#define CTRL_TX_ENABLE 1u
#define CTRL_RX_ENABLE 2u
#define CTRL_RX_INTERRUPT 8u
#define INT_RX 2u

void ec_port_init(void) {
    UART_BAUDDIV = (EC_UART_CLOCK_HZ + EC_BAUD / 2u) / EC_BAUD;
    UART_CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE | CTRL_RX_INTERRUPT;
    ec_irq_enable(EC_UART_IRQ);
    ec_ticks_start(EC_CLOCK_HZ);
}

void ec_port_putc(uint8_t byte) {
    while ((UART_STATE & STATE_TX_FULL) != 0u) {
    }
    UART_DATA = byte;
}

void ec_uart_handler(void) {
    UART_INTCLEAR = INT_RX;
    if ((UART_STATE & STATE_RX_OVERRUN) != 0u) {
        UART_STATE = STATE_RX_OVERRUN; /* write one to clear */
        ec_rx_count_loss();
    }
    while ((UART_STATE & STATE_RX_FULL) != 0u) {
        if (ec_rx_is_full()) {
            /* The byte stays in the UART until the program has read some. */
            UART_CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE;
            return;
        }
        (void)ec_rx_push((uint8_t)UART_DATA);
    }
}

void ec_rx_resume(void) {
    EC_DISABLE_INTERRUPTS();
    UART_CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE | CTRL_RX_INTERRUPT;
    ec_uart_handler(); /* the interrupt of the byte that waited was cleared already */
    EC_ENABLE_INTERRUPTS();
}
