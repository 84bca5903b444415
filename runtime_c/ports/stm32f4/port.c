/* Port of the STM32F4 family: PLL to 168 MHz from crystal or internal oscillator.
 *
 * Registers: ST RM0090 (STM32F405), chapters RCC, FLASH interface; the STM32F446
 * (RM0390) has the same ones where this file uses them. The reset value of PWR_CR.VOS allows
 * 168 MHz. Every wait is bounded: a clock that does not start is given up, and the UART divider
 * and the tick rate follow what really runs.
 */
#include "ec_port.h"
#include "ec_stm32.h"

#define RCC_CR EC_REG32(0x40023800u)
#define RCC_PLLCFGR EC_REG32(0x40023804u)
#define RCC_CFGR EC_REG32(0x40023808u)
#define RCC_AHB1ENR EC_REG32(0x40023830u)
#define RCC_APB1ENR EC_REG32(0x40023840u)
#define RCC_APB2ENR EC_REG32(0x40023844u)
#define FLASH_ACR EC_REG32(0x40023C00u)

#define HSI_HZ 16000000u
#define PLL_HZ 168000000u

#define CR_HSE_ON (1u << 16)
#define CR_HSE_READY (1u << 17)
#define CR_HSE_BYPASS (1u << 18)
#define CR_PLL_ON (1u << 24)
#define CR_PLL_READY (1u << 25)

/* Run the PLL at 168 MHz from a source of `source_hz`, and the core from the PLL. */
static bool start_pll(uint32_t source_hz, bool is_hse) {
    /* VCO input 1 MHz (M), VCO 336 MHz (N), / 2 for the core (P = 0), / 7 for USB (Q). R is the
     * STM32F446's third output, at least 2; reserved and 0 on others, which ignore it. */
    RCC_PLLCFGR = source_hz / 1000000u | 336u << 6 | (is_hse ? 1u << 22 : 0u) | 7u << 24 | 2u << 28;
    RCC_CR |= CR_PLL_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_PLL_READY, CR_PLL_READY)) {
        RCC_CR &= ~CR_PLL_ON;
        return false;
    }
    /* 5 wait states at 2.7 to 3.6 V; prefetch, instruction and data cache. */
    FLASH_ACR = 5u | 1u << 8 | 1u << 9 | 1u << 10;
    (void)ec_stm32_wait(&FLASH_ACR, 0x7u, 5u);
    RCC_CFGR = 5u << 10 | 4u << 13; /* APB1 / 4 = 42 MHz, APB2 / 2 = 84 MHz */
    RCC_CFGR |= 2u;                 /* the core from the PLL */
    if (!ec_stm32_wait(&RCC_CFGR, 0xCu, 0x8u)) {
        RCC_CFGR = 0u;
        return false;
    }
    return true;
}

/* Set up the fastest clock that starts; return the core's rate. */
static uint32_t start_clock(void) {
    /* The internal oscillator is on after reset, so 0 cannot be the value of a real RCC_CR: an emulator
     * without an RCC, which runs the core at the board's own rate. */
    if (RCC_CR == 0u) {
        return 0u;
    }
    RCC_CR |= EC_HSE_BYPASS ? CR_HSE_ON | CR_HSE_BYPASS : CR_HSE_ON;
    if (ec_stm32_wait(&RCC_CR, CR_HSE_READY, CR_HSE_READY) && start_pll(EC_HSE_HZ, true)) {
        return PLL_HZ;
    }
    return start_pll(HSI_HZ, false) ? PLL_HZ : HSI_HZ;
}

void ec_port_init(void) {
    const uint32_t clock_hz = start_clock();
    uint32_t uart_hz = clock_hz;
    if (clock_hz == PLL_HZ || clock_hz == 0u) {
        uart_hz = EC_UART_ON_APB2 ? PLL_HZ / 2u : PLL_HZ / 4u;
    }
    RCC_AHB1ENR |= 1u << EC_UART_GPIO_BIT;
    if (EC_UART_ON_APB2) {
        RCC_APB2ENR |= EC_UART_ENABLE;
    } else {
        RCC_APB1ENR |= EC_UART_ENABLE;
    }
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_TX_PIN, EC_UART_AF);
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_RX_PIN, EC_UART_AF);
    ec_stm32_uart_start((uart_hz + EC_BAUD / 2u) / EC_BAUD); /* 16 samples a bit */
    ec_ticks_start(clock_hz == 0u ? EC_CLOCK_HZ : clock_hz);
}
