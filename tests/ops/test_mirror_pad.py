"""Mirrored padding as ONNX Runtime and TFLite compute it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import assert_near_tflite
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model

PAIRS = [((0, 0), (0, 3)), ((2, 1), (3, 0)), ((1, 2), (3, 3))]


def numbers() -> np.ndarray:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("pairs", PAIRS)
def test_onnx(pairs: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    pads = np.array(pairs, np.int64).T.reshape(-1)
    path = save_node(tmp_path / "m.onnx", "Pad", numbers(), {"pads": pads}, mode="reflect")
    check_nests(check_against_onnxruntime(path, numbers()), [numbers()])


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("pairs", PAIRS)
def test_tflite(mode: int, pairs: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (3, 4), "float32")
    padding = model.tensor("p", (2, 2), "int32", data=np.array(pairs, np.int32))
    shape = tuple(e + sum(pair) for e, pair in zip((3, 4), pairs, strict=True))
    y = model.tensor("y", shape, "float32")
    model.operator("MIRROR_PAD", [x, padding], [y], "MirrorPadOptions", Mode=mode)
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    check_nests(assert_near_tflite(path, [numbers()], 0.0), [numbers()])


def test_more_than_there_is_is_refused(tmp_path: Path) -> None:
    for pads in ([0, 4, 0, 0], [0, 0, -1, 0]):
        constants = {"pads": np.array(pads, np.int64)}
        path = save_node(tmp_path / "m.onnx", "Pad", numbers(), constants, mode="reflect")
        with pytest.raises(ImportFailed) as refused:
            import_model(path)
        assert "mirrored padding of" in refused.value.details[0]
