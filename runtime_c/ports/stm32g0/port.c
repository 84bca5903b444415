/* Port of the STM32G0 family: PLL to 64 MHz from the internal 16 MHz oscillator.
 *
 * Registers: ST RM0444 (STM32G0x1), chapters RCC, FLASH interface, GPIO. Every wait is bounded: a
 * clock that does not start is given up, and the UART divider and the tick rate follow what really
 * runs.
 */
#include "ec_port.h"
#include "ec_stm32.h"

#define RCC_CR EC_REG32(0x40021000u)
#define RCC_CFGR EC_REG32(0x40021008u)
#define RCC_PLLCFGR EC_REG32(0x4002100Cu)
#define RCC_IOPENR EC_REG32(0x40021034u)
#define RCC_APBENR1 EC_REG32(0x4002103Cu)
#define FLASH_ACR EC_REG32(0x40022000u)

#define HSI_HZ 16000000u /* the clock after reset */
#define PLL_HZ 64000000u

#define CR_PLL_ON (1u << 24)
#define CR_PLL_READY (1u << 25)

/* Set up 64 MHz if it starts; return the core's rate. */
static uint32_t start_clock(void) {
    /* HSI 16 MHz / 1 (M = 0) x 8 (N) / 2 (R = 1) = 64 MHz; R output on. */
    RCC_PLLCFGR = 2u | 8u << 8 | 1u << 28 | 1u << 29;
    RCC_CR |= CR_PLL_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_PLL_READY, CR_PLL_READY)) {
        RCC_CR &= ~CR_PLL_ON;
        return HSI_HZ;
    }
    FLASH_ACR = 2u | 1u << 8 | 1u << 9; /* 2 wait states in range 1; prefetch, instruction cache */
    (void)ec_stm32_wait(&FLASH_ACR, 0x7u, 2u);
    RCC_CFGR = 2u; /* the core from the PLL's R output */
    if (!ec_stm32_wait(&RCC_CFGR, 0x38u, 0x10u)) {
        RCC_CFGR = 0u;
        return HSI_HZ;
    }
    return PLL_HZ;
}

void ec_port_init(void) {
    const uint32_t clock_hz = start_clock();
    RCC_IOPENR |= 1u << EC_UART_GPIO_BIT;
    RCC_APBENR1 |= EC_UART_ENABLE;
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_TX_PIN, EC_UART_AF);
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_RX_PIN, EC_UART_AF);
    ec_stm32_uart_start((clock_hz + EC_BAUD / 2u) / EC_BAUD); /* 16 samples a bit */
    ec_ticks_start(clock_hz);
}
