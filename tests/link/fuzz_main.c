/* Fuzzes the device's end, best built with sanitizers.
 *
 * With its own main: `fuzz COUNT SEED`. Half of the inputs are noise; the others are frames with a
 * right crc and random fields, so that the commands themselves are reached, some of them damaged
 * afterwards. With EC_LIBFUZZER the inputs come from libFuzzer, which looks for new ways through
 * the code: `test_libfuzzer` in test_device_c.py builds that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port_memory.h"

static uint32_t crc32_of(const uint8_t *data, uint32_t bytes) {
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0u ? 0xEDB88320u : 0u);
        }
    }
    return ~crc;
}

static uint32_t stuff(const uint8_t *data, uint32_t bytes, uint8_t *out) {
    uint32_t used = 0;
    uint32_t code_at;
    out[used++] = 0;
    code_at = used++;
    out[code_at] = 1;
    for (uint32_t i = 0; i < bytes; i++) {
        if (data[i] != 0u) {
            out[used++] = data[i];
            out[code_at]++;
        }
        if (data[i] == 0u || out[code_at] == 255u) {
            code_at = used++;
            out[code_at] = 1;
        }
    }
    out[used++] = 0;
    return used;
}

static uint8_t hello[32];
static uint32_t hello_bytes;

/* A hello: what a device that stands still in a traced run hears at the end of its input. */
static void set_rescue(void) {
    static const uint8_t body[] = { 0xE1, 1, 7, 0, 0, 0 };
    uint8_t whole[10];
    const uint32_t crc = crc32_of(body, sizeof body);
    memcpy(whole, body, sizeof body);
    memcpy(whole + sizeof body, &crc, sizeof crc);
    hello_bytes = stuff(whole, sizeof whole, hello);
    device_set_rescue(hello, hello_bytes);
}

#ifdef EC_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses: the rest is sent unchanged, or as bodies of frames (a length byte each) that
 * get a valid CRC and stuffing, since a fuzzer does not find a CRC-32 by chance. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t answer[1];
    uint8_t made[3 * 300];
    size_t at = 1;
    if (hello_bytes == 0u) {
        set_rescue();
    }
    if (size == 0u) {
        return 0;
    }
    /* Every input finds no unfinished frame and no answer kept, so that one alone shows a fault. */
    (void)device_feed(hello, hello_bytes, answer, sizeof answer);
    if ((data[0] & 1u) == 0u) {
        (void)device_feed(data + 1, (uint32_t)(size - 1u), answer, sizeof answer);
        return 0;
    }
    while (at < size) {
        uint8_t body[6 + 255 + 4];
        const size_t left = size - at - 1u;
        const uint32_t bytes = data[at] < left ? data[at] : (uint32_t)left;
        const uint32_t length = bytes > 3u ? bytes - 3u : 0u;
        uint32_t crc;
        memset(body, 0, 6);
        body[0] = 0xE1;
        /* Type and sequence, and then the data. */
        memcpy(body + 1, data + at + 1u, bytes < 3u ? bytes : 3u);
        body[4] = (uint8_t)length;
        if (length != 0u) {
            memcpy(body + 6, data + at + 4u, length);
        }
        if (body[1] == 6u && length >= 2u) {
            body[6] &= 3u; /* few inferences, or most of the time would go there */
            body[7] = 0;
        }
        crc = crc32_of(body, 6u + length);
        memcpy(body + 6 + length, &crc, sizeof crc);
        (void)device_feed(made, stuff(body, 6u + length + 4u, made), answer, sizeof answer);
        at += 1u + bytes;
    }
    return 0;
}

#else

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16) % below;
}

static uint32_t make_frame(uint8_t *out) {
    static const uint8_t lengths[] = { 0, 0, 2, 7, 9, 8, 11, 5, 0, 0, 0, 0 };
    uint8_t body[700];
    uint32_t length;
    uint32_t crc;
    const uint32_t type = draw(13);
    body[0] = draw(50) == 0u ? (uint8_t)draw(256) : 0xE1u;
    body[1] = draw(50) == 0u ? (uint8_t)draw(256) : (uint8_t)type;
    body[2] = (uint8_t)draw(4);
    body[3] = 0;
    length = type < sizeof lengths ? lengths[type] : 3u;
    if (type == 3u || type == 4u || draw(20) == 0u) {
        length += draw(280);
    }
    for (uint32_t i = 0; i < length; i++) {
        body[6 + i] = draw(2) == 0u ? (uint8_t)draw(256) : (uint8_t)draw(4);
    }
    if (type == 6u) {
        body[6] &= 3u; /* few inferences, or most of the time would go there */
        body[7] = 0;
    }
    body[4] = (uint8_t)length;
    body[5] = (uint8_t)(length >> 8);
    crc = crc32_of(body, 6u + length);
    memcpy(body + 6 + length, &crc, 4);
    return stuff(body, 6u + length + 4u, out);
}

int main(int argc, char **argv) {
    static uint8_t answer[1];
    const unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000ul;
    unsigned long said = 0;

    state = 88172645463325252ull + (argc > 2 ? strtoul(argv[2], NULL, 10) : 0ul);
    set_rescue();
    for (unsigned long i = 0; i < count; i++) {
        uint8_t made[1000];
        uint32_t bytes = 0;
        if (draw(2) == 0u) {
            bytes = draw(400);
            for (uint32_t k = 0; k < bytes; k++) {
                made[k] = (uint8_t)draw(256);
            }
        } else {
            bytes = make_frame(made);
            if (draw(4) == 0u) {
                made[draw(bytes)] = (uint8_t)draw(256);
            }
        }
        said += device_feed(made, bytes, answer, sizeof answer);
    }
    printf("%lu inputs, %lu bytes said\n", count, said);
    return 0;
}

#endif
