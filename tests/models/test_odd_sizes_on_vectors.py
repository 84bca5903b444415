"""Layers of odd sizes on vectors of floats: channels that are no whole vectors, several rows.

Sums keep the order of plain loops, and have the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder, quantized_network
from operator_models import MODELS
from sanitized import check_sanitized

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import CORES, Core, host_core, is_this_computer, native_core

VECTORS = [
    c for c in CORES.values() if (c.has("avx2") or c.has("neon")) and is_this_computer(c)
]  # fmt: skip
CASES = [
    pytest.param(seed, core, id=f"{seed}-{core.name}",
                 marks=() if seed == 0 and core is native_core() else pytest.mark.full)
    for seed in range(12) for core in VECTORS
]  # fmt: skip


def floats_model(seed: int, path: Path) -> Path:
    """Convolutions, depthwise ones, PReLU, products of two computed matrices and a dense layer."""
    b = OnnxBuilder(seed, (1, 3, 9, 8))
    first, second, third = (17, 37, 70) if seed == 0 else map(int, b.rng.integers(1, 75, 3))

    def weights(*shape: int) -> str:
        return b.constant(b.rng.normal(0, 0.3, shape).astype(np.float32), "w")

    y = b.add("Conv", ["x", weights(first, 3, 3, 3), weights(first)], pads=[1, 1, 1, 1])
    y = b.add("PRelu", [y, weights(first, 1, 1)])
    y = b.add("Conv", [y, weights(first, 1, 3, 3)], group=first, pads=[1, 1, 0, 0])
    y = b.add("Conv", [y, weights(second, first, 1, 1), weights(second)])
    y = b.add("PRelu", [y, weights(1, 1, 1)])
    taps = 2 + seed % 2
    y = b.add("ConvTranspose", [y, weights(second, second, taps, taps), weights(second)],
              strides=[2, 2])  # fmt: skip
    y = b.add("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 1])
    y = b.add("Reshape", [y, b.constant(np.array([second, -1]), "shape")])
    product = b.add("MatMul", [y, b.add("Transpose", [y], perm=[1, 0])])
    y = b.add("MatMul", [product, y])
    y = b.add("MatMul", [b.add("Transpose", [y], perm=[1, 0]), weights(second, third)])
    return b.save(y, path)


def run(path: Path, core: Core, folder: Path) -> tuple[bytes, str]:
    """The output's bytes, and the C."""
    board = replace(load_board("host"), core=core)
    compiled = compile_model(path, core, Options(float_sums="ordered"), board=board)
    built = deploy(compiled, board, folder)
    types = [(port.shape, port.dtype) for port in built.manifest.inputs]
    with open_session("host", built) as session:
        found = session.run(generate_inputs(1, types)).outputs[0]
    assert np.all(np.isfinite(found))
    return found.tobytes(), (built.project / f"{built.manifest.model}.c").read_text()


@pytest.mark.parametrize(("seed", "core"), CASES)
def test_odd_sizes_have_the_bits_of_plain_loops(seed: int, core: Core, tmp_path: Path) -> None:
    path = floats_model(seed, tmp_path / "model.onnx")
    plain, _ = run(path, host_core(), tmp_path / "plain")
    on_vectors, text = run(path, core, tmp_path / "vectors")
    assert on_vectors == plain
    assert seed != 0 or text.count("vector_size(") > 20


@pytest.mark.parametrize(
    ("name", "core"),
    [
        pytest.param(name, core, id=f"{name}-{core.name}",
                     marks=() if name == "network_dynamic_range" and core is native_core()
                     else pytest.mark.full)
        for name in (
            "network_qdq", "network_dynamic_range", "conv2d", "depthwise_conv2d", "dense",
            *map(str, range(10)),
        )
        for core in VECTORS
    ],
)  # fmt: skip
def test_kernels_under_sanitizers(name: str, core: Core, tmp_path: Path) -> None:
    """Networks and operators on vectors touch what is theirs alone; random ones by their seed."""
    path = tmp_path / "m.onnx"
    if name.isdigit():
        path = (quantized_network, floats_model)[int(name) % 2](int(name), path)
    else:
        path = MODELS[name](tmp_path)
    options = Options(float_sums="ordered")
    assert check_sanitized(compile_model(path, core, options), tmp_path) >= 8
