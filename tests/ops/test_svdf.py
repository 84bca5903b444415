"""svdf_push and svdf_time: TFLite Micro's bits over sequences, and their loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.types import Quant, TensorType
from edgec.ops.svdf import SvdfPush, SvdfTime

IN, UNITS, MEMORY = 12, 5, 4


def svdf_model(
    seed: int = 1, rank: int = 1, dtype: str = "int8", zero_point: int = -9, bias: bool = True,
    batch: int = 1, computed_bias: bool = False,
) -> bytes:  # fmt: skip
    rng = np.random.default_rng(seed)
    filters = UNITS * rank
    high = 128 if dtype == "int8" else 3000
    feature_data = rng.integers(-127, 128, (filters, IN)).astype(np.int8)
    time_data = rng.integers(-high, high, (filters, MEMORY)).astype(dtype)
    bias_data = rng.integers(-2000, 2000, UNITS).astype(np.int32)
    # Small enough for the memory to saturate, and to wrap at its zero point.
    scale = 0.12 if dtype == "int8" else 0.002
    zero_point = zero_point if dtype == "int8" else 0
    model = TfliteBuilder()

    def constant(name: str, data: np.ndarray, scale: float) -> int:
        return model.tensor(name, data.shape, data.dtype.name, scale=scale, data=data)

    x = model.tensor("x", (batch, IN), "int8", scale=0.0592, zero_point=-11)
    feature = constant("feature", feature_data, 0.0091)
    time = constant("time", time_data, 0.0149)
    b = constant("bias", bias_data, scale * 0.0149) if bias else -1
    if computed_bias:
        b = model.tensor("bias", (UNITS,), "int32", scale=scale * 0.0149)
    memory = model.tensor("memory", (batch, filters * MEMORY), dtype, scale=scale,
                          zero_point=zero_point, variable=True)  # fmt: skip
    y = model.tensor("y", (batch, UNITS), "int8", scale=0.11, zero_point=-20)
    model.operator("SVDF", [x, feature, time, b, memory], [y], "SVDFOptions", Rank=rank,
                   FusedActivationFunction=1)  # fmt: skip
    return model.build([x, b] if computed_bias else [x], [y])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("zero_point", [-9, 40])
def test_the_bits_of_tflite_micro(rank: int, zero_point: int, tmp_path: Path) -> None:
    data = svdf_model(rank, rank, zero_point=zero_point)
    module = assert_same_bits(data, tmp_path, range(1, 3 * MEMORY))
    assert [node.op.name for node in module.main.nodes] == [
        "dense", "requantize", "svdf_push", "svdf_time", "requantize",
    ]  # fmt: skip


def test_an_int16_memory(tmp_path: Path) -> None:
    assert_same_bits(svdf_model(dtype="int16"), tmp_path, range(1, 3 * MEMORY))


@pytest.mark.parametrize("rank", [1, 2])
def test_loops(rank: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(svdf_model(rank=rank))
    function = import_model(path).main
    reference = Interpretation(function)
    rng = np.random.default_rng(5)
    for _ in range(3):
        inputs = [rng.integers(-128, 128, (1, IN)).astype(np.int8), *reference.state]
        check_nests(function, inputs)
        reference.run(inputs[:1])


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(svdf_model(batch=2))
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "of one batch" in failure.value.details[0]
    path.write_bytes(svdf_model(bias=False))  # TFLite Micro does not check, and reads through null
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "a bias" in failure.value.details[0]
    path.write_bytes(svdf_model(computed_bias=True))
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "the bias is not a constant" in failure.value.details[0]
    memory = TensorType((1, 8), "int8", Quant((0.1,), (3,)))
    with pytest.raises(TypeMismatch, match="has no place for"):
        SvdfPush().infer(None, memory, TensorType((1, 3), "int8"))  # type: ignore[arg-type]
    with pytest.raises(TypeMismatch, match="bias"):
        SvdfTime().infer(
            None,  # type: ignore[arg-type]
            memory,
            TensorType((4, 2), "int8"),
            TensorType((3,), "int32"),
        )
