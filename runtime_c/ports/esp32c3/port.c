/* Port of the ESP32-C3: UART0, the system timer, no second boot loader.
 *
 * The chip's ROM finds the boot magic at the start of flash, maps the first 4 MB of flash for
 * instructions and for data, and jumps after the magic ("direct boot": revision 3 and later,
 * unless secure boot or an eFuse forbids it). It leaves the PLL running at 480 MHz, the core on
 * the crystal, and watchdogs that would soon reset the chip.
 *
 * Registers: ESP32-C3 Technical Reference Manual, chapters Interrupt Matrix, Reset and Clock, Low-power
 * Management, System Timer, Watchdog Timers, System Registers, UART Controller.
 */
#include "ec_port.h"
#include "ec_riscv.h"

#define UART0 0x60000000u
#define RTC_CNTL 0x60008000u
#define TIMER_GROUP_0 0x6001F000u
#define SYSTIMER 0x60023000u
#define SYSTEM 0x600C0000u
#define INTERRUPT_CORE0 0x600C2000u

#define UART_FIFO EC_REG32(UART0 + 0x00u)
#define UART_INT_RAW EC_REG32(UART0 + 0x04u)
#define UART_INT_ENA EC_REG32(UART0 + 0x0Cu)
#define UART_INT_CLR EC_REG32(UART0 + 0x10u)
#define UART_CLKDIV EC_REG32(UART0 + 0x14u)
#define UART_STATUS EC_REG32(UART0 + 0x1Cu)
#define UART_CONF0 EC_REG32(UART0 + 0x20u)
#define UART_CONF1 EC_REG32(UART0 + 0x24u)
#define UART_CLK_CONF EC_REG32(UART0 + 0x78u)
#define UART_ID EC_REG32(UART0 + 0x80u)
#define INT_RX_FULL (1u << 0)
#define INT_RX_OVERFLOW (1u << 4)
#define INT_RX_TIMEOUT (1u << 8)
#define INT_RECEIVED (INT_RX_FULL | INT_RX_TIMEOUT)
#define STATUS_RX_COUNT 0x3FFu
#define STATUS_TX_SHIFT 16
#define TX_FIFO_BYTES 128u
#define CONF0_8N1 ((3u << 2) | (1u << 4))
#define CONF0_FIFO_RESETS (3u << 17)
#define CONF0_MEMORY_CLOCK (1u << 28)
#define CONF1_RX_THRESHOLD 1u         /* an interrupt at one byte, or at two, */
#define CONF1_RX_TIMEOUT (1u << 21)   /* and after a pause if there is any */
#define CLK_CONF_CRYSTAL (3u << 20)   /* undivided */
#define CLK_CONF_ENABLE (0x13u << 22) /* the clock, of transmitter and of receiver */
#define ID_UPDATE (1u << 31)          /* hand all that to the UART's own clock; clears itself */
#define UPDATE_TRIES 10000

#define RTC_OPTIONS0 EC_REG32(RTC_CNTL + 0x00u)
#define RTC_WDT_CONFIG0 EC_REG32(RTC_CNTL + 0x90u)
#define RTC_WDT_PROTECT EC_REG32(RTC_CNTL + 0xA8u)
#define RTC_SWD_CONF EC_REG32(RTC_CNTL + 0xACu)
#define RTC_SWD_PROTECT EC_REG32(RTC_CNTL + 0xB0u)
#define TIMER_WDT_CONFIG0 EC_REG32(TIMER_GROUP_0 + 0x48u)
#define TIMER_WDT_PROTECT EC_REG32(TIMER_GROUP_0 + 0x64u)
#define RESET_SYSTEM (1u << 31)
#define SWD_FEED_ITSELF (1u << 31)
#define WDT_KEY 0x50D83AA1u
#define SWD_KEY 0x8F1D312Au

#define SYSTEM_CPU_PER_CONF EC_REG32(SYSTEM + 0x08u)
#define SYSTEM_SYSCLK_CONF EC_REG32(SYSTEM + 0x58u)
#define CPU_PER_CONF_160_MHZ 0xDu  /* a third of 480 MHz; clocked even while it waits (reset) */
#define SYSCLK_CONF_PLL (1u << 10) /* divided by one */

#define SYSTIMER_CONF EC_REG32(SYSTIMER + 0x00u)
#define SYSTIMER_UNIT0_OP EC_REG32(SYSTIMER + 0x04u)
#define SYSTIMER_UNIT0_HIGH EC_REG32(SYSTIMER + 0x40u)
#define SYSTIMER_UNIT0_LOW EC_REG32(SYSTIMER + 0x44u)
#define SYSTIMER_RUNS ((1u << 31) | (1u << 30)) /* registers clocked, unit 0 on */
#define UNIT0_UPDATE (1u << 30)
#define UNIT0_VALID (1u << 29)

#define UART_INTERRUPT_MAP EC_REG32(INTERRUPT_CORE0 + 0x54u)
#define CPU_INT_ENABLE EC_REG32(INTERRUPT_CORE0 + 0x104u)
#define CPU_INT_TYPE EC_REG32(INTERRUPT_CORE0 + 0x108u)
#define CPU_INT_PRIORITY(line) EC_REG32(INTERRUPT_CORE0 + 0x114u + 4u * (line))
#define CPU_INT_THRESHOLD EC_REG32(INTERRUPT_CORE0 + 0x194u)
#define UART_LINE 5u /* of the core's 31 interrupts; any that is free */

static void stop_watchdogs(void) {
    RTC_WDT_PROTECT = WDT_KEY;
    RTC_WDT_CONFIG0 = 0u;
    RTC_WDT_PROTECT = 0u;
    RTC_SWD_PROTECT = SWD_KEY;
    RTC_SWD_CONF |= SWD_FEED_ITSELF;
    RTC_SWD_PROTECT = 0u;
    TIMER_WDT_PROTECT = WDT_KEY;
    TIMER_WDT_CONFIG0 = 0u;
    TIMER_WDT_PROTECT = 0u;
}

static void start_uart(void) {
    /* Sixteenths of a bit: the divider has a fraction of four bits, in its bits 20 to 23. */
    const uint32_t divider = (EC_CRYSTAL_HZ * 16u + EC_BAUD / 2u) / EC_BAUD;
    UART_CLK_CONF = CLK_CONF_CRYSTAL | CLK_CONF_ENABLE;
    UART_CLKDIV = (divider >> 4) | ((divider & 15u) << 20);
    UART_CONF1 = CONF1_RX_THRESHOLD | CONF1_RX_TIMEOUT;
    UART_CONF0 = CONF0_8N1 | CONF0_MEMORY_CLOCK | CONF0_FIFO_RESETS;
    UART_CONF0 = CONF0_8N1 | CONF0_MEMORY_CLOCK;
    UART_ID |= ID_UPDATE;
    for (uint32_t left = UPDATE_TRIES; left != 0u && (UART_ID & ID_UPDATE) != 0u; left--) {
    }
    UART_INT_CLR = 0xFFFFFFFFu;
    UART_INT_ENA = INT_RECEIVED;
}

void ec_port_init(void) {
    stop_watchdogs();
    SYSTEM_CPU_PER_CONF = CPU_PER_CONF_160_MHZ;
    SYSTEM_SYSCLK_CONF = SYSCLK_CONF_PLL;
    SYSTIMER_CONF |= SYSTIMER_RUNS;
    start_uart();
    UART_INTERRUPT_MAP = UART_LINE;
    CPU_INT_TYPE &= ~(1u << UART_LINE); /* as long as the UART asks */
    CPU_INT_PRIORITY(UART_LINE) = 1u;
    CPU_INT_THRESHOLD = 1u;
    CPU_INT_ENABLE = 1u << UART_LINE;
}

void ec_port_putc(uint8_t byte) {
    while (((UART_STATUS >> STATUS_TX_SHIFT) & STATUS_RX_COUNT) >= TX_FIFO_BYTES - 1u) {
    }
    UART_FIFO = byte;
}

void ec_interrupt(void) {
    if ((UART_INT_RAW & INT_RX_OVERFLOW) != 0u) {
        UART_INT_CLR = INT_RX_OVERFLOW;
        ec_rx_count_loss();
    }
    while ((UART_STATUS & STATUS_RX_COUNT) != 0u) {
        if (ec_rx_is_full()) {
            /* What has come stays in the UART until the program has read some. */
            UART_INT_ENA = 0u;
            return;
        }
        (void)ec_rx_push((uint8_t)UART_FIFO);
    }
    UART_INT_CLR = INT_RECEIVED;
}

void ec_rx_resume(void) {
    EC_DISABLE_INTERRUPTS();
    UART_INT_ENA = INT_RECEIVED;
    ec_interrupt(); /* the pause that would report what waited may be over */
    EC_ENABLE_INTERRUPTS();
}

uint32_t ec_port_ticks_hz(void) {
    return EC_TICKS_HZ;
}

uint64_t ec_port_ticks(void) {
    uint32_t high;
    SYSTIMER_UNIT0_OP = UNIT0_UPDATE;
    while ((SYSTIMER_UNIT0_OP & UNIT0_VALID) == 0u) {
    }
    high = SYSTIMER_UNIT0_HIGH;
    return ((uint64_t)high << 32) | SYSTIMER_UNIT0_LOW;
}

void ec_port_reset(void) {
    RTC_OPTIONS0 |= RESET_SYSTEM;
    for (;;) {
        EC_WAIT_FOR_INTERRUPT();
    }
}
