@ Second stage of the RP2040's boot: the boot ROM copies these 256 bytes to RAM and calls them.
@ Reads flash with the standard 03h command, which every serial flash has, at a quarter of the
@ core's clock, and starts the program at the vector table after it. RP2040 datasheet, 2.8.1 boot
@ sequence and 4.10 SSI.
    .syntax unified
    .cpu cortex-m0plus
    .thumb
    .section .text, "ax"
    .global boot2
boot2:
    ldr r3, =0x18000000     @ XIP_SSI_BASE
    movs r1, #0
    str r1, [r3, #0x08]     @ SSIENR: off while it is set up
    movs r1, #4
    str r1, [r3, #0x14]     @ BAUDR
    ldr r1, =0x001F0300     @ 32-bit frames, "EEPROM read": command, then data
    str r1, [r3, #0x00]     @ CTRLR0
    movs r1, #0
    str r1, [r3, #0x04]     @ CTRLR1: one frame
    ldr r1, =0x03000218     @ command 03h, 8 bits; address 24 bits; both on one wire
    ldr r2, =0x180000F4
    str r1, [r2]            @ SPI_CTRLR0
    movs r1, #1
    str r1, [r3, #0x10]     @ SER: the flash's chip select
    str r1, [r3, #0x08]     @ SSIENR: on
    ldr r0, =0x10000100     @ the vector table
    ldr r1, =0xE000ED08     @ VTOR
    str r0, [r1]
    ldr r1, [r0]
    ldr r2, [r0, #4]
    msr msp, r1
    bx r2
    .pool
