/* Port of QEMU's `virt` machine with a 32-bit RISC-V: a 16550 UART with a PLIC.
 *
 * Addresses: QEMU, hw/riscv/virt.c. Interrupts: RISC-V Platform-Level Interrupt Controller
 * Specification 1.0. Time: RISC-V Instruction Set Manual, volume II, 3.1.10 mcycle and 3.2.1 mtime.
 */
#include "ec_port.h"
#include "ec_riscv.h"
#include "ec_uart_16550.h"

#define PLIC_PRIORITY(source) EC_REG32(EC_PLIC_BASE + 4u * (source))
#define PLIC_ENABLE EC_REG32(EC_PLIC_BASE + 0x2000u) /* sources 0 to 31, machine mode */
#define PLIC_THRESHOLD EC_REG32(EC_PLIC_BASE + 0x200000u)
#define PLIC_CLAIM EC_REG32(EC_PLIC_BASE + 0x200004u)
#define MIE_EXTERNAL (1u << 11)

#define MTIME_LOW EC_REG32(EC_CLINT_BASE + 0xBFF8u)
#define MTIME_HIGH EC_REG32(EC_CLINT_BASE + 0xBFFCu)
#define TEST_FINISHER EC_REG32(EC_FINISHER_BASE)
#define FINISHER_RESET 0x7777u

/* A tick is a nanosecond of emulated time. */
#define TICKS_PER_MTIME (EC_CLOCK_HZ / EC_MTIME_HZ)

static bool counts_instructions; /* mcycle counts emulated nanoseconds */

static uint64_t read_cycles(void) {
    uint32_t high;
    uint32_t low;
    uint32_t again;
    do {
        EC_CSR_READ("mcycleh", high);
        EC_CSR_READ("mcycle", low);
        EC_CSR_READ("mcycleh", again);
    } while (high != again);
    return ((uint64_t)high << 32) | low;
}

static uint64_t read_time(void) {
    uint32_t high;
    uint32_t low;
    do {
        high = MTIME_HIGH;
        low = MTIME_LOW;
    } while (high != MTIME_HIGH);
    return ((uint64_t)high << 32) | low;
}

/* With -icount mcycle is emulated time, and an instruction is one step of it. Without, it is the
 * clock of the computer that emulates, which runs at any rate. */
static bool cycles_are_nanoseconds(void) {
    const uint64_t cycles = read_cycles();
    const uint64_t start = read_time();
    uint64_t now;
    do {
        now = read_time();
    } while (now - start < 100u);
    const uint64_t expected = (now - start) * TICKS_PER_MTIME;
    const uint64_t found = read_cycles() - cycles;
    return found >= expected - expected / 16u && found <= expected + expected / 16u;
}

void ec_port_init(void) {
    ec_16550_start();
    PLIC_PRIORITY(EC_UART_IRQ) = 1u;
    PLIC_ENABLE = 1u << EC_UART_IRQ;
    PLIC_THRESHOLD = 0u;
    counts_instructions = cycles_are_nanoseconds();
    EC_CSR_SET("mie", MIE_EXTERNAL);
}

void ec_interrupt(void) {
    const uint32_t source = PLIC_CLAIM;
    ec_16550_receive();
    PLIC_CLAIM = source;
}

uint32_t ec_port_ticks_hz(void) {
    return EC_CLOCK_HZ;
}

uint64_t ec_port_ticks(void) {
    return counts_instructions ? read_cycles() : read_time() * TICKS_PER_MTIME;
}

void ec_port_reset(void) {
    TEST_FINISHER = FINISHER_RESET;
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
