/* Second stage of the RP2040's boot, for the first 256 bytes of flash.
 *
 * The machine code of boot2.S beside this file, padded with zeros, and the CRC-32 that the boot ROM
 * wants in the last word (RP2040 datasheet, 2.8.1.3.1). A test assembles it again.
 */
#include <stdint.h>

extern const uint32_t ec_boot2[64];

__attribute__((section(".ec_boot"), used)) const uint32_t ec_boot2[64] = {
    0x21004B0Bu, 0x21046099u, 0x490A6159u, 0x21006019u,        0x49096059u,
    0x60114A09u, 0x61192101u, 0x48086099u, 0x60084908u,        0x68426801u,
    0x8808F381u, 0x00004710u, 0x18000000u, 0x001F0300u,        0x03000218u,
    0x180000F4u, 0x10000100u, 0xE000ED08u, [63] = 0x3985AE68u,
};
