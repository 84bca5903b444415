"""What `verify` compares with, which builds it makes, and what it leaves out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.frontends.custom_file import load_custom_ops
from edgec.options import Options
from edgec.oracle import verify
from edgec.oracle.verify import Verification, verify_model

sys.path.insert(0, str(Path(__file__).parents[2] / "ops"))
from custom_op_files import SHAPE, onnx_model, write_declaration

FUSED = """
<ir_version: 9, opset_import: ["":17]>
g (float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,1,1] w = {2.0}> {
    c = Conv(x, w)
    r = Relu(c)
    y = Sigmoid(r)
}
"""


@pytest.fixture
def fused(tmp_path: Path) -> Path:
    path = tmp_path / "fused.onnx"
    onnx.save(onnx.parser.parse_model(FUSED), path)
    return path


def verdict(
    model: Path, cases: Sequence[np.ndarray], *, layers: bool = True, match: str | None = None
) -> Verification:
    folder = model.parent / "work"
    options = Options(match=match)  # type: ignore[arg-type]
    inputs = [[case] for case in cases]
    return verify_model(model, load_board("host"), options, "host", inputs, folder, layers=layers)


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(1, 1, 4, 4)).astype(np.float32)


def test_what_fusion_hides_is_compared_in_a_build_of_its_own(fused: Path) -> None:
    result = verdict(fused, [image(1), image(2)])
    rows = {row.tensor: row for row in result.layers}
    assert {name: row.operator for name, row in rows.items()} == {"r": "clip", "y": "reshape"}
    assert result.beyond == 0 and "r" not in result.uncovered
    assert [(row.tensor, row.elements) for row in result.outputs] == [("y", 32)]
    # A sigmoid is rounded, and what it may be off is a part of 1, not of its largest value.
    assert rows["y"].tolerance > 0 and rows["y"].scale == 1.0


def test_what_was_not_compared_is_named(fused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The convolution's own result, which the compiler never has, and in one build Relu's."""
    assert "c" in verdict(fused, [image(1)]).uncovered
    monkeypatch.setattr(verify.Runner, "takes_any_build", property(lambda self: False))
    assert {"c", "r"} <= set(verdict(fused, [image(1)]).uncovered)
    assert verdict(fused, [image(1)], layers=False).uncovered == []


def test_the_reference_of_a_custom_operator_is_its_declaration(tmp_path: Path) -> None:
    load_custom_ops(write_declaration(tmp_path))
    sample = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    result = verdict(onnx_model(tmp_path / "m.onnx"), [sample], layers=False)
    assert result.beyond == 0 and result.note == verify.OWN_NOTE


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """An SVDF, whose answer depends on what came before."""
    rng = np.random.default_rng(1)
    model = TfliteBuilder()
    x = model.tensor("x", (1, 6), "int8", scale=0.06, zero_point=-11)
    data = rng.integers(-127, 128, (4, 6)).astype(np.int8)
    feature = model.tensor("f", (4, 6), "int8", scale=0.01, data=data)
    data = rng.integers(-127, 128, (4, 3)).astype(np.int8)
    time = model.tensor("t", (4, 3), "int8", scale=0.015, data=data)
    b = model.tensor("b", (4,), "int32", scale=0.0015, data=np.zeros(4, np.int32))
    state = model.tensor("m", (1, 12), "int8", scale=0.1, zero_point=-9, variable=True)
    y = model.tensor("y", (1, 4), "int8", scale=0.1, zero_point=-20)
    model.operator("SVDF", [x, feature, time, b, state], [y], "SVDFOptions", Rank=1,
                   FusedActivationFunction=0)  # fmt: skip
    path = tmp_path / "svdf.tflite"
    path.write_bytes(model.build([x], [y]))
    return path


def test_every_build_starts_from_the_initial_state(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference has kept its state from the build before, unless it is reset."""
    rng = np.random.default_rng(2)
    cases = [rng.integers(-128, 128, (1, 6)).astype(np.int8) for _ in range(3)]
    opened = verify.open_oracle

    def used(*arguments: object) -> object:
        oracle = opened(*arguments)  # type: ignore[arg-type]
        oracle.run([cases[0]])
        return oracle

    monkeypatch.setattr(verify, "open_oracle", used)
    result = verdict(memory, cases, layers=False)
    assert result.mismatches == 0 and len(set(map(bytes, cases))) == 3


@pytest.mark.parametrize(("match", "name"), [(None, "tflm"), ("litert", "litert")])
def test_whose_rounding_is_followed_answers(memory: Path, match: str | None, name: str) -> None:
    dense = TfliteBuilder()
    x = dense.tensor("x", (1, 4), "int8", scale=0.1)
    data = np.arange(8, dtype=np.int8).reshape(2, 4)
    w = dense.tensor("w", (2, 4), "int8", scale=0.1, data=data)
    y = dense.tensor("y", (1, 2), "int8", scale=0.1)
    dense.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    path = memory.parent / "dense.tflite"
    path.write_bytes(dense.build([x], [y]))
    result = verdict(path, [np.ones((1, 4), np.int8)], layers=False, match=match)
    assert result.reference == name and result.mismatches == 0
