/* Port of QEMU's `virt` machine with a 32-bit RISC-V: a 16550 UART with a PLIC.
 *
 * Places: QEMU, hw/riscv/virt.c. UART: National Semiconductor PC16550D data sheet, registers.
 * Interrupts: RISC-V Platform-Level Interrupt Controller Specification 1.0. Time: RISC-V
 * Instruction Set Manual, volume II, 3.1.10 mcycle and 3.2.1 mtime.
 */
#include "ec_port.h"
#include "ec_riscv.h"

#define EC_REG8(address) (*(volatile uint8_t *)(uintptr_t)(address))

#define UART_DATA EC_REG8(EC_UART_BASE + 0u)         /* RBR, THR */
#define UART_INTERRUPTS EC_REG8(EC_UART_BASE + 1u)   /* IER */
#define UART_FIFO_CONTROL EC_REG8(EC_UART_BASE + 2u) /* FCR */
#define UART_LINE_CONTROL EC_REG8(EC_UART_BASE + 3u) /* LCR */
#define UART_LINE_STATUS EC_REG8(EC_UART_BASE + 5u)  /* LSR */
#define UART_DIVISOR_LOW EC_REG8(EC_UART_BASE + 0u)  /* DLL, while LCR's bit 7 is set */
#define UART_DIVISOR_HIGH EC_REG8(EC_UART_BASE + 1u) /* DLM */
#define INTERRUPT_RECEIVED 1u
#define FIFO_ENABLE_AND_CLEAR 7u
#define LINE_8N1 3u
#define LINE_DIVISORS 0x80u
#define STATUS_RECEIVED 1u
#define STATUS_OVERRUN 2u
#define STATUS_CAN_SEND 0x20u

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
    UART_INTERRUPTS = 0u;
    UART_LINE_CONTROL = LINE_DIVISORS | LINE_8N1;
    UART_DIVISOR_LOW = (uint8_t)(EC_UART_CLOCK_HZ / (16u * EC_BAUD));
    UART_DIVISOR_HIGH = (uint8_t)((EC_UART_CLOCK_HZ / (16u * EC_BAUD)) >> 8);
    UART_LINE_CONTROL = LINE_8N1;
    UART_FIFO_CONTROL = FIFO_ENABLE_AND_CLEAR;
    UART_INTERRUPTS = INTERRUPT_RECEIVED;
    PLIC_PRIORITY(EC_UART_IRQ) = 1u;
    PLIC_ENABLE = 1u << EC_UART_IRQ;
    PLIC_THRESHOLD = 0u;
    counts_instructions = cycles_are_nanoseconds();
    EC_CSR_SET("mie", MIE_EXTERNAL);
}

void ec_port_putc(uint8_t byte) {
    while ((UART_LINE_STATUS & STATUS_CAN_SEND) == 0u) {
    }
    UART_DATA = byte;
}

static void receive(void) {
    uint8_t status = UART_LINE_STATUS; /* reading clears the overrun */
    while ((status & STATUS_RECEIVED) != 0u) {
        if ((status & STATUS_OVERRUN) != 0u) {
            ec_rx_count_loss();
        }
        if (ec_rx_is_full()) {
            /* The byte stays in the UART until the program has read some. */
            UART_INTERRUPTS = 0u;
            return;
        }
        (void)ec_rx_push(UART_DATA);
        status = UART_LINE_STATUS;
    }
}

void ec_interrupt(void) {
    const uint32_t source = PLIC_CLAIM;
    receive();
    PLIC_CLAIM = source;
}

void ec_rx_resume(void) {
    EC_DISABLE_INTERRUPTS();
    UART_INTERRUPTS = INTERRUPT_RECEIVED;
    receive();
    EC_ENABLE_INTERRUPTS();
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
