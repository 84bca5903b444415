"""reduce: MEAN, SUM, REDUCE_MAX and REDUCE_MIN as TFLite Micro in every bit."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from quantized_cases import log_uniform, random_zero_point

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.reduce import Reduce, ReduceAttrs
from edgec.ops.reductions import mean_multiplier

AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]
Q = Quant((0.1,), (3,))


def reduction(seed: int, kind: str, dtype: str = "int8") -> bytes:
    rng = np.random.default_rng(seed)
    rank = int(rng.choice([2, 3, 4, 4]))
    shape = rng.integers(1, 9, rank).tolist()
    axes = (1, 2) if rank == 4 and seed % 2 else sorted(rng.permutation(rank)[: 1 + seed % 3])
    axes = [int(axis) for axis in axes]
    keep = bool(rng.integers(2))
    reduced = [1 if axis in axes else e for axis, e in enumerate(shape)]
    if not keep:
        reduced = [e for axis, e in enumerate(shape) if axis not in axes]
    scale, zero_point = log_uniform(rng, 1e-2, 0.5), random_zero_point(rng)
    out_scale, out_zero_point = scale, zero_point
    if kind in ("MEAN", "SUM") and seed % 3:
        taps = np.prod([shape[axis] for axis in axes]) if kind == "SUM" else 1
        out_scale = float(np.float32(scale * log_uniform(rng, 0.1, 4) * taps))
        out_zero_point = random_zero_point(rng)
    if dtype == "int16":
        zero_point = out_zero_point = 0
    signed = [axis - rank if rng.random() < 0.3 else axis for axis in axes]
    return one_operator(
        kind,
        [Operand(shape, dtype, scale, zero_point), Operand.integers(signed)],
        [Operand(reduced, dtype, out_scale, out_zero_point)],
        "ReducerOptions",
        KeepDims=keep,
    )


@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("block", range(3))
def test_random_reductions_equal_tflm(kind: str, block: int, tmp_path: Path) -> None:
    for seed in range(20 * block, 20 * block + 20):
        check_operator(reduction(seed, kind), tmp_path, seed)


@pytest.mark.parametrize("kind", ["MEAN", "SUM"])
def test_random_int16_reductions_equal_tflm(kind: str, tmp_path: Path) -> None:
    for seed in range(25):
        check_operator(reduction(seed, kind, "int16"), tmp_path, seed)


def test_large_means_equal_tflm(tmp_path: Path) -> None:
    data = one_operator(
        "MEAN", [Operand((1, 80, 90, 3), scale=0.05, zero_point=-128), Operand.integers([1, 2])],
        [Operand((1, 3), scale=0.03, zero_point=-100)], "ReducerOptions",
    )  # fmt: skip
    check_operator(data, tmp_path)


def test_the_multiplier_is_divided_by_the_count() -> None:
    assert mean_multiplier(1.0, 1) == (1 << 30, 1)
    assert mean_multiplier(1.0, 3) == ((1 << 31) // 3, 0)


@pytest.mark.parametrize(
    ("attrs", "x", "message"),
    [
        (ReduceAttrs((0,), "median"), TensorType((2,), "int8", Q), "unknown reduction"),
        (ReduceAttrs((0,), "l1"), TensorType((2,), "int8", Q), "not defined"),
        (ReduceAttrs((0,), "mean"), TensorType((2,), "int8"), "quantized input and output"),
        (ReduceAttrs((0,), "prod"), TensorType((2,), "float16"), "prod of"),
        (ReduceAttrs((1,), "sum"), TensorType((2,), "int8", Q), "axes"),
        (ReduceAttrs((0,), "sum"), TensorType((2,), "int32", Q), "int8 or int16 quantized"),
        (ReduceAttrs((0,), "mean"), TensorType((2,), "int8", Q), "quantized input and output"),
        (ReduceAttrs((0,), "mean", Q, "single"), TensorType((2,), "int8", Q), "not defined"),
        (ReduceAttrs((0,), "sum", Q), TensorType((1 << 24,), "int8", Q), "32 bits"),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, x, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Reduce().infer(attrs, x)
