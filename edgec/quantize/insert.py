"""Write quantize and dequantize nodes into a float function: what a QDQ model looks like.

Operators with an integer form (`edgec.quantize.forms`) get quantized inputs and a quantized output;
the passes of a quantized model then turn each into integers. All others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.op import get_op
from edgec.graph.types import Array, Quant
from edgec.ops.quantize import QuantizeAttrs
from edgec.passes.rewriter import Rewriter
from edgec.quantize.forms import SHARING, WEIGHTED
from edgec.quantize.recurrent import store
from edgec.quantize.scheme import Scheme, Stored, quantize_bias


@dataclass(frozen=True)
class Quantized:
    """function: the QDQ function. stored: how each float value that is quantized is stored."""

    function: Function
    stored: Mapping[Value, Stored]


def insert_qdq(function: Function, scheme: Scheme, left_out: Value | None = None) -> Quantized:
    """Quantize a float function as the scheme says.

    left_out: a value that stays in float, with the weights that it is made by.
    """
    inserter = _Inserter(scheme, left_out)
    made = Rewriter(function).run(inserter.visit)
    return Quantized(made, inserter.used)


class _Inserter:
    def __init__(self, scheme: Scheme, left_out: Value | None) -> None:
        self.scheme = scheme
        self.left_out = left_out
        self.forms = scheme.forms
        self.used: dict[Value, Stored] = {}
        self._restored: dict[Value, Value] = {}

    def visit(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        """The node on quantized operands; None keeps a node in float as it is."""
        if self.forms.is_fused_clip(node):
            (made,) = rewriter.keep(node, inputs)
            return (self._through(rewriter, node.output, made),)
        if not self.forms.has_integer_form(node):
            return self._with_stored_weights(rewriter, node, inputs)
        if node.op.name in WEIGHTED and self._makes_left_out(node):
            operands = (self._operand(rewriter, node.inputs[0], inputs[0]), *inputs[1:])
        elif node.op.name in WEIGHTED:
            operands = self._weighted_operands(rewriter, node, inputs)
        elif node.op.name in SHARING and node.op.name != "concat":
            operands = (self._operand(rewriter, node.inputs[0], inputs[0]), *inputs[1:])
        elif node.op.name == "lstm_float":
            return self._recurrent(rewriter, node, inputs)
        else:
            pairs = zip(node.inputs, inputs, strict=True)
            operands = tuple(self._operand(rewriter, old, new) for old, new in pairs)
        (made,) = rewriter.keep(node, operands)
        if self.forms.ends_in_clip(node):
            return (made,)
        return (self._through(rewriter, node.output, made),)

    def _with_stored_weights(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        """A node in float whose weights alone are stored in integers."""
        if node not in self.scheme.weights:
            return None
        chosen, bias = self.scheme.weights[node], node.inputs[2]
        assert isinstance(bias, Constant)
        corrected = rewriter.builder.constant(bias.name, chosen.bias, origin=bias.origin)
        weights = self._dequantized(rewriter, node.inputs[1], chosen.data, chosen.quant)
        return tuple(rewriter.keep(node, (inputs[0], weights, corrected)))

    def _dequantized(self, rewriter: Rewriter, old: Value, data: Array, quant: Quant) -> Value:
        """Stored integers of a constant, and what they stand for."""
        constant = rewriter.builder.constant(f"{old.name}.q", data, quant, old.origin)
        return rewriter.builder.op("dequantize", [constant], name=f"{old.name}.dq", sources=())

    def _recurrent(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        """An LSTM on integers, or in float where what it makes is left out."""
        operands = [self._operand(rewriter, node.inputs[0], inputs[0]), *inputs[1:]]
        if not self._makes_left_out(node):
            operands[1:] = [self._stored_constant(rewriter, old) for old in node.inputs[1:]]
            # Stored cells have a limit of their own.
            node = replace(node, attrs=replace(node.attrs, clip=0.0))
        y, *last = rewriter.keep(node, tuple(operands))
        return (self._through(rewriter, node.outputs[0], y), *last)

    def _stored_constant(self, rewriter: Rewriter, old: Value) -> Value:
        """A constant in the integers that the scheme has for it, dequantized."""
        assert isinstance(old, Constant)
        stored = self.scheme.values[old]
        data = store(old.data, (stored.quant, stored.dtype))
        return self._dequantized(rewriter, old, data, stored.quant)

    def _makes_left_out(self, node: Node) -> bool:
        """Whether the value that is left out is a node's own, or that of its clip."""
        if self.left_out is None:
            return False
        above = self.forms.producers.get(self.left_out)
        if above is not None and self.forms.is_fused_clip(above):
            above = self.forms.producers.get(above.inputs[0])
        return above is node

    def _operand(self, rewriter: Rewriter, old: Value, new: Value) -> Value:
        """The dequantized form of an operand; what was computed in float is quantized here."""
        above = rewriter.producer(new)
        if above is not None and above.op.name == "dequantize":
            return new
        if old not in self._restored:
            self._restored[old] = (
                self._constant(rewriter, old)
                if isinstance(old, Constant)
                else self._through(rewriter, old, new)
            )
        return self._restored[old]

    def _through(self, rewriter: Rewriter, old: Value, new: Value) -> Value:
        """`new` after quantize and dequantize with the parameters of `old`."""
        if old is self.left_out:
            return new
        stored = self.used.setdefault(old, self.scheme.values[old])
        integers = rewriter.builder.op(
            "quantize", [new], QuantizeAttrs(stored.quant, stored.dtype),
            name=f"{old.name}.q", origins=[old.origin], sources=(),
        )  # fmt: skip
        return rewriter.builder.op("dequantize", [integers], name=f"{old.name}.dq", sources=())

    def _constant(self, rewriter: Rewriter, old: Constant) -> Value:
        """A constant operand in integers, dequantized."""
        stored = self.scheme.values[old]
        attrs = QuantizeAttrs(stored.quant, stored.dtype)
        quantize = get_op("quantize")
        types = quantize.infer(attrs, old.type)
        (data,) = quantize.evaluate(attrs, [old.data], [old.type], types)
        return self._dequantized(rewriter, old, data, stored.quant)

    def _weighted_operands(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        x, weights, bias = node.inputs
        chosen = self.scheme.weights[node]
        x_scale = self.scheme.values[x].quant.scale[0]
        bias_data, bias_quant = quantize_bias(chosen.bias, x_scale, chosen.quant)
        return (
            self._operand(rewriter, x, inputs[0]),
            self._dequantized(rewriter, weights, chosen.data, chosen.quant),
            self._dequantized(rewriter, bias, bias_data, bias_quant),
        )
