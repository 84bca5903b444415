"""Float models whose weights are float16 or integers of steps: kernels read them as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from built_models import build
from onnx_builder import OnnxBuilder
from test_same_bits import need_tools

from edgec.loop.microkernel import kernels_of
from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session
from edgec.targets.cortex_m.kernels.float_rows import (
    CONV_GROUPS,
    CONV_HALVES,
    CONV_INT4,
    CONV_STEPS,
    DEPTHWISE,
    DEPTHWISE_HALVES,
    DEPTHWISE_STEPS,
)

SHAPE = (1, 3, 9, 7)
#: Weights of `network`.
COUNT = 17 * 3 * 9 + 18 * 17 * 9 + 18 * 18 + 95 * 18 * 63
KERNELS = {
    "float16": CONV_HALVES, "int8": CONV_STEPS, "int4": CONV_INT4, "groups": CONV_GROUPS,
}  # fmt: skip
#: Bytes of a weight; where 17 or more share a shift, of that as well.
BYTES = {"float16": 2.0, "int8": 1.0, "int4": 0.5, "groups": 0.5 * 18 / 17}


def network(path: Path, stored: str) -> Path:
    """Convolutions over windows and pixels, and a dense layer; units that are not whole.

    The second convolution writes over its input just after where it reads.
    """
    rng = np.random.default_rng(3)
    model = OnnxBuilder(3, SHAPE)

    def weights(name: str, *shape: int, depth: int = 0) -> str:
        if stored == "float16":
            numbers = rng.normal(0, 0.1, shape).astype(np.float16)
            numbers.reshape(-1)[:3] = (-0.0, 2.0**-24, -(2.0**-15))
            return model.add("Cast", [model.constant(numbers, name)], to=1)
        most = 128 if stored == "int8" else 8
        numbers = rng.integers(-most, most, shape).astype(np.int8)
        if stored == "groups" and depth:  # the inputs of a pixel have a shift for each output
            taps = numbers.reshape(shape[0], depth, -1)
            shifts = rng.integers(0, 4, (shape[0], 1, taps.shape[2]))
            numbers = (taps << shifts).reshape(shape).astype(np.int8)
        counts = model.constant(numbers, name)
        steps = rng.uniform(1e-4, 1e-3, shape[0]).astype(np.float32)
        inputs = [counts, model.constant(steps, f"{name}_steps")]
        inputs.append(model.constant(np.zeros(shape[0], np.int8), f"{name}_zeros"))
        return model.add("DequantizeLinear", inputs, axis=0)

    around = [1, 1, 1, 1]
    y = model.add("Conv", ["x", weights("w1", 17, 3, 3, 3)], pads=around)
    y = model.add("Relu", [y])
    y = model.add("Conv", [y, weights("w2", 18, 17, 3, 3, depth=17)], pads=around)
    y = model.add("Relu", [y])
    y = model.add("Relu", [model.add("Conv", [y, weights("w3", 18, 18, 1, 1)])])
    y = model.add("Flatten", [y])
    y = model.add("Gemm", [y, weights("w4", 95, 18 * 63, depth=18)], transB=1)
    return model.save(y, path)


@pytest.mark.parametrize("optimize", ["size", "balanced", "time"])
@pytest.mark.parametrize("stored", KERNELS)
@pytest.mark.parametrize("board", ["mps2_an386", "mps3_an547"])
def test_the_same_bits(board: str, stored: str, optimize: str, tmp_path: Path) -> None:
    engine = "qemu" if board == "mps3_an547" else "core"
    need_tools(engine, "gcc", board)
    path = network(tmp_path / f"{stored}.onnx", stored)
    compiled, built = build(path, board, optimize=optimize)
    called = {name for v in compiled.chosen for name in kernels_of(v.function)}
    held = sum(array.nbytes for v in compiled.chosen for array in v.constants.values())
    if optimize == "time":
        assert not called & {*KERNELS.values()} and held > 4 * COUNT
    else:
        # With `size`, only the kernel of float16 is small enough beside loops. With `time`, small
        # layers may run on a faster kernel than the kernel of groups.
        wanted = set() if optimize == "size" and stored != "float16" else {KERNELS[stored]}
        faster = {CONV_STEPS, CONV_INT4} if stored == "groups" and wanted else set()
        assert wanted <= called <= wanted | faster
        # Biases, steps, few floats; of half a unit of eight channels, what is not there.
        assert held < COUNT * BYTES[stored] + {"int4": 3072, "groups": 4096}.get(stored, 2048)
    x = np.random.default_rng(1).normal(0, 1, SHAPE).astype(np.float32)
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        (found,) = session.run([x]).outputs
    assert found.tobytes() == compiled.reference([x])[0].tobytes()
    (exact,) = open_oracle(path).run([x]).outputs
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize(("board", "stored", "kernel"), [
    ("mps2_an386", "float16", DEPTHWISE_HALVES),
    ("mps3_an547", "float16", DEPTHWISE_HALVES),
    ("mps3_an547", "int4", DEPTHWISE_STEPS),
    ("mps3_an547", "int8", DEPTHWISE),
])  # fmt: skip
def test_depthwise(board: str, stored: str, kernel: str, tmp_path: Path) -> None:
    engine = "qemu" if board == "mps3_an547" else "core"
    need_tools(engine, "gcc", board)
    rng = np.random.default_rng(4)
    # Four bits cost time, which fewer weights would not be worth.
    channels = 600 if stored == "int4" else 150
    shape = (channels, 1, 3, 3)
    model = OnnxBuilder(channels, (1, channels, 6, 9))
    if stored == "float16":
        halves = model.constant(rng.normal(0, 0.1, shape).astype(np.float16), "w")
        w = model.add("Cast", [halves], to=1)
    else:
        most = 128 if stored == "int8" else 8
        counts = model.constant(rng.integers(-most, most, shape).astype(np.int8), "w")
        steps = rng.uniform(1e-4, 1e-3, channels).astype(np.float32)
        zeros = model.constant(np.zeros(channels, np.int8), "zeros")
        inputs = [counts, model.constant(steps, "steps"), zeros]
        w = model.add("DequantizeLinear", inputs, axis=0)
    y = model.add("Conv", ["x", w], pads=[1, 1, 1, 1], strides=[1, 2], group=channels)
    path = model.save(model.add("Relu", [y]), tmp_path / f"depthwise_{stored}.onnx")
    compiled, built = build(path, board)
    assert {name for v in compiled.chosen for name in kernels_of(v.function)} == {kernel}
    x = rng.normal(0, 1, (1, channels, 6, 9)).astype(np.float32)
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        (found,) = session.run([x]).outputs
    assert found.tobytes() == compiled.reference([x])[0].tobytes()
