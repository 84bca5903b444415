"""Structure-aware damage to TFLite files, by the schema's object interface.

A file is read into objects once (`Source`). A damaged file is what the objects say after some
changes; the changes are then taken back. The parts that did not change are not written again: a
flatbuffer is written from its end, so the new parts are put in front of the old file, whose
parts they point to. What they replace stays in the file, and nothing refers to it.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from mutate import Rng, change_float, change_integer, change_list, change_text

#: A flatbuffer builder writes every number by its field's width.
_BYTE, _INT = (0, 127), (-(1 << 31), (1 << 31) - 1)
#: Of files read before; a fuzzer's corpus is smaller.
_MOST_SOURCES = 256


def mutate_tflite(data: bytes, changes: int, rng: Rng) -> bytes:
    """The file with `count` fields changed; changes that cannot be written are taken back."""
    return _source(data).mutate(changes, rng)


class _Builder(flatbuffers.Builder):
    """Remembers where each object was written, and writes none a second time."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.offsets: dict[int, int] = {}

    def copy(self) -> _Builder:
        """A builder that goes on from here."""
        other = copy.copy(self)
        other.Bytes = bytearray(self.Bytes)
        other.vtables = dict(self.vtables)
        other.offsets = dict(self.offsets)
        return other


def _write_once(pack: Callable[[Any, Any], int]) -> Callable[[Any, Any], int]:
    @functools.wraps(pack)
    def packed(table: Any, builder: Any) -> int:
        if not isinstance(builder, _Builder):
            return pack(table, builder)
        offset = builder.offsets.get(id(table))
        if offset is None:
            offset = builder.offsets[id(table)] = pack(table, builder)
        return offset

    return packed


for _kind in vars(schema).values():
    if isinstance(_kind, type) and hasattr(_kind, "Pack"):
        _kind.Pack = _write_once(_kind.Pack)  # type: ignore[attr-defined]


class Source:
    """A TFLite file as objects that can be changed and written in part."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.whole = schema.ModelT.InitFromPackedBuf(data, 0)
        self.kinds: dict[str, list[Any]] = defaultdict(list)
        self.parents: dict[int, list[int]] = defaultdict(list)
        for table in self._tables():
            self.kinds[type(table).__name__].append(table)
        self.names = sorted(self.kinds)
        self.builder = _Builder(2 * len(data) + 4096)
        self.whole.Pack(self.builder)

    def _tables(self) -> list[Any]:
        """Every table of the file, each once."""
        found, queue, seen = [], [self.whole], set()
        while queue:
            table = queue.pop()
            if id(table) in seen:
                continue
            seen.add(id(table))
            found.append(table)
            for value in vars(table).values():
                queue += self._children(table, value)
        return found

    def _children(self, table: Any, value: Any) -> list[Any]:
        """The tables in a field's value, from now on children of `table`."""
        values = value if isinstance(value, list) else [value]
        found = [entry for entry in values if hasattr(entry, "Pack")]
        for entry in found:
            self.parents[id(entry)].append(id(table))
        return found

    def mutate(self, changes: int, rng: Rng) -> bytes:
        """The file with `count` fields changed."""
        result = self.data
        before: list[tuple[Any, dict[str, Any]]] = []
        stale: set[int] = set()
        for _ in range(changes):
            table, fields, name = self._change(rng)
            before.append((table, fields))
            if name is None:
                continue
            self._children(table, getattr(table, name))
            self._forget(id(table), stale)
            try:
                result = self._write(stale)
            # The generated code asserts, or fails where a value does not fit its field.
            except Exception:
                vars(table).update(fields)
        for table, fields in reversed(before):
            vars(table).update(fields)
        return result

    def _change(self, rng: Rng) -> tuple[Any, dict[str, Any], str | None]:
        """Change one field of one table: the table, its fields before, which one changed."""
        # Every kind of table as often.
        same = self.kinds[self.names[int(rng.integers(len(self.names)))]]
        table = same[int(rng.integers(len(same)))]
        before = dict(vars(table))
        names = [name for name, value in before.items() if value is not None]
        if not names:
            return table, before, None
        name = names[int(rng.integers(len(names)))]
        setattr(table, name, _changed(before[name], same, name, rng))
        return table, before, name

    def _forget(self, table: int, stale: set[int]) -> None:
        """Add a table and all that hold it to those that must be written again."""
        queue = [table]
        while queue:
            entry = queue.pop()
            if entry not in stale:
                stale.add(entry)
                queue += self.parents[entry]

    def _write(self, stale: set[int]) -> bytes:
        builder = self.builder.copy()
        for table in stale:
            builder.offsets.pop(table, None)
        builder.Finish(self.whole.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


_source = functools.lru_cache(maxsize=_MOST_SOURCES)(Source)


def _changed(value: Any, same: list[Any], name: str, rng: Rng) -> Any:
    what = rng.random()
    if what < 0.15:  # the same field of another table of this kind, or nothing
        other = same[int(rng.integers(len(same)))]
        return getattr(other, name) if what < 0.1 else None
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, np.integer)):
        return change_integer(int(value), rng, *(_BYTE if rng.random() < 0.5 else _INT))
    if isinstance(value, float):
        return change_float(value, rng)
    if isinstance(value, bytes):
        return change_text(value, rng)
    if isinstance(value, np.ndarray):
        return _changed_array(value, rng)
    if isinstance(value, list):
        return change_list(value, rng)
    return None


def _changed_array(value: np.ndarray, rng: Rng) -> np.ndarray:
    if rng.random() < 0.3 or not value.size:
        return np.asarray(change_list(value[:10000].tolist(), rng), value.dtype)
    value = value.copy()
    at = int(rng.integers(value.size))
    if value.dtype.kind == "f":
        value[at] = change_float(float(value[at]), rng)
    else:
        info = np.iinfo(value.dtype)
        value[at] = change_integer(int(value[at]), rng, int(info.min), int(info.max))
    return value
