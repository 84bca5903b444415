/* Port of the STM32F4 family: PLL to 168 MHz from crystal or internal oscillator, one USART.
 *
 * Registers: ST RM0090 (STM32F405), chapters RCC, FLASH interface, GPIO, USART; the STM32F446
 * (RM0390) has the same ones where this file uses them. The reset value of PWR_CR.VOS allows
 * 168 MHz. Every wait is bounded: a clock that does not start is given up, and the UART divider
 * and the tick rate follow what really runs.
 */
#include "ec_cortex_m.h"
#include "ec_port.h"

#define RCC_CR EC_REG32(0x40023800u)
#define RCC_PLLCFGR EC_REG32(0x40023804u)
#define RCC_CFGR EC_REG32(0x40023808u)
#define RCC_AHB1ENR EC_REG32(0x40023830u)
#define RCC_APB1ENR EC_REG32(0x40023840u)
#define RCC_APB2ENR EC_REG32(0x40023844u)
#define FLASH_ACR EC_REG32(0x40023C00u)

#define GPIO_MODER EC_REG32(EC_UART_GPIO + 0x00u)
#define GPIO_PUPDR EC_REG32(EC_UART_GPIO + 0x0Cu)
#define GPIO_AFR(pin) EC_REG32(EC_UART_GPIO + 0x20u + ((pin) / 8u) * 4u)

#define USART_SR EC_REG32(EC_UART_BASE + 0x00u)
#define USART_DR EC_REG32(EC_UART_BASE + 0x04u)
#define USART_BRR EC_REG32(EC_UART_BASE + 0x08u)
#define USART_CR1 EC_REG32(EC_UART_BASE + 0x0Cu)

#define HSI_HZ 16000000u
#define PLL_HZ 168000000u
#define WAIT_LIMIT 100000u /* polls; the slowest crystal starts in 5 ms at 16 MHz */

#define CR_HSE_ON (1u << 16)
#define CR_HSE_READY (1u << 17)
#define CR_HSE_BYPASS (1u << 18)
#define CR_PLL_ON (1u << 24)
#define CR_PLL_READY (1u << 25)
#define SR_OVERRUN (1u << 3)
#define SR_RX_READY (1u << 5)
#define SR_TX_EMPTY (1u << 7)
#define CR1_ENABLE ((1u << 13) | (1u << 3) | (1u << 2)) /* USART, transmitter, receiver */
#define CR1_RX_INTERRUPT (1u << 5)

static bool wait_for(volatile uint32_t *reg, uint32_t mask, uint32_t value) {
    for (uint32_t i = 0; i < WAIT_LIMIT; i++) {
        if ((*reg & mask) == value) {
            return true;
        }
    }
    return false;
}

/* Run the PLL at 168 MHz from a source of `source_hz`, and the core from the PLL. */
static bool start_pll(uint32_t source_hz, bool is_hse) {
    /* VCO input 1 MHz (M), VCO 336 MHz (N), / 2 for the core (P = 0), / 7 for USB (Q). R is the
     * STM32F446's third output, at least 2; reserved and 0 on others, which ignore it. */
    RCC_PLLCFGR = source_hz / 1000000u | 336u << 6 | (is_hse ? 1u << 22 : 0u) | 7u << 24 | 2u << 28;
    RCC_CR |= CR_PLL_ON;
    if (!wait_for(&RCC_CR, CR_PLL_READY, CR_PLL_READY)) {
        RCC_CR &= ~CR_PLL_ON;
        return false;
    }
    /* 5 wait states at 2.7 to 3.6 V; prefetch, instruction and data cache. */
    FLASH_ACR = 5u | 1u << 8 | 1u << 9 | 1u << 10;
    (void)wait_for(&FLASH_ACR, 0x7u, 5u);
    RCC_CFGR = 5u << 10 | 4u << 13; /* APB1 / 4 = 42 MHz, APB2 / 2 = 84 MHz */
    RCC_CFGR |= 2u;                 /* the core from the PLL */
    if (!wait_for(&RCC_CFGR, 0xCu, 0x8u)) {
        RCC_CFGR = 0u;
        return false;
    }
    return true;
}

/* Set up the fastest clock that starts; return the core's rate. */
static uint32_t start_clock(void) {
    /* The internal oscillator is on after reset, so 0 is no value of a real RCC_CR: an emulator
     * without an RCC, which runs the core at the board's own rate. */
    if (RCC_CR == 0u) {
        return 0u;
    }
    RCC_CR |= EC_HSE_BYPASS ? CR_HSE_ON | CR_HSE_BYPASS : CR_HSE_ON;
    if (wait_for(&RCC_CR, CR_HSE_READY, CR_HSE_READY) && start_pll(EC_HSE_HZ, true)) {
        return PLL_HZ;
    }
    return start_pll(HSI_HZ, false) ? PLL_HZ : HSI_HZ;
}

static void set_uart_pin(uint32_t pin) {
    GPIO_AFR(pin) = (GPIO_AFR(pin) & ~(15u << (pin % 8u * 4u))) | EC_UART_AF << (pin % 8u * 4u);
    GPIO_PUPDR = (GPIO_PUPDR & ~(3u << (pin * 2u))) | 1u << (pin * 2u); /* idle is high */
    GPIO_MODER = (GPIO_MODER & ~(3u << (pin * 2u))) | 2u << (pin * 2u);
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
    set_uart_pin(EC_UART_TX_PIN);
    set_uart_pin(EC_UART_RX_PIN);
    USART_BRR = (uart_hz + EC_BAUD / 2u) / EC_BAUD; /* 16 samples a bit */
    USART_CR1 = CR1_ENABLE | CR1_RX_INTERRUPT;
    ec_irq_enable(EC_UART_IRQ);
    ec_ticks_start(clock_hz == 0u ? EC_CLOCK_HZ : clock_hz);
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
