/* Echoes what it receives; capital letters and digits are commands. Boots every board in a test. */
#include "ec_port.h"

extern uint32_t __stack_limit[]; /* of the linker script */

static volatile uint32_t table[3] = { 1u, 2u, 3u }; /* in .data: checks the copy at start-up */
static volatile uint64_t zero;
static volatile float third = 1.0f / 3.0f;

int main(void);

static void text(const char *s) {
    while (*s != '\0') {
        ec_port_putc((uint8_t)*s++);
    }
}

static void number(uint64_t value) {
    char digits[20];
    uint32_t n = 0;
    do {
        digits[n++] = (char)('0' + (char)(value % 10u));
        value /= 10u;
    } while (value != 0u);
    while (n != 0u) {
        ec_port_putc((uint8_t)digits[--n]);
    }
}

int main(void) {
    ec_port_init();
    text("hello ");
    number(table[0] + table[1] + table[2] + zero);
    text(" hz ");
    number(ec_port_ticks_hz());
    text("\r\n");
    table[0] = 0u;
    for (;;) {
        const int32_t c = ec_port_getc();
        if (c < 0) {
            ec_port_idle();
        } else if (c == 'T') {
            text("ticks ");
            number(ec_port_ticks());
            text("\r\n");
        } else if (c == 'S') {
            text("stack ");
            number(ec_port_stack_high_water());
            text(" of ");
            number(ec_port_stack_size());
            text(" lost ");
            number(ec_port_rx_lost());
            text("\r\n");
        } else if (c >= '1' && c <= '9') { /* wait that number of tenths of a second */
            const uint64_t start = ec_port_ticks();
            uint64_t last = start;
            uint32_t backwards = 0;
            while (last - start < (uint32_t)(c - '0') * (ec_port_ticks_hz() / 10u)) {
                const uint64_t now = ec_port_ticks();
                backwards += now < last ? 1u : 0u;
                last = now;
            }
            text("waited ");
            number(backwards);
            text("\r\n");
        } else if (c == 'C') { /* two million instructions */
            const uint64_t start = ec_port_ticks();
            uint32_t left = 1000000u;
#if defined(__riscv)
            __asm__ volatile("1:\n\taddi %0, %0, -1\n\tbnez %0, 1b" : "+r"(left));
#elif defined(__XTENSA__)
            __asm__ volatile("1:\n\taddi %0, %0, -1\n\tbnez %0, 1b" : "+a"(left));
#else
            __asm__ volatile(".syntax unified\n1:\n\tsubs %0, #1\n\tbne 1b" : "+l"(left) : : "cc");
#endif
            text("counted ");
            number(ec_port_ticks() - start);
            text("\r\n");
        } else if (c == 'X') { /* the FPU, where there is one */
            text("float ");
            number((uint64_t)(third * 3000.0f + 0.5f));
            text("\r\n");
        } else if (c == 'L') { /* 300 s, with few looks at the clock: counters of 32 bits wrap */
            const uint64_t start = ec_port_ticks();
            while (ec_port_ticks() - start < 300u * (uint64_t)ec_port_ticks_hz()) {
                for (volatile uint32_t i = 0; i < 100000u; i++) {
                }
            }
            text("seconds ");
            number((ec_port_ticks() - start) / ec_port_ticks_hz());
            text("\r\n");
        } else if (c == 'R') {
            ec_port_reset();
        } else if (c == 'O') { /* the stack grows too far */
#if defined(__arm__)
            __asm__ volatile("mov sp, %0\n\tsub sp, #8\n\tpush {r0}" : : "r"(__stack_limit));
#elif defined(__XTENSA__)
            __asm__ volatile("mov a1, %0\n\taddi a1, a1, -16\n\ts32i a0, a1, 0"
                             :
                             : "a"(__stack_limit));
#endif
        } else if (c == 'F') {
#if defined(__riscv)
            __asm__ volatile("unimp");
#elif defined(__XTENSA__)
            __asm__ volatile("ill");
#else
            __asm__ volatile("udf #0");
#endif
        } else {
            ec_port_putc((uint8_t)c);
        }
    }
}
