"""svdf_push, svdf_time: a filter of rank one over time, with its past as state.

TFLite's SVDF is a dense layer over the features of the present, whose results are remembered, and
a dot product over the remembered ones of each filter:

    memory[f] = (memory[f] without its oldest, dense(x)[f])          svdf_push
    y[u] = sum over the filters f of unit u of memory[f] . time[f]   svdf_time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import Interval, Movement, Operand
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, int32
from edgec.numerics.fixed_point import wrap_int32
from edgec.ops.broadcast import constant_of, tensor_of, tensors_of
from edgec.ops.op import Op, RawNode, from_tflite
from edgec.ops.requantize import RequantizeAttrs, tflite_operands, weight_scales
from edgec.ops.svdf_float import append_svdf


def _zero_point(memory: TensorType) -> int:
    if memory.quant is None or not memory.quant.per_tensor:
        raise TypeMismatch(f"the memory {memory} is not quantized per tensor")
    return memory.quant.zero_point[0]


@register
class SvdfPush(Op[NoAttrs]):
    """memory [1, F * M], feature [1, F] with zero point 0 -> the next memory.

    Every filter's M values move down by one, its feature becomes the last of them. The memory's
    zero point is added to the feature and wraps, as in TFLite Micro, which limits it before.
    """

    name = "svdf_push"
    fusion = Fusion.OPAQUE
    movement = Movement.PUSH

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The memory's own type."""
        memory, feature = inputs
        _zero_point(memory)
        if memory.dtype not in ("int8", "int16") or feature.dtype != memory.dtype:
            raise TypeMismatch(f"svdf_push of {feature} into {memory}")
        if len(memory.shape) != 2 or len(feature.shape) != 2 or memory.shape[0] != 1:
            raise TypeMismatch(f"svdf_push needs one batch, not {memory} and {feature}")
        if feature.shape[0] != 1 or memory.shape[1] % feature.shape[1]:
            raise TypeMismatch(f"{memory} has no place for {feature}")
        return (memory,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """All values move together; the oldest, which the features overwrite, too."""
        memory, feature = tensors_of(inputs, target)
        out = target.target
        assert out is not None  # nothing is fused after it
        filters = feature.shape[1]
        length = memory.shape[1] // filters
        zero_point = _zero_point(node.inputs[0].type)
        if memory.shape[1] > 1:
            target.definition.compute(
                out, lambda n, i: memory[n, i + 1], shape=(1, memory.shape[1] - 1), name="move"
            )
        return target.definition.compute(
            out,
            lambda n, f: cast(int32(feature[n, f]) + zero_point, memory.dtype),
            shape=feature.shape,
            at=lambda n, f: (n, f * length + (length - 1)),
            name="push",
        )


@register
class SvdfTime(Op[NoAttrs]):
    """memory [1, F * M], time [F, M], bias int32 [U] -> int32 [1, U]; F is a multiple of U."""

    name = "svdf_time"
    constant_inputs = (1, 2)
    fusion = Fusion.COMPLEX

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One accumulator for each unit."""
        memory, time, bias = inputs
        _zero_point(memory)
        if memory.dtype not in ("int8", "int16") or time.dtype != memory.dtype:
            raise TypeMismatch(f"svdf_time of {memory} with {time}")
        if len(time.shape) != 2 or memory.shape != (1, time.elements):
            raise TypeMismatch(f"svdf_time weights {list(time.shape)} for {memory}")
        if bias.dtype != "int32" or len(bias.shape) != 1 or time.shape[0] % bias.shape[0]:
            raise TypeMismatch(f"svdf_time bias {bias} for {time.shape[0]} filters")
        return (TensorType((1, bias.shape[0]), "int32"),)

    def macs(self, attrs: NoAttrs, inputs: Types) -> int:
        """One for each remembered value."""
        return inputs[1].elements

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation per unit; the zero point is in the bias."""
        memory, time, bias = (
            tensor_of(inputs[0]),
            constant_of(inputs[1]).data,
            constant_of(inputs[2]).data,
        )
        filters, length = time.shape
        units = len(bias)
        rank = filters // units
        sums = time.astype(np.int64).reshape(units, -1).sum(axis=1)
        folded = bias.astype(np.int64) - _zero_point(node.inputs[0].type) * sums
        weights = target.table("w", time.reshape(-1))
        biases = target.table("bias", wrap_int32(folded).astype(np.int32))
        taps = rank * length  # the values of a unit's filters lie one after the other
        return target.reduce(
            "acc",
            node.output.type.shape,
            "int32",
            [("k", 0, taps)],
            init=lambda n, u: biases[u],
            update=lambda acc, n, u, k: (
                acc + int32(memory[n, u * taps + k]) * int32(weights[u * taps + k])
            ),
        )

    def sums(self, attrs: NoAttrs, operands: Sequence[Operand]) -> Sequence[Interval]:
        """Sums over the filters' memories: over pushed values or the initial values."""
        memory, time, bias = operands
        assert time.data is not None and bias.data is not None
        weights, start = time.data.astype(np.int64), bias.data.astype(np.int64)
        info, zero_point = np.iinfo(memory.type.dtype), _zero_point(memory.type)
        whole = (np.full(len(weights), end, np.int64) for end in (info.min, info.max))
        low, high = ((end - zero_point)[:, None] for end in memory.interval or whole)
        ends = np.sort([weights * low, weights * high], axis=0)
        smallest, largest = (end.reshape(len(start), -1).sum(axis=1) + start for end in ends)
        return ((smallest, largest),)


@from_tflite("SVDF")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SVDF on floats or on int8: dense, requantize, svdf_push, svdf_time, requantize.

    Source: TFLite Micro's svdf_common.cc. Its products and quotients of scales are float32; the
    fused activation is not looked at, the output's range alone limits.
    """
    if raw.operand(0).type.is_float:
        return append_svdf(builder, raw)
    if len(raw.inputs) != 5 or None in raw.inputs:
        raise ImportFailed("it needs an input, two weights, a bias and a state")
    _, feature, time, bias, memory = raw.operands(5)
    declared = raw.output_types[0]
    if not isinstance(time, Constant) or len(time.type.shape) != 2:
        raise ImportFailed("the weights over time are not constants of rank 2")
    if not isinstance(bias, Constant):
        raise ImportFailed("the bias is not a constant")
    x, feature, zeros = tflite_operands(builder, replace(raw, inputs=raw.inputs[:2]), 0)
    if x.type.dtype != "int8" or declared is None or declared.dtype != "int8":
        raise ImportFailed(f"{x.type.dtype} input: only int8 is supported")
    if declared.quant is None or memory.type.quant is None or declared.shape[0] != 1:
        raise ImportFailed("state and output must be quantized, of one batch")
    rank = int(raw.attribute("rank", 1))
    filters = time.type.shape[0]
    if rank < 1 or filters % rank:
        raise ImportFailed(f"{filters} filters of rank {rank}")
    (feature_scale,) = weight_scales(feature.type, 1)
    (time_scale,) = weight_scales(time.type, 1)
    single = np.float32
    memory_scale = single(memory.type.scalar_quant()[0])
    first = single(x.type.scalar_quant()[0]) * single(feature_scale) / memory_scale
    second = memory_scale * single(time_scale) / single(declared.quant.scale[0])

    sources = (raw.name,)
    acc = builder.op(
        "dense", [x, feature, zeros], name=f"{raw.name}/feature", sources=sources,
        output_names=[f"{raw.name}/feature.acc"],
    )  # fmt: skip
    info = np.iinfo(memory.type.dtype)
    attrs = RequantizeAttrs(
        (float(first),), Quant((float(memory_scale),), (0,)), int(info.min), int(info.max),
        raw.rounding, memory.type.dtype,
    )  # fmt: skip
    pushed = builder.op("requantize", [acc], attrs, name=f"{raw.name}/feature", sources=sources)
    after = builder.op("svdf_push", [memory, pushed], name=f"{raw.name}/push", sources=sources)
    builder.become(memory, after)
    acc = builder.op(
        "svdf_time", [after, time, bias], name=raw.name, output_names=[f"{raw.name}.acc"]
    )
    attrs = RequantizeAttrs(
        (float(second),), declared.quant, -128, 127,
        raw.rounding,
    )  # fmt: skip
    return builder.op(
        "requantize", [acc], attrs, name=f"{raw.name}/requantize", output_names=[raw.name],
        sources=sources,
    )  # fmt: skip
