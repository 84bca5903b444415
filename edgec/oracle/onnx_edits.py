"""Edits that make ONNX Runtime compute a QDQ file in integers.

Each edit leaves every value that the file names as it is, or the same real number in another
dtype. They are made in the order of `EDITS`:

1. `int8_weights`: INT4 constants that only DequantizeLinear reads become INT8. ONNX Runtime's
   integer operators read bytes; with int4 it computes in float, where a sum at half a step may be
   rounded either way. If each group of inputs has a separate scale, a power of two times the
   channel's, the numbers are multiplied by it (`edgec/quantizer/group_scales.py`).
2. `merge_equal_quantize`: training inserts a fake quantization before every reader of a value,
   often with equal parameters. With two of them after a Conv, ONNX Runtime computes it in float.
3. `limits_after_rounding`: it computes a Conv in integers only if a QuantizeLinear reads its
   result, and drops a Relu or Clip between them only if the QuantizeLinear has the same effect: a
   Relu with the least zero point. Limits are monotonic, so after the rounding they have the same
   result.
4. `int8_values`: its kernels of uint8 values and int8 weights add pairs of products in 16 bits on
   many CPUs, where large ones saturate. Stored numbers and zero points are reduced by 128.
5. `maps_as_tensors`: ZipMap's sequence of maps becomes its input tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: The offset from int8 to uint8.
MOVE = 128
#: Operators for which ONNX Runtime has integer kernels with one rounding.
PRODUCTS = ("Conv", "Gemm", "MatMul", "Add", "Mul")
LIMITS = ("Relu", "Clip")
#: Operators whose second input holds weights.
WEIGHTED = ("Conv", "ConvTranspose", "Gemm")


class OnnxGraph:
    """A model's main graph, and who makes and reads each of its values."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.nodes = list(graph.node)
        self.outputs = {entry.name for entry in graph.output}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        #: Initializers, and tensors of Constant nodes.
        self.constants = dict(self.initializers)
        self.makers: dict[str, Any] = {}
        #: None stands for the caller, who reads the graph's outputs.
        self.readers: dict[str, list[Any]] = {name: [None] for name in self.outputs}
        for node in self.nodes:
            self.makers.update(dict.fromkeys(node.output, node))
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
            if node.op_type == "Constant" and [a.name for a in node.attribute] == ["value"]:
                self.constants[node.output[0]] = node.attribute[0].t

    def array(self, name: str) -> Array | None:
        """A constant's array; None for other values, and for dtypes that NumPy lacks."""
        from onnx import numpy_helper

        try:
            return numpy_helper.to_array(self.constants[name])
        except (ValueError, TypeError, KeyError):
            return None

    def store(self, name: str, array: Array) -> None:
        """Replace a constant's array, or add an initializer."""
        from onnx import numpy_helper

        tensor = self.constants.get(name)
        if tensor is None:
            tensor = self.graph.initializer.add()
        tensor.CopyFrom(numpy_helper.from_array(array, name if tensor.name == "" else tensor.name))

    def replace_nodes(self, nodes: Sequence[Any]) -> None:
        """Have these nodes in place of all."""
        kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del self.graph.node[:]
        self.graph.node.extend(kept)


#: Changes a graph in place; returns the names of values that it changed, none if nothing applies.
Edit = Callable[[OnnxGraph], set[str]]


def edit_onnx(
    data: bytes, edits: Sequence[Edit] | None = None
) -> tuple[bytes, Mapping[str, frozenset[str]]]:
    """An ONNX file's content after edits, and the values changed by each edit, by its name.

    edits: all by default. The content is unchanged if no edit applies, or if it is not a model
    (which ONNX Runtime reports).
    """
    import onnx
    from google.protobuf.message import DecodeError

    edits = EDITS if edits is None else edits
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return data, {edit.__name__: frozenset() for edit in edits}
    changed = {edit.__name__: frozenset(edit(OnnxGraph(model.graph))) for edit in edits}
    return (bytes(model.SerializeToString()) if any(changed.values()) else data), changed


def float_weights_of_integers(data: bytes) -> bool:
    """Whether a product of dequantized values has float weights, stored in an ONNX file's content.

    False for content that is not a model.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = OnnxGraph(onnx.load_model_from_string(data).graph)
    except DecodeError:
        return False
    return any(
        graph.makers[node.input[0]].op_type == "DequantizeLinear"
        and node.input[1] in graph.constants
        for node in graph.nodes
        if node.op_type in WEIGHTED and node.input[0] in graph.makers
    )


def as_uint8(stored: Array) -> Array:
    """int8 as the uint8 that it is in the model's file."""
    return np.asarray(stored, np.int8).view(np.uint8) ^ np.uint8(MOVE)


def int8_weights(graph: OnnxGraph) -> set[str]:
    """Edit 1. Constants that do not fit in int8 stay."""
    from onnx import TensorProto

    changed: set[str] = set()
    for node in graph.nodes:
        if node.op_type != "DequantizeLinear":
            continue
        given = [graph.initializers.get(name) for name in node.input]
        own = [given[0], *given[2:]]  # the numbers and their zero points
        if any(tensor is None or tensor.data_type != TensorProto.INT4 for tensor in own):
            continue
        if all(graph.readers[name] == [node] for name in node.input) and _store_int8(graph, node):
            changed.update(node.input)
    return changed


def _store_int8(graph: OnnxGraph, node: Any) -> bool:
    """Rewrite the constants of a DequantizeLinear in place; whether they fit."""
    numbers, scales, *zeros = (graph.array(name) for name in node.input)
    assert numbers is not None and scales is not None
    stored = [numbers.astype(np.int8), scales, *(np.asarray(z).astype(np.int8) for z in zeros)]
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    block = attributes.get("block_size", 0)
    if block:
        axis = attributes.get("axis", 1)
        channel = 1 if axis == 0 else 0
        one = _one_scale(stored[0], scales, axis, block, channel)
        if one is None or any(zero.any() for zero in stored[2:]):
            return False
        stored = [*one, *(np.zeros(one[1].shape, np.int8) for _ in zeros)]
        _remove_attributes(node, "block_size", "axis")
        added = node.attribute.add()
        added.name, added.i, added.type = "axis", channel, 2  # AttributeProto.INT
    for name, array in zip(node.input, stored, strict=True):
        graph.store(name, array)
    return True


def _one_scale(
    numbers: Array, scales: Array, axis: int, block: int, channel: int
) -> tuple[Array, Array] | None:
    """Numbers with one scale for each channel, or None if the scales are not such groups."""
    others = tuple(n for n in range(scales.ndim) if n != channel)
    least = scales.min(axis=others)
    shape = [-1 if n == channel else 1 for n in range(scales.ndim)]
    factors = scales / least.reshape(shape)
    if not (least > 0).all() or (np.frexp(factors)[0] != 0.5).any() or factors.max() > 8:
        return None
    each = np.repeat(factors, block, axis=axis).take(range(numbers.shape[axis]), axis=axis)
    return (numbers * each).astype(np.int8), least


def merge_equal_quantize(graph: OnnxGraph) -> set[str]:
    """Edit 2: remove duplicates of a QuantizeLinear, except graph outputs."""
    contents = {name: _content(graph, name) for name in graph.initializers}
    first: dict[Any, str] = {}
    same: dict[str, str] = {}
    kept = []
    for node in graph.nodes:
        for position, name in enumerate(node.input):
            node.input[position] = same.get(name, name)
        if node.op_type == "QuantizeLinear" and not graph.outputs & {*node.output}:
            attributes = tuple(sorted(each.SerializeToString() for each in node.attribute))
            operands = (*node.input[:1], *(contents.get(name, name) for name in node.input[1:]))
            before = first.setdefault((operands, attributes), node.output[0])
            if before != node.output[0]:
                same[node.output[0]] = before
                continue
        kept.append(node)
    if same:
        graph.replace_nodes(kept)
    return set(same)


def _content(graph: OnnxGraph, name: str) -> tuple[Any, ...]:
    """The content of a constant, without its name: equal ones are one constant."""
    tensor, array = graph.initializers[name], graph.array(name)
    return (name,) if array is None else (tensor.data_type, tuple(tensor.dims), array.tobytes())


def limits_after_rounding(graph: OnnxGraph) -> set[str]:
    """Edit 3: limits of products read one QuantizeLinear and DequantizeLinear more.

    Only limits between one product of dequantized values and one QuantizeLinear to 8 bits are
    moved; the names of all values stay.
    """
    from onnx import NodeProto, helper

    nodes, moved = [], set()
    for node in graph.nodes:
        if node.op_type in LIMITS and _is_before_rounding(graph, node):
            (quantize,) = graph.readers[node.output[0]]
            stored, real = (f"{node.input[0]}.{part} before limits" for part in ("q", "dq"))
            first = NodeProto()
            first.CopyFrom(quantize)
            first.name = ""
            first.input[0], first.output[0] = node.input[0], stored
            parameters = [stored, *quantize.input[1:]]
            nodes += [first, helper.make_node("DequantizeLinear", parameters, [real])]
            node.input[0] = real
            moved.add(node.output[0])
        nodes.append(node)
    if moved:
        graph.replace_nodes(nodes)
    return moved


def _is_before_rounding(graph: OnnxGraph, limit: Any) -> bool:
    """Whether a limit is between a product of dequantized values and a QuantizeLinear alone."""
    product, after = graph.makers.get(limit.input[0]), graph.readers.get(limit.output[0], [])
    if product is None or product.op_type not in PRODUCTS or len(after) != 1:
        return False
    (quantize,) = after
    if quantize is None or quantize.op_type != "QuantizeLinear" or len(quantize.input) < 3:
        return False
    made = [graph.makers.get(name) for name in product.input[:2]]
    if any(each is None or each.op_type != "DequantizeLinear" for each in made):
        return False
    zero_point = graph.array(quantize.input[2])
    if zero_point is None or zero_point.dtype.itemsize != 1 or zero_point.dtype.kind not in "iu":
        return False
    least = 0 if zero_point.dtype.kind == "u" else -128
    is_least = zero_point.size == 1 and zero_point.item() == least
    return len(graph.readers[limit.input[0]]) == 1 and not (limit.op_type == "Relu" and is_least)


def int8_values(graph: OnnxGraph) -> set[str]:
    """Edit 4. Returns the names of the values that are int8 in place of uint8.

    A model is unchanged if other operators than QuantizeLinear, DequantizeLinear and Clip have
    uint8 operands or results, or if its inputs or outputs are uint8.
    """
    from onnx import TensorProto

    unsigned = {n for n, t in graph.constants.items() if t.data_type == TensorProto.UINT8}
    moved: set[str] = set()
    touched = set(graph.outputs)
    for node in graph.nodes:
        if node.op_type == "QuantizeLinear":
            if node.input[2] in unsigned if len(node.input) > 2 else _is_uint8(node):
                moved.update(node.output)
        elif node.op_type == "Clip" and {*node.input[:1]} & (moved | unsigned):
            moved.update(node.output)
        elif node.op_type != "DequantizeLinear":
            touched.update(node.input)
    inputs = (entry.type.tensor_type.elem_type for entry in graph.graph.input)
    if not moved or TensorProto.UINT8 in inputs or touched & (moved | unsigned):
        return set()
    for node in graph.nodes:
        if node.op_type == "QuantizeLinear" and len(node.input) < 3 and _is_uint8(node):
            _add_zero_point(graph, node)
    for name in unsigned:
        array = graph.array(name)
        assert array is not None
        graph.store(name, (array.astype(np.int16) - MOVE).astype(np.int8))
    # The file's declared uint8 types are no longer true.
    kept = [entry for entry in graph.graph.value_info if entry.name not in moved]
    del graph.graph.value_info[:]
    graph.graph.value_info.extend(kept)
    return moved


def _is_uint8(quantize: Any) -> bool:
    """Whether a QuantizeLinear without a zero point makes uint8, its default."""
    from onnx import TensorProto

    dtypes = [each.i for each in quantize.attribute if each.name == "output_dtype"]
    return not dtypes or dtypes[0] in (0, TensorProto.UINT8)


def _add_zero_point(graph: OnnxGraph, quantize: Any) -> None:
    """Write the default zero point of uint8 (0), which a file may omit, as int8 (-128)."""
    _remove_attributes(quantize, "output_dtype")
    name = f"{quantize.output[0]}.zero_point"
    graph.store(name, np.asarray(-MOVE, np.int8))
    for node in (quantize, *graph.readers.get(quantize.output[0], [])):
        if node is quantize or (
            node is not None and node.op_type == "DequantizeLinear" and len(node.input) < 3
        ):
            node.input.append(name)


def _remove_attributes(node: Any, *names: str) -> None:
    kept = [each for each in node.attribute if each.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)


def maps_as_tensors(graph: OnnxGraph) -> set[str]:
    """Edit 5. The types of such outputs are left to be inferred."""
    changed: set[str] = set()
    for node in graph.nodes:
        if (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap"):
            node.domain, node.op_type = "", "Identity"
            del node.attribute[:]
            changed.update(node.output)
    for entry in graph.graph.output:
        if entry.name in changed:
            entry.ClearField("type")
    return changed


EDITS: tuple[Edit, ...] = (
    int8_weights,
    merge_equal_quantize,
    limits_after_rounding,
    int8_values,
    maps_as_tensors,
)
