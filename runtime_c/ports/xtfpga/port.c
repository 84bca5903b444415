/* Port of the FPGA boards of Tensilica (LX60 and its like, as QEMU has them): a 16550 UART.
 *
 * Addresses: QEMU, hw/xtensa/xtfpga.c. CCOUNT and CCOMPARE0: Xtensa Instruction Set Architecture
 * Reference Manual, 4.4.6.
 */
#include "ec_port.h"
#include "ec_uart_16550.h"
#include "ec_xtensa.h"

#define BOARD_RESET EC_REG32(EC_FPGA_BASE + 0x10u)
#define RESET_WORD 0xDEADu

#define UART_BIT (1u << EC_UART_IRQ)
#define TIMER_BIT (1u << EC_TIMER_IRQ)
/* CCOUNT has 32 bits: somebody must look at it in every half of its round. */
#define TIMER_PERIOD 0x40000000u

static volatile uint32_t count_high;
static volatile uint32_t last_count;

/* Call with interrupts masked. */
static uint64_t read_count(void) {
    uint32_t now;
    EC_SPECIAL_READ("ccount", now);
    if (now < last_count) {
        count_high = count_high + 1u;
    }
    last_count = now;
    return ((uint64_t)count_high << 32) | now;
}

/* Writing CCOMPARE0 ends the timer's interrupt. */
static void set_timer(void) {
    EC_SPECIAL_WRITE("ccompare0", (uint32_t)read_count() + TIMER_PERIOD);
}

void ec_port_init(void) {
    ec_16550_start();
    EC_DISABLE_INTERRUPTS();
    set_timer();
    EC_SPECIAL_WRITE("intenable", UART_BIT | TIMER_BIT);
    EC_ENABLE_INTERRUPTS();
}

void ec_interrupt(void) {
    uint32_t pending;
    EC_SPECIAL_READ("interrupt", pending);
    if ((pending & TIMER_BIT) != 0u) {
        set_timer();
    }
    if ((pending & UART_BIT) != 0u) {
        ec_16550_receive();
    }
}

uint32_t ec_port_ticks_hz(void) {
    return EC_CLOCK_HZ;
}

uint64_t ec_port_ticks(void) {
    EC_DISABLE_INTERRUPTS();
    const uint64_t count = read_count();
    EC_ENABLE_INTERRUPTS();
    return count;
}

void ec_port_reset(void) {
    BOARD_RESET = RESET_WORD;
    for (;;) {
        EC_WAIT_FOR_INTERRUPT();
    }
}

void ec_port_putc(uint8_t byte) {
    ec_16550_send(byte);
}

void ec_rx_resume(void) {
    ec_16550_resume();
}
