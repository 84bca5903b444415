/* Frames of the serial link, as bytes come and go: used by ec_link.c alone.
 *
 * There is one frame buffer. It holds the request that has arrived and then, overwritten in
 * place, its answer.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_LINK_FRAME_H
#define EC_LINK_FRAME_H

#include "ec_link.h"
#include "ec_link_seal.h"

/* For the small functions that every command uses: inlined they would cost a third more flash.
 * Clang would also unroll their loops. */
#if defined(__clang__)
#define EC_LINK_SMALL __attribute__((noinline, minsize))
#elif defined(__ARM_ARCH_6M__)
#define EC_LINK_SMALL __attribute__((noinline, cold)) /* GCC's way to ask for few bytes */
#elif defined(__GNUC__)
#define EC_LINK_SMALL __attribute__((noinline))
#else
#define EC_LINK_SMALL
#endif

/* The first byte of every frame. */
#define EC_LINK_VERSION_BYTE (0xE0u + EC_LINK_VERSION)

#define EC_LINK_HEADER_BYTES 6u
#define EC_LINK_ARGUMENT_BYTES 8u /* the longest before a chunk of data: read's */
#define EC_LINK_CRC_BYTES 4u
#define EC_LINK_FRAME_BYTES                                                               \
    (EC_LINK_HEADER_BYTES + EC_LINK_ARGUMENT_BYTES + EC_LINK_CHUNK + EC_LINK_SEAL_BYTES + \
     EC_LINK_CRC_BYTES)

#define EC_LINK_NO_FRAME (-1)

/* Version, type, sequence (2 bytes) and length (2) of a frame; its data; its crc. */
extern uint8_t ec_link_frame[EC_LINK_FRAME_BYTES];
#define EC_LINK_FRAME_DATA (ec_link_frame + EC_LINK_HEADER_BYTES)

/* The little-endian number of `bytes` bytes, at most 4. */
uint32_t ec_link_get(const uint8_t *from, uint32_t bytes);

/* Write a number; returns where the next one goes. */
uint8_t *ec_link_put(uint8_t *to, uint32_t value, uint32_t bytes);

/* Send `length` data bytes, which lie in the frame buffer already, as a frame of `type`. */
void ec_link_send(uint8_t type, uint16_t sequence, uint32_t length);

/* Take a received byte. Returns the number of data bytes of the good frame that ends with it, else
 * EC_LINK_NO_FRAME. A damaged frame is dropped, and the host gets an error. */
int32_t ec_link_take(uint8_t byte);

#endif /* EC_LINK_FRAME_H */
