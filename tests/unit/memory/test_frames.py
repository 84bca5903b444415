"""Kernels that rescale on the FPU pay for larger frames of interrupts.

Small networks have them where these frames are all the memory that half of the time costs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx.parser import parse_model
from quantized_files import quantize_model, write_quantized

from edgec.api import compile as compile_model
from edgec.frontends import import_model
from edgec.graph.interpret import interpret

CHANNELS, STEPS, TAPS = 16, 64, 3


def convolution(path: Path) -> Path:
    """A 1-D convolution, quantized."""
    rng = np.random.default_rng(1)
    weights = ", ".join(f"{w:.3f}" for w in rng.normal(0, 0.2, CHANNELS * CHANNELS * TAPS))
    shape = f"float[1,{CHANNELS},{STEPS}]"
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]> m ({shape} x) => ({shape} y)
        <float[{CHANNELS},{CHANNELS},{TAPS}] w = {{{weights}}}> {{
        c = Conv<pads = [1, 1]>(x, w)  y = Relu(c) }}"""
    )
    path.write_bytes(model.SerializeToString())
    samples = [[rng.normal(size=(1, CHANNELS, STEPS)).astype(np.float32)] for _ in range(8)]
    write_quantized(quantize_model(path, samples), path)
    return path


def test_a_small_convolution_is_a_kernel_on_the_fpu(tmp_path: Path) -> None:
    """As loops it takes 176,600 instructions, which is less than 300,000 more."""
    path = convolution(tmp_path / "m.onnx")
    x = np.random.default_rng(2).normal(size=(1, CHANNELS, STEPS)).astype(np.float32)
    with compile_model(path, board="stm32", engine="core") as compiled:
        result = compiled.run_all([x])
    (expected,) = interpret(import_model(path).main, [x])
    np.testing.assert_allclose(result.outputs[0], expected, rtol=0, atol=0.05)  # about a step
    assert result.instructions < 100_000
