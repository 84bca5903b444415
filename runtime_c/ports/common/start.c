/* Start-up that is the same on every core: memory set-up, the stack's mark, reports of a fault. */
#include "ec_start.h"
#include "ec_port.h"

extern uint32_t __data_start__[]; /* initialised variables in RAM */
extern uint32_t __data_end__[];
extern const uint32_t __data_load__[]; /* their initial values in flash */
extern uint32_t __bss_start__[];       /* variables that start as 0 */
extern uint32_t __bss_end__[];

/* Kept apart from Reset_Handler: the compiler may use FPU or vector registers here, and must not
 * before they are switched on. */
__attribute__((noinline)) void ec_start(void) {
    const uint32_t *from = __data_load__;
    uint32_t *to = __data_start__;
    for (uint32_t left = ec_words_between(__data_start__, __data_end__); left != 0u; left--) {
        *to++ = *from++;
    }
    to = __bss_start__;
    for (uint32_t left = ec_words_between(__bss_start__, __bss_end__); left != 0u; left--) {
        *to++ = 0u;
    }
    (void)main();
    for (;;) {
        EC_WAIT_FOR_INTERRUPT();
    }
}

uint32_t ec_port_stack_high_water(void) {
    const volatile uint32_t *word = __stack_limit;
    uint32_t left = ec_words_between(__stack_limit, __stack_top);
    for (; left != 0u && *word == EC_STACK_PAINT; left--) {
        word++;
    }
    return left * 4u;
}

uint32_t ec_port_stack_size(void) {
    return ec_words_between(__stack_limit, __stack_top) * 4u;
}

void ec_put_text(const char *text) {
    while (*text != '\0') {
        ec_port_putc((uint8_t)*text++);
    }
}

void ec_put_hex(uint32_t value) {
    for (uint32_t shift = 32u; shift != 0u; shift -= 4u) {
        ec_port_putc((uint8_t) "0123456789abcdef"[(value >> (shift - 4u)) & 15u]);
    }
}

void ec_report_stop(const char *word, uint32_t cause, uint32_t pc, uint32_t lr, uint32_t sp) {
    ec_put_text("\r\n");
    ec_put_text(word);
    ec_put_text(" ");
    ec_put_hex(cause);
    if (sp >= (uintptr_t)__stack_limit && sp <= (uintptr_t)__stack_top) {
        ec_put_text(" pc ");
        ec_put_hex(pc);
        ec_put_text(" lr ");
        ec_put_hex(lr);
    } else {
        ec_put_text(" stack overflow, sp ");
        ec_put_hex(sp);
    }
    ec_put_text("\r\n");
    for (;;) {
        EC_WAIT_FOR_INTERRUPT();
    }
}
