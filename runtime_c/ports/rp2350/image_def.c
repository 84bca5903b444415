/* The block that the RP2350's boot ROM looks for in the first 4 KB of flash.
 *
 * RP2350 datasheet, 5.9.5 "minimum viable image metadata": one IMAGE_TYPE item (executable, secure,
 * Arm, RP2350), the last item, a loop of one block.
 */
#include <stdint.h>

extern const uint32_t ec_image_def[5];

__attribute__((section(".ec_image_info"), used)) const uint32_t ec_image_def[5] = {
    0xFFFFDED3u, 0x10210142u, 0x000001FFu, 0x00000000u, 0xAB123579u,
};
