/* What code for any core asks of a Cortex-A or Cortex-R of 32 bits. */
#ifndef EC_CPU_H
#define EC_CPU_H

/* A load or store above must not move across a change of the interrupt mask. */
#define EC_DISABLE_INTERRUPTS() __asm__ volatile("cpsid i" ::: "memory")
#define EC_ENABLE_INTERRUPTS() __asm__ volatile("cpsie i" ::: "memory")
#define EC_WAIT_FOR_INTERRUPT() __asm__ volatile("dsb\n\twfi" ::: "memory")
#define EC_READ_STACK_POINTER(sp) __asm__ volatile("mov %0, sp" : "=r"(sp))

/* Registers of the system control coprocessor; `place` is "crn, crm, opc2". */
#define EC_CP15_READ(place, value) __asm__ volatile("mrc p15, 0, %0, " place : "=r"(value))
#define EC_CP15_WRITE(place, value) \
    __asm__ volatile("mcr p15, 0, %0, " place : : "r"((uint32_t)(value)) : "memory")

#endif /* EC_CPU_H */
