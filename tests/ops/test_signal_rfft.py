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
from edgec.ops.signal_rfft import LENGTHS, SignalIrfft, SignalRfft, SignalRfftAttrs
from edgec.oracle.frameworks import open_oracle

#: TFLite's numbers of the types.
TYPES = {"int16": 7, "int32": 2}
KINDS = ("SignalRfft", "SignalIrfft")


def save(path: Path, kind: str, dtype: str, samples: int, length: int) -> Path:
    model = TfliteBuilder()
    x = model.tensor("x", (samples,), dtype)
    made = length + 2 if kind == "SignalRfft" else length
    y = model.tensor("y", (made,), dtype)
    model.operator(f"CUSTOM:{kind}", [x], [y], T=TYPES[dtype], fft_length=length)
    path.write_bytes(model.build([x], [y]))
    return path


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("missing", [0, 13])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_of_tflite_micro(
    kind: str, dtype: str, missing: int, length: int, tmp_path: Path
) -> None:
    if kind == "SignalIrfft" and missing:
        return  # a spectrum is whole
    size = length + 2 if kind == "SignalIrfft" else length - missing
    path = save(tmp_path / "m.tflite", kind, dtype, size, length)
    module, oracle = import_model(path), open_oracle(path)
    rng = np.random.default_rng(length)
    most = int(np.iinfo(dtype).max)
    frames = [rng.integers(-high, high + 1, size) for high in (3, most // 100, most)]
    frames += [np.where(rng.random(size) < 0.5, -most - 1, most), np.full(size, most)]
    for frame in frames:
        assert differences(module, oracle, [frame.astype(dtype)]) == []


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("kind", "samples", "length"),
    [("SignalRfft", 64, 64), ("SignalRfft", 120, 128), ("SignalIrfft", 130, 128)],
)
def test_loops(kind: str, samples: int, length: int, dtype: str, tmp_path: Path) -> None:
    function = import_model(save(tmp_path / "m.tflite", kind, dtype, samples, length)).main
    rng = np.random.default_rng(3)
    for high in (300, int(np.iinfo(dtype).max)):
        check_nests(function, [rng.integers(-high, high + 1, samples).astype(dtype)])


@pytest.mark.parametrize("dtype", TYPES)
def test_c_has_the_bits_of_tflite_micro(dtype: str, tmp_path: Path) -> None:
    attributes = {"T": TYPES[dtype], "fft_length": 128}
    cases = [
        Case("CUSTOM:SignalRfft", [In((120,), dtype)], [Out((130,), dtype)], "", attributes),
        Case("CUSTOM:SignalIrfft", [In((130,), dtype)], [Out((128,), dtype)], "", attributes),
        Case("CUSTOM:SignalRfft", [In((2, 3, 120), dtype)], [Out((2, 3, 130), dtype)], "",
             attributes),
        Case("CUSTOM:SignalIrfft", [In((4, 130), dtype)], [Out((4, 128), dtype)], "", attributes),
    ]  # fmt: skip
    check(cases, "tflm", tmp_path)
    check_by_c(cases, "tflm", tmp_path)


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
    with pytest.raises(TypeMismatch, match="to 64 samples"):
        SignalIrfft().infer(SignalRfftAttrs(64), TensorType((64,), "int32"))
