/* Port of the Nordic nRF51: TIMER0 counts ticks, for it has no SysTick.
 *
 * Registers: nRF51 Series Reference Manual, chapter TIMER.
 */
#include "ec_nordic.h"
#include "ec_port.h"

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

static uint64_t ticks_seen; /* the count at the last look, extended to 64 bits */

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
    ec_nordic_start();
    TIMER_BITMODE = 3u; /* 32 bits */
    TIMER_PRESCALER = 0u;
    TIMER_CC1 = 0x80000000u;
    TIMER_CC2 = 0u;
    TIMER_INTENSET = 1u << 17 | 1u << 18; /* COMPARE1, COMPARE2 */
    TIMER_TASKS_CLEAR = 1u;
    TIMER_TASKS_START = 1u;
    ec_irq_enable(EC_TIMER_IRQ);
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
