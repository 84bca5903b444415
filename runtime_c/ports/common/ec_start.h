/* Shared by the start-up code of all cores: symbols of the linker script, and the functions of start.c.
 */
#ifndef EC_START_H
#define EC_START_H

#include <stdint.h>

#include "ec_cpu.h"

/* The linker script (templates/link.ld.j2) defines the symbols named __*; their addresses are
 * their values. */
extern uint32_t __stack_limit[]; /* lowest address of the stack */
extern uint32_t __stack_top[];   /* first address above it */

#define EC_STACK_PAINT 0xA5A5A5A5u

int main(void);

/* Initialise variables, call main, and sleep if it returns. */
__attribute__((noreturn)) void ec_start(void);

/* Reports of a fault: text, and eight hexadecimal digits. */
void ec_put_text(const char *text);
void ec_put_hex(uint32_t value);

/* Say that `word` (trap, abort) number `cause` stopped the program at `pc`, called from before
 * `lr`; or, where `sp` is outside of the stack, only that. */
__attribute__((noreturn)) void ec_report_stop(const char *word, uint32_t cause, uint32_t pc,
                                              uint32_t lr, uint32_t sp);

/* Linker symbols are addresses, not ends of one array: compare them as numbers. */
static inline uint32_t ec_words_between(const uint32_t *low, const uint32_t *high) {
    return (uint32_t)((uintptr_t)high - (uintptr_t)low) / 4u;
}

/* Paint everything below the caller's own frame: nothing lives there yet, except what the
 * compiler may still push in the caller, for which 64 bytes stay clear. */
static inline void ec_paint_stack(void) {
    const uint32_t *sp;
    EC_READ_STACK_POINTER(sp);
    volatile uint32_t *word = __stack_limit;
    for (uint32_t left = ec_words_between(__stack_limit, sp) - 16u; left != 0u; left--) {
        *word++ = EC_STACK_PAINT;
    }
}

#endif /* EC_START_H */
