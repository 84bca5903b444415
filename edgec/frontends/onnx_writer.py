"""Write a function of the graph IR as an ONNX model: how a quantized model leaves edgec.

Values are channels-last here and channels-first in ONNX's windowed operators. A value has up to two
ONNX tensors, in its own order and with the channels moved to axis 1, and a Transpose between them
only where both are used; elementwise operators stay in the order of their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgec import __version__
from edgec.errors import ImportFailed
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.open_axes import OpenAxes, axes_after
from edgec.graph.operator import Fusion
from edgec.graph.traits import Storage
from edgec.graph.types import Array, Quant, TensorType, Types
from edgec.loop.primitives.halves import fits_halves
from edgec.loop.primitives.int4 import fits_int4
from edgec.loop.primitives.shifts import find_shifts, without_shifts
from edgec.ops.onnx_graph import TO_FIRST, as_stored
from edgec.ops.onnx_loops import MOST_CALLS, write_program, write_view
from edgec.ops.op import op_of, program_of

#: Scales along an axis since 13, HardSwish since 14; and the version of the format that has it.
OPSET, IR_VERSION = 14, 8
#: Weights of int4 and values of int16 since 21; and operators that came late.
WIDE_OPSET, WIDE_IR_VERSION = 21, 10
TO_LAST = (0, 2, 3, 1)
#: Most calls of a program in place of an operator that ONNX has, but not in this form: an LSTM
#: of many steps whose cells have a limit would be hundreds of nodes; it has a hint instead.
MOST_INSTEAD = 50
_REFUSED = "this model cannot be written as ONNX yet"


def to_onnx(
    function: Function, *, producer_version: str, with_states: bool = False
) -> onnx.ModelProto:
    """The ONNX model of a function.

    with_states: states are further inputs and outputs, after the others, as in other streaming
    models; initial values are the inputs' defaults. Without it the function must not have states.
    Raises ImportFailed naming every node that cannot be written.
    """
    if function.states and not with_states:
        raise ImportFailed(_REFUSED, details=("it has state",))
    try:
        return OnnxWriter(function).model(producer_version)
    except _NeedsWide:
        return OnnxWriter(function, is_wide=True).model(producer_version)


class _NeedsWide(Exception):
    """A node is written by operators of WIDE_OPSET."""


def _with_bodies(function: Function) -> Iterator[Node]:
    for node in function.nodes:
        yield node
        for body in node.bodies:
            yield from _with_bodies(body)


def onnx_bytes(function: Function, *, with_states: bool = False) -> bytes:
    """The content of the ONNX file. Raises ImportFailed for functions without an ONNX form."""
    model = to_onnx(function, producer_version=__version__, with_states=with_states)
    return bytes(model.SerializeToString(deterministic=True))


def has_int4_weights(node: Node) -> bool:
    """Whether a node dequantizes weights along an axis that all fit in four bits."""
    weights = _stored_weights(node)
    return weights is not None and fits_int4(weights.data)


def shifts_of(node: Node) -> Array | None:
    """The shifts [O, ..., groups] of groups of int4 weights, if a node dequantizes such.

    Each channel has a group without a shift, whose scale is the channel's.
    """
    weights = _stored_weights(node)
    if weights is None or weights.type.quant is None or weights.type.quant.axis != 0:
        return None
    found = find_shifts(weights.data)
    if found is None or found[1].reshape(len(weights.data), -1).min(axis=1).any():
        return None
    return found[1]


def _stored_weights(node: Node) -> Constant | None:
    """The constant with scales along an axis that a node dequantizes, if any."""
    stored = node.inputs[0] if node.op.storage is Storage.DEQUANTIZE else None
    if not isinstance(stored, Constant) or stored.type.quant is None:
        return None
    return None if stored.type.quant.per_tensor else stored


def _needs_wide_opset(node: Node) -> bool:
    is_int16 = node.op.storage is Storage.QUANTIZE and node.attrs.dtype == "int16"
    is_int16 |= node.op.storage is Storage.DEQUANTIZE and node.inputs[0].type.dtype == "int16"
    is_late = op_of(node).onnx_since > OPSET
    return is_late or is_int16 or has_int4_weights(node) or shifts_of(node) is not None


class OnnxWriter:
    """Collects ONNX nodes and initializers; one for each function."""

    def __init__(self, function: Function, *, is_wide: bool = False) -> None:
        self.function = function
        nodes = tuple(_with_bodies(function))
        self.producers: Mapping[Value, Node] = {
            value: node for node in nodes for value in node.outputs
        }
        numbers = {count.number for count in function.counts}
        written = (v for place, v in enumerate(function.results) if place not in numbers)
        self._read = {*written, *(value for node in nodes for value in node.inputs)}
        self._open: OpenAxes = {}
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._tensors: dict[tuple[Value, bool], str] = {}
        self._taken: set[str] = set()
        self.refused: dict[str, ImportFailed] = {}
        is_wide |= any(map(_needs_wide_opset, nodes))
        self.opset, self.ir_version = (
            (WIDE_OPSET, WIDE_IR_VERSION) if is_wide else (OPSET, IR_VERSION)
        )

    def model(self, producer_version: str) -> onnx.ModelProto:
        """Write every node and wrap it all up."""
        inputs = []
        for param in self.function.params:
            name = param.origin.tensor if param.origin else param.name
            self._define(param, False, self.fresh(name))
            type_ = param.type
            inputs.append(self._info(self._tensors[param, False], type_.dtype, type_.shape))
        for state in self.function.states:
            name = self._tensors[state.before, False]
            self.initializers[name] = numpy_helper.from_array(state.initial.data, name)
        self._write(self.function.nodes)
        if self.refused:
            hint = next((each.hint for each in self.refused.values() if each.hint), "")
            raise ImportFailed(_REFUSED, details=tuple(self.refused), hint=hint)
        graph = helper.make_graph(
            self.nodes, "edgec", inputs, self._outputs(), list(self.initializers.values())
        )
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", self.opset),
                *(helper.make_opsetid(domain, 1) for domain in self.other_domains()),
            ],
            producer_name="edgec",
            producer_version=producer_version,
            ir_version=self.ir_version,
        )
        onnx.checker.check_model(model)
        return model

    def _outputs(self) -> list[onnx.ValueInfoProto]:
        """Write the model's outputs, each with its used length."""
        function = self.function
        numbers = {count.number for count in function.counts}
        found = []
        for place, result in enumerate(function.results):
            if place in numbers:
                continue
            name = self.fresh(f"{result.origin.tensor if result.origin else result.name}.out")
            shape: list[int | str] = list(result.type.shape)
            tensor = self.own(result)
            for count in function.counts:
                if count.output == place:
                    shape[count.axis] = f"{name}.{count.axis}"
                    if count.axis not in self._open.get(result, {}):
                        number = function.results[count.number]
                        tensor = self._in_use(tensor, count.axis, number)
            self.emit("Identity", [tensor], name)
            found.append(self._info(name, result.type.dtype, shape))
        return found

    def _in_use(self, tensor: str, axis: int, number: Value) -> str:
        """The first `number` parts of a tensor along an axis."""
        ends = [np.zeros(1, np.int32), np.full(1, axis, np.int32)]
        start, along = (self.initializer(f"{tensor}.range", end) for end in ends)
        part = self.fresh(f"{tensor}.in_use")
        self.emit("Slice", [tensor, start, self.own(number), along], part)
        return part

    def is_read(self, value: Value) -> bool:
        """Whether a node reads a value, or it is a result that is written."""
        return value in self._read

    def open(self, value: Value, axis: int, number: Value) -> None:
        """Say that an axis of a value is only as large in the file as a number says."""
        self._open.setdefault(value, {})[axis] = number

    def open_axes(self, value: Value) -> Collection[int]:
        """The axes of a value that are smaller in the file where data decide so."""
        return self._open.get(value, {})

    def _write(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            for axis, number in axes_after(node, self._open).items():
                for value in node.outputs:
                    self.open(value, axis, number)
            try:
                self._write_node(node)
            except ImportFailed as problem:
                self.refused[f"operator {node.op.name} {node.name}: {problem.message}"] = problem
                for value in node.outputs:
                    self.define_own(value)

    def _write_node(self, node: Node) -> None:
        """Write a node as ONNX's own operator, else as its loop program."""
        op, nodes = op_of(node), len(self.nodes)
        if not op.has_onnx_of(node) or op.onnx_since > WIDE_OPSET:
            self._write_loops(node)
            return
        try:
            op.write_onnx(self, node)
        except ImportFailed as refusal:
            if node.bodies or op.is_foreign or any(map(self.open_axes, node.outputs)):
                raise
            del self.nodes[nodes:]
            try:
                self._write_loops(node, most_calls=MOST_INSTEAD)
            except ImportFailed:
                raise refusal from None

    def _write_loops(self, node: Node, *, most_calls: int = MOST_CALLS) -> None:
        if self.opset < WIDE_OPSET:
            raise _NeedsWide
        if node.op.fusion is Fusion.VIEW:
            write_view(self, node)
        else:
            write_program(self, node, program_of(node), most_calls=most_calls)

    def body(self, body: Function, given: Sequence[str]) -> list[str]:
        """Write the nodes of a body here, and return the tensors of its results."""
        for value in (*body.params, *body.values()):
            for first in (False, True):
                self._tensors.pop((value, first), None)  # it may be written more than once
        for param, tensor in zip(body.params, given, strict=True):
            self._define(param, False, tensor)
        self._write(body.nodes)
        if any(map(self.open_axes, body.results)):
            raise ImportFailed("a body computes values whose sizes depend on data")
        return [self.own(result) for result in body.results]

    def graph(
        self,
        name: str,
        inputs: Sequence[tuple[str, TensorType]],
        results: Types,
        write: Callable[[], Sequence[str]],
    ) -> onnx.GraphProto:
        """A graph in a node, of the nodes that `write` emits; it returns the results."""
        outside, self.nodes = self.nodes, []
        infos = []
        for tensor, type_ in zip(write(), results, strict=True):
            self.emit("Identity", [tensor], made := self.fresh(f"{tensor}.out"))
            infos.append(self._info(made, type_.dtype, type_.shape))
        given = [self._info(tensor, type_.dtype, type_.shape) for tensor, type_ in inputs]
        graph = helper.make_graph(self.nodes, self.fresh(name), given, infos)
        self.nodes = outside
        return graph

    def other_domains(self) -> list[str]:
        """Domains of the operators that users declared."""
        return sorted({node.domain for node in self.nodes} - {""})

    def fresh(self, name: str) -> str:
        """`name`, or `name_1`, … if it is taken."""
        name = name or "value"  # an output that the file left out
        candidate, number = name, 0
        while candidate in self._taken:
            number += 1
            candidate = f"{name}_{number}"
        self._taken.add(candidate)
        return candidate

    def emit(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """Append a node with one output."""
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))

    def emit_several(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Append a node with several outputs."""
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes))

    def initializer(self, name: str, data: Array, *, in_int4: bool = False) -> str:
        """Store constant data under a fresh name; int8 as INT4, if its numbers fit."""
        name = self.fresh(name)
        if in_int4:
            numbers = data.reshape(-1).tolist()
            tensor = helper.make_tensor(name, onnx.TensorProto.INT4, data.shape, numbers)
        else:
            tensor = numpy_helper.from_array(np.asarray(data, order="C"), name)
        self.initializers[name] = tensor
        return name

    def own(self, value: Value) -> str:
        """The tensor of a value in the order of its own type."""
        return self._tensor(value, False)

    def first(self, value: Value) -> str:
        """The tensor of a value [N, H, W, C] as [N, C, H, W]."""
        return self._tensor(value, True)

    def is_first(self, value: Value) -> bool:
        """Whether a value exists only channels-first so far."""
        return (value, True) in self._tensors and (value, False) not in self._tensors

    def define_own(self, value: Value) -> str:
        """A fresh tensor for a new value in its own order."""
        return self._define(value, False, self.fresh(value.name))

    def define_first(self, value: Value) -> str:
        """A fresh tensor for a new value, channels-first."""
        return self._define(value, True, self.fresh(value.name))

    def _define(self, value: Value, first: bool, name: str) -> str:
        self._tensors[value, first] = name
        return name

    def _tensor(self, value: Value, first: bool) -> str:
        if (value, first) not in self._tensors:
            stored = self.constant_of(value)
            if isinstance(value, Constant):
                data = value.data.transpose(TO_FIRST) if first else value.data
                return self._define(value, first, self.initializer(value.name, data))
            if stored is not None and stored.type.quant is not None:  # written for each reader
                name = self.operand(value, as_stored, stored.type.quant.axis or 0)
                self._define(value, False, name)
                return self._tensor(value, first)
            self._transpose(value, first)
        return self._tensors[value, first]

    def _transpose(self, value: Value, first: bool) -> None:
        """Write a value in the other order than it has."""
        if (value, not first) not in self._tensors:
            raise ImportFailed(f"{value.name} has no ONNX form yet")
        order = TO_FIRST if first else TO_LAST
        name = self.fresh(f"{value.name}.{order[1:]}")
        self.emit("Transpose", [self._tensors[value, not first]], name, perm=order)
        self._define(value, first, name)

    def _info(self, name: str, dtype: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
        stored = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, stored, shape)

    def tensors_of(self, node: Node) -> tuple[list[str], str, bool]:
        """Tensors of a node that works in either order, and whether it is channels-first.

        It is where all of its inputs, constants aside, are channels-first already.
        """
        data = [value for value in node.inputs if self.constant_of(value) is None]
        shapes = {len(value.type.shape) for value in (*data, node.output)}
        first = shapes == {4} and all(self.is_first(value) for value in data) and bool(data)
        operands = [self._either(value, first) for value in node.inputs]
        define = self.define_first if first else self.define_own
        return operands, define(node.output), first

    def constant_of(self, value: Value) -> Constant | None:
        """The constant that a value is, or that it is dequantized from."""
        above = self.producers.get(value)
        if above is not None and above.op.storage is Storage.DEQUANTIZE:
            value = above.inputs[0]
        return value if isinstance(value, Constant) else None

    def _either(self, value: Value, first: bool) -> str:
        if self.constant_of(value) is None:
            return self.first(value) if first else self.own(value)

        def change(data: Array) -> Array:
            if not first or data.size == 1:
                return data
            return data.reshape((1,) * (4 - data.ndim) + data.shape).transpose(TO_FIRST)

        return self.operand(value, change, 0)

    def parameters(
        self, name: str, quant: Quant, dtype: str, *, in_int4: bool = False
    ) -> list[str]:
        """Initializers of scale and zero point."""
        scale = np.asarray(quant.scale, np.float32)
        zero_point = np.asarray(quant.zero_point, dtype)
        if quant.per_tensor:
            scale, zero_point = scale.reshape(()), zero_point.reshape(())
        return [
            self.initializer(f"{name}.scale", scale),
            self.initializer(f"{name}.zero_point", zero_point, in_int4=in_int4),
        ]

    def _halves(self, name: str, data: Array) -> str:
        """Numbers that float16 holds, stored as such and cast to float32."""
        stored = self.initializer(f"{name}.f16", data.astype(np.float16))
        widened = self.fresh(name)
        self.emit("Cast", [stored], widened, to=onnx.TensorProto.FLOAT)
        return widened

    def _blocks(
        self, value: Value, constant: Constant, change: Callable[[Array], Array], shifts: Array
    ) -> str:
        """Int4 weights, dequantized by a scale for each group of the inputs' axis."""
        quant = constant.type.quant
        assert quant is not None
        numbers = change(without_shifts(constant.data, shifts))
        channels = np.asarray(quant.scale, np.float32).reshape(-1, *(1,) * (shifts.ndim - 1))
        scales = change(np.asarray(channels * np.exp2(shifts.astype(np.float32))))
        stored = self.initializer(constant.name, numbers, in_int4=True)
        scale = self.initializer(f"{constant.name}.scale", scales)
        name, size = self.fresh(value.name), constant.data.shape[-1] // shifts.shape[-1]
        self.emit("DequantizeLinear", [stored, scale], name, axis=1, block_size=size)
        return name

    def operand(
        self,
        value: Value,
        change: Callable[[Array], Array],
        axis: int,
        reorder: Callable[[Array], Array] | None = None,
    ) -> str:
        """Weights or a bias, rearranged by `change`; stored integers keep their dequantize.

        axis: the axis of the scales after `change`. reorder: the order of elements along it after
        `change`, if it differs.
        """
        above = self.producers.get(value)
        constant = value if above is None else above.inputs[0]
        if not isinstance(constant, Constant):
            raise ImportFailed(f"{value.name} is not a constant: it cannot be written as ONNX yet")
        if above is None and constant.data.ndim > 1 and fits_halves(constant.data):
            return self._halves(constant.name, change(constant.data))
        shifts = None if above is None else shifts_of(above)
        if shifts is not None and reorder is None:
            return self._blocks(value, constant, change, shifts)
        is_short = above is not None and has_int4_weights(above)
        stored = self.initializer(constant.name, change(constant.data), in_int4=is_short)
        if above is None:
            return stored
        quant = constant.type.quant
        assert quant is not None
        name = self.fresh(value.name)
        if reorder is not None and not quant.per_tensor:
            scales, zeros = (reorder(np.asarray(each)) for each in (quant.scale, quant.zero_point))
            quant = Quant(tuple(scales.tolist()), tuple(zeros.tolist()), quant.axis)
        parameters = self.parameters(constant.name, quant, constant.type.dtype, in_int4=is_short)
        along = {} if quant.per_tensor else {"axis": axis}
        self.emit("DequantizeLinear", [stored, *parameters], name, **along)
        return name
