/* The USART of STM32F1 and F4: one status and one data register (ST RM0041, RM0090, chapter
 * USART). Reading the data register after the status register clears the flags. */
#include "ec_port.h"
#include "ec_stm32.h"

#define USART_SR EC_REG32(EC_UART_BASE + 0x00u)
#define USART_DR EC_REG32(EC_UART_BASE + 0x04u)
#define USART_BRR EC_REG32(EC_UART_BASE + 0x08u)
#define USART_CR1 EC_REG32(EC_UART_BASE + 0x0Cu)

#define SR_OVERRUN (1u << 3)
#define SR_RX_READY (1u << 5)
#define SR_TX_EMPTY (1u << 7)
#define CR1_ENABLE ((1u << 13) | (1u << 3) | (1u << 2)) /* USART, transmitter, receiver */
#define CR1_RX_INTERRUPT (1u << 5)

void ec_stm32_uart_start(uint32_t brr) {
    USART_BRR = brr;
    USART_CR1 = CR1_ENABLE | CR1_RX_INTERRUPT;
    ec_irq_enable(EC_UART_IRQ);
}

void ec_port_putc(uint8_t byte) {
    while ((USART_SR & SR_TX_EMPTY) == 0u) {
    }
    USART_DR = byte;
}

void ec_uart_handler(void) {
    const uint32_t status = USART_SR;
    if ((status & (SR_RX_READY | SR_OVERRUN)) == 0u) {
        return;
    }
    if ((status & SR_OVERRUN) != 0u) {
        ec_rx_count_loss(); /* reading DR after SR clears the flag */
    }
    if (ec_rx_is_full()) {
        USART_CR1 = CR1_ENABLE; /* the byte stays in DR until the program has read some */
        return;
    }
    (void)ec_rx_push((uint8_t)USART_DR);
}

void ec_rx_resume(void) {
    USART_CR1 = CR1_ENABLE | CR1_RX_INTERRUPT;
}
