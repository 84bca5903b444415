"""SignalEnergy, SignalFilterBank and its square root: TFLite Micro's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import differences
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.loop.signal_intrinsics import rounded_sqrt
from edgec.ops.signal_filter_bank import SignalEnergy, SignalEnergyAttrs
from edgec.oracle.frameworks import open_oracle

FREQUENCIES, CHANNELS = 24, 4


def bank(
    start: int = 0, stop: int = FREQUENCIES, seed: int = 1, channels: int = CHANNELS,
    widths: tuple[int, ...] = (3, 4, 5, 6, 4),
) -> bytes:  # fmt: skip
    """Energy, filter bank and square root, shifted by the bits that the input can be raised by."""
    rng = np.random.default_rng(seed)
    model = TfliteBuilder()
    x = model.tensor("x", (2 * FREQUENCIES,), "int16")
    raised = model.tensor("raised", (2 * FREQUENCIES,), "int16")
    bits = model.tensor("bits", (), "int32")
    model.operator("CUSTOM:SignalFftAutoScale", [x], [raised, bits])
    energy = model.tensor("energy", (FREQUENCIES,), "uint32")
    model.operator("CUSTOM:SignalEnergy", [x], [energy], start_index=start, end_index=stop)
    firsts = np.concatenate([[0], np.cumsum(widths)[:-1]])
    arrays = {
        "weights": rng.integers(0, 4097, sum(widths)),
        "unweights": rng.integers(0, 4097, sum(widths)),
        "firsts": firsts, "places": firsts, "widths": np.asarray(widths),
    }  # fmt: skip
    constants = [
        model.tensor(name, data.shape, "int16", data=data.astype(np.int16))
        for name, data in arrays.items()
    ]
    sums = model.tensor("sums", (channels,), "uint64")
    model.operator("CUSTOM:SignalFilterBank", [energy, *constants], [sums], num_channels=channels)
    roots = model.tensor("roots", (channels,), "uint32")
    model.operator("CUSTOM:SignalFilterBankSquareRoot", [sums, bits], [roots])
    out = model.tensor("out", (channels,), "int32")
    model.operator("CAST", [roots], [out])
    return model.build([x], [out])


@pytest.mark.parametrize("high", [5, 300, 32767])
def test_the_bits_of_tflite_micro(high: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    for seed in range(6):
        path.write_bytes(bank(seed=seed))
        module, oracle = import_model(path), open_oracle(path)
        rng = np.random.default_rng(seed)
        x = rng.integers(-high, high + 1, 2 * FREQUENCIES).astype(np.int16)
        assert differences(module, oracle, [x]) == []
        check_nests(module.main, [x])


def test_frequencies_that_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(bank(3, 20))
    function = import_model(path).main
    x = np.full(2 * FREQUENCIES, -32768, np.int16)
    seen = {}
    interpret(function, [x], lambda v, a: seen.__setitem__(v.name, a))
    assert seen["energy"].tolist() == [0] * 3 + [2**31] * 17 + [0] * 4
    # Undefined in TFLite Micro: nothing to compare with.
    assert next(v for v in function.values() if v.name == "energy").origin is None
    check_nests(function, [x])


def test_roots_are_rounded() -> None:
    assert [rounded_sqrt(n) for n in (0, 1, 2, 3, 6, 7, 12, 13)] == [0, 1, 1, 2, 2, 3, 3, 4]
    assert rounded_sqrt(2**32 - 1) == 2**16 - 1 and rounded_sqrt(2**32) == 2**16
    assert rounded_sqrt(2**64 - 1) == 2**32 - 1


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatch, match=r"of 3\.\.9 of 8"):
        SignalEnergy().infer(SignalEnergyAttrs(3, 9), TensorType((16,), "int16"))
    for model, words in (
        (bank(channels=7), "7 channels of 4"),
        (bank(widths=(3, 4, 5, 6, 40)), "reads outside"),
    ):
        (tmp_path / "m.tflite").write_bytes(model)
        with pytest.raises(ImportFailed) as failure:
            import_model(tmp_path / "m.tflite")
        assert words in failure.value.details[0]
