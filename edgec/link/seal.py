"""Keys of the link: a session that both ends have proven to be theirs, and seals of its frames.

A program that was built with a key answers hello and challenge alone until a host has a session,
and then only frames with a seal (docs/serial_protocol.md, "Keys"). Hashes are SipHash-2-4.
"""

from __future__ import annotations

import re
import secrets
import struct
from pathlib import Path

from edgec.errors import BuildFailed, ToolMissing

KEY_BYTES = 16
SEAL_BYTES = 8
NONCE_BYTES = 8
KEY_HEADER = "ec_link_key.h"
"""The file of a project's `link/` folder that holds its key."""

_FIRST_HALF, _SECOND_HALF, _PROOF = b"\1", b"\2", b"\3"
_NUMBER = struct.Struct("<IB")
_MOST_KEY_FILE_BYTES = 4096
_KEY = re.compile(r"#define EC_LINK_KEY \\\s*\{((?:\s*0x[0-9a-f]{2},?){16})\s*\}")


class SealedSession:
    """The keys that are derived from a key and the nonces of both ends; all of them bytes."""

    def __init__(self, key: bytes, host_nonce: bytes, device_nonce: bytes) -> None:
        nonces = host_nonce + device_nonce
        self.proof = _hash(key, _PROOF + nonces)
        self._key = _hash(key, _FIRST_HALF + nonces) + _hash(key, _SECOND_HALF + nonces)

    def seal(self, type_: int, number: int, data: bytes) -> bytes:
        """Return `data` and its seal; `number` has 32 bits; a frame has its lower 16."""
        return data + _hash(self._key, data + _NUMBER.pack(number, type_))

    def unseal(self, type_: int, number: int, data: bytes) -> bytes | None:
        """Return the data without the seal; None where the seal is not this session's."""
        plain = data[:-SEAL_BYTES]
        good = secrets.compare_digest(self.seal(type_, number, plain), data)
        return plain if good and len(data) >= SEAL_BYTES else None


def read_key(path: Path) -> bytes:
    """Return the key in a text file of 32 hexadecimal digits. Raises BuildFailed."""
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_KEY_FILE_BYTES).decode("ascii")
        key = bytes.fromhex(text)
    except OSError as error:
        raise _bad_key(path, error.strerror or str(error)) from None
    except ValueError:
        raise _bad_key(path, "it is not a hexadecimal number") from None
    if len(key) != KEY_BYTES:
        raise _bad_key(path, f"it has {len(key)} bytes, not {KEY_BYTES}")
    return key


def _bad_key(path: Path, why: str) -> BuildFailed:
    return BuildFailed(
        f"cannot read the key {path}: {why}",
        hint='a new one: python3 -c "import secrets; print(secrets.token_hex(16))" > link.key',
    )


def project_key(project: Path) -> bytes | None:
    """The key in a project folder; None if it was built without one."""
    try:
        text = (project / "link" / KEY_HEADER).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    found = _KEY.search(text)
    return None if found is None else bytes.fromhex(re.sub(r"0x|[\s,]", "", found[1]))


def _hash(key: bytes, data: bytes) -> bytes:
    """SipHash-2-4, 8 bytes. Raises ToolMissing without the package."""
    try:
        from siphash24 import siphash24
    except ImportError:
        raise ToolMissing(
            "a link with a key needs the package siphash24",
            hint="install edgec with its extra: pip install 'edgec[keyed]'",
        ) from None
    digest: bytes = siphash24(data, key=key).digest()
    return digest
