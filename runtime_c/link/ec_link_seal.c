/* Seals of the serial link (docs/serial_protocol.md, "Keys").
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include "ec_link_seal.h"

#if EC_LINK_KEYED

#include "ec_link_frame.h"
#include "ec_link_siphash.h"

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
int memcmp(const void *one, const void *other, size_t count);

#define KEY_BYTES 16u
#define HALF_BYTES 8u
/* Numbers for which `seen` has a bit: the newest and the 31 before it. */
#define WINDOW 32u
#define NUMBER_BYTES 4u
#define MOST_AHEAD 0x7FFFu

/* The purpose of a hash under the device's key. */
enum purpose {
    FOR_NONCE = 0,
    FOR_FIRST_HALF = 1,
    FOR_SECOND_HALF = 2,
    FOR_PROOF = 3
};

static const uint8_t device_key[KEY_BYTES] = EC_LINK_KEY;

static struct {
    uint8_t is_open;
    uint8_t key[KEY_BYTES];
    uint8_t nonces[2u * EC_LINK_NONCE_BYTES]; /* the host's, then the device's */
    uint32_t challenges;
    uint32_t newest;  /* the largest number that came; a frame has its lower 16 bits */
    uint32_t seen;    /* bit i: the number newest - i has come */
    uint32_t current; /* number of the request that was unsealed last */
} session;

EC_LINK_SMALL static void hash_nonces(enum purpose purpose, uint8_t *out) {
    uint8_t text[1u + sizeof session.nonces];
    text[0] = (uint8_t)purpose;
    (void)memcpy(text + 1, session.nonces, sizeof session.nonces);
    ec_link_siphash(out, text, sizeof text, device_key);
}

EC_LINK_SMALL static void begin_session(const uint8_t *nonce, uint16_t sequence, uint64_t chance) {
    uint8_t text[1u + EC_LINK_NONCE_BYTES + 12u];
    uint8_t *to = text;
    session.challenges++;
    *to++ = (uint8_t)FOR_NONCE;
    (void)memcpy(to, nonce, EC_LINK_NONCE_BYTES);
    to = ec_link_put(to + EC_LINK_NONCE_BYTES, (uint32_t)chance, 4);
    to = ec_link_put(to, (uint32_t)(chance >> 32), 4);
    (void)ec_link_put(to, session.challenges, 4);
    (void)memcpy(session.nonces, nonce, EC_LINK_NONCE_BYTES);
    ec_link_siphash(session.nonces + EC_LINK_NONCE_BYTES, text, sizeof text, device_key);
    hash_nonces(FOR_FIRST_HALF, session.key);
    hash_nonces(FOR_SECOND_HALF, session.key + HALF_BYTES);
    session.newest = sequence;
    session.seen = UINT32_MAX;
    session.is_open = 1;
}

EC_LINK_SMALL void ec_link_challenge(const uint8_t *nonce, uint16_t sequence, uint64_t chance,
                                     uint8_t *answer) {
    if (!session.is_open || memcmp(nonce, session.nonces, EC_LINK_NONCE_BYTES) != 0) {
        begin_session(nonce, sequence, chance);
    }
    (void)memcpy(answer, session.nonces + EC_LINK_NONCE_BYTES, EC_LINK_NONCE_BYTES);
    hash_nonces(FOR_PROOF, answer + EC_LINK_NONCE_BYTES);
}

/* Hash `length` bytes at `data`, then the number and the type, which are appended to the data. */
EC_LINK_SMALL static void hash_frame(uint8_t *data, uint32_t length, uint8_t type, uint32_t number,
                                     uint8_t *out) {
    *ec_link_put(data + length, number, NUMBER_BYTES) = type;
    ec_link_siphash(out, data, length + NUMBER_BYTES + 1u, session.key);
}

EC_LINK_SMALL void ec_link_seal(uint8_t *data, uint32_t length, uint8_t type) {
    uint8_t seal[EC_LINK_SEAL_BYTES];
    hash_frame(data, length, type, session.current, seal);
    (void)memcpy(data + length, seal, sizeof seal);
}

/* Note that `number` has come, at most WINDOW - 1 older than the newest. */
static enum ec_link_trust note(uint32_t number) {
    uint32_t bit;
    const uint32_t steps = number - session.newest;
    if (steps != 0u && steps <= MOST_AHEAD) {
        session.seen = steps < WINDOW ? session.seen << steps : 0u;
        session.newest = number;
    }
    bit = (uint32_t)1u << (session.newest - number);
    if ((session.seen & bit) != 0u) {
        return EC_LINK_SEEN;
    }
    session.seen |= bit;
    return EC_LINK_FRESH;
}

EC_LINK_SMALL enum ec_link_trust ec_link_unseal(uint8_t *data, uint32_t length, uint8_t type,
                                                uint16_t sequence) {
    uint8_t told[EC_LINK_SEAL_BYTES];
    uint8_t seal[EC_LINK_SEAL_BYTES];
    uint8_t differ = 0;
    /* The number nearest to the newest that has the lower bits of the frame. */
    uint32_t number = session.newest + ((sequence - session.newest) & 0xFFFFu);
    if (number - session.newest > MOST_AHEAD) {
        number -= 0x10000u;
    }
    if (!session.is_open || length < EC_LINK_SEAL_BYTES ||
        (number - session.newest > MOST_AHEAD && session.newest - number >= WINDOW)) {
        return EC_LINK_FORGED;
    }
    length -= EC_LINK_SEAL_BYTES;
    (void)memcpy(told, data + length, sizeof told);
    hash_frame(data, length, type, number, seal);
    for (uint32_t i = 0; i < EC_LINK_SEAL_BYTES; i++) {
        differ |= (uint8_t)(told[i] ^ seal[i]); /* all bytes, so that time says nothing */
    }
    if (differ != 0u) {
        return EC_LINK_FORGED;
    }
    session.current = number;
    return note(number);
}

#endif
