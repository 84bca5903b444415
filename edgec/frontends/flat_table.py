"""Fast field access for the generated classes of a flatbuffer schema.

The generated classes ask a table's `_tab` for each field. flatbuffers' own looks the field up in
the file's vtable again every time, through a dozen calls; this one reads the vtable once.
"""

from __future__ import annotations

import struct
from typing import Any

from flatbuffers.table import Table

_SIGNED, _UNSIGNED, _SHORT = (struct.Struct(code).unpack_from for code in ("<i", "<I", "<H"))
#: A vtable begins with its own size and the size of the table.
_SHORT_BYTES = 2


class FastTable(Table):  # type: ignore[misc]
    """A table of a flatbuffer that knows where its fields are.

    Raises struct.error where a place lies outside of the file, as flatbuffers' own does.
    """

    __slots__ = ("fields",)

    def __init__(self, data: bytes, position: int) -> None:
        super().__init__(data, position)
        vtable = position - _SIGNED(data, _inside(position))[0]
        size = _SHORT(data, _inside(vtable))[0]
        self.fields = struct.unpack_from(f"<{size // _SHORT_BYTES}H", data, vtable)

    def Offset(self, slot: int) -> int:
        """Offset of a field from the table's start; 0 if it is absent."""
        index = slot // _SHORT_BYTES
        return self.fields[index] if index < len(self.fields) else 0

    def Get(self, flags: Any, place: int) -> Any:
        """The number at a place of the file."""
        return flags.py_type(flags.packer_type.unpack_from(self.Bytes, _inside(place))[0])

    def VectorLen(self, offset: int) -> int:
        """Number of items of the vector that a field of the table points to."""
        return int(_UNSIGNED(self.Bytes, self.Vector(offset) - 4)[0])

    def Vector(self, offset: int) -> int:
        """Position of the items of the vector that a field of the table points to."""
        place = self.Pos + offset
        return int(place + _UNSIGNED(self.Bytes, place)[0] + 4)


def with_fast_fields(table: Any) -> Any:
    """The same object of a generated class, reading by a FastTable from now on."""
    table._tab = FastTable(table._tab.Bytes, table._tab.Pos)
    return table


def _inside(place: int) -> int:
    """A place that does not count from the file's end."""
    if place < 0:
        raise struct.error("before the file")
    return place
