"""Structure-aware damage to TFLite files, by the schema's object interface."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
from mutate import Rng, change_float, change_integer, change_list, change_text

#: A flatbuffer builder writes every number by its field's width.
_BYTE, _INT = (0, 127), (-(1 << 31), (1 << 31) - 1)


def mutate_tflite(data: bytes, changes: int, rng: Rng) -> bytes:
    """The file with so many fields changed; changes that cannot be written are taken back."""
    from ai_edge_litert import schema_py_generated as schema

    whole = schema.ModelT.InitFromPackedBuf(data, 0)
    result = data
    for _ in range(changes):
        nodes = _tables(whole)
        table, undo = _change(nodes, rng)
        try:
            builder = flatbuffers.Builder(len(data) + 1024)
            builder.Finish(whole.Pack(builder), file_identifier=b"TFL3")
            result = bytes(builder.Output())
        # The generated code asserts, or fails where a value does not fit its field.
        except Exception:
            table.__dict__.update(undo)
    return result


def _tables(root: Any) -> list[Any]:
    """Every table of the file, each once, large vectors of them thinned."""
    found, queue, seen = [], [root], set()
    while queue:
        table = queue.pop()
        if id(table) in seen:
            continue
        seen.add(id(table))
        found.append(table)
        for value in vars(table).values():
            if isinstance(value, list):
                queue += [entry for entry in value if hasattr(entry, "Pack")]
            elif hasattr(value, "Pack"):
                queue.append(value)
    return found


def _change(tables: list[Any], rng: Rng) -> tuple[Any, dict[str, Any]]:
    """Change one field of one table; returns the table and its fields before."""
    kinds = sorted({type(table).__name__ for table in tables})
    kind = kinds[int(rng.integers(len(kinds)))]  # every kind of table as often
    same = [table for table in tables if type(table).__name__ == kind]
    table = same[int(rng.integers(len(same)))]
    before = dict(vars(table))
    names = [name for name, value in before.items() if value is not None]
    if not names:
        return table, before
    name = names[int(rng.integers(len(names)))]
    setattr(table, name, _changed(before[name], same, name, rng))
    return table, before


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
