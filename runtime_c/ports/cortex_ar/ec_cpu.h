/* Core functions of 32-bit Cortex-A and Cortex-R for portable code. */
#ifndef EC_CPU_H
#define EC_CPU_H

#include "ec_cpu_arm.h"

/* Registers of the system control coprocessor; `place` is "crn, crm, opc2". */
#define EC_CP15_READ(place, value) __asm__ volatile("mrc p15, 0, %0, " place : "=r"(value))
#define EC_CP15_WRITE(place, value) \
    __asm__ volatile("mcr p15, 0, %0, " place : : "r"((uint32_t)(value)) : "memory")

#endif /* EC_CPU_H */
