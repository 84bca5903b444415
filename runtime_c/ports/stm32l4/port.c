/* Port of the STM32L4+ family: PLL to 120 MHz from the internal 16 MHz oscillator.
 *
 * Registers: ST RM0432 (STM32L4R5), chapters PWR, RCC, FLASH interface and LPUART. Every wait
 * is bounded: a clock that does not start is given up, and the UART divider and the tick rate
 * follow what really runs.
 */
#include "ec_port.h"
#include "ec_stm32.h"

#define PWR_CR2 EC_REG32(0x40007004u)
#define PWR_CR5 EC_REG32(0x40007080u)
#define RCC_CR EC_REG32(0x40021000u)
#define RCC_CFGR EC_REG32(0x40021008u)
#define RCC_PLLCFGR EC_REG32(0x4002100Cu)
#define RCC_AHB2ENR EC_REG32(0x4002104Cu)
#define RCC_APB1ENR1 EC_REG32(0x40021058u)
#define RCC_APB1ENR2 EC_REG32(0x4002105Cu)
#define FLASH_ACR EC_REG32(0x40022000u)

#define MSI_HZ 4000000u /* the clock after reset */
#define PLL_HZ 120000000u

#define CR_HSI_ON (1u << 8)
#define CR_HSI_READY (1u << 10)
#define CR_PLL_ON (1u << 24)
#define CR_PLL_READY (1u << 25)

/* Set up 120 MHz if it starts; return the core's rate. */
static uint32_t start_clock(void) {
    RCC_APB1ENR1 |= 1u << 28; /* PWR */
    RCC_CR |= CR_HSI_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_HSI_READY, CR_HSI_READY)) {
        return MSI_HZ;
    }
    PWR_CR5 &= ~(1u << 8); /* R1MODE = 0: range 1 boost, needed above 80 MHz */
    /* HSI 16 MHz / 4 (M) x 60 (N) / 2 (R = 0) = 120 MHz; R output on. */
    RCC_PLLCFGR = 2u | 3u << 4 | 60u << 8 | 1u << 24;
    RCC_CR |= CR_PLL_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_PLL_READY, CR_PLL_READY)) {
        return MSI_HZ;
    }
    /* 5 wait states at 120 MHz; prefetch, instruction and data cache. */
    FLASH_ACR = 5u | 1u << 8 | 1u << 9 | 1u << 10;
    (void)ec_stm32_wait(&FLASH_ACR, 0xFu, 5u);
    /* RM0432, range 1 boost: pass through half the rate for at least 1 us on the way up. */
    RCC_CFGR = 8u << 4 | 3u;
    if (!ec_stm32_wait(&RCC_CFGR, 0xCu, 0xCu)) {
        RCC_CFGR = 0u;
        return MSI_HZ;
    }
    for (uint32_t i = 0; i < 100u; i++) {
        (void)RCC_CFGR;
    }
    RCC_CFGR = 3u;
    return PLL_HZ;
}

void ec_port_init(void) {
    const uint32_t clock_hz = start_clock();
    PWR_CR2 |= 1u << 9; /* IOSV: VDDIO2, which supplies port G, is present */
    RCC_AHB2ENR |= 1u << EC_UART_GPIO_BIT;
    RCC_APB1ENR2 |= EC_UART_ENABLE;
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_TX_PIN, EC_UART_AF);
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_RX_PIN, EC_UART_AF);
    /* 256 x clock / baud, in 64 bits: RM0432, LPUART baud rate generation. */
    ec_stm32_uart_start((uint32_t)(((uint64_t)clock_hz * 256u + EC_BAUD / 2u) / EC_BAUD));
    ec_ticks_start(clock_hz);
}
