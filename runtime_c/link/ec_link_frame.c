/* Frames of the serial link: byte stuffing, crc, and numbers (docs/serial_protocol.md).
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include "ec_link_frame.h"

#include "ec_port.h"

#if EC_LINK_CHUNK < 128 || EC_LINK_CHUNK > 4096
#error "EC_LINK_CHUNK must be from 128 to 4096"
#endif

#define TYPE_DAMAGED 0xFFu

/* The first block of a frame begins as if after a full one: no zero precedes it. */
#define COBS_FULL 0xFFu
#define COBS_MOST 254u

uint8_t ec_link_frame[EC_LINK_FRAME_BYTES];

static struct {
    uint32_t used;    /* bytes decoded so far */
    uint8_t code;     /* of the block being read */
    uint8_t left;     /* bytes of that block still to come */
    uint8_t overflow; /* the frame is longer than the buffer */
} receiver;

EC_LINK_SMALL uint32_t ec_link_get(const uint8_t *from, uint32_t bytes) {
    uint32_t value = 0;
    while (bytes-- > 0u) {
        value = (value << 8) | from[bytes];
    }
    return value;
}

EC_LINK_SMALL uint8_t *ec_link_put(uint8_t *to, uint32_t value, uint32_t bytes) {
    while (bytes-- > 0u) {
        *to++ = (uint8_t)value;
        value >>= 8;
    }
    return to;
}

/* CRC-32 as in zlib, four bits at a time: a table of 64 bytes instead of 1 KB. */
EC_LINK_SMALL static uint32_t crc32_of(const uint8_t *data, uint32_t bytes) {
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u,
        0x4DB26158u, 0x5005713Cu, 0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu,
        0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu,
    };
    uint32_t crc = 0xFFFFFFFFu;
    while (bytes-- > 0u) {
        crc ^= *data++;
        crc = (crc >> 4) ^ table[crc & 15u];
        crc = (crc >> 4) ^ table[crc & 15u];
    }
    return ~crc;
}

/* --- sending ----------------------------------------------------------------------------- */

/* Send ec_link_frame[0 .. bytes) with byte stuffing and a delimiter on each side. */
static void send_stuffed(uint32_t bytes) {
    const uint8_t *at = ec_link_frame;
    const uint8_t *const end = ec_link_frame + bytes;
    ec_port_putc(0);
    for (;;) {
        uint32_t run = 0;
        while (run < COBS_MOST && at + run != end && at[run] != 0u) {
            run++;
        }
        ec_port_putc((uint8_t)(run + 1u));
        for (uint32_t i = 0; i < run; i++) {
            ec_port_putc(at[i]);
        }
        at += run;
        if (at == end) {
            break;
        }
        if (run < COBS_MOST) {
            at++; /* the zero that the next code stands for; a block of its own if it is last */
        }
    }
    ec_port_putc(0);
}

EC_LINK_SMALL void ec_link_send(uint8_t type, uint16_t sequence, uint32_t length) {
    ec_link_frame[0] = EC_LINK_VERSION_BYTE;
    ec_link_frame[1] = type;
    (void)ec_link_put(ec_link_put(ec_link_frame + 2, sequence, 2), length, 2);
    (void)ec_link_put(EC_LINK_FRAME_DATA + length,
                      crc32_of(ec_link_frame, EC_LINK_HEADER_BYTES + length), EC_LINK_CRC_BYTES);
    send_stuffed(EC_LINK_HEADER_BYTES + length + EC_LINK_CRC_BYTES);
}

/* --- receiving --------------------------------------------------------------------------- */

static void store(uint8_t byte) {
    if (receiver.used < EC_LINK_FRAME_BYTES) {
        ec_link_frame[receiver.used++] = byte;
    } else {
        receiver.overflow = 1;
    }
}

/* A delimiter has come: judge the frame before it, if there was one. */
static int32_t end_frame(void) {
    const uint32_t used = receiver.used;
    const int empty = receiver.code == 0u;
    const int cut = receiver.left != 0u || receiver.overflow;
    uint32_t length;

    receiver.used = 0;
    receiver.code = 0;
    receiver.left = 0;
    receiver.overflow = 0;
    if (empty) {
        return EC_LINK_NO_FRAME;
    }
    if (!cut && used >= EC_LINK_HEADER_BYTES + EC_LINK_CRC_BYTES) {
        length = used - EC_LINK_HEADER_BYTES - EC_LINK_CRC_BYTES;
        if (ec_link_get(ec_link_frame + 4, 2) == length &&
            ec_link_get(ec_link_frame + used - EC_LINK_CRC_BYTES, EC_LINK_CRC_BYTES) ==
                crc32_of(ec_link_frame, used - EC_LINK_CRC_BYTES)) {
            return (int32_t)length;
        }
    }
    ec_link_send(TYPE_DAMAGED, 0, 0);
    return EC_LINK_NO_FRAME;
}

int32_t ec_link_take(uint8_t byte) {
    if (byte == 0u) {
        return end_frame();
    }
    if (receiver.left != 0u) {
        store(byte);
        receiver.left--;
    } else {
        /* A new block: the one before stood for its bytes and a zero, unless it was full. */
        if (receiver.code != 0u && receiver.code != COBS_FULL) {
            store(0);
        }
        receiver.code = byte;
        receiver.left = (uint8_t)(byte - 1u);
    }
    return EC_LINK_NO_FRAME;
}
