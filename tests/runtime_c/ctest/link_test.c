/* The device's end of the link: an echo comes back, rubbish before it does no harm. */
#include <stdio.h>
#include <string.h>

#include "port_memory.h"

/* docs/serial_protocol.md and tests/link/vectors.json: "echo of nothing". */
static const uint8_t ECHO[] = { 0x00, 0x04, 0xE1, 0x03, 0x04, 0x01, 0x01,
                                0x05, 0x03, 0x84, 0x18, 0xA4, 0x00 };
static const uint8_t ANSWER[] = { 0x00, 0x04, 0xE1, 0x83, 0x04, 0x02, 0x01,
                                  0x01, 0x05, 0x5C, 0xD8, 0xDD, 0x54, 0x00 };

static int is_answered(const uint8_t *sent, uint32_t bytes) {
    uint8_t answer[256];
    const uint32_t count = device_feed(sent, bytes, answer, (uint32_t)sizeof answer);
    return count >= sizeof ANSWER && count <= sizeof answer &&
           memcmp(answer + count - sizeof ANSWER, ANSWER, sizeof ANSWER) == 0;
}

int main(void) {
    if (!is_answered(ECHO, (uint32_t)sizeof ECHO)) {
        printf("an echo was not answered\n");
        return 1;
    }
    uint8_t stream[64 + sizeof ECHO];
    for (uint32_t i = 0; i < 64u; ++i) {
        stream[i] = (uint8_t)(i * 37u);
    }
    memcpy(stream + 64, ECHO, sizeof ECHO);
    if (!is_answered(stream, (uint32_t)sizeof stream)) {
        printf("an echo after rubbish was not answered\n");
        return 1;
    }
    printf("link: good\n");
    return 0;
}
