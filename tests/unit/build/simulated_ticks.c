/* A core whose cycle counter and SysTick count `now`, for a test of systick.c. */
#include <stdint.h>

#include "simulated_ticks.h"

#define PERIOD 0x1000000u

uint32_t test_writes(void);
void test_set(uint64_t cycles, uint32_t is_moving, uint32_t is_taken);
uint64_t test_read(void);
void test_start(uint32_t is_moving);

void ec_systick_handler(void);
void ec_ticks_start(uint32_t clock_hz);
uint64_t ec_port_ticks(void);

static uint64_t now;
static uint64_t handled; /* periods whose interrupt has been taken */
static uint32_t moving;
static uint32_t writes;

volatile uint32_t *test_register(uint32_t address) {
    static volatile uint32_t cell;
    static volatile uint32_t others;
    switch (address) {
    case 0xE0001004u: /* CYCCNT: every look takes a cycle */
        cell = moving != 0u ? (uint32_t)now++ : 0u;
        return &cell;
    case 0xE000E018u: /* SYST_CVR */
        cell = PERIOD - 1u - (uint32_t)(now % PERIOD);
        return &cell;
    case 0xE000ED04u: /* ICSR */
        cell = now / PERIOD > handled ? 1u << 26 : 0u;
        return &cell;
    default:
        writes++;
        return &others;
    }
}

uint32_t test_writes(void) {
    return writes;
}

void test_start(uint32_t is_moving) {
    now = 0;
    handled = 0;
    moving = is_moving;
    ec_ticks_start(1000000u);
}

/* Let time go on, taking the interrupts that fall due, but the last one only if `is_taken`. */
void test_set(uint64_t cycles, uint32_t is_moving, uint32_t is_taken) {
    moving = is_moving;
    while ((handled + 1u) * PERIOD <= cycles) {
        now = (handled + 1u) * PERIOD;
        if (is_taken == 0u && (handled + 2u) * PERIOD > cycles) {
            break;
        }
        handled++;
        ec_systick_handler();
    }
    now = cycles;
}

uint64_t test_read(void) {
    return ec_port_ticks();
}
