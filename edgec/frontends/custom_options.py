"""Options of TFLite's custom operators: numbers by name, from a FlexBuffer's map or a C struct."""

from __future__ import annotations

import struct
from typing import Any

from edgec.errors import ImportFailed

#: More entries, or more bytes, are damage.
_MOST_ENTRIES = 64
_MOST_BYTES = 1 << 12
#: The errors that the reader of FlexBuffers raises for other bytes.
_DAMAGE = (struct.error, ValueError, IndexError, TypeError, OverflowError, KeyError)
#: Operators whose options are a struct of little-endian int32, with the names of its fields.
#: Source: TfLiteTransposeConvParams of TensorFlow Lite's builtin_op_data.h; MediaPipe's converter
#: writes the fields that it had first, and newer ones may follow.
_STRUCTS = {"Convolution2DTransposeBias": ("padding", "stride_width", "stride_height")}


def decode_custom_options(data: bytes, operator: str = "") -> dict[str, Any]:
    """Numbers and flags by name; empty bytes are no options. Raises ImportFailed.

    operator: its custom code. Nested tables are not followed, so damaged offsets cannot make it
    recurse.
    """
    if operator in _STRUCTS:
        names = _STRUCTS[operator]
        if len(data) < 4 * len(names):
            raise ImportFailed(f"its options have {len(data)} bytes, not {4 * len(names)}")
        return dict(zip(names, struct.unpack_from(f"<{len(names)}i", data), strict=True))
    if not data:
        return {}
    if len(data) > _MOST_BYTES:
        raise ImportFailed(f"its options have {len(data)} bytes")
    from flatbuffers import flexbuffers

    found: dict[str, Any] = {}
    try:
        root = flexbuffers.GetRoot(data)
        if not root.IsMap:
            raise ImportFailed("its options are not a map")
        entries = root.AsMap
        if len(entries) > _MOST_ENTRIES:
            raise ImportFailed(f"its options have {len(entries)} entries")
        for key, value in zip(entries.Keys, entries.Values, strict=True):
            if value.IsBool:
                found[key.AsKey[:_MOST_ENTRIES]] = bool(value.AsBool)
            elif value.IsInt:
                found[key.AsKey[:_MOST_ENTRIES]] = int(value.AsInt)
            elif value.IsFloat:
                found[key.AsKey[:_MOST_ENTRIES]] = float(value.AsFloat)
    except _DAMAGE as error:
        raise ImportFailed(f"its options are damaged ({type(error).__name__})") from None
    return found
