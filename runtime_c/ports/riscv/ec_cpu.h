/* What code for any core asks of a 32-bit RISC-V: its interrupt mask, sleep and stack pointer.
 *
 * The registers are those of machine mode: RISC-V Instruction Set Manual, volume II, chapter 3.
 * Their instructions have a name of their own since 2019 (Zicsr), which every core here has.
 */
#ifndef EC_CPU_H
#define EC_CPU_H

#define EC_CSR_ON ".option push\n\t.option arch, +zicsr\n\t"
#define EC_CSR_OFF "\n\t.option pop\n\t"
#define EC_CSR_ASM(text) EC_CSR_ON text EC_CSR_OFF

/* MIE, bit 3 of mstatus. A load or store above must not move across a change of it. */
#define EC_DISABLE_INTERRUPTS() __asm__ volatile(EC_CSR_ASM("csrci mstatus, 8")::: "memory")
#define EC_ENABLE_INTERRUPTS() __asm__ volatile(EC_CSR_ASM("csrsi mstatus, 8")::: "memory")
#define EC_WAIT_FOR_INTERRUPT() __asm__ volatile("fence\n\twfi" ::: "memory")
#define EC_READ_STACK_POINTER(sp) __asm__ volatile("mv %0, sp" : "=r"(sp))

#define EC_CSR_READ(name, value) __asm__ volatile(EC_CSR_ASM("csrr %0, " name) : "=r"(value))
#define EC_CSR_SET(name, bits) __asm__ volatile(EC_CSR_ASM("csrs " name ", %0") : : "r"(bits))

#endif /* EC_CPU_H */
