/* Weights in a second flash region and an arena in a second RAM region, for mps3_an547. */
#include "ec_port.h"

#define FOUR(n) (n), (n) + 1u, (n) + 2u, (n) + 3u
#define TWENTY(n) FOUR(n), FOUR((n) + 4u), FOUR((n) + 8u), FOUR((n) + 12u), FOUR((n) + 16u)
#define HUNDRED(n) \
    TWENTY(n), TWENTY((n) + 20u), TWENTY((n) + 40u), TWENTY((n) + 60u), TWENTY((n) + 80u)

__attribute__((section(".ec_weights_fpga_sram.w"))) static const volatile uint32_t weights[1000] = {
    HUNDRED(1u),   HUNDRED(101u), HUNDRED(201u), HUNDRED(301u), HUNDRED(401u),
    HUNDRED(501u), HUNDRED(601u), HUNDRED(701u), HUNDRED(801u), HUNDRED(901u),
};
__attribute__((section(".ec_arena_isram"))) static volatile uint32_t arena[1000];

int main(void);

static void text(const char *s) {
    while (*s != '\0') {
        ec_port_putc((uint8_t)*s++);
    }
}

int main(void) {
    ec_port_init();
    for (uint32_t i = 0; i < 1000u; i++) {
        arena[i] = weights[i];
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 1000u; i++) {
        sum += arena[i];
    }
    text("sum ");
    for (uint32_t unit = 100000u; unit != 0u; unit /= 10u) {
        ec_port_putc((uint8_t)('0' + (char)(sum / unit % 10u)));
    }
    text("\r\n");
    return 0;
}
