/* Port of the STM32L4+ family: PLL to 120 MHz from the internal 16 MHz oscillator, one LPUART.
 *
 * Registers: ST RM0432 (STM32L4R5), chapters PWR, RCC, FLASH interface, GPIO, LPUART. Every wait
 * is bounded: a clock that does not start is given up, and the UART divider and the tick rate
 * follow what really runs.
 */
#include "ec_cortex_m.h"
#include "ec_port.h"

#define PWR_CR2 EC_REG32(0x40007004u)
#define PWR_CR5 EC_REG32(0x40007080u)
#define RCC_CR EC_REG32(0x40021000u)
#define RCC_CFGR EC_REG32(0x40021008u)
#define RCC_PLLCFGR EC_REG32(0x4002100Cu)
#define RCC_AHB2ENR EC_REG32(0x4002104Cu)
#define RCC_APB1ENR1 EC_REG32(0x40021058u)
#define RCC_APB1ENR2 EC_REG32(0x4002105Cu)
#define FLASH_ACR EC_REG32(0x40022000u)

#define GPIO_MODER EC_REG32(EC_UART_GPIO + 0x00u)
#define GPIO_PUPDR EC_REG32(EC_UART_GPIO + 0x0Cu)
#define GPIO_AFR(pin) EC_REG32(EC_UART_GPIO + 0x20u + ((pin) / 8u) * 4u)

#define LPUART_CR1 EC_REG32(EC_UART_BASE + 0x00u)
#define LPUART_BRR EC_REG32(EC_UART_BASE + 0x0Cu)
#define LPUART_ISR EC_REG32(EC_UART_BASE + 0x1Cu)
#define LPUART_ICR EC_REG32(EC_UART_BASE + 0x20u)
#define LPUART_RDR EC_REG32(EC_UART_BASE + 0x24u)
#define LPUART_TDR EC_REG32(EC_UART_BASE + 0x28u)

#define MSI_HZ 4000000u /* the clock after reset */
#define PLL_HZ 120000000u
#define WAIT_LIMIT 100000u /* polls; the oscillators start in microseconds */

#define CR_HSI_ON (1u << 8)
#define CR_HSI_READY (1u << 10)
#define CR_PLL_ON (1u << 24)
#define CR_PLL_READY (1u << 25)
#define CR1_ENABLE ((1u << 3) | (1u << 2) | 1u) /* transmitter, receiver, LPUART */
#define CR1_RX_INTERRUPT (1u << 5)
#define ISR_OVERRUN (1u << 3)
#define ISR_RX_READY (1u << 5)
#define ISR_TX_EMPTY (1u << 7)

static bool wait_for(volatile uint32_t *reg, uint32_t mask, uint32_t value) {
    for (uint32_t i = 0; i < WAIT_LIMIT; i++) {
        if ((*reg & mask) == value) {
            return true;
        }
    }
    return false;
}

/* Set up 120 MHz if it starts; return the core's rate. */
static uint32_t start_clock(void) {
    RCC_APB1ENR1 |= 1u << 28; /* PWR */
    RCC_CR |= CR_HSI_ON;
    if (!wait_for(&RCC_CR, CR_HSI_READY, CR_HSI_READY)) {
        return MSI_HZ;
    }
    PWR_CR5 &= ~(1u << 8); /* R1MODE = 0: range 1 boost, needed above 80 MHz */
    /* HSI 16 MHz / 4 (M) x 60 (N) / 2 (R = 0) = 120 MHz; R output on. */
    RCC_PLLCFGR = 2u | 3u << 4 | 60u << 8 | 1u << 24;
    RCC_CR |= CR_PLL_ON;
    if (!wait_for(&RCC_CR, CR_PLL_READY, CR_PLL_READY)) {
        return MSI_HZ;
    }
    /* 5 wait states at 120 MHz; prefetch, instruction and data cache. */
    FLASH_ACR = 5u | 1u << 8 | 1u << 9 | 1u << 10;
    (void)wait_for(&FLASH_ACR, 0xFu, 5u);
    /* RM0432, range 1 boost: pass through half the rate for at least 1 us on the way up. */
    RCC_CFGR = 8u << 4 | 3u;
    if (!wait_for(&RCC_CFGR, 0xCu, 0xCu)) {
        RCC_CFGR = 0u;
        return MSI_HZ;
    }
    for (uint32_t i = 0; i < 100u; i++) {
        (void)RCC_CFGR;
    }
    RCC_CFGR = 3u;
    return PLL_HZ;
}

static void set_uart_pin(uint32_t pin) {
    GPIO_AFR(pin) = (GPIO_AFR(pin) & ~(15u << (pin % 8u * 4u))) | EC_UART_AF << (pin % 8u * 4u);
    GPIO_PUPDR = (GPIO_PUPDR & ~(3u << (pin * 2u))) | 1u << (pin * 2u); /* idle is high */
    GPIO_MODER = (GPIO_MODER & ~(3u << (pin * 2u))) | 2u << (pin * 2u);
}

void ec_port_init(void) {
    const uint32_t clock_hz = start_clock();
    PWR_CR2 |= 1u << 9; /* IOSV: VDDIO2, which supplies port G, is present */
    RCC_AHB2ENR |= 1u << EC_UART_GPIO_BIT;
    RCC_APB1ENR2 |= EC_UART_ENABLE;
    set_uart_pin(EC_UART_TX_PIN);
    set_uart_pin(EC_UART_RX_PIN);
    /* 256 x clock / baud, in 64 bits: RM0432, LPUART baud rate generation. */
    LPUART_BRR = (uint32_t)(((uint64_t)clock_hz * 256u + EC_BAUD / 2u) / EC_BAUD);
    LPUART_CR1 = CR1_ENABLE | CR1_RX_INTERRUPT;
    ec_irq_enable(EC_UART_IRQ);
    ec_ticks_start(clock_hz);
}

void ec_port_putc(uint8_t byte) {
    while ((LPUART_ISR & ISR_TX_EMPTY) == 0u) {
    }
    LPUART_TDR = byte;
}

void ec_uart_handler(void) {
    if ((LPUART_ISR & ISR_OVERRUN) != 0u) {
        LPUART_ICR = ISR_OVERRUN;
        ec_rx_count_loss();
    }
    if ((LPUART_ISR & ISR_RX_READY) == 0u) {
        return;
    }
    if (ec_rx_is_full()) {
        LPUART_CR1 = CR1_ENABLE; /* the byte stays in RDR until the program has read some */
        return;
    }
    (void)ec_rx_push((uint8_t)LPUART_RDR);
}

void ec_rx_resume(void) {
    LPUART_CR1 = CR1_ENABLE | CR1_RX_INTERRUPT;
}
