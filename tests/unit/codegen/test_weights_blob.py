"""Large weights are a file of bytes that the assembler includes, as good as numbers in C."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.boards.board import load_board
from edgec.boards.toolchain import available_toolchains
from edgec.codegen.c_data import BLOB_BYTES
from edgec.deploy.project import deploy
from edgec.exporters.library import read_library
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

REPO_ROOT = Path(__file__).resolve().parents[3]
DIGITS = REPO_ROOT / "examples" / "digits" / "digits_int8.onnx"
HOST = load_board("host")
COMPILERS = sorted({tool.name for tool in available_toolchains(HOST.core)})


def build(model: Path, folder: Path, board_name: str = "host", **words: str):
    board = load_board(board_name)
    options = Options(**words)  # type: ignore[arg-type]
    return deploy(compile_model(model, board.core, options, board=board), board, folder)


def run(built, engine: str = "host") -> bytes:
    types = [(port.shape, port.dtype) for port in built.manifest.inputs]
    with open_session(engine, built) as session:
        assert session.selftest() == 0  # which checks the CRC of the weights
        return session.run(generate_inputs(1, types)).outputs[0].tobytes()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_file_of_bytes_has_the_bits_of_numbers(compiler: str, tmp_path: Path) -> None:
    text = build(DIGITS, tmp_path / "text", compiler=compiler)
    blob = build(DIGITS, tmp_path / "blob", compiler=compiler, weights_form="blob")
    again = build(DIGITS, tmp_path / "again", compiler=compiler, weights_form="blob")
    name = f"{blob.manifest.model}_weights.bin"
    assert name in blob.manifest.files and name not in text.manifest.files
    data = (blob.project / name).read_bytes()
    assert zlib.crc32(data) == blob.manifest.weights_crc
    assert data == (again.project / name).read_bytes()
    assert run(blob) == run(text)
    assert dict(read_library(blob.project).blobs) == {name: data}


def test_firmware_has_it_in_flash(tmp_path: Path) -> None:
    text = build(DIGITS, tmp_path / "text", "mps2_an386")
    blob = build(DIGITS, tmp_path / "blob", "mps2_an386", weights_form="blob")
    assert text.image is not None and blob.image is not None
    assert 0 <= blob.image.weights_bytes - text.image.weights_bytes < 16
    assert run(blob, "core") == run(text, "core")


def test_cmake_finds_it(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("CMake is not installed")
    blob = build(DIGITS, tmp_path / "blob", weights_form="blob")
    build_dir = tmp_path / "out"
    subprocess.run(["cmake", "-S", str(blob.project), "-B", str(build_dir)], check=True)
    subprocess.run(["cmake", "--build", str(build_dir)], check=True)


def test_large_weights_are_no_numbers(tmp_path: Path) -> None:
    depth = 1100
    assert depth * depth * 4 >= BLOB_BYTES
    w = np.random.default_rng(1).normal(0, 1, (depth, depth)).astype(np.float32)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, depth]) for name in ("x", "y")
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                ir_version=8), str(tmp_path / "large.onnx"))  # fmt: skip
    built = build(tmp_path / "large.onnx", tmp_path / "out")
    source = built.project / f"{built.manifest.model}_weights.c"
    assert source.stat().st_size < 4096
    run(built)
