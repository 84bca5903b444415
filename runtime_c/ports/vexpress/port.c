/* Port of Arm's Versatile Express as QEMU has it: a PL011 UART with a GIC, an SP804 timer.
 *
 * Documents of Arm: IHI 0048 (generic interrupt controller), DDI 0271 (SP804), DUI 0447 (motherboard:
 * system registers), DDI 0406C C12 (cycle counter of ARMv7).
 */
#include "ec_cortex_ar.h"
#include "ec_pl011.h"
#include "ec_port.h"

#define GIC_ENABLE EC_REG32(EC_GIC_BASE + 0x000u)
#define GIC_SET_ENABLE(irq) EC_REG32(EC_GIC_BASE + 0x100u + ((irq) / 32u) * 4u)
#define GIC_TARGETS(irq) EC_REG32(EC_GIC_BASE + 0x800u + ((irq) / 4u) * 4u)
#define GIC_CPU_ENABLE EC_REG32(EC_GIC_CPU_BASE + 0x00u)
#define GIC_CPU_MASK EC_REG32(EC_GIC_CPU_BASE + 0x04u)
#define GIC_CPU_TAKE EC_REG32(EC_GIC_CPU_BASE + 0x0Cu)
#define GIC_CPU_DONE EC_REG32(EC_GIC_CPU_BASE + 0x10u)

#define TIMER_LOAD EC_REG32(EC_TIMER_BASE + 0x00u)
#define TIMER_VALUE EC_REG32(EC_TIMER_BASE + 0x04u)
#define TIMER_CTRL EC_REG32(EC_TIMER_BASE + 0x08u)
#define TIMER_RUN_BY_256 0x8Au /* enable, clock divided by 256, 32 bits */
#define CYCLES_PER_STEP (256u * (EC_CLOCK_HZ / EC_TIMER_HZ))

#define SYS_CFG_DATA EC_REG32(EC_SYSTEM_BASE + 0xA0u)
#define SYS_CFG_CTRL EC_REG32(EC_SYSTEM_BASE + 0xA4u)
#define CFG_REBOOT 0xC0900000u /* start, write, function 9 */

#define CYCLES_CTRL "c9, c12, 0"   /* PMCR */
#define CYCLES_ENABLE "c9, c12, 1" /* PMCNTENSET */
#define CYCLES "c9, c13, 0"        /* PMCCNTR */

void ec_port_init(void) {
    ec_pl011_start(EC_UART_CLOCK_HZ);
    GIC_TARGETS(EC_UART_IRQ) = 1u << (EC_UART_IRQ % 4u * 8u);
    GIC_SET_ENABLE(EC_UART_IRQ) = 1u << (EC_UART_IRQ % 32u);
    GIC_ENABLE = 1u;
    GIC_CPU_MASK = 0xFFu;
    GIC_CPU_ENABLE = 1u;
    EC_CP15_WRITE(CYCLES_ENABLE, 1u << 31);
    EC_CP15_WRITE(CYCLES_CTRL, 5u); /* counts, from 0 */
    TIMER_LOAD = 0xFFFFFFFFu;
    TIMER_CTRL = TIMER_RUN_BY_256;
}

void ec_interrupt(void) {
    const uint32_t source = GIC_CPU_TAKE;
    ec_pl011_receive();
    GIC_CPU_DONE = source;
}

uint32_t ec_port_ticks_hz(void) {
    return EC_CLOCK_HZ;
}

/* The cycle counter has 32 bits. The timer, which runs as long as the board, says about where it
 * is, by far less than half of them off. */
uint64_t ec_port_ticks(void) {
    const uint64_t near = (uint64_t)~TIMER_VALUE * CYCLES_PER_STEP;
    uint32_t cycles;
    EC_CP15_READ(CYCLES, cycles);
    return near + (uint64_t)(int64_t)(int32_t)(cycles - (uint32_t)near);
}

void ec_port_reset(void) {
    SYS_CFG_DATA = 0u;
    SYS_CFG_CTRL = CFG_REBOOT;
    for (;;) {
        EC_WAIT_FOR_INTERRUPT();
    }
}

void ec_port_putc(uint8_t byte) {
    ec_pl011_send(byte);
}

void ec_rx_resume(void) {
    ec_pl011_resume();
}
