"""Weights of low rank: fewer products and bytes, in the bits of the framework."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec.boards.board import load_board
from edgec.options import Options, read_optimize
from edgec.oracle.verify import verify_model
from edgec.pipeline import compile_model
from edgec.runners.engine import default_engine
from edgec.runners.samples import generate_inputs

#: The input; the weights; their rank; the convolution's attributes. A matrix is a Gemm's.
LAYERS = {
    "dense": ((1, 96), (80, 96), 6, {}),
    "pixels": ((1, 40, 5, 7), (48, 40, 1, 1), 4, {}),
    "windows": ((2, 8, 6, 5), (21, 8, 3, 3), 3, {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
}


def low_rank(rng: np.random.Generator, shape: tuple[int, ...], rank: int) -> np.ndarray:
    """Weights whose rows are sums and multiples of `rank` rows, in any order."""
    rows = rng.integers(-20, 21, (rank, int(np.prod(shape[1:]))))
    mix = rng.integers(-1, 2, (shape[0] - rank, rank))
    mix[0], mix[1] = 0, 0
    mix[0, 0], mix[1, -1] = -6, 5
    return np.asarray(rng.permutation(np.concatenate([rows, mix @ rows])).reshape(shape), np.int8)


def model(name: str, folder: Path, rank: int | None = None) -> Path:
    """A layer between quantizations; rank: of its weights, if not the table's."""
    given, shape, own_rank, attributes = LAYERS[name]
    b = OnnxBuilder(3, given)
    x = b.qdq("x", 0.03, 5)
    scales = b.rng.uniform(0.002, 0.02, shape[0]).astype(np.float32)
    stored = low_rank(b.rng, shape, rank or own_rank)
    weights = b.add("DequantizeLinear", [
        b.constant(stored, "w"), b.constant(scales, "w_scale"),
        b.constant(np.zeros(shape[0], np.int8), "w_zero"),
    ], axis=0)  # fmt: skip
    bias = b.add("DequantizeLinear", [
        b.constant(b.rng.integers(-4000, 4000, shape[0]).astype(np.int32), "b"),
        b.constant(scales * np.float32(0.03), "b_scale"),
        b.constant(np.zeros(shape[0], np.int32), "b_zero"),
    ], axis=0)  # fmt: skip
    kind = "Conv" if attributes or len(shape) == 4 else "Gemm"
    made = b.add(kind, [x, weights, bias], **(attributes if kind == "Conv" else {"transB": 1}))
    return b.save(b.qdq(made, 0.2, -7), folder / f"{name}.onnx")


@pytest.mark.parametrize("board", ["mps2_an386", "esp32c3_devkitm", "mps3_an547", "host"])
@pytest.mark.parametrize("name", LAYERS)
def test_sums_of_few_rows_have_the_same_bits(name: str, board: str, tmp_path: Path) -> None:
    found = load_board(board)
    if not found.is_host and shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    engine = default_engine(found)
    if found.core.has("mve") and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    path, options = model(name, tmp_path), Options(optimize=read_optimize("size"))
    compiled = compile_model(path, found.core, options)
    assert any(p.name == "w_mix" for each in compiled.chosen for p in each.function.params)
    cases = [generate_inputs(seed, [(LAYERS[name][0], np.dtype("float32"))]) for seed in (1, 2)]
    result = verify_model(path, found, options, engine, cases, tmp_path / "work").to_dict()
    assert result["elements"] > 0 and result["mismatches"] == 0


@pytest.mark.parametrize(("rank", "is_mixed"), [(4, True), (40, False)])
def test_cost_decides(rank: int, is_mixed: bool, tmp_path: Path) -> None:
    """Of 80 rows, 4 are worth the second sums by default on a Cortex-M4; 40 save too little."""
    compiled = compile_model(model("dense", tmp_path, rank), load_board("mps2_an386").core)
    names = {p.name for each in compiled.chosen for p in each.function.params}
    assert ("w_mix" in names) == is_mixed
