"""Tensors of an ONNX file that lie in other files.

edgec never opens those, but ONNX Runtime does, wherever they stand: `edgec verify` hands it the
file. So every place that can hold a tensor is looked at: initializers (dense and sparse),
attributes, subgraphs, functions, training information.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

#: The message that holds a tensor, and what its `data_location` says of data elsewhere.
TENSOR = "onnx.TensorProto"
EXTERNAL = 1


def external_tensors(model: Any) -> Iterator[str]:
    """The names of a ModelProto's tensors whose data lie in another file."""
    queue = [model]
    while queue:
        message = queue.pop()
        if message.DESCRIPTOR.full_name == TENSOR:
            if message.data_location == EXTERNAL or message.external_data:
                yield message.name
            continue
        for field, value in message.ListFields():
            if field.message_type is not None and _can_hold_tensor(field.message_type):
                queue += [value] if hasattr(value, "DESCRIPTOR") else value


@functools.cache
def _can_hold_tensor(kind: Any) -> bool:
    """Whether a message of this kind is a tensor or can have one somewhere below it."""
    seen, queue = {kind}, [kind]
    while queue:
        for field in queue.pop().fields:
            if field.message_type is not None and field.message_type not in seen:
                seen.add(field.message_type)
                queue.append(field.message_type)
    return any(found.full_name == TENSOR for found in seen)
