/* The USART and LPUART of STM32 families since F0 and L4: flags in ISR, cleared through ICR (ST
 * RM0432, RM0433, RM0444 and RM0456, chapters USART and LPUART; FIFOs stay off). */
#include "ec_port.h"
#include "ec_stm32.h"

#define USART_CR1 EC_REG32(EC_UART_BASE + 0x00u)
#define USART_BRR EC_REG32(EC_UART_BASE + 0x0Cu)
#define USART_ISR EC_REG32(EC_UART_BASE + 0x1Cu)
#define USART_ICR EC_REG32(EC_UART_BASE + 0x20u)
#define USART_RDR EC_REG32(EC_UART_BASE + 0x24u)
#define USART_TDR EC_REG32(EC_UART_BASE + 0x28u)

#define CR1_ENABLE ((1u << 3) | (1u << 2) | 1u) /* transmitter, receiver, USART */
#define CR1_RX_INTERRUPT (1u << 5)
#define ISR_OVERRUN (1u << 3)
#define ISR_RX_READY (1u << 5)
#define ISR_TX_EMPTY (1u << 7)

void ec_stm32_uart_start(uint32_t brr) {
    USART_BRR = brr;
    USART_CR1 = CR1_ENABLE | CR1_RX_INTERRUPT;
    ec_irq_enable(EC_UART_IRQ);
}

void ec_port_putc(uint8_t byte) {
    while ((USART_ISR & ISR_TX_EMPTY) == 0u) {
    }
    USART_TDR = byte;
}

void ec_uart_handler(void) {
    if ((USART_ISR & ISR_OVERRUN) != 0u) {
        USART_ICR = ISR_OVERRUN;
        ec_rx_count_loss();
    }
    if ((USART_ISR & ISR_RX_READY) == 0u) {
        return;
    }
    if (ec_rx_is_full()) {
        USART_CR1 = CR1_ENABLE; /* the byte stays in RDR until the program has read some */
        return;
    }
    (void)ec_rx_push((uint8_t)USART_RDR);
}

void ec_rx_resume(void) {
    USART_CR1 = CR1_ENABLE | CR1_RX_INTERRUPT;
}
