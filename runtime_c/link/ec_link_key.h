/* The key of the link: none. A project that `edgec build --link-key` makes has a file of this
 * name with EC_LINK_KEYED 1 and the 16 bytes of EC_LINK_KEY (docs/serial_protocol.md, "Keys").
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_LINK_KEY_H
#define EC_LINK_KEY_H

#define EC_LINK_KEYED 0

#endif /* EC_LINK_KEY_H */
