"""Makers of ONNX operators with bodies, of results whose size data decide, and of late ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_makers import Proposal, floats, makes
from onnx_place_makers import MAKERS
from random_models import Maker

#: The makers of this file and of the files that it imports.
__all__ = ["MAKERS"]


@makes("NonZero")
def _places(maker: Maker, kind: str) -> Proposal:
    dtypes = ("bool", "float32", "int32", "int64", "uint8")
    return Proposal(kind, [maker.pick(lambda t: t.dtype in dtypes and len(t.shape) > 0)])


@makes("Unique")
def _different(maker: Maker, kind: str) -> Proposal:
    x = maker.pick(lambda t: t.dtype in ("int64", "int8") and len(t.shape) > 0)
    fields: dict[str, Any] = {"sorted": int(maker.rng.random() < 0.7)}
    if maker.rng.random() < 0.4:
        fields["axis"] = int(maker.rng.integers(len(maker.tensors[x].shape)))
    return Proposal(kind, [x], fields, int(maker.rng.integers(1, 5)))


@makes("NonMaxSuppression")
def _boxes(maker: Maker, kind: str) -> Proposal:
    """Boxes of constant places by computed scores."""
    rng = maker.rng
    scores = maker.pick(
        lambda t: t.dtype == "float32" and len(t.shape) == 3 and t.shape[0] == 1 < t.shape[2]
    )
    corners = rng.integers(0, 20, (1, maker.tensors[scores].shape[2], 2, 2)) / 4
    boxes = np.sort(corners, axis=2).reshape(1, -1, 4).astype(np.float32)
    most = np.asarray([rng.integers(1, 5)], np.int64)
    least = np.asarray([0.5, -0.5], np.float32)[:, None]
    inputs = [maker.constant(boxes), scores, maker.constant(most)]
    return Proposal(kind, [*inputs, maker.constant(least[0]), maker.constant(least[1])])


def _info(name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def _body(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return helper.make_graph(nodes, "body", inputs, outputs)


@makes("If")
def _branches(maker: Maker, kind: str) -> Proposal:
    """One of two nodes on a value of the graph around."""
    condition = maker.pick(lambda t: t.dtype == "bool" and t.shape in ((), (1,)))
    x = floats(maker)
    shape = maker.tensors[x].shape
    graphs = [
        _body([helper.make_node(op, [x] * count, [f"{op}_y"])], [],
              [_info(f"{op}_y", "float32", shape)])
        for op, count in (("Neg", 1), ("Mul", 2))
    ]  # fmt: skip
    fields = dict(zip(("then_branch", "else_branch"), graphs, strict=True))
    return Proposal(kind, [condition], fields, captured=[x])


@makes("Loop")
def _rounds(maker: Maker, kind: str) -> Proposal:
    """A state that is halved a number of times, and what it was in each round."""
    x = floats(maker)
    shape, rounds = maker.tensors[x].shape, np.asarray(maker.rng.integers(1, 5), np.int64)
    half = numpy_helper.from_array(np.asarray(0.5, np.float32), "half")
    nodes = [
        helper.make_node("Constant", [], ["half"], value=half),
        helper.make_node("Identity", ["go"], ["goes"]),
        helper.make_node("Mul", ["state", "half"], ["next"]),
        helper.make_node("Neg", ["state"], ["shown"]),
    ]
    body = _body(
        nodes,
        [_info("round", "int64", ()), _info("go", "bool", ()), _info("state", "float32", shape)],
        [_info("goes", "bool", ()), _info("next", "float32", shape),
         _info("shown", "float32", shape)],
    )  # fmt: skip
    return Proposal(kind, [maker.constant(rounds), "", x], {"body": body}, 2)


@makes("Scan")
def _sums(maker: Maker, kind: str) -> Proposal:
    """Sums along the first axis, the last one and all."""
    x = maker.pick(lambda t: t.dtype == "float32" and len(t.shape) > 1)
    shape = maker.tensors[x].shape[1:]
    nodes = [
        helper.make_node("Add", ["total", "row"], ["sum"]),
        helper.make_node("Identity", ["sum"], ["shown"]),
    ]
    body = _body(
        nodes, [_info(name, "float32", shape) for name in ("total", "row")],
        [_info(name, "float32", shape) for name in ("sum", "shown")],
    )  # fmt: skip
    zeros = maker.constant(np.zeros(shape, np.float32))
    return Proposal(kind, [zeros, x], {"body": body, "num_scan_inputs": 1}, 2)


@makes("BitCast")
def _bits(maker: Maker, kind: str) -> Proposal:
    x = maker.pick(lambda t: t.dtype in ("float32", "int8", "int32"))
    wide = [TensorProto.INT32, TensorProto.UINT32]
    to = wide if maker.tensors[x].dtype != "int8" else [TensorProto.UINT8]
    if maker.opset < 26:
        raise LookupError
    return Proposal(kind, [x], {"to": int(maker.rng.choice(to))})


@makes("TensorScatter")
def _cache(maker: Maker, kind: str) -> Proposal:
    """New steps of a cache, whose place is a constant."""
    x = floats(maker, 4)
    shape: tuple[int, ...] = maker.tensors[x].shape
    if maker.opset < 24 or shape[2] < 2:
        raise LookupError
    update = maker.pick(lambda t: t.dtype == "float32" and t.shape == shape)
    place = maker.constant(np.zeros(shape[0], np.int64))
    return Proposal(kind, [x, update, place], {"axis": -2})
