"""check_limits: extents that are cheap to claim and too large to run are refused with words."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
from one_operator import Operand, one_operator
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.graph.limits import DEFAULT_BUDGET
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import host_core


def failure(data: bytes, folder: Path) -> ImportFailed:
    path = folder / "large.tflite"
    path.write_bytes(data)
    with pytest.raises(ImportFailed, match="too large") as caught:
        compile_model(path, host_core(), Options())
    return caught.value


def test_values_with_too_many_elements(tmp_path: Path) -> None:
    shape = (1, 1 << 12, (1 << 12) + 1, 1)
    data = one_operator("ADD", [Operand(shape), Operand(shape)], [Operand(shape)], "AddOptions")
    found = failure(data, tmp_path)
    assert len(found.details) == 3 and f"at most {DEFAULT_BUDGET.elements:,}" in found.details[2]


@pytest.mark.parametrize(
    ("extent", "kernel", "words"), [(4000, 31, "windows read"), (4000, 200, "multiply-accumulates")]
)
def test_convolutions_with_too_much_work(
    extent: int, kernel: int, words: str, tmp_path: Path
) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (1, extent, extent, 1), "int8", scale=0.1, zero_point=0)
    weights = np.ones((1, kernel, kernel, 1), np.int8)
    w = model.tensor("w", weights.shape, "int8", scale=0.1, data=weights)
    y = model.tensor("y", (1, extent, extent, 1), "int8", scale=9.0, zero_point=0)
    model.operator("CONV_2D", [x, w, -1], [y], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1,
                   DilationWFactor=1, DilationHFactor=1)  # fmt: skip
    (detail,) = failure(model.build([x], [y]), tmp_path).details
    assert words in detail


def save_onnx(text: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["":17]> {text}'), path)
    return path


def refused(path: Path, factor: float = 1.0) -> str:
    with pytest.raises(ImportFailed, match="too large") as caught:
        compile_model(path, host_core(), Options(compile_budget=factor))
    assert "--compile-budget" in caught.value.hint
    return "\n".join((caught.value.message, *caught.value.details))


def test_small_files_of_large_constants_are_refused(tmp_path: Path) -> None:
    """Each is within the limit of one constant; 3,000 of them took 9.1 GB."""
    nodes = "\n".join(f"c{n} = ConstantOfShape(shape)" for n in range(300))
    path = save_onnx(
        f"g (float[2] x) => (float[2] y) <int64[2] shape = {{1024, 1024}}>"
        f" {{ {nodes} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "bytes of constants up to 'ConstantOfShape#127'" in refused(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # KB
    assert "ConstantOfShape#12'" in refused(path, factor=0.1)


def lstm(steps: int, folder: Path) -> Path:
    return save_onnx(
        f"g (float[{steps},1,1] x) => (float[{steps},1,1,1] y)"
        " <float[1,4,1] w = {1,1,1,1}, float[1,4,1] r = {1,1,1,1}>"
        " { y = LSTM<hidden_size=1>(x, w, r) }", folder,
    )  # fmt: skip


def test_many_steps_are_refused(tmp_path: Path) -> None:
    assert "4,000,0" in refused(lstm(4_000_000, tmp_path))
    assert "steps one after the other; at most 262,144" in refused(lstm(2_000_000, tmp_path))


def test_the_budget_is_an_option(tmp_path: Path) -> None:
    path = lstm(40, tmp_path)
    assert "steps one after the other; at most 26" in refused(path, factor=0.0001)
    assert compile_model(path, host_core(), Options(compile_budget=0.01)).macs


def test_what_is_computed_while_a_file_is_read_counts(tmp_path: Path) -> None:
    steps = "\n".join(f"y{n}, h{n} = LSTM<hidden_size=1>(c, w, r)" for n in range(3))
    path = save_onnx(
        "g (float[2] x) => (float[2] y) <int64[3] shape = {6000, 1, 1},"
        " float[1,4,1] w = {1,1,1,1}, float[1,4,1] r = {1,1,1,1}>"
        f" {{ c = ConstantOfShape(shape) {steps} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    assert "steps one after the other up to" in refused(path, factor=0.04)


@pytest.mark.parametrize(("text", "words"), [
    # One product of integers, of operands that are small to write down.
    ("big = ConstantOfShape<value : tensor = int64[1] {3}>(square) c = MatMul(big, big)",
     "multiply-accumulates up to"),
    # Perhaps all operands for each output element.
    ("big = ConstantOfShape<value : tensor = int64[1] {3}>(tall)"
     " c = LpNormalization(big)", "multiply-accumulates up to"),
    ("c = RandomUniform<shape = [1000, 1000]>()", "it makes random numbers"),
])  # fmt: skip
def test_what_the_evaluator_would_compute_counts(text: str, words: str, tmp_path: Path) -> None:
    path = save_onnx(
        "g (float[2] x) => (float[2] y) <int64[2] tall = {600000, 1}, int64[2] square ="
        " {1000, 1000}>"
        f" {{ {text} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    with pytest.raises(ImportFailed) as caught:
        compile_model(path, host_core(), Options())
    assert words in caught.value.render()


def test_many_small_constants_are_steps(tmp_path: Path) -> None:
    """A node takes the evaluator a millisecond, however small it is."""
    nodes = "\n".join(f"c{n + 1} = LpNormalization(c{n})" for n in range(20))
    path = save_onnx(
        f"g (float[2] x) => (float[2] y) <float[1] c0 = {{1}}>"
        f" {{ {nodes} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    assert compile_model(path, host_core(), Options())
    assert "steps one after the other up to" in refused(path, factor=0.0005)


def test_the_work_of_all_nodes_counts(tmp_path: Path) -> None:
    nodes = "\n".join(f"a{n + 1} = Relu(a{n})" for n in range(60))
    path = save_onnx(
        f"g (float[10000000] x) => (float[10000000] y) {{ a0 = Relu(x) {nodes} y = Relu(a60) }}",
        tmp_path,
    )
    assert "elements in all values; at most 536,870,912" in refused(path)
