"""Options of TFLite's custom operators: a FlexBuffer that holds one map of numbers."""

from __future__ import annotations

import struct
from typing import Any

from edgec.errors import ImportFailed

#: More entries, or more bytes, are damage.
_MOST_ENTRIES = 64
_MOST_BYTES = 1 << 12
#: What the reader of FlexBuffers raises for bytes that are none.
_DAMAGE = (struct.error, ValueError, IndexError, TypeError, OverflowError, KeyError)


def decode_custom_options(data: bytes) -> dict[str, Any]:
    """Numbers and flags by name; empty bytes are no options. Raises ImportFailed.

    Nothing nested is followed, so that damaged offsets cannot make it recurse.
    """
    if not data:
        return {}
    if len(data) > _MOST_BYTES:
        raise ImportFailed(f"its options have {len(data)} bytes")
    from flatbuffers import flexbuffers

    found: dict[str, Any] = {}
    try:
        root = flexbuffers.GetRoot(data)
        if not root.IsMap:
            raise ImportFailed("its options are no map")
        entries = root.AsMap
        if len(entries) > _MOST_ENTRIES:
            raise ImportFailed(f"its options have {len(entries)} entries")
        for key, value in zip(entries.Keys, entries.Values, strict=True):
            if value.IsBool:
                found[key.AsKey[:_MOST_ENTRIES]] = bool(value.AsBool)
            elif value.IsInt:
                found[key.AsKey[:_MOST_ENTRIES]] = int(value.AsInt)
    except _DAMAGE as error:
        raise ImportFailed(f"its options are damaged ({type(error).__name__})") from None
    return found
