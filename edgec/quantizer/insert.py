"""Insert quantize and dequantize nodes into a float function, as in a QDQ model.

Operators with an integer form (`edgec.quantizer.integer_nodes`) get quantized inputs and a
quantized output; the passes of a quantized model then turn each into integers. All others stay as
they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.operator import get_op
from edgec.graph.traits import IntegerForm, Storage
from edgec.graph.types import Array, Quant
from edgec.ops.quantize import Dequantize, Quantize, QuantizeAttrs
from edgec.passes.rewriter import Rewriter
from edgec.quantizer.integer_nodes import stored_input_indices
from edgec.quantizer.recurrent import store, stored_operands
from edgec.quantizer.scheme import Scheme, Stored, quantize_bias

#: Operators whose integers are all of one dtype.
ONE_DTYPE = (IntegerForm.OPERANDS, IntegerForm.ONE_OPERAND, IntegerForm.RECURRENT)


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


def nodes_by_name(quantized: Function) -> dict[str, Node]:
    """The nodes of a QDQ function by the names of the float function's.

    Of several nodes with one name (a layer and its reshapes), the sum of products.
    """
    named: dict[str, Node] = {}
    for node in quantized.nodes:
        is_first = node.name not in named or node.op.dot_products is not None
        if is_first and node.op.storage is not Storage.DEQUANTIZE:
            named[node.name] = node
    return named


class _Inserter:
    def __init__(self, scheme: Scheme, left_out: Value | None) -> None:
        self.scheme = scheme
        self.left_out = left_out
        self.integer_nodes = scheme.integer_nodes
        self.used: dict[Value, Stored] = {}
        self._restored: dict[tuple[Value, bool], Value] = {}

    def visit(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        """The node on quantized operands; None keeps a node in float."""
        if self.integer_nodes.is_fused_clip(node):
            (made,) = rewriter.keep(node, inputs)
            above = self.integer_nodes.producers[node.inputs[0]]
            return (self._through(rewriter, node.output, made, self._in_int16(above)),)
        if not self.integer_nodes.is_integer(node):
            return self._with_stored_weights(rewriter, node, inputs)
        form = node.integer_form
        if form is IntegerForm.RECURRENT:
            return self._recurrent(rewriter, node, inputs)
        if form is IntegerForm.PRODUCTS and self._makes_left_out(node):
            operands = (self._operand(rewriter, node.inputs[0], inputs[0]), *inputs[1:])
        elif form is IntegerForm.PRODUCTS:
            operands = self._weighted_operands(rewriter, node, inputs)
        else:
            stored, is_wide = stored_input_indices(node), self._in_int16(node)
            operands = tuple(
                self._operand(rewriter, old, new, is_wide) if index in stored else new
                for index, (old, new) in enumerate(zip(node.inputs, inputs, strict=True))
            )
        made, *indices = rewriter.keep(node, operands)
        if self.integer_nodes.ends_in_clip(node) or not made.type.is_float:
            return (made, *indices)
        return (self._made(rewriter, node, made), *indices)

    def _made(self, rewriter: Rewriter, node: Node, made: Value) -> Value:
        """A node's result in its stored dtype; first in the dtype that the operator requires."""
        output, in_int16 = node.outputs[0], self._in_int16(node)
        dtype = "int16" if in_int16 else self.scheme.values[output].dtype
        fixed, stored = node.op.fixed_quant(dtype), self.scheme.values[output]
        given = stored.widened() if in_int16 else stored
        if fixed is not None and fixed != given.quant and output is not self.left_out:
            made = self._rounded(rewriter, f"{output.name}.own", made, Stored(fixed, dtype))
        return self._through(rewriter, output, made, in_int16)

    def _in_int16(self, node: Node) -> bool:
        """Whether a node that knows one dtype has int16 on any side, and so on all."""
        if node.integer_form not in ONE_DTYPE:
            return False
        made = self.integer_nodes.stored_output(node)
        assert made is not None
        return any(map(self.integer_nodes.is_wide, (*self.integer_nodes.stored_inputs(node), made)))

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
        """Stored integers of a constant, and their dequantize."""
        constant = rewriter.builder.constant(f"{old.name}.q", data, quant, old.origin)
        return rewriter.builder.op(Dequantize, [constant], name=f"{old.name}.dq", sources=())

    def _recurrent(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        """An LSTM or GRU on integers, or in float if its outputs are excluded."""
        in_int16 = self._in_int16(node)
        operands = [self._operand(rewriter, node.inputs[0], inputs[0], in_int16), *inputs[1:]]
        if not self._makes_left_out(node):
            stored = stored_operands(node)
            operands[1:] = [
                self._stored_constant(rewriter, old) if old in stored else old
                for old in node.inputs[1:]
            ]
            if node.outputs[2:]:  # stored cells have a limit of their own
                node = replace(node, attrs=replace(node.attrs, clip=0.0))
        y, *last = rewriter.keep(node, tuple(operands))
        return (self._through(rewriter, node.outputs[0], y, in_int16), *last)

    def _stored_constant(self, rewriter: Rewriter, old: Value) -> Value:
        """A constant in the integers that the scheme has for it, dequantized."""
        assert isinstance(old, Constant)
        stored = self.scheme.values[old]
        data = store(old.data, (stored.quant, stored.dtype))
        return self._dequantized(rewriter, old, data, stored.quant)

    def _makes_left_out(self, node: Node) -> bool:
        """Whether the value that is left out is a node's result, or the result of its clip."""
        if self.left_out is None:
            return False
        above = self.integer_nodes.producers.get(self.left_out)
        if above is not None and self.integer_nodes.is_fused_clip(above):
            above = self.integer_nodes.producers.get(above.inputs[0])
        return above is node

    def _operand(self, rewriter: Rewriter, old: Value, new: Value, is_wide: bool = False) -> Value:
        """The dequantized form of an operand; a float operand is quantized here.

        is_wide: int8 is read as int16.
        """
        key = old, is_wide and not self.integer_nodes.is_wide(old)
        if key not in self._restored:
            self._restored[key] = self._dequantized_operand(rewriter, old, new, key[1])
        return self._restored[key]

    def _dequantized_operand(
        self, rewriter: Rewriter, old: Value, new: Value, widened: bool
    ) -> Value:
        if isinstance(old, Constant):
            return self._constant(rewriter, old, widened)
        above = rewriter.producer(new)
        if above is None or above.op.storage is not Storage.DEQUANTIZE:
            new = self._through(rewriter, old, new)
        if not widened or old is self.left_out:
            return new
        return self._rounded(rewriter, f"{old.name}.int16", new, self.scheme.values[old].widened())

    def _through(self, rewriter: Rewriter, old: Value, new: Value, in_int16: bool = False) -> Value:
        """`new` after quantize and dequantize with the parameters of `old`.

        in_int16: it is computed in int16 first, whatever it is stored in.
        """
        if old is self.left_out:
            return new
        stored = self.used.setdefault(old, self.scheme.values[old])
        if in_int16 and stored.dtype != "int16":
            new = self._rounded(rewriter, f"{old.name}.int16", new, stored.widened())
        return self._rounded(rewriter, old.name, new, stored, old)

    def _rounded(
        self, rewriter: Rewriter, name: str, new: Value, stored: Stored, old: Value | None = None
    ) -> Value:
        """A value after quantize and dequantize; `old` is the float value."""
        integers = rewriter.builder.op(
            Quantize, [new], QuantizeAttrs(stored.quant, stored.dtype), name=f"{name}.q",
            origins=[None if old is None else old.origin], sources=(),
        )  # fmt: skip
        return rewriter.builder.op(Dequantize, [integers], name=f"{name}.dq", sources=())

    def _constant(self, rewriter: Rewriter, old: Constant, widened: bool) -> Value:
        """A constant operand in integers, dequantized."""
        stored = self.scheme.values[old]
        if widened:
            stored = stored.widened()
        attrs = QuantizeAttrs(stored.quant, stored.dtype)
        quantize = get_op(Quantize)
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
