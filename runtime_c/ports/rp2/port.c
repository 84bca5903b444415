/* Port of the Raspberry Pi RP2040 and RP2350: system PLL from the 12 MHz crystal, UART0.
 *
 * Registers: RP2040 and RP2350 datasheets, chapters clocks, XOSC, PLL, resets, GPIO; the blocks are
 * the same, their addresses are the board's [config]. Every wait is bounded: a clock that does not
 * start is given up, and the UART divider and the tick rate follow what really runs.
 */
#include "ec_cortex_m.h"
#include "ec_pl011.h"
#include "ec_port.h"

#define RESETS_RESET EC_REG32(EC_RESETS_BASE + 0x0u)
#define RESETS_DONE EC_REG32(EC_RESETS_BASE + 0x8u)

#define CLK_REF_CTRL EC_REG32(EC_CLOCKS_BASE + 0x30u)
#define CLK_REF_SELECTED EC_REG32(EC_CLOCKS_BASE + 0x38u)
#define CLK_SYS_CTRL EC_REG32(EC_CLOCKS_BASE + 0x3Cu)
#define CLK_SYS_SELECTED EC_REG32(EC_CLOCKS_BASE + 0x44u)
#define CLK_PERI_CTRL EC_REG32(EC_CLOCKS_BASE + 0x48u)

#define XOSC_CTRL EC_REG32(EC_XOSC_BASE + 0x0u)
#define XOSC_STATUS EC_REG32(EC_XOSC_BASE + 0x4u)
#define XOSC_STARTUP EC_REG32(EC_XOSC_BASE + 0xCu)

#define PLL_CS EC_REG32(EC_PLL_SYS_BASE + 0x0u)
#define PLL_PWR EC_REG32(EC_PLL_SYS_BASE + 0x4u)
#define PLL_FBDIV EC_REG32(EC_PLL_SYS_BASE + 0x8u)
#define PLL_PRIM EC_REG32(EC_PLL_SYS_BASE + 0xCu)

#define GPIO_CTRL(pin) EC_REG32(EC_IO_BANK0_BASE + 8u * (pin) + 4u)
#define PAD(pin) EC_REG32(EC_PADS_BANK0_BASE + 4u + 4u * (pin))

#define CRYSTAL_HZ 12000000u
#define RING_OSCILLATOR_HZ 6500000u /* after reset; 4 to 8 MHz */
#define PLL_FEEDBACK 125u           /* 12 MHz x 125 = 1500 MHz */
#define WAIT_LIMIT 100000u          /* polls; the crystal starts in about 1 ms */

#define LOCKED (1u << 31)
#define STABLE (1u << 31)
#define PLL_POWER_DOWN 1u
#define PLL_POSTDIV_DOWN (1u << 3)
#define PLL_VCO_DOWN (1u << 5)
#define FUNCTION_UART 2u
#define PAD_INPUT_PULL_UP 0x5Au /* input, 4 mA, pull-up, Schmitt trigger; isolation of RP2350 off */

static bool wait_for(volatile uint32_t *reg, uint32_t mask, uint32_t value) {
    for (uint32_t i = 0; i < WAIT_LIMIT; i++) {
        if ((*reg & mask) == value) {
            return true;
        }
    }
    return false;
}

/* Take peripherals out of reset. */
static void release(uint32_t mask) {
    RESETS_RESET &= ~mask;
    (void)wait_for(&RESETS_DONE, mask, mask);
}

/* Set up the fastest clock that starts; return the core's rate. */
static uint32_t start_clock(void) {
    /* A boot loader may have left the core on the PLL: go to the reference clock first. */
    CLK_SYS_CTRL &= ~1u;
    (void)wait_for(&CLK_SYS_SELECTED, 1u, 1u);
    XOSC_STARTUP = 47u; /* x 256 periods of 12 MHz: 1 ms */
    XOSC_CTRL = 0xAA0u | 0xFABu << 12;
    if (!wait_for(&XOSC_STATUS, STABLE, STABLE)) {
        return RING_OSCILLATOR_HZ;
    }
    CLK_REF_CTRL = 2u; /* the crystal */
    if (!wait_for(&CLK_REF_SELECTED, 4u, 4u)) {
        return RING_OSCILLATOR_HZ;
    }
    RESETS_RESET |= EC_RESET_PLL_SYS;
    release(EC_RESET_PLL_SYS);
    PLL_CS = 1u;
    PLL_FBDIV = PLL_FEEDBACK;
    PLL_PWR &= ~(PLL_POWER_DOWN | PLL_VCO_DOWN);
    if (!wait_for(&PLL_CS, LOCKED, LOCKED)) {
        return CRYSTAL_HZ;
    }
    PLL_PRIM = EC_PLL_POSTDIV1 << 16 | EC_PLL_POSTDIV2 << 12;
    PLL_PWR &= ~PLL_POSTDIV_DOWN;
    CLK_SYS_CTRL = 0u; /* auxiliary source: the system PLL */
    CLK_SYS_CTRL = 1u;
    if (!wait_for(&CLK_SYS_SELECTED, 2u, 2u)) {
        CLK_SYS_CTRL = 0u;
        return CRYSTAL_HZ;
    }
    return CRYSTAL_HZ * PLL_FEEDBACK / (EC_PLL_POSTDIV1 * EC_PLL_POSTDIV2);
}

void ec_port_init(void) {
    const uint32_t clock_hz = start_clock();
    CLK_PERI_CTRL = 1u << 11; /* on, from the core's clock */
    release(EC_RESET_IO_BANK0 | EC_RESET_PADS_BANK0 | EC_RESET_UART0);
    PAD(EC_UART_TX_PIN) = PAD_INPUT_PULL_UP;
    PAD(EC_UART_RX_PIN) = PAD_INPUT_PULL_UP;
    GPIO_CTRL(EC_UART_TX_PIN) = FUNCTION_UART;
    GPIO_CTRL(EC_UART_RX_PIN) = FUNCTION_UART;
    ec_pl011_start(clock_hz);
    ec_irq_enable(EC_UART_IRQ);
    ec_ticks_start(clock_hz);
}

void ec_uart_handler(void) {
    ec_pl011_receive();
}

void ec_port_putc(uint8_t byte) {
    ec_pl011_send(byte);
}

void ec_rx_resume(void) {
    ec_pl011_resume();
}
