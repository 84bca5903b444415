"""Classifies a graph's outputs: separate memory, or views of inputs and of other outputs.

A user may write into an output and expect the change in the input that it is a view of. So a graph
is run once without data (torch's fake tensors) to find the owner of each output's memory, and the
inputs that the graph writes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import EdgecError


@dataclass(frozen=True)
class Output:
    """One output of a graph; offset and strides count elements.

    of_input, of_output: the number of the input, or of the output before it, whose memory it has;
    None where that is its own. offset: of its first element, from where that one's memory begins.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    of_input: int | None = None
    of_output: int | None = None
    offset: int = 0

    @property
    def is_own(self) -> bool:
        return self.of_input is None and self.of_output is None

    def view(self, source: Any) -> Any:
        """Return the output as a view of the tensor whose memory it shares."""
        same = tuple(source.shape) == self.shape and source.stride() == self.strides
        if same and self.offset == 0:
            return source
        return source.as_strided(self.shape, self.strides, source.storage_offset() + self.offset)


def outputs_of(graph: Any, inputs: Sequence[Any]) -> tuple[tuple[Output, ...], tuple[int, ...]]:
    """The outputs of a graph called with these inputs, tensors or numbers; and the inputs it writes
    to.

    Raises EdgecError if sizes or numbers depend on data, or if the graph writes to memory of
    several inputs, returns something other than tensors, or outputs share memory in another way
    than `Output` supports.
    """
    import torch
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )

    mode: Any = FakeTensorMode(allow_non_fake_inputs=True)
    given = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs]
    before = [(_version(x), getattr(x, "shape", None)) for x in given]
    try:
        with mode, torch.no_grad():
            results = graph(*given)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise EdgecError(f"{error.func} makes sizes or numbers that depend on the data") from None
    written = _written(given, before)
    results = results if isinstance(results, (tuple, list)) else (results,)
    if not all(isinstance(result, torch.Tensor) for result in results):
        raise EdgecError("an output is not a tensor")
    found: list[Output] = []
    for number, result in enumerate(results):
        found.append(_described(result, given, results[:number], found))
    return tuple(found), written


def _written(inputs: Sequence[Any], before: Sequence[tuple[int, Any]]) -> tuple[int, ...]:
    """The inputs that were changed; each must have its memory to itself, and keep its shape."""
    changed = [
        number
        for number, (x, (version, _)) in enumerate(zip(inputs, before, strict=True))
        if _version(x) != version
    ]
    for number in changed:
        same = [x for x in inputs if _share(inputs[number], x)]
        if len(same) > 1 or inputs[number].shape != before[number][1]:
            raise EdgecError("it writes to memory that several of its inputs share, or resizes one")
    return tuple(changed)


def _version(value: Any) -> int:
    return getattr(value, "_version", 0)


def _described(
    result: Any, inputs: Sequence[Any], before: Sequence[Any], known: Sequence[Output]
) -> Output:
    plain = Output(tuple(result.shape), tuple(result.stride()), result.dtype)
    for number, given in enumerate(inputs):
        if _share(result, given):
            offset = _offset(result, given)
            return Output(plain.shape, plain.strides, plain.dtype, of_input=number, offset=offset)
    for number, other in enumerate(before):
        if known[number].is_own and _share(result, other):
            if not other.is_contiguous() or other.untyped_storage().nbytes() != other.nbytes:
                raise EdgecError(
                    "two of its outputs share memory, and neither of them covers all of it"
                )
            offset = _offset(result, other)
            return Output(plain.shape, plain.strides, plain.dtype, of_output=number, offset=offset)
    return plain


def _share(one: Any, other: Any) -> bool:
    """Whether two tensors have the same memory."""
    if not hasattr(other, "untyped_storage"):
        return False
    same: bool = one.untyped_storage()._cdata == other.untyped_storage()._cdata
    return same


def _offset(result: Any, source: Any) -> int:
    if result.dtype != source.dtype:
        raise EdgecError(f"an output reads the memory of a {source.dtype} tensor as another dtype")
    offset: int = result.storage_offset() - source.storage_offset()
    return offset
