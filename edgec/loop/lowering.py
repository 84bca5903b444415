"""The interface of an operator's `lower`: one definition per fusion group, and its tables.

An operator calls `compute` or `reduce` for its value; this module decides whether the value is the
group's output or a temporary inside the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from edgec.loop.define import Definition, ReduceAxis, Tensor
from edgec.loop.dtype import bits
from edgec.loop.ir import Buffer, BufferRef, Call, Const, PrimFunc, Use, shared
from edgec.loop.rescale_lines import Accumulators
from edgec.loop.values import Array, Operand
from edgec.loop.window import Window
from edgec.numerics.narrow_float import stored_in
from edgec.numerics.term import as_term

#: The open axes of values, by the values' names.
OpenAxes = Mapping[str, Sequence[bool]]


class Lowering:
    """One fusion group being lowered.

    `tables` holds the arrays of constants that exist only in the loops: multipliers, shifts, folded
    biases, lookup tables, and the weights. `open_axes` lists the open axes of each value of open
    size; then the tables of all sizes must begin with the same entries. `accumulators` are the sums
    of the group's first node for the others.
    """

    def __init__(self, name: str, open_axes: OpenAxes | None = None) -> None:
        self.definition = Definition(name)
        self.open_axes = open_axes
        self.accumulators: Accumulators | None = None
        self.tables: dict[str, Array] = {}
        self.target: Tensor | None = None
        self.targets: tuple[Tensor, ...] = ()  # of an operator with several outputs
        self.foreign: Call | None = None  # of a user's operator: the whole group
        self.room: tuple[Buffer, ...] = ()  # the scratch of that call
        self.window: Window | None = None  # of a convolution that is lowered as a product
        self.scales: dict[str, tuple[float, int]] = {}  # and zero points of inputs and outputs
        self.halves: frozenset[str] = frozenset()  # inputs of float32 with numbers of float16 alone

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """An activation that comes from outside the group."""
        return self.definition.input(name, shape, stored_in(dtype))

    def output(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """Declare the group's output; the last node of the group writes it."""
        return self.definition.output(name, shape, stored_in(dtype))

    def table(self, name: str, array: Array) -> Tensor:
        """A constant array; its name gets a number if it is taken."""
        name = self.unique(name)
        array = array.view(stored_in(array.dtype.name))
        self.tables[name] = array
        return self.definition.constant(name, array.shape, array.dtype.name)

    @property
    def is_open(self) -> bool:
        """Whether the tables of all sizes must begin with the same entries."""
        return self.open_axes is not None

    def is_open_along(self, name: str, axis: int) -> bool:
        """Whether a value's size along an axis is open."""
        axes = (self.open_axes or {}).get(name)
        return axes is not None and axes[axis]

    def unique(self, name: str) -> str:
        """`name`, or `name2`, `name3` … if it is taken."""
        candidate, number = name, 1
        while candidate in self.definition.tensors:
            number += 1
            candidate = f"{name}{number}"
        return candidate

    def compute(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        body: Callable[..., Operand],
        **options: Any,
    ) -> Tensor:
        """The node's value, element by element: see `Definition.compute`."""
        if self.target is not None:
            return self.definition.compute(self.target, body, **options)
        return self.definition.compute(
            self.unique(name), body, shape=shape, dtype=stored_in(dtype), **options
        )

    def reduce(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        axes: Sequence[ReduceAxis],
        *,
        init: Callable[..., Operand],
        update: Callable[..., Operand],
    ) -> Tensor:
        """The node's value as a reduction: see `Definition.reduce`.

        Where it is the group's output it is a temporary first, for schedules to keep in registers;
        but not sums of 64 bits, which take two of them and more code than they save.
        """
        if self.target is not None and bits(dtype) > 32:
            return self.definition.reduce(self.target, axes, init=init, update=update)
        sums = self.definition.reduce(
            self.unique(name), axes, init=init, update=update, shape=shape, dtype=dtype
        )
        if self.target is None:
            return sums
        return self.definition.compute(self.target, lambda *at: sums[at])

    def call(
        self, symbol: str, inputs: Sequence[Tensor], numbers: Sequence[int | float], room: int = 0
    ) -> None:
        """The node's values by a foreign function (`edgec.loop.foreign`): the whole group is it.

        room: bytes of memory that it may use.
        """
        reads = [whole(tensor.buffer, "reads") for tensor in inputs]
        writes = [whole(tensor.buffer, "writes") for tensor in self.targets]
        constants = (
            Const(number, "int32" if isinstance(number, int) else "float32") for number in numbers
        )
        self.room = (Buffer(self.unique("room"), (room,), "uint8", "scratch"),) if room else ()
        own = [whole(buffer, "updates") for buffer in self.room]
        self.foreign = Call(symbol, (*reads, *writes, *own, *constants))

    def build(self) -> PrimFunc:
        """The loop nests of the whole group, once all nodes are lowered."""
        return self._built

    @cached_property
    def _built(self) -> PrimFunc:
        if self.foreign is not None:
            buffers = [tensor.buffer for tensor in self.definition.tensors.values()]
            params = [b for scope in ("arena", "constant") for b in buffers if b.scope == scope]
            return PrimFunc(self.definition.name, (*params, *self.room), (), self.foreign)
        return shared(self.definition.build())


def whole(buffer: Buffer, use: Use) -> BufferRef:
    """An argument of a call: all of a buffer."""
    return BufferRef(buffer, tuple(as_term(0) for _ in buffer.shape), use, buffer.shape)
