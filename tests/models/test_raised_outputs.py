"""Pointwise layers move down and depthwise layers in place up again: same bits, fewer bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

import edgec
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.memory import raise_outputs
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core

SIDE, CHANNELS, BLOCKS = 5, 16, 3
SHAPE = (1, SIDE, SIDE, CHANNELS)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three times a 1x1 convolution and a depthwise one of 3x3, 25 pixels each."""
    rng = np.random.default_rng(3)
    model = TfliteBuilder()
    first = x = model.tensor("x", SHAPE, "int8", scale=0.05, zero_point=3)

    def layer(name: str, operator: str, kernel: tuple[int, ...], x: int) -> int:
        taps = rng.integers(-127, 128, kernel).astype(np.int8)
        w = model.tensor(f"{name}_w", kernel, "int8", scale=0.01, data=taps)
        bias = rng.integers(-500, 500, CHANNELS).astype("<i4")
        b = model.tensor(f"{name}_b", (CHANNELS,), "int32", scale=0.0005, data=bias)
        y = model.tensor(name, SHAPE, "int8", scale=0.05, zero_point=3)
        depth = {"DepthMultiplier": 1} if operator == "DEPTHWISE_CONV_2D" else {}
        options = "DepthwiseConv2DOptions" if depth else "Conv2DOptions"
        model.operator(operator, [x, w, b], [y], options, Padding=0, StrideW=1, StrideH=1,
                       DilationWFactor=1, DilationHFactor=1, **depth)  # fmt: skip
        return y

    for i in range(BLOCKS):
        x = layer(f"pointwise_{i}", "CONV_2D", (CHANNELS, 1, 1, CHANNELS), x)
        x = layer(f"depthwise_{i}", "DEPTHWISE_CONV_2D", (1, 3, 3, CHANNELS), x)
    y = layer("last", "CONV_2D", (CHANNELS, 1, 1, CHANNELS), x)
    path = tmp_path_factory.mktemp("chain") / "chain.tflite"
    path.write_bytes(model.build([first], [y]))
    return path


def test_a_chain_takes_the_rows_of_one_layer(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_model(chain, find_core("cortex-m4"), Options(optimize="balanced"))
    raised = [v.raised_bytes for v in compiled.choice.variants if v.raised_bytes]
    assert len(raised) == BLOCKS
    assert {bytes % CHANNELS for bytes in raised} == {0}
    fewest = compiled.program.arena_bytes
    monkeypatch.setattr(raise_outputs, "raise_outputs", lambda *_: ())
    without = compile_model(chain, find_core("cortex-m4"), Options(optimize="balanced"))
    assert fewest < without.program.arena_bytes
    scratch_bytes = max(variant.scratch_bytes for variant in compiled.choice.variants)
    assert fewest == SIDE * SIDE * CHANNELS + raised[0] + scratch_bytes


def test_the_core_computes_the_same_bits(chain: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    (x,) = generate_inputs(1, [(SHAPE, "int8")])
    (expected,) = interpret(import_model(chain).main, [x])
    with edgec.compile(chain, board="mps2_an386", engine="core", optimize="balanced") as model:
        assert model.run(x).tobytes() == expected.tobytes()
