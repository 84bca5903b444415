/* The interrupt mask, sleep and stack pointer of Arm's cores of 32 bits. */
#ifndef EC_CPU_ARM_H
#define EC_CPU_ARM_H

/* A load or store above must not move across a change of the interrupt mask. */
#define EC_DISABLE_INTERRUPTS() __asm__ volatile("cpsid i" ::: "memory")
#define EC_ENABLE_INTERRUPTS() __asm__ volatile("cpsie i" ::: "memory")
#define EC_WAIT_FOR_INTERRUPT() __asm__ volatile("dsb\n\twfi" ::: "memory")
#define EC_READ_STACK_POINTER(sp) __asm__ volatile("mov %0, sp" : "=r"(sp))

#endif /* EC_CPU_ARM_H */
