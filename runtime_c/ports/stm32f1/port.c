/* Port of the STM32F100 value line: PLL to 24 MHz from crystal or internal oscillator.
 *
 * Registers: ST RM0041 (STM32F100xx), chapters RCC, GPIO. The flash needs no wait states at
 * 24 MHz. Every wait is bounded: a clock that does not start is given up, and the UART divider and
 * the tick rate follow what really runs.
 */
#include "ec_port.h"
#include "ec_stm32.h"

#define RCC_CR EC_REG32(0x40021000u)
#define RCC_CFGR EC_REG32(0x40021004u)
#define RCC_APB2ENR EC_REG32(0x40021018u)

#define GPIO_CR(pin) EC_REG32(EC_UART_GPIO + (pin) / 8u * 4u) /* CRL, CRH */
#define GPIO_ODR EC_REG32(EC_UART_GPIO + 0x0Cu)

#define HSI_HZ 8000000u
#define PLL_HZ 24000000u

#define CR_HSE_ON (1u << 16)
#define CR_HSE_READY (1u << 17)
#define CR_PLL_ON (1u << 24)
#define CR_PLL_READY (1u << 25)
#define CFGR_PLL_FROM_HSE (1u << 16)
#define CFGR_PLL_TIMES(n) (((n)-2u) << 18)
#define PIN_ALTERNATE_OUTPUT 0xAu /* push-pull, 2 MHz */
#define PIN_INPUT_WITH_PULL 0x8u  /* up where ODR is 1 */

/* Run the core from the PLL, set up by `config`. */
static bool start_pll(uint32_t config) {
    RCC_CFGR = config;
    RCC_CR |= CR_PLL_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_PLL_READY, CR_PLL_READY)) {
        RCC_CR &= ~CR_PLL_ON;
        return false;
    }
    RCC_CFGR = config | 2u;
    if (!ec_stm32_wait(&RCC_CFGR, 0xCu, 0x8u)) {
        RCC_CFGR = 0u;
        return false;
    }
    return true;
}

/* Set up the fastest clock that starts; return the core's rate, 0 in an emulator without RCC. */
static uint32_t start_clock(void) {
    /* The internal oscillator is on after reset, so 0 cannot be the value of a real RCC_CR. */
    if (RCC_CR == 0u) {
        return 0u;
    }
    RCC_CR |= CR_HSE_ON;
    if (ec_stm32_wait(&RCC_CR, CR_HSE_READY, CR_HSE_READY) &&
        start_pll(CFGR_PLL_FROM_HSE | CFGR_PLL_TIMES(PLL_HZ / EC_HSE_HZ))) {
        return PLL_HZ;
    }
    return start_pll(CFGR_PLL_TIMES(PLL_HZ / (HSI_HZ / 2u))) ? PLL_HZ : HSI_HZ;
}

static void set_pin(uint32_t pin, uint32_t mode) {
    GPIO_CR(pin) = (GPIO_CR(pin) & ~(15u << (pin % 8u * 4u))) | mode << (pin % 8u * 4u);
}

void ec_port_init(void) {
    const uint32_t running_hz = start_clock();
    const uint32_t clock_hz = running_hz == 0u ? EC_CLOCK_HZ : running_hz;
    RCC_APB2ENR |= EC_UART_ENABLE | 1u << EC_UART_GPIO_BIT;
    GPIO_ODR |= 1u << EC_UART_RX_PIN;
    set_pin(EC_UART_TX_PIN, PIN_ALTERNATE_OUTPUT);
    set_pin(EC_UART_RX_PIN, PIN_INPUT_WITH_PULL);
    ec_stm32_uart_start((clock_hz + EC_BAUD / 2u) / EC_BAUD); /* 16 samples a bit */
    ec_ticks_start(clock_hz);
}
