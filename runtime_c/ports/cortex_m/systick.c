/* ec_port_ticks on cores with SysTick: 24 bits counting core clocks, made 64 by its interrupt. */
#include "ec_cortex_m.h"
#include "ec_port.h"

#define SYSTICK_PERIOD 0x1000000u   /* RVR + 1 */
#define CSR_RUN_WITH_INTERRUPT 0x7u /* core clock, interrupt, enable: DDI 0403 B3.3.3 */
#define ICSR_PENDSTSET (1u << 26)   /* the interrupt is due but has not been taken */

static volatile uint32_t tick_wraps; /* 2^32 periods outlive the board */
static uint32_t tick_hz;

void ec_systick_handler(void) {
    tick_wraps = tick_wraps + 1u;
}

void ec_ticks_start(uint32_t clock_hz) {
    tick_hz = clock_hz;
    tick_wraps = 0u;
    EC_SYST_RVR = SYSTICK_PERIOD - 1u;
    EC_SYST_CVR = 0u; /* any write clears it and COUNTFLAG */
    EC_SYST_CSR = CSR_RUN_WITH_INTERRUPT;
}

uint32_t ec_port_ticks_hz(void) {
    return tick_hz;
}

uint64_t ec_port_ticks(void) {
    uint32_t wraps;
    uint32_t left;
    bool is_due;
    do {
        wraps = tick_wraps;
        left = EC_SYST_CVR;
        is_due = (EC_SCB_ICSR & ICSR_PENDSTSET) != 0u;
    } while (wraps != tick_wraps);
    /* Counting down from the period: a value in the upper half with the interrupt still due was
     * read after the wrap that nobody has counted yet. */
    if (is_due && left >= SYSTICK_PERIOD / 2u) {
        wraps++;
    }
    return ((uint64_t)wraps << 24) + (SYSTICK_PERIOD - 1u - left);
}
