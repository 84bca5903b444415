"""ONNX ConvTranspose near ONNX Runtime, back from a file, and what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.api import compile as compile_model
from edgec.codegen.project import write_project
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.frontends.onnx_writer import to_onnx
from edgec.graph.interpret import interpret
from edgec.options import Options
from edgec.passes.sequence import run_passes
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

CASES: list[dict[str, Any]] = [
    {},
    {"strides": [2, 2]},
    {"strides": [2, 3], "pads": [1, 0, 0, 2]},
    {"strides": [3, 2], "pads": [1, 1, 1, 1], "output_padding": [2, 1]},
    {"strides": [2, 2], "auto_pad": "VALID", "output_padding": [1, 0]},
]


def saved(path: Path, bias: bool = True, group: int = 1, **attributes: Any) -> Path:
    rng = np.random.default_rng(3)
    constants: dict[str, Any] = {"w": rng.normal(size=(4, 3, 2, 3)).astype(np.float32)}
    if bias:
        constants["b"] = rng.normal(size=3 * group).astype(np.float32)
    return save_node(path, "ConvTranspose", x_values(), constants, group=group, **attributes)


def x_values() -> np.ndarray:
    return float_values((1, 4, 3, 5))


@pytest.mark.parametrize("attributes", CASES, ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_against_onnxruntime(bias: bool, attributes: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", bias, **attributes)
    check_nests(check_against_onnxruntime(path, x_values(), 2e-6), [x_values()])


def test_gcc_keeps_the_call_of_a_layer_that_stores(tmp_path: Path) -> None:
    """On the Cortex-M3 gcc 12.2 dropped it: it counted addresses of outputs from the bias on."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    rng = np.random.default_rng(1)
    x, w, b = (rng.normal(size=shape).astype(np.float32)
               for shape in ((1, 1, 1, 12), (1, 32, 2, 2), (32,)))  # fmt: skip
    path = save_node(tmp_path / "m.onnx", "ConvTranspose", x, {"w": w, "b": b}, strides=[2, 2])
    with compile_model(path, board="mps2_an385", engine="core") as compiled:
        found = compiled.run(x)
    np.testing.assert_array_equal(found, np.kron(x, w) + b[:, None, None])


def test_gcc_keeps_that_call_without_flags_of_ours(tmp_path: Path) -> None:
    """In a user's build file, which only has the C."""
    gcc = shutil.which("arm-none-eabi-gcc")
    if gcc is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    rng = np.random.default_rng(1)
    w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((1, 32, 2, 2), (32,)))
    x = np.zeros((1, 1, 1, 12), np.float32)
    path = save_node(tmp_path / "m.onnx", "ConvTranspose", x, {"w": w, "b": b}, strides=[2, 2])
    compiled = compile_module(import_model(path), find_core("cortex-m3"), Options())
    write_project(compiled.program, tmp_path)
    command = [gcc, "-mcpu=cortex-m3", "-mthumb", "-std=c99", "-O2", "-S", "-o", "-", "m.c"]
    text = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    calls = text[text.index("m_run:") :]
    assert re.search(r"bl\s+m_transpose_conv2d", calls)


@pytest.mark.parametrize("optimize", ["balanced", "size"])
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m33", "cortex-m55"])
def test_windows_of_one_element_on_cores_with_rows_of_floats(
    core: str, optimize: Any, tmp_path: Path
) -> None:
    """Such a layer is a product without windows whose output has the axes of an image.

    The weights are exact in float16, for which kernels have rows of their own.
    """
    weights = np.array([0.25, -0.5, 1, 2], np.float32).reshape(4, 1, 1, 1)
    path = save_node(tmp_path / "m.onnx", "ConvTranspose", x_values(), {"w": weights})
    options = Options(optimize=optimize)
    assert compile_module(import_model(path), find_core(core), options).program.arena_bytes


@pytest.mark.parametrize("attributes", CASES, ids=str)
def test_back_from_a_file(attributes: dict[str, Any], tmp_path: Path) -> None:
    function = run_passes(import_model(saved(tmp_path / "m.onnx", **attributes)).main, "onnx")
    path = tmp_path / "again.onnx"
    path.write_bytes(to_onnx(function, producer_version="test").SerializeToString())
    again = import_model(path).main
    (wanted,), (found,) = interpret(function, [x_values()]), interpret(again, [x_values()])
    np.testing.assert_array_equal(wanted, found)


@pytest.mark.parametrize(
    "attributes",
    [
        {"group": 2},
        {"dilations": [2, 1]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
        {"output_shape": [3, 8], "strides": [1, 2]},
    ],
    ids=str,
)
def test_other_forms_against_onnxruntime(attributes: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", **attributes)
    check_nests(check_against_onnxruntime(path, x_values(), 2e-6), [x_values()])


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"group": 3}, "in 3 groups"),
        ({"dilations": [2, 1, 1]}, "dilations [2, 1, 1] of 2 axes"),
        ({"output_shape": [4]}, "output_shape [4] of 2 axes"),
    ],
    ids=str,
)
def test_refusals(attributes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed) as failure:
        import_model(saved(tmp_path / "m.onnx", bias=False, **attributes))
    assert words in failure.value.details[0]
