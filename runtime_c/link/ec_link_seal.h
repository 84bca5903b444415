/* Seals of the serial link, for programs with a key: only who holds it can ask for anything but
 * hello and challenge, and no recorded request acts twice (docs/serial_protocol.md, "Keys").
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_LINK_SEAL_H
#define EC_LINK_SEAL_H

#include "ec_link_key.h"

#include <stdint.h>

#define EC_LINK_NONCE_BYTES 8u
#if EC_LINK_KEYED
#define EC_LINK_SEAL_BYTES 8u
#else
#define EC_LINK_SEAL_BYTES 0u
#endif

#if EC_LINK_KEYED

/* The result of checking a request's seal. */
enum ec_link_trust {
    EC_LINK_FORGED, /* no session, another key, changed on the way, or too old */
    EC_LINK_FRESH,  /* good, and its number is new */
    EC_LINK_SEEN    /* good, and heard before */
};

/* Answer a challenge: `nonce` holds the host's 8 bytes, `sequence` is the number of its frame and
 * `chance` something that differs from start to start. Writes the device's nonce and the proof, 16
 * bytes, to `answer`, which may overlap `nonce`. Begins a session, unless the same challenge began
 * the one there is. */
void ec_link_challenge(const uint8_t *nonce, uint16_t sequence, uint64_t chance, uint8_t *answer);

/* Check the seal that ends the `length` bytes at `data` of a request, and note its number.
 * Overwrites the seal. */
enum ec_link_trust ec_link_unseal(uint8_t *data, uint32_t length, uint8_t type, uint16_t sequence);

/* Seal the answer of `type` in the `length` bytes at `data` to the request that was unsealed last:
 * writes EC_LINK_SEAL_BYTES after them. */
void ec_link_seal(uint8_t *data, uint32_t length, uint8_t type);

#endif

#endif /* EC_LINK_SEAL_H */
