"""No input gives a stored value outside of its interval; what nobody knows is the whole dtype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import quantized_network

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Value
from edgec.graph.types import Array, TensorType
from edgec.passes.channel_intervals import channel_intervals, intervals_of
from edgec.passes.fuse_qdq import fuse_qdq
from edgec.passes.sink_transposes import sink_transposes


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_parameters_can_be_anything_their_dtype_holds(dtype: str) -> None:
    x = Value("x", TensorType((2, 3), dtype))
    ((low, high),) = intervals_of([x], []).values()
    bounds = np.iinfo(dtype)
    assert low.tolist() == [bounds.min] * 3 and high.tolist() == [bounds.max] * 3
    assert low.dtype == high.dtype == np.int64


@pytest.mark.parametrize("type_", [TensorType((), "int8"), TensorType((2, 3), "float32"),
                                   TensorType((3,), "bool"), TensorType((3,), "int64")],
                         ids=str)  # fmt: skip
def test_other_values_have_none(type_: TensorType) -> None:
    assert intervals_of([Value("x", type_)], []) == {}


@pytest.mark.parametrize("seed", range(6))
def test_every_value_lies_in_its_interval(seed: int, tmp_path: Path) -> None:
    function = fuse_qdq(sink_transposes(import_model(quantized_network(seed, tmp_path / "m")).main))
    known = channel_intervals(function)
    rng = np.random.default_rng(seed)
    narrow = 0

    def check(value: Value, array: Array) -> None:
        nonlocal narrow
        if value not in known:
            return
        low, high = known[value]
        assert low.shape == high.shape == array.shape[-1:]
        assert (array >= low).all() and (array <= high).all(), value.name
        narrow += bool((low > np.iinfo(array.dtype).min).any())

    for size in (0.0, 0.1, 1.0, 1e3, 1e9):  # also what saturates
        types = [param.type for param in function.params]
        inputs = [(size * rng.normal(size=t.shape)).astype(t.dtype) for t in types]
        interpret(function, inputs, check)
    assert narrow  # the intervals say something
