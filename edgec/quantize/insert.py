"""Write quantize and dequantize nodes into a float function: what a QDQ model looks like.

1. Operators with an exact integer form (convolutions, dense, add, pooling, views) get quantized
   inputs and a quantized output; the passes of a quantized model then turn each into integers.
2. A clip behind such an operator is part of it: only the clip's result is quantized.
3. Pooling and views keep their input's parameters, since they only choose or average its numbers;
   behind an operator in float they stay in float.
4. All other operators stay in float, between a dequantize and the next quantize.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array, Quant
from edgec.ops.quantize import QuantizeAttrs
from edgec.passes.rewriter import Rewriter
from edgec.quantize.parameters import activation_quant, quantize_bias, quantize_weights

#: Operators with weights and bias, and the axis of the weights that counts output channels.
WEIGHTED = {"conv2d": 0, "depthwise_conv2d": 2, "dense": 0}
#: Operators whose result has the parameters of their input.
SHARING = ("max_pool2d", "avg_pool2d", "reshape", "transpose")
QUANTIZED = (*WEIGHTED, "add", *SHARING)


@dataclass(frozen=True)
class Quantized:
    """function: the QDQ function. quants: the parameters of each float value that has some."""

    function: Function
    quants: Mapping[Value, Quant]


def insert_qdq(
    function: Function,
    ranges: Mapping[Value, tuple[float, float]],
    biases: Mapping[Constant, Array] | None = None,
) -> Quantized:
    """Quantize a float function to int8; `ranges` has every float value's, each holding 0.

    biases: float biases to use instead of those in the function.
    """
    inserter = _Inserter(function, ranges, biases or {})
    made = Rewriter(function).run(inserter.visit)
    return Quantized(made, inserter.quants)


class _Inserter:
    def __init__(
        self,
        function: Function,
        ranges: Mapping[Value, tuple[float, float]],
        biases: Mapping[Constant, Array],
    ) -> None:
        self.function = function
        self.ranges = ranges
        self.biases = biases
        self.producers = function.producers()
        self.consumers = function.consumers()
        self.quants: dict[Value, Quant] = {}
        self._restored: dict[Value, Value] = {}

    def visit(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        """The node on quantized operands; None keeps a node in float as it is."""
        if self._is_fused_clip(node):
            (made,) = rewriter.keep(node, inputs)
            return (self._through(rewriter, node.output, made),)
        if not self._has_integer_form(node):
            return None
        if node.op.name in WEIGHTED:
            operands = self._weighted_operands(rewriter, node, inputs)
        else:
            pairs = zip(node.inputs, inputs, strict=True)
            operands = tuple(self._operand(rewriter, old, new) for old, new in pairs)
        (made,) = rewriter.keep(node, operands)
        if self._ends_in_clip(node):
            return (made,)
        return (self._through(rewriter, node.output, made),)

    def quant_of(self, value: Value) -> Quant:
        """The parameters of an old float value, decided at its first use."""
        if value not in self.quants:
            above = self.producers.get(value)
            if above is not None and above.op.name in SHARING and self._has_integer_form(above):
                self.quants[value] = self.quant_of(above.inputs[0])
            else:
                self.quants[value] = activation_quant(*self.ranges[value])
        return self.quants[value]

    def _has_integer_form(self, node: Node) -> bool:
        if node.op.name not in QUANTIZED or any(v.type.dtype != "float32" for v in node.inputs):
            return False
        if node.op.name in SHARING and not self._comes_in_integers(node.inputs[0]):
            return False
        constants = [isinstance(value, Constant) for value in node.inputs]
        return constants == ([False, True, True] if node.op.name in WEIGHTED else
                             [False] * len(constants))  # fmt: skip

    def _comes_in_integers(self, value: Value) -> bool:
        """Whether a value is an input or made by an operator that is quantized."""
        above = self.producers.get(value)
        return above is None or self._has_integer_form(above) or self._is_fused_clip(above)

    def _ends_in_clip(self, node: Node) -> bool:
        """Whether a clip is the only reader of a node's output."""
        readers = self.consumers.get(node.output, [])
        return (
            node.op.name not in SHARING
            and len(readers) == 1
            and readers[0].op.name == "clip"
            and node.output not in self.function.results
        )

    def _is_fused_clip(self, node: Node) -> bool:
        above = self.producers.get(node.inputs[0]) if node.op.name == "clip" else None
        return above is not None and self._has_integer_form(above) and self._ends_in_clip(above)

    def _operand(self, rewriter: Rewriter, old: Value, new: Value) -> Value:
        """The dequantized form of an operand; what was computed in float is quantized here."""
        above = rewriter.producer(new)
        if above is not None and above.op.name == "dequantize":
            return new
        if old not in self._restored:
            self._restored[old] = self._through(rewriter, old, new)
        return self._restored[old]

    def _through(self, rewriter: Rewriter, old: Value, new: Value) -> Value:
        """`new` after quantize and dequantize with the parameters of `old`."""
        stored = rewriter.builder.op(
            "quantize", [new], QuantizeAttrs(self.quant_of(old)),
            name=f"{old.name}.q", origins=[old.origin], sources=(),
        )  # fmt: skip
        return rewriter.builder.op("dequantize", [stored], name=f"{old.name}.dq", sources=())

    def _weighted_operands(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        x, weights, bias = node.inputs
        assert isinstance(weights, Constant) and isinstance(bias, Constant)
        data, quant = quantize_weights(weights.data, WEIGHTED[node.op.name])
        x_scale = self.quant_of(x).scale[0]
        bias_data, bias_quant = quantize_bias(self.biases.get(bias, bias.data), x_scale, quant)
        builder = rewriter.builder
        constants = (
            builder.constant(f"{weights.name}.q", data, quant, weights.origin),
            builder.constant(f"{bias.name}.q", bias_data, bias_quant, bias.origin),
        )
        restored = [
            builder.op("dequantize", [constant], name=f"{constant.name}.dq", sources=())
            for constant in constants
        ]
        return (self._operand(rewriter, x, inputs[0]), *restored)
