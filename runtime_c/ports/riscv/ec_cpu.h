/* Core functions of 32-bit RISC-V for portable code: interrupt mask, sleep and stack pointer.
 *
 * The registers are machine mode's: RISC-V Instruction Set Manual, volume II, chapter 3. Their
 * instructions have a name of their own since 2019 (Zicsr), which every core here has.
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

/* Vectors, where there are any, are on while mstatus says so ("V" extension 1.0, 3.2). Functions
 * with EC_NO_VECTORS are compiled without them. */
#if defined(__riscv_vector)
#define EC_MSTATUS(what) __asm__ volatile(EC_CSR_ASM(what " mstatus, %0") : : "r"(0x600u))
#define EC_VECTORS_ON() EC_MSTATUS("csrs")
#define EC_VECTORS_OFF() EC_MSTATUS("csrc")
#define EC_NO_VECTORS __attribute__((target("arch=rv32imc_zicsr")))
#else
#define EC_VECTORS_ON() ((void)0)
#define EC_VECTORS_OFF() ((void)0)
#define EC_NO_VECTORS
#endif

#endif /* EC_CPU_H */
