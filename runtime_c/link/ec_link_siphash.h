/* SipHash-2-4, a keyed hash for short messages (Aumasson and Bernstein, 2012): ec_link_siphash.c.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_LINK_SIPHASH_H
#define EC_LINK_SIPHASH_H

#include <stdint.h>

/* Write the 8 bytes of the hash of the `bytes` bytes at `data` under the 16 bytes at `key` to
 * `out`. */
void ec_link_siphash(uint8_t *out, const uint8_t *data, uint32_t bytes, const uint8_t *key);

#endif /* EC_LINK_SIPHASH_H */
