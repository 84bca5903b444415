/* Port of the STM32H743: PLL to 400 MHz from the internal 64 MHz oscillator, both caches on.
 *
 * Registers: ST RM0433 (STM32H742, H743/753), chapters PWR, RCC, FLASH, GPIO; caches: Armv7-M
 * Architecture Reference Manual (DDI 0403), B2.2 and B4.8. Every wait is bounded: a clock that
 * does not start is given up, and the UART divider and the tick rate follow what really runs.
 */
#include "ec_port.h"
#include "ec_stm32.h"

#define PWR_CR3 EC_REG32(0x5802480Cu)
#define PWR_CSR1 EC_REG32(0x58024804u)
#define PWR_D3CR EC_REG32(0x58024818u)
#define RCC_CR EC_REG32(0x58024400u)
#define RCC_CFGR EC_REG32(0x58024410u)
#define RCC_D1CFGR EC_REG32(0x58024418u)
#define RCC_D2CFGR EC_REG32(0x5802441Cu)
#define RCC_D3CFGR EC_REG32(0x58024420u)
#define RCC_PLLCKSELR EC_REG32(0x58024428u)
#define RCC_PLLCFGR EC_REG32(0x5802442Cu)
#define RCC_PLL1DIVR EC_REG32(0x58024430u)
#define RCC_AHB2ENR EC_REG32(0x580244DCu)
#define RCC_AHB4ENR EC_REG32(0x580244E0u)
#define RCC_APB1LENR EC_REG32(0x580244E8u)
#define FLASH_ACR EC_REG32(0x52002000u)

#define SCB_CCSIDR EC_REG32(0xE000ED80u)
#define SCB_CSSELR EC_REG32(0xE000ED84u)
#define SCB_ICIALLU EC_REG32(0xE000EF50u)
#define SCB_DCISW EC_REG32(0xE000EF60u)
#define CCR_DCACHE (1u << 16)
#define CCR_ICACHE (1u << 17)

#define HSI_HZ 64000000u /* the clock after reset */
#define PLL_HZ 400000000u
#define PLL_APB1_HZ 100000000u

#define CR_PLL1_ON (1u << 24)
#define CR_PLL1_READY (1u << 25)

/* Invalidate and switch on both caches: nothing here shares memory with a bus master. */
static void start_caches(void) {
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    SCB_ICIALLU = 0u;
    SCB_CSSELR = 0u; /* the level 1 data cache */
    __asm__ volatile("dsb" ::: "memory");
    const uint32_t geometry = SCB_CCSIDR;
    const uint32_t sets = (geometry >> 13 & 0x7FFFu) + 1u;
    const uint32_t ways = (geometry >> 3 & 0x3FFu) + 1u;
    for (uint32_t set = 0; set < sets; set++) {
        for (uint32_t way = 0; way < ways; way++) {
            SCB_DCISW = set << 5 | way << 30; /* 32-byte lines, 4 ways */
        }
    }
    __asm__ volatile("dsb" ::: "memory");
    EC_SCB_CCR |= CCR_ICACHE | CCR_DCACHE;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

/* Set up 400 MHz if it starts; return the core's rate. */
static uint32_t start_clock(void) {
    /* Voltage scaling is locked until the supply, which the board fixes as the LDO, is written. */
    PWR_CR3 = (PWR_CR3 & ~7u) | 2u;
    if (!ec_stm32_wait(&PWR_CSR1, 1u << 13, 1u << 13)) { /* ACTVOSRDY */
        return HSI_HZ;
    }
    PWR_D3CR = 3u << 14; /* VOS1, up to 400 MHz */
    if (!ec_stm32_wait(&PWR_D3CR, 1u << 13, 1u << 13)) {
        return HSI_HZ;
    }
    /* HSI 64 MHz / 4 (M) = 16 MHz (range 3), x 50 (N) = 800 MHz (wide VCO), / 2 (P). */
    RCC_PLLCKSELR = 4u << 4;
    RCC_PLL1DIVR = (50u - 1u) | (2u - 1u) << 9 | (8u - 1u) << 16 | (2u - 1u) << 24;
    RCC_PLLCFGR = 3u << 2 | 1u << 16;
    RCC_CR |= CR_PLL1_ON;
    if (!ec_stm32_wait(&RCC_CR, CR_PLL1_READY, CR_PLL1_READY)) {
        RCC_CR &= ~CR_PLL1_ON;
        return HSI_HZ;
    }
    /* AXI and AHB at 200 MHz, all APBs at 100 MHz. */
    RCC_D1CFGR = 8u | 4u << 4;
    RCC_D2CFGR = 4u << 4 | 4u << 8;
    RCC_D3CFGR = 4u << 4;
    FLASH_ACR = 2u | 2u << 4; /* 2 wait states and programming delay 2: 185 to 210 MHz, VOS1 */
    (void)ec_stm32_wait(&FLASH_ACR, 0xFu, 2u);
    RCC_CFGR = 3u; /* the core from PLL1 P */
    if (!ec_stm32_wait(&RCC_CFGR, 0x38u, 0x18u)) {
        RCC_CFGR = 0u;
        RCC_D1CFGR = 0u;
        RCC_D2CFGR = 0u;
        RCC_D3CFGR = 0u;
        return HSI_HZ;
    }
    return PLL_HZ;
}

void ec_port_init(void) {
    start_caches();
    const uint32_t clock_hz = start_clock();
    const uint32_t uart_hz = clock_hz == PLL_HZ ? PLL_APB1_HZ : clock_hz;
    RCC_AHB2ENR |= 7u << 29; /* the SRAMs of domain D2 */
    RCC_AHB4ENR |= 1u << EC_UART_GPIO_BIT;
    RCC_APB1LENR |= EC_UART_ENABLE;
    (void)RCC_APB1LENR; /* the clock is on after a read (RM0433, RCC clock enabling delays) */
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_TX_PIN, EC_UART_AF);
    ec_stm32_set_uart_pin(EC_UART_GPIO, EC_UART_RX_PIN, EC_UART_AF);
    ec_stm32_uart_start((uart_hz + EC_BAUD / 2u) / EC_BAUD); /* 16 samples a bit */
    ec_ticks_start(clock_hz);
}
