"""Remove channels that no output depends on; every output keeps every bit.

1. `channel_intervals` finds channels that always hold one integer: zero filters, clamps that always
   saturate.
2. A channel is needed if a reader needs it. A convolution or dense layer does not need an input
   channel that is constant, because the bias absorbs it (with padding only if it is the zero point,
   the value of padding), nor one whose weights are all zero. A depthwise convolution, requantize,
   pool, addition or view needs its output's needed channels.
3. Rows and columns of removed channels are cut from weights, biases and multipliers. The provenance
   of each value has its kept channels and the constants of the others.
4. A layer whose number of channels is a multiple of MULTIPLE keeps a multiple: kernels work on
   blocks of channels, and an unused channel costs less than an incomplete block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.provenance import Origin
from edgec.graph.traits import Channels, Interval, Products, padded
from edgec.graph.types import Array, Quant
from edgec.numerics.fixed_point import wrap_int32
from edgec.passes.channel_intervals import channel_intervals
from edgec.passes.channels import channels_of
from edgec.passes.rewriter import Rewriter

#: Channel -> the stored integer that it always holds.
Constants = dict[int, int]
#: One flag per channel.
Flags = npt.NDArray[np.bool_]
#: Channels that kernels compute together.
MULTIPLE = 4


@dataclass(frozen=True)
class Shrinkage:
    """The channels that were removed from one value.

    constants: channel -> the one integer of its interval. duplicates: channel -> the equal one that
    is read in its stead. unread: channels that vary but that nothing depends on.
    """

    value: str
    channels: int
    constants: Constants
    duplicates: Mapping[int, int]
    unread: tuple[int, ...]


def shrink_channels(
    function: Function, equal: Mapping[str, Mapping[int, int]] | None = None
) -> tuple[Function, tuple[Shrinkage, ...]]:
    """The smaller function and a report of the removed channels, by value.

    equal: by name of a value, channel -> an earlier channel that is always equal.
    """
    intervals = channel_intervals(function)
    needed = _needed(function, intervals)
    if all(flags.all() for flags in needed.values()):
        return function, ()
    constants = {
        value: {int(c): int(low[c]) for c in np.flatnonzero((low == high) & ~needed[value])}
        for value, (low, high) in intervals.items()
        if value in needed
    }
    shrunk = Rewriter(function).run(_Shrink(needed, constants))
    report = tuple(
        _shrinkage(value, flags, constants.get(value, {}), (equal or {}).get(value.name, {}))
        for value, flags in needed.items()
        if value.origin is not None and not flags.all()
    )
    return shrunk, report


def _shrinkage(
    value: Value, flags: Flags, constants: Constants, equal: Mapping[int, int]
) -> Shrinkage:
    varying = [int(c) for c in np.flatnonzero(~flags) if int(c) not in constants]
    duplicates = {c: equal[c] for c in varying if c in equal and flags[equal[c]]}
    unread = tuple(c for c in varying if c not in duplicates)
    return Shrinkage(value.name, len(flags), constants, duplicates, unread)


def _needed(function: Function, intervals: dict[Value, Interval]) -> dict[Value, Flags]:
    """Return the needed channels of each value. The sets grow until nothing changes."""
    needed: dict[Value, Flags] = {}
    for value in function.values():
        channels = value.type.shape[-1] if value.type.shape else 0
        at_the_edge = value in function.params or value in function.results
        needed[value] = np.full(channels, at_the_edge)
        if channels and not at_the_edge:
            needed[value][_cheapest(intervals.get(value))] = True  # something must stay
    _spread(function, needed, intervals)
    while _fill_blocks(function, needed):
        _spread(function, needed, intervals)
    return needed


def _spread(
    function: Function, needed: dict[Value, Flags], intervals: dict[Value, Interval]
) -> None:
    """Mark the channels that marked channels depend on, until nothing changes."""
    before = -1
    while (now := sum(int(flags.sum()) for flags in needed.values())) != before:
        before = now
        for node in reversed(function.nodes):
            _need_inputs(node, needed, intervals)
        for node in function.nodes:
            _keep_outputs(node, needed)


def _fill_blocks(function: Function, needed: dict[Value, Flags]) -> bool:
    """Keep spare channels up to the next multiple; whether there were any to keep."""
    filled = False
    for node in function.nodes:
        flags = needed[node.outputs[0]]
        missing = -int(flags.sum()) % MULTIPLE
        if missing and channels_of(node) is Channels.MIXED and len(flags) % MULTIPLE == 0:
            flags[np.flatnonzero(~flags)[:missing]] = True
            filled = True
    return filled


def _cheapest(interval: Interval | None) -> int:
    """The channel to keep where none would stay: one that is not constant, if there is one."""
    return 0 if interval is None else int(np.argmax(interval[0] != interval[1]))


def _need_inputs(node: Node, needed: dict[Value, Flags], intervals: dict[Value, Interval]) -> None:
    wanted, relation = needed[node.outputs[0]], channels_of(node)
    if relation is Channels.MIXED and node.output.type.dtype == "int32":
        x, w = node.inputs[:2]
        assert isinstance(w, Constant)
        used = np.any(w.data[wanted] != 0, axis=tuple(range(w.data.ndim - 1)))
        needed[x] |= used & ~_foldable(node, intervals)
        return
    for value, part in _parts(node, wanted):
        if isinstance(value, Constant):
            continue
        if relation is Channels.REPEATED:
            needed[value] |= part.reshape(-1, len(needed[value])).any(axis=0)
        elif relation in (Channels.SAME, Channels.JOINED):
            needed[value] |= part
        else:
            needed[value][:] = True


def _foldable(node: Node, intervals: dict[Value, Interval]) -> Flags:
    """Input channels whose constant can go into the bias."""
    x = node.inputs[0]
    if x not in intervals or x.type.quant is None:
        return np.zeros(x.type.shape[-1], bool)
    low, high = intervals[x]
    constant: Flags = low == high
    if padded(node.attrs):
        constant = constant & (low == x.type.quant.zero_point[0])
    return constant


def _keep_outputs(node: Node, needed: dict[Value, Flags]) -> None:
    """Channel by channel operators keep an output for every input that stays."""
    if len(node.outputs) > 1:
        for output in node.outputs:
            needed[output][:] = True
        return
    flags, relation = needed[node.output], channels_of(node)
    if relation is Channels.UNKNOWN:
        flags[:] = True
    elif relation is not Channels.MIXED:
        for value, part in _parts(node, flags):
            kept = needed.get(value, np.ones(1, bool))  # all of a constant's
            part |= np.tile(kept, len(part) // len(kept))


def _parts(node: Node, flags: Flags) -> list[tuple[Value, Flags]]:
    """The operands with channels, each with its part of the output's flags."""
    if channels_of(node) is not Channels.JOINED:
        return [(value, flags) for value in node.activations]
    ends = np.cumsum([value.type.shape[-1] for value in node.inputs])
    return list(zip(node.inputs, np.split(flags, ends[:-1]), strict=True))


class _Shrink:
    """Rewrites every node that loses an output or an input channel."""

    def __init__(self, needed: dict[Value, Flags], constants: dict[Value, Constants]) -> None:
        self.needed = needed
        self.constants = constants

    def kept(self, value: Value) -> list[int]:
        return [int(c) for c in np.flatnonzero(self.needed[value])]

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        values = [v for v in (*node.inputs, *node.outputs) if not isinstance(v, Constant)]
        if all(self.needed[value].all() for value in values):
            return None
        attrs, products = node.attrs, node.op.dot_products
        if products is not None:
            inputs = (inputs[0], *self._weights(rewriter, node, products))
        else:
            attrs = node.op.attrs_for_channels(attrs, self.kept(node.output))
            inputs = self._constants_of(rewriter, node, inputs)
        return rewriter.remake(node, inputs, attrs, origins=[self._origin(node.output)])

    def _origin(self, value: Value) -> Origin | None:
        if value.origin is None or self.needed[value].all():
            return value.origin
        return replace(
            value.origin,
            kept_channels=tuple(self.kept(value)),
            removed=tuple(sorted(self.constants.get(value, {}).items())),
        )

    def _weights(self, rewriter: Rewriter, node: Node, products: Products) -> tuple[Value, Value]:
        """Weights without removed rows and columns, and the bias with their constants in it."""
        x, w, b = node.inputs
        assert isinstance(w, Constant) and isinstance(b, Constant)
        rows, weights, bias = self.kept(node.output), w.data, b.data
        if not products.is_depthwise:
            bias = self._with_constants(x, w, b)
            weights = weights.take(self.kept(x), products.inputs)
        weights = weights.take(rows, products.outputs)
        quant = None if w.type.quant is None else w.type.quant.taken(products.outputs, rows)
        return _constant(rewriter, w, weights, quant), _constant(rewriter, b, bias[rows], None)

    def _with_constants(self, x: Value, w: Constant, b: Constant) -> Array:
        """The bias plus the contribution of the removed constant input channels."""
        if x.type.quant is None:
            return b.data
        bias = b.data.astype(np.int64)
        for channel, constant in self.constants.get(x, {}).items():
            taps = w.data[..., channel].astype(np.int64).reshape(len(bias), -1).sum(axis=1)
            bias = bias + taps * (constant - x.type.quant.zero_point[0])
        if b.type.dtype == "int32":
            bias = wrap_int32(bias)
        return bias.astype(b.type.dtype)

    def _constants_of(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        """Constant operands without the channels that the output loses; one channel serves all."""
        flags = [self.needed[node.output]] * len(inputs)
        if channels_of(node) is Channels.JOINED:
            flags = [part for _, part in _parts(node, self.needed[node.output])]
        return tuple(
            _constant(rewriter, value, value.data[..., part], value.type.quant)
            if isinstance(value, Constant) and value.type.shape[-1:] == (len(part),)
            else value
            for value, part in zip(inputs, flags, strict=True)
        )


def _constant(rewriter: Rewriter, old: Constant, data: Array, quant: Quant | None) -> Constant:
    return rewriter.builder.constant(f"{old.name}.shrunk", np.ascontiguousarray(data), quant)
