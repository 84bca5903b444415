"""Run a PrimFunc while watching its accesses, or with input and output in the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgec.loop.access import reads, writes
from edgec.loop.interpret import run_source
from edgec.loop.ir import Buffer, Call, PrimFunc
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.loop.rewrite import walk


class Window:
    """Elements of a buffer as the interpreter wants them: an item at a time, or a slice."""

    def __len__(self) -> int:
        raise NotImplementedError

    def get(self, index: int) -> Any:
        raise NotImplementedError

    def put(self, index: int, value: Any) -> None:
        raise NotImplementedError

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self.get(i) for i in range(*at.indices(len(self)))]
        return self.get(at)

    def __setitem__(self, at: int, value: Any) -> None:
        self.put(at, value)


class Watched(Window):
    """A buffer of its own that notes every access: (name, is_write, first byte)."""

    def __init__(self, buffer: Buffer, values: np.ndarray | None, log: list[Any]) -> None:
        self.name = buffer.name
        self.size = np.dtype(buffer.dtype).itemsize
        fill = np.zeros(buffer.elements, buffer.dtype) if values is None else values.reshape(-1)
        self.values: list[Any] = fill.tolist()
        self.log = log

    def __len__(self) -> int:
        return len(self.values)

    def get(self, index: int) -> Any:
        self.log.append((self.name, False, index * self.size))
        return self.values[index]

    def put(self, index: int, value: Any) -> None:
        self.log.append((self.name, True, index * self.size))
        self.values[index] = value


class Placed(Window):
    """A buffer at some byte of a memory that others use too."""

    def __init__(self, buffer: Buffer, memory: np.ndarray, start: int) -> None:
        self.size = np.dtype(buffer.dtype).itemsize
        self.bytes = memory[start : start + buffer.elements * self.size]
        self.dtype = np.dtype(buffer.dtype)
        assert self.bytes.size == buffer.elements * self.size

    def __len__(self) -> int:
        return self.bytes.size // self.size

    def get(self, index: int) -> Any:
        part = self.bytes[index * self.size : (index + 1) * self.size]
        return np.frombuffer(part.tobytes(), self.dtype)[0].item()

    def put(self, index: int, value: Any) -> None:
        part = np.array(value, self.dtype).tobytes()
        self.bytes[index * self.size : (index + 1) * self.size] = np.frombuffer(part, np.uint8)


class Behind(Window):
    """What a pointer into another buffer sees."""

    def __init__(self, inner: Any, offset: int) -> None:
        self.inner = inner
        self.offset = offset

    def __len__(self) -> int:
        return len(self.inner) - self.offset

    def get(self, index: int) -> Any:
        return self.inner[self.offset + index]

    def put(self, index: int, value: Any) -> None:
        self.inner[self.offset + index] = value


def run(func: PrimFunc, lists: Mapping[str, Any]) -> None:
    """Run in the order of the nest; inside a microkernel, in the order of its meaning."""
    names = {stmt.callee for stmt, _ in walk(func.body) if isinstance(stmt, Call)}
    run_source(func, dict(lists), {name: _in_order(name) for name in names})


def _in_order(name: str) -> Any:
    kernel = get_microkernel(name)

    def call(*args: Any) -> None:
        names = (*kernel.sizes, *kernel.indices)
        numbers = args[len(args) - len(names) :]
        meaning = meaning_of(kernel, tuple(numbers))
        sizes = dict(zip(names, numbers, strict=True))
        parts: dict[str, Any] = {}
        for position, param in enumerate(kernel.pointers(meaning)):
            values, offset = args[2 * position], args[2 * position + 1]
            if kernel.stream is not None and param.name == kernel.stream.sources[0]:
                words = np.array(values[offset : offset + kernel.stream.words(**sizes)], np.int32)
                for source, array in kernel.stream.unpack(words, **sizes).items():
                    parts[source] = np.asarray(array).reshape(-1).tolist()
            else:
                parts[param.name] = Behind(values, offset)
        if kernel.reads_first and not kernel.in_order:  # as memmove does
            read = reads(meaning.body) - writes(meaning.body)
            parts |= {p.name: parts[p.name][: p.elements] for p in meaning.params if p in read}
        run_source(meaning, parts)

    return call


def watched_distances(
    func: PrimFunc, arrays: Mapping[str, np.ndarray], output: str
) -> tuple[np.ndarray, dict[str, int | None]]:
    """The output, and for each given arena buffer the distance that this very run needs.

    None where no write comes before a read: any distance will do.
    """
    log: list[Any] = []
    sizes = {b.name: np.dtype(b.dtype).itemsize for b in func.params}
    lists: dict[str, Any] = {}
    for buffer in func.params:
        if buffer.scope == "arena":
            lists[buffer.name] = Watched(buffer, arrays.get(buffer.name), log)
        elif buffer.name in arrays:
            lists[buffer.name] = arrays[buffer.name].reshape(-1).tolist()
    run(func, lists)
    written = -(1 << 40)
    needed: dict[str, int | None] = {
        b.name: None for b in func.params if b.scope == "arena" and b.name != output
    }
    for name, is_write, at in log:
        if name == output and is_write:
            written = max(written, at + sizes[output])
        elif name != output and not is_write and written > 0:
            before = needed[name]
            needed[name] = written - at if before is None else max(before, written - at)
    dtype = next(b.dtype for b in func.params if b.name == output)
    return np.array(lists[output].values, dtype), needed


def run_shared(
    func: PrimFunc,
    arrays: Mapping[str, np.ndarray],
    input: str,
    output: str,
    distance: int,
    *,
    result: str = "",
) -> np.ndarray:
    """The output of a run in which it starts `distance` bytes below the input, in one memory.

    Scratch may stand for `output`; then `result` is what to return.
    """
    buffers = {b.name: b for b in func.params}
    nbytes = {n: b.elements * np.dtype(b.dtype).itemsize for n, b in buffers.items()}
    input_at, output_at = max(distance, 0), max(-distance, 0)
    memory = np.zeros(max(input_at + nbytes[input], output_at + nbytes[output]), np.uint8)
    memory[input_at : input_at + nbytes[input]] = np.frombuffer(
        np.ascontiguousarray(arrays[input]).tobytes(), np.uint8
    )
    lists: dict[str, Any] = {n: a.reshape(-1).tolist() for n, a in arrays.items()}
    lists[input] = Placed(buffers[input], memory, input_at)
    lists[output] = Placed(buffers[output], memory, output_at)
    if result:
        lists[result] = Placed(buffers[result], np.zeros(nbytes[result], np.uint8), 0)
    run(func, lists)
    found = lists[result or output]
    return np.frombuffer(found.bytes.tobytes(), buffers[result or output].dtype)
