"""Make one operator of a normalization that a file has in its parts; last bits may differ.

1. A match of `edgec.ops.norm_parts` becomes a normalization with its scales, or with scales of one.
2. A product with a constant for each channel becomes part of the scale, a sum part of the bias,
   where nothing else reads the normalization.

A float model is fused before it is quantized. In a quantized model only rows of stored integers are
fused, as in the float model it was made from; other floats keep their bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Arithmetic, Storage
from edgec.graph.types import Array
from edgec.ops.layer_norm import LayerNorm, LayerNormAttrs
from edgec.ops.norm_parts import NormParts, channel_constant
from edgec.ops.rms_norm import RmsNorm, RmsNormAttrs
from edgec.passes.rewriter import Rewriter


def fuse_norms(function: Function, *, stored: bool = False) -> Function:
    """stored: only norms of dequantized values."""
    if not {Arithmetic.SUM, Arithmetic.QUOTIENT} & {node.op.computes for node in function.nodes}:
        return function
    return Rewriter(function).run(_Fusing(function, stored))


class _Fusing:
    def __init__(self, function: Function, stored: bool) -> None:
        self.stored = stored
        self.readers = function.consumers()
        self.results = set(function.results)
        self.made: set[Value] = set()

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op.computes is None or node.output.type.dtype != "float32":
            return None
        return self._merged(rewriter, node) or self._norm(rewriter, node, inputs)

    def _norm(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        """1. The last part is appended, read, and left without a reader."""
        (last,) = rewriter.keep(node, inputs)
        found = NormParts(rewriter.producer).norm_of(last)
        if found is None or (self.stored and not self._is_stored(rewriter, found.x)):
            return (last,)
        channels = found.x.type.shape[-1:]
        scale = np.ones(channels, np.float32) if found.scale is None else found.scale
        bias = np.zeros(channels, np.float32) if found.bias is None else found.bias
        made = self._made(rewriter, node, found.x, (found.centred, found.epsilon), (scale, bias))
        self.made.update(made)
        return made

    def _merged(self, rewriter: Rewriter, node: Node) -> Sequence[Value] | None:
        """2. Another scale or bias."""
        for computes in (Arithmetic.PRODUCT, Arithmetic.SUM):
            given = channel_constant(node, computes)
            if given is not None and self._is_read_once(given[0]):
                norm = rewriter.producer(rewriter.new(given[0]))
                if norm is not None and norm.outputs[0] in self.made:
                    return self._changed(rewriter, node, norm, (computes, given[1]))
        return None

    def _is_read_once(self, value: Value) -> bool:
        return len(self.readers.get(value, ())) == 1 and value not in self.results

    def _changed(
        self, rewriter: Rewriter, node: Node, norm: Node, change: tuple[Arithmetic, Array]
    ) -> Sequence[Value] | None:
        """The normalization with a product or sum of its result; one without a bias has no sum."""
        centred, (computes, constant) = norm.op.name == LayerNorm.name, change
        scale, *rest = (c.data for c in norm.inputs[1:] if isinstance(c, Constant))
        bias = rest[0] if rest else np.zeros_like(scale)
        if computes is Arithmetic.PRODUCT:
            scale, bias = scale * constant, bias * constant
        elif centred:
            bias = bias + constant
        else:
            return None
        kind = centred, norm.attrs.epsilon
        made = self._made(rewriter, node, norm.inputs[0], kind, (scale, bias))
        self.made.update(made)
        return made

    def _made(
        self, rewriter: Rewriter, node: Node, x: Value, kind: tuple[bool, float],
        channels: tuple[Array, Array],
    ) -> Sequence[Value]:  # fmt: skip
        centred, epsilon = kind
        names = ("scale", "bias") if centred else ("scale",)
        constants = [
            rewriter.builder.constant(f"{node.name}.{name}", np.asarray(data, np.float32))
            for name, data in zip(names, channels, strict=False)
        ]
        op = LayerNorm if centred else RmsNorm
        attrs = LayerNormAttrs(epsilon) if centred else RmsNormAttrs(epsilon)
        return rewriter.remake(node, [x, *constants], attrs, op=op)

    def _is_stored(self, rewriter: Rewriter, x: Value) -> bool:
        above = rewriter.producer(x)
        return above is not None and above.op.storage is Storage.DEQUANTIZE
