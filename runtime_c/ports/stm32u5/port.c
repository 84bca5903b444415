/* Port of the STM32U5 family: PLL to 160 MHz from the internal 16 MHz oscillator.
 *
 * Registers: ST RM0456 (STM32U5), chapters PWR (voltage range 1, EPOD booster), RCC, FLASH, ICACHE,
 * GPIO, at their non-secure addresses (TrustZone off, as delivered). Every wait is bounded: a clock
 * that does not start is given up, and the UART divider and the tick rate follow what really runs.
 */
#include "ec_port.h"
#include "ec_stm32.h"

#define PWR_VOSR EC_REG32(0x4602080Cu)
#define RCC_CR EC_REG32(0x46020C00u)
#define RCC_CFGR1 EC_REG32(0x46020C1Cu)
#define RCC_PLL1CFGR EC_REG32(0x46020C28u)
#define RCC_PLL1DIVR EC_REG32(0x46020C34u)
#define RCC_AHB2ENR1 EC_REG32(0x46020C8Cu)
#define RCC_AHB3ENR EC_REG32(0x46020C94u)
#define RCC_APB2ENR EC_REG32(0x46020CA4u)
#define FLASH_ACR EC_REG32(0x40022000u)
#define ICACHE_CR EC_REG32(0x40030400u)

#define MSI_HZ 4000000u /* the clock after reset */
#define PLL_HZ 160000000u

#define CR_HSI_ON (1u << 8)
#define CR_HSI_READY (1u << 10)
#define CR_PLL1_ON (1u << 24)
#define CR_PLL1_READY (1u << 25)
#define VOSR_BOOST_READY (1u << 14)
#define VOSR_READY (1u << 15)
#define VOSR_RANGE_1 (3u << 16)
#define VOSR_BOOST (1u << 18)

/* Set up 160 MHz if it starts; return the core's rate. */
static uint32_t start_clock(void) {
    RCC_AHB3ENR |= 1u << 2; /* PWR */
    (void)RCC_AHB3ENR;
    RCC_CR |= CR_HSI_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_HSI_READY, CR_HSI_READY)) {
        return MSI_HZ;
    }
    /* Source HSI, input 8 to 16 MHz, M = 1; the booster, which runs from it, undivided. */
    RCC_PLL1CFGR = 2u | 3u << 2 | 1u << 18;
    RCC_PLL1DIVR = (20u - 1u) | (2u - 1u) << 9 | (2u - 1u) << 16 | (2u - 1u) << 24;
    PWR_VOSR = VOSR_RANGE_1;
    if (!ec_stm32_wait(&PWR_VOSR, VOSR_READY, VOSR_READY)) {
        return MSI_HZ;
    }
    PWR_VOSR = VOSR_RANGE_1 | VOSR_BOOST;
    if (!ec_stm32_wait(&PWR_VOSR, VOSR_BOOST_READY, VOSR_BOOST_READY)) {
        return MSI_HZ;
    }
    /* HSI 16 MHz x 20 (N) = 320 MHz, / 2 (R) = 160 MHz. */
    RCC_CR |= CR_PLL1_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_PLL1_READY, CR_PLL1_READY)) {
        RCC_CR &= ~CR_PLL1_ON;
        return MSI_HZ;
    }
    FLASH_ACR = 4u | 1u << 8; /* 4 wait states in range 1; prefetch */
    (void)ec_stm32_wait(&FLASH_ACR, 0xFu, 4u);
    ICACHE_CR |= 1u; /* flash is read through this cache */
    RCC_CFGR1 = 3u;  /* the core from PLL1 R */
    if (!ec_stm32_wait(&RCC_CFGR1, 0xCu, 0xCu)) {
        RCC_CFGR1 = 0u;
        return MSI_HZ;
    }
    return PLL_HZ;
}

void ec_port_init(void) {
    const uint32_t clock_hz = start_clock();
    RCC_AHB2ENR1 |= 1u << EC_UART_GPIO_BIT;
    RCC_APB2ENR |= EC_UART_ENABLE;
    (void)RCC_APB2ENR;
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_TX_PIN, EC_UART_AF);
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_RX_PIN, EC_UART_AF);
    ec_stm32_uart_start((clock_hz + EC_BAUD / 2u) / EC_BAUD); /* 16 samples a bit */
    ec_ticks_start(clock_hz);
}
