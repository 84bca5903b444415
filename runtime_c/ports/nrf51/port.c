/* Port of the Nordic nRF51: crystal oscillator, UART0, and TIMER0 for ticks (it has no SysTick).
 *
 * Registers: nRF51 Series Reference Manual, chapters CLOCK, TIMER, UART. Tasks start by writing
 * 1; events read 1 once they happened, until 0 is written.
 */
#include "ec_cortex_m.h"
#include "ec_port.h"

#define CLOCK_TASKS_HFCLKSTART EC_REG32(0x40000000u)
#define CLOCK_EVENTS_HFCLKSTARTED EC_REG32(0x40000100u)

#define UART_TASKS_STARTRX EC_REG32(0x40002000u)
#define UART_TASKS_STARTTX EC_REG32(0x40002008u)
#define UART_EVENTS_RXDRDY EC_REG32(0x40002108u)
#define UART_EVENTS_TXDRDY EC_REG32(0x4000211Cu)
#define UART_EVENTS_ERROR EC_REG32(0x40002124u)
#define UART_INTENSET EC_REG32(0x40002304u)
#define UART_INTENCLR EC_REG32(0x40002308u)
#define UART_ERRORSRC EC_REG32(0x40002480u)
#define UART_ENABLE EC_REG32(0x40002500u)
#define UART_PSELTXD EC_REG32(0x4000250Cu)
#define UART_PSELRXD EC_REG32(0x40002514u)
#define UART_RXD EC_REG32(0x40002518u)
#define UART_TXD EC_REG32(0x4000251Cu)
#define UART_BAUDRATE EC_REG32(0x40002524u)

#define TIMER_TASKS_START EC_REG32(0x40008000u)
#define TIMER_TASKS_CLEAR EC_REG32(0x4000800Cu)
#define TIMER_TASKS_CAPTURE0 EC_REG32(0x40008040u)
#define TIMER_EVENTS_COMPARE1 EC_REG32(0x40008144u)
#define TIMER_EVENTS_COMPARE2 EC_REG32(0x40008148u)
#define TIMER_INTENSET EC_REG32(0x40008304u)
#define TIMER_BITMODE EC_REG32(0x40008508u)
#define TIMER_PRESCALER EC_REG32(0x40008510u)
#define TIMER_CC0 EC_REG32(0x40008540u)
#define TIMER_CC1 EC_REG32(0x40008544u)
#define TIMER_CC2 EC_REG32(0x40008548u)

#define GPIO_OUTSET EC_REG32(0x50000508u)
#define GPIO_DIRSET EC_REG32(0x50000518u)

#define UART_INT_RXDRDY (1u << 2)
#define UART_INT_ERROR (1u << 9)
#define UART_ERROR_OVERRUN 1u
#define WAIT_LIMIT 100000u /* polls; the crystal starts in about 1 ms */

static uint64_t ticks_seen; /* the count at the last look, extended to 64 bits */
static bool is_sending;

/* Extend the 32-bit counter. Looking twice a period, which the interrupts at 0 and 2^31 see to,
 * is enough to notice each wrap. Interrupts must be masked. */
static uint64_t look_at_timer(void) {
    TIMER_TASKS_CAPTURE0 = 1u;
    const uint32_t passed = TIMER_CC0 - (uint32_t)ticks_seen;
    ticks_seen += passed;
    return ticks_seen;
}

void ec_timer_handler(void) {
    TIMER_EVENTS_COMPARE1 = 0u;
    TIMER_EVENTS_COMPARE2 = 0u;
    (void)TIMER_EVENTS_COMPARE2; /* the write has arrived before the interrupt returns */
    (void)look_at_timer();
}

/* There is no SysTick: its place in the vector table is never reached. */
void ec_systick_handler(void) {
}

void ec_port_init(void) {
    CLOCK_TASKS_HFCLKSTART = 1u;
    for (uint32_t i = 0; i < WAIT_LIMIT && CLOCK_EVENTS_HFCLKSTARTED == 0u; i++) {
        /* The internal oscillator serves until then, and instead if the crystal never starts. */
    }
    GPIO_OUTSET = 1u << EC_UART_TX_PIN;
    GPIO_DIRSET = 1u << EC_UART_TX_PIN;
    UART_PSELTXD = EC_UART_TX_PIN;
    UART_PSELRXD = EC_UART_RX_PIN;
    UART_BAUDRATE = EC_UART_BAUD_REG;
    UART_ENABLE = 4u;
    UART_TASKS_STARTTX = 1u;
    UART_TASKS_STARTRX = 1u;
    UART_INTENSET = UART_INT_RXDRDY | UART_INT_ERROR;
    ec_irq_enable(EC_UART_IRQ);

    TIMER_BITMODE = 3u; /* 32 bits */
    TIMER_PRESCALER = 0u;
    TIMER_CC1 = 0x80000000u;
    TIMER_CC2 = 0u;
    TIMER_INTENSET = 1u << 17 | 1u << 18; /* COMPARE1, COMPARE2 */
    TIMER_TASKS_CLEAR = 1u;
    TIMER_TASKS_START = 1u;
    ec_irq_enable(EC_TIMER_IRQ);
}

void ec_port_putc(uint8_t byte) {
    if (is_sending) {
        while (UART_EVENTS_TXDRDY == 0u) {
        }
        UART_EVENTS_TXDRDY = 0u;
    }
    UART_TXD = byte;
    is_sending = true;
}

void ec_uart_handler(void) {
    if (UART_EVENTS_ERROR != 0u) {
        UART_EVENTS_ERROR = 0u;
        const uint32_t error = UART_ERRORSRC;
        UART_ERRORSRC = error; /* write one to clear */
        if ((error & UART_ERROR_OVERRUN) != 0u) {
            ec_rx_count_loss();
        }
    }
    while (UART_EVENTS_RXDRDY != 0u) {
        if (ec_rx_is_full()) {
            UART_INTENCLR = UART_INT_RXDRDY; /* six bytes wait in hardware from here on */
            return;
        }
        /* Clear first: reading RXD brings up the next byte, and its event. */
        UART_EVENTS_RXDRDY = 0u;
        (void)ec_rx_push((uint8_t)UART_RXD);
    }
}

void ec_rx_resume(void) {
    UART_INTENSET = UART_INT_RXDRDY;
}

uint64_t ec_port_ticks(void) {
    EC_DISABLE_INTERRUPTS();
    const uint64_t now = look_at_timer();
    EC_ENABLE_INTERRUPTS();
    return now;
}

uint32_t ec_port_ticks_hz(void) {
    return EC_TICKS_HZ;
}
