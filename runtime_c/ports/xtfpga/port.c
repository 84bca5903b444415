/* Port of the FPGA boards of Tensilica (LX60 and its like, as QEMU has them): a 16550 UART.
 *
 * Places: QEMU, hw/xtensa/xtfpga.c. UART: National Semiconductor PC16550D data sheet, registers,
 * which are a word apart. CCOUNT and CCOMPARE0: Xtensa Instruction Set Architecture Reference
 * Manual, 4.4.6.
 */
#include "ec_port.h"
#include "ec_xtensa.h"

#define UART_REG(number) EC_REG8(EC_UART_BASE + 4u * (number))
#define UART_DATA UART_REG(0u)         /* RBR, THR */
#define UART_INTERRUPTS UART_REG(1u)   /* IER */
#define UART_FIFO_CONTROL UART_REG(2u) /* FCR */
#define UART_LINE_CONTROL UART_REG(3u) /* LCR */
#define UART_LINE_STATUS UART_REG(5u)  /* LSR */
#define UART_DIVISOR_LOW UART_REG(0u)  /* DLL, while LCR's bit 7 is set */
#define UART_DIVISOR_HIGH UART_REG(1u) /* DLM */
#define INTERRUPT_RECEIVED 1u
#define FIFO_ENABLE_AND_CLEAR 7u
#define LINE_8N1 3u
#define LINE_DIVISORS 0x80u
#define STATUS_RECEIVED 1u
#define STATUS_OVERRUN 2u
#define STATUS_CAN_SEND 0x20u

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
    UART_INTERRUPTS = 0u;
    UART_LINE_CONTROL = LINE_DIVISORS | LINE_8N1;
    UART_DIVISOR_LOW = (uint8_t)(EC_CLOCK_HZ / (16u * EC_BAUD));
    UART_DIVISOR_HIGH = (uint8_t)((EC_CLOCK_HZ / (16u * EC_BAUD)) >> 8);
    UART_LINE_CONTROL = LINE_8N1;
    UART_FIFO_CONTROL = FIFO_ENABLE_AND_CLEAR;
    UART_INTERRUPTS = INTERRUPT_RECEIVED;
    EC_DISABLE_INTERRUPTS();
    set_timer();
    EC_SPECIAL_WRITE("intenable", UART_BIT | TIMER_BIT);
    EC_ENABLE_INTERRUPTS();
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
    uint32_t pending;
    EC_SPECIAL_READ("interrupt", pending);
    if ((pending & TIMER_BIT) != 0u) {
        set_timer();
    }
    if ((pending & UART_BIT) != 0u) {
        receive();
    }
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
