"""ONNX nodes that are computed while a file is read, of constants alone.

Exporters compute shapes and masks node by node, and branch on them. Where all operands are known,
the onnx package's reference evaluator answers, whatever the operator and the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.limits import Spending
from edgec.graph.types import DTYPES, Array

#: Most elements of a constant that is computed: it is a shape, a mask or a table.
MOST_ELEMENTS = 1 << 20


def dense(shape: tuple[int, ...], values: Array, indices: Array) -> Array:
    """A sparse tensor with its zeros (onnx.proto, SparseTensorProto).

    indices: of each value, ascending: its number in the flat tensor, or a row of indices. Raises
    ValueError where they are something else.
    """
    data, indices = np.zeros(shape, values.dtype), indices.astype(np.int64)
    if indices.ndim == 2:
        indices = np.ravel_multi_index(tuple(indices.T), shape)
    if indices.shape != values.shape:
        raise ValueError(f"indices {list(indices.shape)} of values {list(values.shape)}")
    if not np.all(np.diff(indices, prepend=-1, append=data.size) > 0):
        raise ValueError(f"its indices do not ascend within {list(shape)}")
    data.reshape(-1)[indices] = values
    return data


#: Operators whose evaluation takes time proportional to operands and outputs; for all others, each
#: output element may read all operands' elements in a Python loop.
_LINEAR = frozenset((
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike",
    "Ceil", "Celu", "Clip", "Compress", "Concat", "Constant", "ConstantOfShape", "Cos", "Cosh",
    "CumSum", "DequantizeLinear", "Div", "Elu", "Equal", "Exp", "Expand", "EyeLike", "Flatten",
    "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "HardSigmoid",
    "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max",
    "Mean", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "Pad", "Pow", "PRelu",
    "QuantizeLinear", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Relu", "Reshape", "Round", "Scatter", "ScatterElements", "ScatterND",
    "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice", "Softplus",
    "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu",
    "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
))  # fmt: skip
#: Steps that reading, checking and running one node takes.
_NODE_STEPS = 10


def computed(
    node: Any, opset: int, operands: Sequence[Array | None], spending: Spending
) -> tuple[Array, ...]:
    """The outputs of a node of the standard domain.

    operands: in the order of its inputs, None for absent ones. spending: counts the work before it
    is done. Raises ImportFailed for outputs that are too large or no tensors of numbers, for random
    numbers, and where the evaluator has no answer; TooLarge where the work is beyond the budget.
    """
    import onnx

    if node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial"):
        raise ImportFailed("it makes random numbers")
    given = {
        name: operand
        for name, operand in zip(node.input, operands, strict=True)
        if operand is not None
    }
    _spend(node, _output_shapes(onnx, node, opset, given), given, spending)
    try:
        with np.errstate(all="ignore"):
            found = _evaluated(onnx, node, opset, given)
    except Exception as error:  # operators of the evaluator raise any class of error
        reason = str(error).partition("\n")[0][:120]
        raise ImportFailed(f"its constants cannot be computed ({reason})") from None
    if any(isinstance(result, list) for result in found):
        raise ImportFailed("it makes a sequence")
    results = tuple(np.asarray(result) for result in found)
    if any(result.dtype.name not in DTYPES for result in results):
        raise ImportFailed("it makes constants of an unknown dtype")
    return results


def _evaluated(onnx: Any, node: Any, opset: int, given: dict[str, Array]) -> Sequence[Any]:
    """The results of the onnx package's evaluator.

    Unique in the order in which values stand first is our own: of one output alone, or along
    another axis than the first, the evaluator's is another order.
    """
    from onnx.reference import ReferenceEvaluator

    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type != "Unique" or attributes.get("sorted", 1):
        answers: Any = ReferenceEvaluator(_model_of(onnx, node, opset, given)).run(None, given)
        return list(answers)
    axis = attributes.get("axis")
    unique: Any = np.unique(given[node.input[0]], True, True, True, axis=axis)
    values, firsts, numbers, counts = unique
    order = np.argsort(firsts)
    found = (
        np.take(values, order, axis=axis or 0), firsts[order],
        np.argsort(order)[numbers.reshape(-1)], counts[order],
    )  # fmt: skip
    return [each for each, name in zip(found, node.output, strict=False) if name]


def _spend(
    node: Any, shapes: Sequence[Sequence[int]], given: dict[str, Array], spending: Spending
) -> None:
    """Count the work of outputs of these shapes, which are unknown where there are none."""
    if any(math.prod(shape) > MOST_ELEMENTS for shape in shapes):
        raise ImportFailed(f"a constant of shape {list(shapes[0])}")
    read = sum(array.size for array in given.values())
    made = sum(math.prod(shape) for shape in shapes) if shapes else read
    if node.op_type in _LINEAR:
        spending.work(read + made, _NODE_STEPS, node.name or node.output[0])
    else:
        spending.work(max(read, 1) * made, _NODE_STEPS + made, node.name or node.output[0])


def _model_of(onnx: Any, node: Any, opset: int, given: dict[str, Array]) -> Any:
    """A model of one node, whose inputs are the operands."""
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)
        )
        for name, array in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "constant", inputs, outputs)
    opsets = [onnx.helper.make_opsetid(node.domain, opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets)


def _output_shapes(
    onnx: Any, node: Any, opset: int, given: dict[str, Array]
) -> list[tuple[int, ...]]:
    """The shapes that follow from the operands, without outputs whose shape is unknown."""
    graph = onnx.helper.make_graph(
        [node], "shapes", [], [onnx.ValueInfoProto(name=name) for name in node.output if name],
        [onnx.numpy_helper.from_array(array, name) for name, array in given.items()],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid(node.domain, opset)]
    try:
        model = onnx.shape_inference.infer_shapes(
            onnx.helper.make_model(graph, opset_imports=opsets), data_prop=True
        )
    except Exception as error:
        reason = str(error).partition("\n")[0][:120]
        raise ImportFailed(f"its shapes do not fit ({reason})") from None
    found = []
    for entry in model.graph.output:
        tensor = entry.type.tensor_type
        if tensor.HasField("shape"):
            found.append(tuple(d.dim_value for d in tensor.shape.dim))
    if not found and sum(array.size for array in given.values()) > 0 and node.op_type in _MAKERS:
        raise ImportFailed(f"the size of the result of {node.op_type} is unknown")
    return found


#: Operators whose output may be far larger than their operands.
_MAKERS = ("Range", "Expand", "Tile", "ConstantOfShape", "OneHot", "Pad", "Resize", "Upsample")
