"""integer_norm: within a step of the real numbers, nests in the reference's bits."""

from __future__ import annotations

import numpy as np
import pytest
from single_node import check_nests

from edgec import ops
from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.ops.integer_norm import IntegerNorm, IntegerNormAttrs

ops.load()


def norm(
    x: TensorType, attrs: IntegerNormAttrs, scale: np.ndarray, bias: np.ndarray | None
) -> Function:
    b = GraphBuilder()
    constants = [b.constant("scale", scale)]
    if bias is not None:
        constants.append(b.constant("bias", bias))
    return b.finish([b.op("integer_norm", [b.param("x", x), *constants], attrs, name="y")])


def real(x: np.ndarray, attrs: IntegerNormAttrs, scale: np.ndarray, bias: object) -> np.ndarray:
    """In float64."""
    if attrs.centred:
        x = x - x.mean(axis=-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + attrs.epsilon) * scale
    return y if bias is None else y + bias


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("centred", [True, False])
def test_near_real_numbers(dtype: str, centred: bool) -> None:
    info = np.iinfo(dtype)
    for seed, shape in enumerate([(2, 3, 64), (5, 7), (4, 1), (1, 700)]):
        rng = np.random.default_rng(seed)
        zero_points = (7, -20) if dtype == "int8" else (0, 0)
        quant = Quant((float(np.float32(rng.uniform(1e-3, 0.1))),), zero_points[:1])
        output = Quant((6.0 / info.max,), zero_points[1:])
        attrs = IntegerNormAttrs(centred, 1e-5, output, int(info.min), int(info.max))
        scale = rng.normal(1, 0.5, shape[-1]).astype(np.float32)
        bias = None if not centred else rng.normal(0, 0.3, shape[-1]).astype(np.float32)
        x = rng.normal(20, info.max / 4, shape).clip(info.min, info.max).astype(dtype)
        x[0] = info.min  # all alike: no variance
        function = norm(TensorType(shape, dtype, quant), attrs, scale, bias)
        (found,) = interpret(function, [x])
        exact = real((x.astype(np.float64) - zero_points[0]) * quant.scale[0], attrs, scale, bias)
        wanted = np.clip(exact / output.scale[0] + zero_points[1], info.min, info.max)
        assert np.abs(found - wanted).max() <= 0.51
        check_nests(function, [x])


def test_huge_scales_saturate() -> None:
    x = TensorType((2, 4), "int8", Quant((0.1,), (0,)))
    scale = np.float32([1e30, -1e30, 1e-30, 3e5])
    function = norm(x, IntegerNormAttrs(True, 1e-5, Quant((1e-3,), (0,))), scale, None)
    (found,) = interpret(function, [np.int8([[9, 9, 1, 50], [-9, 3, 3, 60]])])
    assert found[0].tolist() == [-128, 127, 0, 127]


@pytest.mark.parametrize(
    ("x", "epsilon", "message"),
    [
        (TensorType((2, 4), "float32"), 1e-5, "needs int8 or int16"),
        (TensorType((2, 4), "int16", Quant((0.1,), (3,))), 1e-5, "zero point of 0"),
        (TensorType((2, 5), "int8", Quant((0.1,), (0,))), 1e-5, "by float32"),
        (TensorType((2, 4), "int8", Quant((1e-9,), (0,))), 1e5, "epsilon 100000 is too large"),
    ],
)
def test_infer_refuses_what_has_no_meaning(x: TensorType, epsilon: float, message: str) -> None:
    attrs = IntegerNormAttrs(True, epsilon, Quant((0.1,), (0,)))
    with pytest.raises(TypeMismatch, match=message):
        IntegerNorm().infer(attrs, x, TensorType((4,), "float32"))
