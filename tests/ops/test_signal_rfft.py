"""SignalRfft: TFLite Micro's bits for every length, and a spectrum that is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import differences
from single_node import check_nests
from tflite_builder import TfliteBuilder
from tflite_cases import Case, In, Out, check, check_by_c

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import TensorType
from edgec.ops.signal_rfft import LENGTHS, SignalRfft, SignalRfftAttrs
from edgec.oracle.frameworks import open_oracle


def save(path: Path, samples: int, length: int) -> Path:
    model = TfliteBuilder()
    x = model.tensor("x", (samples,), "int16")
    y = model.tensor("y", (length + 2,), "int16")
    model.operator("CUSTOM:SignalRfft", [x], [y], T=7, fft_length=length)
    path.write_bytes(model.build([x], [y]))
    return path


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("missing", [0, 13])
def test_the_bits_of_tflite_micro(length: int, missing: int, tmp_path: Path) -> None:
    path = save(tmp_path / "m.tflite", length - missing, length)
    module, oracle = import_model(path), open_oracle(path)
    rng = np.random.default_rng(length)
    size = length - missing
    frames = [rng.integers(-high, high + 1, size) for high in (3, 300, 32767)]
    frames += [np.where(rng.random(size) < 0.5, -32768, 32767), np.full(size, 32767)]
    for frame in frames:
        assert differences(module, oracle, [frame.astype(np.int16)]) == []


@pytest.mark.parametrize(("samples", "length"), [(64, 64), (120, 128)])
def test_loops(samples: int, length: int, tmp_path: Path) -> None:
    function = import_model(save(tmp_path / "m.tflite", samples, length)).main
    rng = np.random.default_rng(3)
    for high in (300, 32767):
        check_nests(function, [rng.integers(-high, high + 1, samples).astype(np.int16)])


@pytest.mark.parametrize("length", [64, 256])
def test_floats_there_and_back(length: int, tmp_path: Path) -> None:
    """As near as sums in another order are: TFLite Micro's is a fast transform."""
    there = Case("CUSTOM:SignalRfft", [In((2, length - 9))], [Out((2, length + 2))], "",
                 {"T": 0, "fft_length": length}, near=2e-6)  # fmt: skip
    back = Case("CUSTOM:SignalIrfft", [In((length + 2,))], [Out((length,))], "",
                {"T": 0, "fft_length": length}, near=2e-6)  # fmt: skip
    check([there], "tflm", tmp_path)
    check([back], "tflm", tmp_path)
    check_by_c([there, back], "tflm", tmp_path)


def test_it_is_the_spectrum() -> None:
    x = np.round(20000 * np.sin(2 * np.pi * 37 * np.arange(512) / 512)).astype(np.int16)
    op, attrs = SignalRfft(), SignalRfftAttrs(512)
    type_ = TensorType(x.shape, "int16")
    (found,) = op.evaluate(attrs, [x], [type_], op.infer(attrs, type_))
    pairs = found.reshape(-1, 2).astype(float)
    wanted = np.fft.rfft(x) / 512
    np.testing.assert_allclose(pairs[:, 0] + 1j * pairs[:, 1], wanted, atol=8)


def test_refusals() -> None:
    with pytest.raises(TypeMismatch, match="of length 96"):
        SignalRfft().infer(SignalRfftAttrs(96), TensorType((64,), "int16"))
    with pytest.raises(TypeMismatch, match="of 65 samples"):
        SignalRfft().infer(SignalRfftAttrs(64), TensorType((65,), "int16"))
