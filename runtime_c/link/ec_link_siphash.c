/* SipHash-2-4 as libsodium 1.0.18 has it (crypto_shorthash/siphash24/ref), with its macros as
 * functions, so that a microcontroller holds the round once, and with its types as edgec's.
 *
 * ISC License
 *
 * Copyright (c) 2013-2019
 * Frank Denis <j at pureftpd dot org>
 *
 * Permission to use, copy, modify, and/or distribute this software for any
 * purpose with or without fee is hereby granted, provided that the above
 * copyright notice and this permission notice appear in all copies.
 *
 * THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES
 * WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
 * MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR
 * ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES
 * WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
 * ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF
 * OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
 */
#include "ec_link_siphash.h"

#include "ec_link_frame.h"

struct words {
    uint64_t v0;
    uint64_t v1;
    uint64_t v2;
    uint64_t v3;
};

EC_LINK_SMALL static uint64_t rotl64(uint64_t value, uint32_t bits) {
    return (value << bits) | (value >> (64u - bits));
}

/* The `bytes` bytes at `from` as a little-endian number. */
EC_LINK_SMALL static uint64_t load64(const uint8_t *from, uint32_t bytes) {
    uint64_t value = 0;
    while (bytes-- > 0u) {
        value = (value << 8) | from[bytes];
    }
    return value;
}

EC_LINK_SMALL static void rounds(struct words *w, uint32_t count) {
    while (count-- > 0u) {
        w->v0 += w->v1;
        w->v1 = rotl64(w->v1, 13);
        w->v1 ^= w->v0;
        w->v0 = rotl64(w->v0, 32);
        w->v2 += w->v3;
        w->v3 = rotl64(w->v3, 16);
        w->v3 ^= w->v2;
        w->v0 += w->v3;
        w->v3 = rotl64(w->v3, 21);
        w->v3 ^= w->v0;
        w->v2 += w->v1;
        w->v1 = rotl64(w->v1, 17);
        w->v1 ^= w->v2;
        w->v2 = rotl64(w->v2, 32);
    }
}

EC_LINK_SMALL static void absorb(struct words *w, uint64_t m) {
    w->v3 ^= m;
    rounds(w, 2);
    w->v0 ^= m;
}

EC_LINK_SMALL void ec_link_siphash(uint8_t *out, const uint8_t *data, uint32_t bytes,
                                   const uint8_t *key) {
    /* "somepseudorandomlygeneratedbytes" */
    const uint64_t k0 = load64(key, 8);
    const uint64_t k1 = load64(key + 8, 8);
    struct words w = { 0x736f6d6570736575u ^ k0, 0x646f72616e646f6du ^ k1, 0x6c7967656e657261u ^ k0,
                       0x7465646279746573u ^ k1 };
    const uint32_t left = bytes & 7u;
    const uint8_t *const end = data + (bytes - left);
    uint64_t b;
    for (; data != end; data += 8) {
        absorb(&w, load64(data, 8));
    }
    absorb(&w, ((uint64_t)bytes << 56) | load64(data, left));
    w.v2 ^= 0xffu;
    rounds(&w, 4);
    b = w.v0 ^ w.v1 ^ w.v2 ^ w.v3;
    for (uint32_t i = 0; i < 8u; i++) {
        out[i] = (uint8_t)(b >> (8u * i));
    }
}
