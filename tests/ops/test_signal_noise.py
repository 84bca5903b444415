"""Spectral subtraction, PCAN and logarithm: TFLite Micro's bits over sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import differences
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.types import TensorType
from edgec.ops.signal_noise import SignalLog, SignalLogAttrs, SignalPcan, SignalPcanAttrs
from edgec.oracle.frameworks import open_oracle

CHANNELS = 33


def chain(clamping: bool, bits: int = 3) -> bytes:
    model = TfliteBuilder()
    x = model.tensor("x", (CHANNELS,), "int32")
    names = ("loudness", "rest", "noise", "gained")
    loudness, rest, noise, gained = (model.tensor(n, (CHANNELS,), "uint32") for n in names)
    y = model.tensor("y", (CHANNELS,), "int16")
    model.operator("CAST", [x], [loudness])
    model.operator(
        "CUSTOM:SignalFilterBankSpectralSubtraction", [loudness], [rest, noise],
        num_channels=CHANNELS, smoothing=409, one_minus_smoothing=15975, alternate_smoothing=983,
        alternate_one_minus_smoothing=15401, smoothing_bits=10, min_signal_remaining=819,
        clamping=clamping, spectral_subtraction_bits=14,
    )  # fmt: skip
    # Falling gains, as a front end has them: each octave's parabola ends where the next begins.
    gains = np.maximum(32636 - 40 * np.arange(125), -32768).astype(np.int16)
    lut = model.tensor("gains", gains.shape, "int16", data=gains)
    model.operator("CUSTOM:SignalPCAN", [rest, noise, lut], [gained], snr_shift=6)
    model.operator("CUSTOM:SignalFilterBankLog", [gained], [y], output_scale=64,
                   input_correction_bits=bits)  # fmt: skip
    return model.build([x], [y, noise])


def frames() -> list[np.ndarray]:
    """Loudness of every size, then silence."""
    rng = np.random.default_rng(1)
    sizes = np.exp(rng.uniform(0, np.log(2**22), (8, CHANNELS)))
    small = np.arange(3 * CHANNELS).reshape(3, CHANNELS)
    return [row.astype(np.int32) for row in (*small, *sizes, *np.zeros((3, CHANNELS)))]


@pytest.mark.parametrize("clamping", [False, True])
def test_the_bits_of_tflite_micro(clamping: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(chain(clamping))
    module, oracle = import_model(path), open_oracle(path)
    reference = Interpretation(module.main)
    for frame in frames():
        check_nests(module.main, [frame, *reference.state])
        assert differences(module, oracle, [frame], reference) == []
    (state,) = module.main.states
    assert state.after is module.main.outputs[1]


def test_every_small_logarithm(tmp_path: Path) -> None:
    """Through a whole octave of the table, and at powers of two."""
    model = TfliteBuilder()
    x = model.tensor("x", (2000,), "int32")
    wide = model.tensor("wide", (2000,), "uint32")
    y = model.tensor("y", (2000,), "int16")
    model.operator("CAST", [x], [wide])
    model.operator("CUSTOM:SignalFilterBankLog", [wide], [y], output_scale=64,
                   input_correction_bits=0)  # fmt: skip
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    module, oracle = import_model(path), open_oracle(path)
    powers = 2 ** np.arange(31)
    large = np.concatenate([powers, powers - 1, np.linspace(2**20, 2**21, 2000 - 62)])
    for values in (np.arange(2000), large, -large):
        assert differences(module, oracle, [values.astype(np.int64).astype(np.int32)]) == []


def test_refusals() -> None:
    x = TensorType((4,), "uint32")
    with pytest.raises(TypeMismatch, match="signal_pcan with gains"):
        SignalPcan().infer(SignalPcanAttrs(6), x, x, TensorType((100,), "int16"))
    with pytest.raises(TypeMismatch, match="signal_log of int32"):
        SignalLog().infer(SignalLogAttrs(64, 3), TensorType((4,), "int32"))
