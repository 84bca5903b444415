/* Start-up of an Xtensa without register windows: first instruction, vectors, stack paint, faults.
 *
 * VECBASE holds the vectors' place. On the LX106 they are 16 bytes apart: the first is free here
 * and holds the program's first instruction, 1 and 2 are of the debug and NMI levels, 3 (kernel) and
 * 5 (user) of exceptions and of interrupts of level 1, 7 of an exception inside one. Xtensa
 * Instruction Set Architecture Reference Manual: exceptions 4.4.1, interrupts 4.4.4.
 */
#include "ec_port.h"
#include "ec_start.h"
#include "ec_xtensa.h"

void ec_reset_c(void);

/* Of each 16 bytes a jump takes 3; the rest is filled by instructions of 2, and one of 3. */
__asm__(".section .vectors, \"ax\"\n\t"
        ".align 256\n\t"
        ".global ec_trap_table\n\t"
        ".type ec_trap_table, @function\n\t"
        ".begin no-transform\n\t"
        ".macro ec_vector to\n\t"
        "j \\to\n\t"
        ".rept 5\n\t"
        "nop.n\n\t"
        ".endr\n\t"
        "nop\n\t"
        ".endm\n"
        "ec_trap_table:\n\t"
        "ec_vector Reset_Handler\n\t"
        "ec_vector ec_double_entry\n\t"
        "ec_vector ec_double_entry\n\t"
        "ec_vector ec_exception_entry\n\t"
        "ec_vector ec_exception_entry\n\t"
        "ec_vector ec_exception_entry\n\t"
        "ec_vector ec_double_entry\n\t"
        "ec_vector ec_double_entry\n\t"
        ".end no-transform\n\t"
        ".size ec_trap_table, . - ec_trap_table\n\t"
        ".text\n");

/* A debugger or boot loader may have left interrupts enabled, and there is no stack yet. PS is
 * then: interrupts of level 1 masked, in no exception. */
__asm__(".section .text.Reset_Handler, \"ax\"\n\t"
        ".literal_position\n\t"
        ".align 4\n\t"
        ".global Reset_Handler\n\t"
        ".type Reset_Handler, @function\n"
        "Reset_Handler:\n\t"
        "movi a0, 0\n\t"
        "wsr.intenable a0\n\t"
        "movi a0, 1\n\t"
        "wsr.ps a0\n\t"
        "rsync\n\t"
        "movi a0, ec_trap_table\n\t"
        "wsr.vecbase a0\n\t"
        "movi a1, __stack_top\n\t"
        "j ec_reset_c\n\t"
        ".size Reset_Handler, . - Reset_Handler\n\t"
        ".text\n");

/* Saves the registers that the port's function may change on the program's stack. EXCCAUSE 4 is an
 * interrupt. An exception may come of a stack that is no longer in memory: its report uses the stack's
 * top. */
__asm__(".section .text.ec_exception_entry, \"ax\"\n\t"
        ".literal_position\n\t"
        ".align 4\n\t"
        ".global ec_exception_entry\n\t"
        ".type ec_exception_entry, @function\n"
        "ec_exception_entry:\n\t"
        "wsr.excsave1 a2\n\t"
        "rsr.exccause a2\n\t"
        "beqi a2, 4, 1f\n\t"
        "rsr.epc1 a3\n\t"
        "j ec_fault_entry\n"
        "1:\n\t"
        "rsr.excsave1 a2\n\t"
        "addi a1, a1, -48\n\t"
        "s32i a0, a1, 0\n\t"
        "s32i a2, a1, 4\n\t"
        "s32i a3, a1, 8\n\t"
        "s32i a4, a1, 12\n\t"
        "s32i a5, a1, 16\n\t"
        "s32i a6, a1, 20\n\t"
        "s32i a7, a1, 24\n\t"
        "s32i a8, a1, 28\n\t"
        "s32i a9, a1, 32\n\t"
        "s32i a10, a1, 36\n\t"
        "s32i a11, a1, 40\n\t"
        "rsr.sar a0\n\t"
        "s32i a0, a1, 44\n\t"
        "call0 ec_interrupt\n\t"
        "l32i a0, a1, 44\n\t"
        "wsr.sar a0\n\t"
        "l32i a0, a1, 0\n\t"
        "l32i a2, a1, 4\n\t"
        "l32i a3, a1, 8\n\t"
        "l32i a4, a1, 12\n\t"
        "l32i a5, a1, 16\n\t"
        "l32i a6, a1, 20\n\t"
        "l32i a7, a1, 24\n\t"
        "l32i a8, a1, 28\n\t"
        "l32i a9, a1, 32\n\t"
        "l32i a10, a1, 36\n\t"
        "l32i a11, a1, 40\n\t"
        "addi a1, a1, 48\n\t"
        "rfe\n\t"
        ".size ec_exception_entry, . - ec_exception_entry\n\t"
        ".align 4\n\t"
        ".global ec_double_entry\n\t"
        ".type ec_double_entry, @function\n"
        "ec_double_entry:\n\t"
        "rsr.exccause a2\n\t"
        "rsr.depc a3\n\t"
        "j ec_fault_entry\n\t"
        ".size ec_double_entry, . - ec_double_entry\n\t"
        ".align 4\n\t"
        ".global ec_fault_entry\n\t"
        ".type ec_fault_entry, @function\n"
        "ec_fault_entry:\n\t"
        "mov a4, a0\n\t"
        "mov a5, a1\n\t"
        "movi a1, __stack_top\n\t"
        "j ec_exception\n\t"
        ".size ec_fault_entry, . - ec_fault_entry\n\t"
        ".text\n");

__attribute__((noreturn, used)) void ec_reset_c(void) {
    ec_paint_stack();
    EC_ENABLE_INTERRUPTS();
    ec_start();
}

__attribute__((weak, noreturn, used)) void ec_exception(uint32_t cause, uint32_t pc, uint32_t lr,
                                                        uint32_t sp) {
    ec_report_stop("exception", cause, pc, lr, sp);
}
