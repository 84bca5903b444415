/* Start-up of any 32-bit RISC-V: the first instruction, trap table, stack paint, exceptions.
 *
 * mtvec is in vectored mode (RISC-V Instruction Set Manual, volume II, 3.1.7): an exception goes
 * to the table's start, interrupt n to entry n. The ESP32-C3 knows no other mode and wants the
 * table aligned to 256 bytes.
 */
#include "ec_port.h"
#include "ec_riscv.h"
#include "ec_start.h"

void Reset_Handler(void);
void ec_reset_c(void);
void ec_first(void);
void ec_trap_table(void);
void ec_trap_entry(void);
void ec_interrupt_entry(void);

#ifdef EC_BOOT_MAGIC
/* The boot ROM looks for this at the start of flash; it then jumps after it. */
extern const uint32_t ec_boot_magic[2];
__attribute__((section(".vectors.boot"), used))
const uint32_t ec_boot_magic[2] = { EC_BOOT_MAGIC, EC_BOOT_MAGIC };
#endif

/* The first instruction of the program. */
__attribute__((naked, used, section(".vectors.first"))) void ec_first(void) {
    __asm__ volatile("j Reset_Handler");
}

__attribute__((naked, used, aligned(256), section(".vectors"))) void ec_trap_table(void) {
    __asm__ volatile(".option push\n\t"
                     ".option norvc\n\t"
                     ".option norelax\n\t"
                     "j ec_trap_entry\n\t"
                     ".rept 31\n\t"
                     "j ec_interrupt_entry\n\t"
                     ".endr\n\t"
                     ".option pop");
}

/* The compiler saves the registers that the port's function may change. Vector registers, half a kilobyte
 * and more, are not saved: they are off meanwhile, and fault. */
__attribute__((interrupt("machine"))) EC_NO_VECTORS void ec_interrupt_entry(void) {
    EC_VECTORS_OFF();
    ec_interrupt();
    EC_VECTORS_ON();
}

__attribute__((noreturn, used)) void ec_reset_c(void) {
    EC_VECTORS_ON();
    ec_paint_stack();
    EC_ENABLE_INTERRUPTS();
    ec_start();
}

/* A debugger or boot loader may have left interrupts enabled, and there is no stack yet. */
__attribute__((naked)) void Reset_Handler(void) {
    __asm__ volatile(EC_CSR_ON "csrci mstatus, 8\n\t"
                               "csrw mie, zero\n\t"
                               "la t0, ec_trap_table\n\t"
                               "ori t0, t0, 1\n\t"
                               "csrw mtvec, t0\n\t" EC_CSR_OFF "la t0, __stack_top\n\t"
                               "mv sp, t0\n\t"
                               "j ec_reset_c");
}

__attribute__((weak, noreturn)) void ec_trap(uint32_t cause, uint32_t pc, uint32_t ra,
                                             uint32_t sp) {
    ec_report_stop("trap", cause, pc, ra, sp);
}

/* After an overflow the stack pointer is outside of RAM, so the report runs on the stack from its
 * top again. Hardware has masked interrupts. */
__attribute__((naked)) void ec_trap_entry(void) {
    __asm__ volatile(EC_CSR_ON "csrr a0, mcause\n\t"
                               "csrr a1, mepc\n\t" EC_CSR_OFF "mv a2, ra\n\t"
                               "mv a3, sp\n\t"
                               "la t0, __stack_top\n\t"
                               "mv sp, t0\n\t"
                               "j ec_trap");
}
