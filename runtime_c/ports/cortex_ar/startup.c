/* Start-up of a 32-bit Cortex-A or Cortex-R: exception table, memory map, FPU, stack paint, faults.
 *
 * All is Thumb code, exceptions too (SCTLR.TE), and all runs in System mode on one stack. Sections
 * of the ARM Architecture Reference Manual, ARMv7-A and ARMv7-R (DDI 0406C): exceptions B1.8 and
 * B1.9, long descriptors of the MMU B3.6, the MPU B5.1, registers B4.1 and B6.1.
 */
#include "ec_cortex_ar.h"
#include "ec_port.h"
#include "ec_start.h"

void Reset_Handler(void);
void ec_reset_c(void);
void ec_trap_table(void);
void ec_interrupt_entry(void);

#define SCTLR "c1, c0, 0"
#define SCTLR_MAPPED ((1u << 0) | (1u << 2) | (1u << 12)) /* MMU or MPU, both caches */
#define SCTLR_ALIGNED (1u << 1)                           /* faults on any unaligned access */
#define SCTLR_HIGH_VECTORS (1u << 13)
#define SCTLR_THUMB_EXCEPTIONS (1u << 30)

/* The exception table, and its faults' reports: the number, and the instruction that caused it. LR is
 * then 2, 4 or 8 bytes after that. */
__attribute__((naked, used, aligned(64), section(".vectors"))) void ec_trap_table(void) {
    __asm__ volatile(".syntax unified\n\t"
                     "b.w Reset_Handler\n\t"
                     "b.w 1f\n\t"
                     "b.w 2f\n\t"
                     "b.w 3f\n\t"
                     "b.w 4f\n\t"
                     "b.w 5f\n\t"
                     "b.w ec_interrupt_entry\n\t"
                     "b.w 5f\n\t"
                     "1: movs r0, #1\n\t" /* undefined instruction */
                     "subs r1, lr, #2\n\t"
                     "b 6f\n\t"
                     "2: movs r0, #2\n\t" /* call of the system */
                     "subs r1, lr, #2\n\t"
                     "b 6f\n\t"
                     "3: movs r0, #3\n\t" /* no instruction there */
                     "subs r1, lr, #4\n\t"
                     "b 6f\n\t"
                     "4: movs r0, #4\n\t" /* no data there */
                     "sub.w r1, lr, #8\n\t"
                     "b 6f\n\t"
                     "5: movs r0, #5\n\t" /* nobody enables it */
                     "subs r1, lr, #4\n\t"
                     /* After an overflow the stack pointer is outside of RAM, so the report runs on
                      * the stack from its top again. */
                     "6: cps #0x1F\n\t"
                     "mov r2, lr\n\t"
                     "mov r3, sp\n\t"
                     "movw r4, #:lower16:__stack_top\n\t"
                     "movt r4, #:upper16:__stack_top\n\t"
                     "mov sp, r4\n\t"
                     "b.w ec_abort\n\t");
}

/* Saves the registers that the port's function may change on the program's stack, aligned for calls. */
__attribute__((naked, used)) void ec_interrupt_entry(void) {
    __asm__ volatile(".syntax unified\n\t"
                     "sub.w lr, lr, #4\n\t"
                     "srsdb sp!, #0x1F\n\t"
                     "cps #0x1F\n\t"
                     "push {r0, r1, r2, r3, r12, lr}\n\t"
                     "mov r1, sp\n\t"
                     "bic r2, r1, #4\n\t"
                     "mov sp, r2\n\t"
#if defined(__ARM_FP)
                     "vmrs r0, fpscr\n\t"
                     "push {r0, r1}\n\t"
                     "vpush {d0-d7}\n\t"
                     "bl ec_interrupt\n\t"
                     "vpop {d0-d7}\n\t"
                     "pop {r0, r1}\n\t"
                     "vmsr fpscr, r0\n\t"
#else
                     "push {r0, r1}\n\t"
                     "bl ec_interrupt\n\t"
                     "pop {r0, r1}\n\t"
#endif
                     "mov sp, r1\n\t"
                     "pop {r0, r1, r2, r3, r12, lr}\n\t"
                     "rfeia sp!\n\t");
}

#if __ARM_ARCH_PROFILE == 'R'
#define MPU_NORMAL 0x00Bu /* TEX 001, C, B: write-back, allocates on writes */
#define MPU_DEVICE 0x001u
#define MPU_READ_WRITE 0x300u
#define MPU_READ_ONLY 0x600u
#define MPU_NO_CODE 0x1000u

static void set_region(uint32_t number, uint32_t base, uint32_t size_log2, uint32_t access) {
    EC_CP15_WRITE("c6, c2, 0", number);
    EC_CP15_WRITE("c6, c1, 0", base);
    EC_CP15_WRITE("c6, c1, 4", access);
    EC_CP15_WRITE("c6, c1, 2", ((size_log2 - 1u) << 1) | 1u);
}

/* Elsewhere there is nothing: a stack that grows too far faults. */
static inline void map_memory(void) {
    set_region(0u, EC_DEVICE_BASE, EC_DEVICE_SIZE_LOG2, MPU_DEVICE | MPU_READ_WRITE | MPU_NO_CODE);
    set_region(1u, EC_CODE_BASE, EC_CODE_SIZE_LOG2, MPU_NORMAL | MPU_READ_ONLY);
    set_region(2u, EC_DATA_BASE, EC_DATA_SIZE_LOG2, MPU_NORMAL | MPU_READ_WRITE);
    EC_CP15_WRITE("c15, c5, 0", 0u); /* Cortex-R5: invalidates all of the data cache */
}
#else
#define GIGABYTE(address) ((uint64_t)((address) >> 30))
#define BLOCK 0x401u                      /* a block that has been accessed */
#define BLOCK_NORMAL (BLOCK | (1u << 2))  /* by MAIR's second attribute */
#define BLOCK_NO_CODE ((uint64_t)1 << 54) /* XN */
#define ATTRIBUTES 0xFF04u                /* MAIR0: device; normal, write-back */
#define TTBCR_LONG_DESCRIPTORS (1u << 31) /* EAE */
#define ACTLR_COHERENT (1u << 6)          /* Cortex-A7: SMP, without which there are no caches */

#define DEVICE_ENTRY ((GIGABYTE(EC_DEVICE_BASE) << 30) | BLOCK | BLOCK_NO_CODE)
#define DATA_ENTRY ((GIGABYTE(EC_DATA_BASE) << 30) | BLOCK_NORMAL)
#define OR_DATA(number) ((number) == GIGABYTE(EC_DATA_BASE) ? DATA_ENTRY : 0u)
#define ENTRY(number) ((number) == GIGABYTE(EC_DEVICE_BASE) ? DEVICE_ENTRY : OR_DATA(number))

/* Four entries of a gigabyte; without an entry there is nothing. */
static const uint64_t memory_map[4]
    __attribute__((aligned(32))) = { ENTRY(0u), ENTRY(1u), ENTRY(2u), ENTRY(3u) };

static inline void map_memory(void) {
    uint32_t actlr;
    EC_CP15_READ("c1, c0, 1", actlr);
    EC_CP15_WRITE("c1, c0, 1", actlr | ACTLR_COHERENT);
    EC_CP15_WRITE("c12, c0, 0", (uintptr_t)&ec_trap_table & ~(uintptr_t)1); /* VBAR */
    EC_CP15_WRITE("c10, c2, 0", ATTRIBUTES);
    EC_CP15_WRITE("c2, c0, 2", TTBCR_LONG_DESCRIPTORS);
    __asm__ volatile("mcrr p15, 0, %0, %1, c2" : : "r"(memory_map), "r"(0));
    EC_CP15_WRITE("c8, c7, 0", 0u); /* TLBIALL */
}
#endif

__attribute__((noreturn, used)) void ec_reset_c(void) {
    uint32_t sctlr;
    map_memory();
    EC_CP15_WRITE("c7, c5, 0", 0u); /* ICIALLU: forgets instructions */
    EC_CP15_READ(SCTLR, sctlr);
    sctlr &= ~(SCTLR_HIGH_VECTORS | SCTLR_ALIGNED);
    EC_CP15_WRITE(SCTLR, sctlr | SCTLR_MAPPED | SCTLR_THUMB_EXCEPTIONS);
#if defined(__ARM_FP)
    EC_CP15_WRITE("c1, c0, 2", 0xFu << 20); /* CPACR: full access to CP10 and CP11 */
    __asm__ volatile("isb\n\tvmsr fpexc, %0" : : "r"(1u << 30));
#endif
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    ec_paint_stack();
    EC_ENABLE_INTERRUPTS();
    ec_start();
}

/* A boot loader may have left interrupts enabled, and there is no stack yet. */
__attribute__((naked)) void Reset_Handler(void) {
    __asm__ volatile(".syntax unified\n\t"
                     "cpsid if, #0x1F\n\t"
                     "movw r0, #:lower16:__stack_top\n\t"
                     "movt r0, #:upper16:__stack_top\n\t"
                     "mov sp, r0\n\t"
                     "b.w ec_reset_c\n\t");
}

__attribute__((weak, noreturn)) void ec_abort(uint32_t number, uint32_t pc, uint32_t lr,
                                              uint32_t sp) {
    EC_DISABLE_INTERRUPTS();
    ec_report_stop("abort", number, pc, lr, sp);
}
