/* ec_port_ticks: core clocks in 64 bits, by SysTick, whose interrupt extends its 24 bits.
 *
 * A program that is built for profiles (EC_TRACE_HOOK) reads the DWT's cycle counter instead where
 * it moves: no interrupt of its own falls into what it measures. SysTick extends it, too.
 */
#include "ec_cortex_m.h"
#include "ec_port.h"

#define SYSTICK_PERIOD 0x1000000u   /* RVR + 1 */
#define CSR_RUN_WITH_INTERRUPT 0x7u /* core clock, interrupt, enable: DDI 0403 B3.3.3 */
#define ICSR_PENDSTSET (1u << 26)   /* the interrupt is due but has not been taken */

/* Data watchpoint and trace unit: DDI 0403 C1.8. Cores of v6-M have no cycle counter, and may
 * fault on its address. */
#if defined(EC_HAVE_DWT) ||                                                              \
    (defined(EC_TRACE_HOOK) && (defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || \
                                defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)))
#define EC_DEMCR EC_REG32(0xE000EDFCu) /* debug exception and monitor control */
#define EC_DWT_CTRL EC_REG32(0xE0001000u)
#define EC_DWT_CYCCNT EC_REG32(0xE0001004u)
#define EC_DWT_LAR EC_REG32(0xE0001FB0u) /* lock; only some cores have it, the M7 among them */
#define DEMCR_TRCENA (1u << 24)
#define CTRL_CYCCNTENA 1u
#define LAR_KEY 0xC5ACCE55u
#define DWT_TRIES 16
#endif

static volatile uint32_t tick_wraps; /* 2^32 periods outlive the board */
static uint32_t tick_hz;

#ifdef EC_DWT_CYCCNT
static bool uses_cycles;               /* the cycle counter moves */
static volatile uint32_t cycles_last;  /* its value when SysTick last read it */
static volatile uint32_t cycles_wraps; /* how often it had wrapped by then */

/* Emulators read 0; on hardware a debugger or a lock can hold the counter still. */
static bool start_cycles(void) {
    uint32_t first;
    EC_DEMCR |= DEMCR_TRCENA;
    EC_DWT_LAR = LAR_KEY;
    EC_DWT_CYCCNT = 0u;
    EC_DWT_CTRL |= CTRL_CYCCNTENA;
    first = EC_DWT_CYCCNT;
    for (int i = 0; i < DWT_TRIES; i++) {
        if (EC_DWT_CYCCNT != first) {
            return true;
        }
    }
    return false;
}
#endif

void ec_systick_handler(void) {
    tick_wraps = tick_wraps + 1u;
#ifdef EC_DWT_CYCCNT
    if (uses_cycles) {
        const uint32_t now = EC_DWT_CYCCNT;
        if (now < cycles_last) {
            cycles_wraps = cycles_wraps + 1u;
        }
        cycles_last = now;
    }
#endif
}

void ec_ticks_start(uint32_t clock_hz) {
    tick_hz = clock_hz;
    tick_wraps = 0u;
#ifdef EC_DWT_CYCCNT
    cycles_last = 0u;
    cycles_wraps = 0u;
    uses_cycles = start_cycles();
#endif
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
#ifdef EC_DWT_CYCCNT
    if (uses_cycles) {
        uint32_t last;
        uint32_t now;
        do {
            wraps = cycles_wraps;
            last = cycles_last;
            now = EC_DWT_CYCCNT;
        } while (wraps != cycles_wraps || last != cycles_last);
        /* A wrap that SysTick has not seen yet. */
        return ((uint64_t)(now < last ? wraps + 1u : wraps) << 32) + now;
    }
#endif
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
