"""Structure-aware damage to ONNX files, by reflection on the protobuf's messages."""

from __future__ import annotations

import contextlib
from typing import Any

from google.protobuf.message import DecodeError
from mutate import Rng, change_float, change_integer, change_text

#: Graphs within graphs.
MOST_DEPTH = 60


def mutate_onnx(data: bytes, changes: int, rng: Rng) -> bytes:
    """The file with `count` fields changed."""
    import onnx

    model = onnx.load_model_from_string(data)
    for _ in range(changes):
        what = rng.random()
        # Copies of deeply nested graphs may be deeper than protobuf takes.
        with contextlib.suppress(DecodeError):
            if what < 0.03:
                _nest(model, rng)
            elif what < 0.08:
                _point_elsewhere(model, rng)
            elif what < 0.2:
                _rename_inputs(model, rng)
            else:
                _change(model, rng)
    return bytes(model.SerializeToString())


def _messages(root: Any) -> list[Any]:
    found, queue = [], [root]
    while queue:
        message = queue.pop()
        found.append(message)
        for field, value in message.ListFields():
            if field.message_type is not None:
                queue += list(value) if _repeated(field) else [value]
    return found


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == 3)


def _change(model: Any, rng: Rng) -> None:
    """Change one field of one message, every kind of message as often."""
    messages = _messages(model)
    kinds = sorted({message.DESCRIPTOR.name for message in messages})
    kind = kinds[int(rng.integers(len(kinds)))]
    same = [message for message in messages if message.DESCRIPTOR.name == kind]
    message = same[int(rng.integers(len(same)))]
    fields = [field for field, _ in message.ListFields()]
    if not fields:
        return
    field = fields[int(rng.integers(len(fields)))]
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif _repeated(field):
        _change_repeated(message, field, rng)
    elif field.message_type is not None:
        other = same[int(rng.integers(len(same)))]
        copy = type(getattr(message, field.name))()
        copy.CopyFrom(getattr(other, field.name))
        getattr(message, field.name).CopyFrom(copy)
    else:
        setattr(message, field.name, _changed(getattr(message, field.name), field, rng))


def _change_repeated(message: Any, field: Any, rng: Rng) -> None:
    values = getattr(message, field.name)
    at = int(rng.integers(len(values)))
    if field.message_type is None and rng.random() < 0.6:
        values[at] = _changed(values[at], field, rng)
        return
    what = rng.integers(3)
    if what == 0:
        del values[at]
    elif what == 1 and field.message_type is not None:
        values.add().CopyFrom(values[at])
    elif what == 1:
        values.append(values[at])
    else:
        entries = list(values)
        other = int(rng.integers(len(entries)))
        entries[at], entries[other] = entries[other], entries[at]
        copies = [type(e)() for e in entries] if field.message_type is not None else entries
        if field.message_type is not None:
            for copy, entry in zip(copies, entries, strict=True):
                copy.CopyFrom(entry)
        del values[:]
        values.extend(copies)


def _changed(value: Any, field: Any, rng: Rng) -> Any:
    if field.enum_type is not None:
        numbers = [entry.number for entry in field.enum_type.values]
        return numbers[int(rng.integers(len(numbers)))]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        wide = field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
        signed = field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_INT32)
        bits = 63 if wide else 31
        return change_integer(value, rng, -(1 << bits) if signed else 0, (1 << bits) - 1)
    if isinstance(value, float):
        return change_float(value, rng)
    if isinstance(value, str):
        return change_text(value.encode(), rng).decode("utf-8", "replace")
    return change_text(value, rng)


def _rename_inputs(model: Any, rng: Rng) -> None:
    """Let a node read another value: one that comes later, its own, or none."""
    nodes = [node for node in model.graph.node if node.input]
    if not nodes:
        return
    node = nodes[int(rng.integers(len(nodes)))]
    names = [name for other in model.graph.node for name in other.output]
    names += [entry.name for entry in model.graph.initializer] + [""]
    at = int(rng.integers(len(node.input)))
    node.input[at] = names[int(rng.integers(len(names)))]


def _point_elsewhere(model: Any, rng: Rng) -> None:
    """Say that a tensor's data lie in another file."""
    if not model.graph.initializer:
        return
    tensor = model.graph.initializer[int(rng.integers(len(model.graph.initializer)))]
    tensor.data_location = 1
    entry = tensor.external_data.add()
    entry.key = "location"
    entry.value = str(rng.choice(["/etc/passwd", "../../etc/passwd", "/dev/zero", ""]))
    if rng.random() < 0.5:
        tensor.ClearField("raw_data")


def _nest(model: Any, rng: Rng) -> None:
    """Put a graph into an attribute of a node of itself, many levels deep."""
    import onnx

    inner = onnx.GraphProto()
    inner.name = "inner"
    for _ in range(int(rng.integers(1, MOST_DEPTH))):
        outer = onnx.GraphProto()
        node = outer.node.add(op_type=str(rng.choice(["If", "Loop", "Relu"])))
        node.attribute.add(name="then_branch", type=5).g.CopyFrom(inner)
        inner = outer
    model.graph.node.add(op_type="If", output=["nested"]).attribute.add(
        name="then_branch", type=5
    ).g.CopyFrom(inner)
