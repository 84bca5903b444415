/* Shared by the STM32 ports: bounded waits, pins, and the two generations of USART.
 *
 * A family's port.c starts its clock, switches on the peripherals' own clocks, and calls
 * ec_stm32_uart_start. usart_sr.c has the USART of F1 and F4 (status and data register),
 * usart_isr.c the USART and the LPUART of all later families.
 */
#ifndef EC_STM32_H
#define EC_STM32_H

#include "ec_cortex_m.h"

/* Polls before a clock is given up; the slowest crystal starts in 5 ms at 16 MHz. */
#define EC_STM32_WAIT_LIMIT 100000u

/* Wait until the bits of `mask` have `value`; false if they never do. */
static inline bool ec_stm32_wait(volatile uint32_t *reg, uint32_t mask, uint32_t value) {
    for (uint32_t i = 0; i < EC_STM32_WAIT_LIMIT; i++) {
        if ((*reg & mask) == value) {
            return true;
        }
    }
    return false;
}

/* Set pin `pin` of the UART's GPIO port to its alternate function, with a pull-up (idle is high). Every
 * family but F1: MODER at 0x00, PUPDR at 0x0C, AFRL and AFRH at 0x20. */
static inline void ec_stm32_set_uart_pin(uint32_t gpio, uint32_t pin, uint32_t function) {
    volatile uint32_t *const mode = &EC_REG32(gpio);
    volatile uint32_t *const pull = &EC_REG32(gpio + 0x0Cu);
    volatile uint32_t *const select = &EC_REG32(gpio + 0x20u + pin / 8u * 4u);
    *select = (*select & ~(15u << (pin % 8u * 4u))) | function << (pin % 8u * 4u);
    *pull = (*pull & ~(3u << (pin * 2u))) | 1u << (pin * 2u);
    *mode = (*mode & ~(3u << (pin * 2u))) | 2u << (pin * 2u);
}

/* Start the UART, whose clock and pins are on, with this value of its baud rate register. */
void ec_stm32_uart_start(uint32_t brr);

#endif /* EC_STM32_H */
