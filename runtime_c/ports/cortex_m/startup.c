/* Start-up of any Cortex-M: vector table, FPU, stack paint, reset, faults. */
#include "ec_cortex_m.h"
#include "ec_port.h"
#include "ec_start.h"

void Reset_Handler(void);
void ec_fault_entry(void);

/* Above the highest interrupt that a port enables there is nothing to name. */
#ifdef EC_TIMER_IRQ
#define EC_LAST_IRQ (EC_TIMER_IRQ > EC_UART_IRQ ? EC_TIMER_IRQ : EC_UART_IRQ)
#else
#define EC_LAST_IRQ EC_UART_IRQ
#endif

typedef void (*ec_handler_fn)(void);

typedef struct {
    const uint32_t *stack;
    ec_handler_fn system[15]; /* exceptions 1 to 15 */
    ec_handler_fn irq[EC_LAST_IRQ + 1];
} ec_vector_table;

extern const ec_vector_table ec_vectors;

__attribute__((section(".vectors"), used)) const ec_vector_table ec_vectors = {
    .stack = __stack_top,
    .system =
        {
            Reset_Handler,      /* 1 */
            ec_fault_entry,     /* 2 NMI */
            ec_fault_entry,     /* 3 HardFault */
            ec_fault_entry,     /* 4 MemManage */
            ec_fault_entry,     /* 5 BusFault */
            ec_fault_entry,     /* 6 UsageFault */
            ec_fault_entry,     /* 7 SecureFault */
            0,                  /* 8 reserved */
            0,                  /* 9 reserved */
            0,                  /* 10 reserved */
            ec_fault_entry,     /* 11 SVCall */
            ec_fault_entry,     /* 12 DebugMonitor */
            0,                  /* 13 reserved */
            ec_fault_entry,     /* 14 PendSV */
            ec_systick_handler, /* 15 SysTick */
        },
    .irq =
        {
            [EC_UART_IRQ] = ec_uart_handler,
#ifdef EC_TIMER_IRQ
            [EC_TIMER_IRQ] = ec_timer_handler,
#endif
        },
};

__attribute__((noreturn)) void Reset_Handler(void) {
    /* A debugger or boot loader may have left interrupts masked or the table elsewhere. */
    EC_DISABLE_INTERRUPTS();
#if !defined(__ARM_ARCH_6M__)
    EC_SCB_VTOR = (uint32_t)(uintptr_t)&ec_vectors;
#endif
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    EC_SCB_CPACR |= 0xFu << 20; /* full access to CP10 and CP11: FPU and MVE */
#endif
#if defined(__ARM_FEATURE_MVE)
    /* CCR.LOB: low-overhead loops keep their branch cache. Armv8.1-M, DDI 0553 D1.2.10. */
    EC_SCB_CCR |= 1u << 19;
#endif
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
    /* The core itself faults when the stack grows below its limit. */
    __asm__ volatile("msr msplim, %0" : : "r"(__stack_limit));
#endif
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    ec_paint_stack();
    EC_ENABLE_INTERRUPTS();
    ec_start();
}

void ec_port_reset(void) {
    __asm__ volatile("dsb" ::: "memory");
    EC_SCB_AIRCR = 0x05FA0004u; /* VECTKEY, SYSRESETREQ */
    for (;;) {
        EC_WAIT_FOR_INTERRUPT();
    }
}

__attribute__((weak, noreturn)) void ec_fault(uint32_t exception, const uint32_t *frame) {
    EC_DISABLE_INTERRUPTS();
    ec_put_text("\r\nfault ");
    ec_put_hex(exception);
    /* A stack pointer outside the stack means there is no frame to read. */
    const uintptr_t sp = (uintptr_t)frame;
    if (sp >= (uintptr_t)__stack_limit && sp + 32u <= (uintptr_t)__stack_top) {
        ec_put_text(" pc ");
        ec_put_hex(frame[6]);
        ec_put_text(" lr ");
        ec_put_hex(frame[5]);
    } else {
        ec_put_text(" stack overflow, sp ");
        ec_put_hex((uint32_t)sp);
    }
    ec_put_text("\r\n");
    for (;;) {
        EC_WAIT_FOR_INTERRUPT();
    }
}

/* Runs the report at the top of the stack's region: after an overflow the stack pointer is outside of
 * RAM, so the stack is used from its top again. */
__attribute__((naked)) void ec_fault_entry(void) {
    __asm__ volatile("mrs r0, ipsr\n\t"
                     "mrs r1, msp\n\t"
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
                     "movs r2, #0\n\t"
                     "msr msplim, r2\n\t"
#endif
                     "ldr r2, 1f\n\t"
                     "cmp r1, r2\n\t"
                     "bhs 2f\n\t"
                     "ldr r2, 3f\n\t"
                     "msr msp, r2\n\t"
                     "2:\n\t"
                     "bl ec_fault\n\t"
                     ".balign 4\n\t"
                     "1: .word __stack_limit\n\t"
                     "3: .word __stack_top\n\t");
}
