"""SignalWindow and SignalFftAutoScale: TFLite Micro's bits for loud, quiet and silent frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import differences
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import TensorType
from edgec.ops.signal_window import SignalWindow, SignalWindowAttrs
from edgec.oracle.frameworks import open_oracle

SIZE = 64


def frames() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    found = [rng.integers(-high, high + 1, SIZE) for high in (1, 2, 3, 100, 4095, 16383, 32767)]
    found += [np.zeros(SIZE), np.full(SIZE, -32768), np.full(SIZE, 32767), np.full(SIZE, -16384)]
    return [frame.astype(np.int16) for frame in found]


def check(model: bytes, tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model)
    module, oracle = import_model(path), open_oracle(path)
    for frame in frames():
        assert differences(module, oracle, [frame.reshape(shape)]) == []
        check_nests(module.main, [frame.reshape(shape)])


@pytest.mark.parametrize("shift", [0, 8, 12, 15])
def test_window(shift: int, tmp_path: Path) -> None:
    weights = np.random.default_rng(2).integers(-4096, 4097, SIZE).astype(np.int16)
    model = TfliteBuilder()
    x, y = (model.tensor(name, (1, SIZE), "int16") for name in "xy")
    w = model.tensor("w", (SIZE,), "int16", data=weights)
    model.operator("CUSTOM:SignalWindow", [x, w], [y], shift=shift)
    check(model.build([x], [y]), tmp_path, (1, SIZE))


def test_auto_scale(tmp_path: Path) -> None:
    model = TfliteBuilder()
    x, y = (model.tensor(name, (SIZE,), "int16") for name in "xy")
    bits = model.tensor("bits", (), "int32")
    model.operator("CUSTOM:SignalFftAutoScale", [x], [y, bits])
    check(model.build([x], [y, bits]), tmp_path, (SIZE,))


def test_refusals(tmp_path: Path) -> None:
    int16 = TensorType((8,), "int16")
    with pytest.raises(TypeMismatch, match="signal_window int16"):
        SignalWindow().infer(SignalWindowAttrs(3), TensorType((1, 9), "int16"), int16)
    with pytest.raises(TypeMismatch, match="a shift of 32"):
        SignalWindow().infer(SignalWindowAttrs(32), int16, int16)
    model = TfliteBuilder()
    x, y, w = (model.tensor(name, (SIZE,), "int16") for name in "xyw")
    model.operator("CUSTOM:SignalWindow", [x, w], [y], shift=3)
    (tmp_path / "m.tflite").write_bytes(model.build([x, w], [y]))
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.tflite")
    assert "a constant window" in failure.value.details[0]
