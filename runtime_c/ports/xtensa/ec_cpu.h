/* Core functions of an Xtensa without register windows for portable code: interrupt mask, sleep and stack
 * pointer. Instructions: Xtensa Instruction Set Architecture Reference Manual, 6. */
#ifndef EC_CPU_H
#define EC_CPU_H

#include <stdint.h>

/* All interrupts used here are of level 1. A load or store above must not move across a change. */
#define EC_SET_LEVEL(level)                                            \
    do {                                                               \
        uint32_t before_;                                              \
        __asm__ volatile("rsil %0, " level : "=a"(before_)::"memory"); \
    } while (0)
#define EC_DISABLE_INTERRUPTS() EC_SET_LEVEL("1")
#define EC_ENABLE_INTERRUPTS() EC_SET_LEVEL("0")

/* It lets interrupts through in the same step, and the one that wakes is taken at once. */
#define EC_WAIT_FOR_INTERRUPT() __asm__ volatile("waiti 0" ::: "memory")
#define EC_READ_STACK_POINTER(sp) __asm__ volatile("mov %0, a1" : "=a"(sp))

#define EC_SPECIAL_READ(name, value) __asm__ volatile("rsr." name " %0" : "=a"(value))
#define EC_SPECIAL_WRITE(name, value) \
    __asm__ volatile("wsr." name " %0\n\tesync" : : "a"((uint32_t)(value)) : "memory")

#endif /* EC_CPU_H */
