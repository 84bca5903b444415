"""What LiteRT and TFLite Micro compute differently, and quotients by constants near to 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.oracle.frameworks import open_oracle

rng = np.random.default_rng(3)


@pytest.mark.parametrize("kind", ["EQUAL", "NOT_EQUAL", "LESS", "GREATER_EQUAL"])
@pytest.mark.parametrize("scales", [(0.0004, 0.0007), (0.01, 0.01)])
def test_int16_comparisons_of_litert(
    kind: str, scales: tuple[float, float], tmp_path: Path
) -> None:
    """It compares int16 for equality with scales, and orders the stored numbers."""
    model = TfliteBuilder()
    a, b = (
        model.tensor(name, (3, 500), "int16", scale=scale, zero_point=0)
        for name, scale in zip("ab", scales, strict=True)
    )
    y = model.tensor("y", (3, 500), "bool")
    model.operator(kind, [a, b], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([a, b], [y]))
    inputs = [rng.integers(-100, 101, (3, 500)).astype(np.int16) for _ in "ab"]
    (mine,) = Interpretation(import_model(path, match="litert").main).run(inputs)
    assert np.array_equal(mine, open_oracle(path, "litert").run(inputs).outputs[0])


@pytest.mark.parametrize("framework", ["tflm", "litert"])
def test_a_constant_divisor_near_zero(framework: str, tmp_path: Path) -> None:
    """As one that the model computes: the largest number, not infinity."""
    model = TfliteBuilder()
    x, y = (model.tensor(name, (5,), "float32") for name in "xy")
    divisor = np.array([0, 0, 1e-10, 2, -0.5], np.float32)
    d = model.tensor("d", (5,), "float32", data=divisor)
    model.operator("DIV", [x, d], [y], "DivOptions")
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    inputs = [np.array([1, -1, 3e38, 3, 4], np.float32)]
    (mine,) = Interpretation(import_model(path, match=framework).main).run(inputs)
    assert np.array_equal(mine, open_oracle(path, framework).run(inputs).outputs[0])


@pytest.mark.parametrize(
    ("kind", "dtype", "message"),
    [
        ("RSQRT", "int16", "int16 roots"),
        ("SUM", "int8", "sums of int8 and int16"),
        ("SUM", "int16", "sums of int8 and int16"),
    ],
)
def test_what_litert_computes_otherwise_is_refused(
    kind: str, dtype: str, message: str, tmp_path: Path
) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (3, 5), dtype, scale=0.001, zero_point=0)
    y = model.tensor("y", (3, 5) if kind == "RSQRT" else (3,), dtype, scale=0.001, zero_point=0)
    axes = model.tensor("axes", (1,), "int32", data=np.array([1], np.int32))
    model.operator(kind, [x] if kind == "RSQRT" else [x, axes], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    import_model(path)
    with pytest.raises(ImportFailed) as failure:
        import_model(path, match="litert")
    assert message in str(failure.value.details)
