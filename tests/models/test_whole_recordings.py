"""Models with state over whole recordings: each side goes on from what it made itself.

DTLN listens to magnitudes of spectra. Its TFLite Micro version keeps its state inside; the float
versions have it as an input and as an output, which is fed back.
"""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from built_models import build

from edgec.runners.engine import open_session
from edgec.runners.oracle import open_oracle

pytestmark = pytest.mark.full
WORDS = ("yes", "noise")
#: Framework of each float version, and how far outputs may be from it after a second, as a part of
#: the largest: the recurrence carries on what differs.
FLOATS = {
    "dtln_1_f32.onnx": ("onnx", 1e-5),
    "dtln_1_f32.tflite": ("litert", 1e-5),
}


def spectra(shared_dir: Path, word: str, bins: int) -> Iterator[np.ndarray]:
    """Magnitudes of a recording of one second, `bins` for each window; windows overlap by 3/4."""
    with wave.open(str(shared_dir / "data" / f"tflm_{word}_1000ms.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768.0
    window = 2 * (bins - 1)
    for start in range(0, len(samples) - window + 1, max(window // 4, 1)):
        yield np.abs(np.fft.rfft(samples[start : start + window])).astype(np.float32)


@pytest.mark.parametrize("word", WORDS)
def test_state_inside(word: str, sample_model: Callable[[str], Path], shared_dir: Path) -> None:
    path = sample_model("tflm_dtln_noise_suppression_int8.tflite")
    _, built = build(path, "host")
    (port,) = built.manifest.inputs
    oracle = open_oracle(path)
    seen = set()
    with open_session("host", built) as session:
        session.reset()
        for magnitudes in spectra(shared_dir, word, port.shape[-1]):
            real = magnitudes / port.scale[0] + port.zero_point[0]
            x = np.clip(np.round(real), -128, 127).astype(np.int8).reshape(port.shape)
            (wanted,), (found,) = oracle.run([x]).outputs, session.run([x]).outputs
            assert found.tobytes() == wanted.tobytes()
            seen.add(found.tobytes())
    assert len(seen) > 20


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", FLOATS)
def test_state_fed_back(
    name: str, word: str, sample_model: Callable[[str], Path], shared_dir: Path
) -> None:
    path = sample_model(name)
    reference, tolerance = FLOATS[name]
    compiled, built = build(path, "host")
    shapes = [port.shape for port in built.manifest.inputs]
    (at,) = [n for n, port in enumerate(built.manifest.outputs) if port.shape in shapes]
    state_input = shapes.index(built.manifest.outputs[at].shape)
    bins = shapes[1 - state_input][-1]
    oracle = open_oracle(path, reference)
    with open_session("host", built) as session:
        runs = (
            lambda inputs: oracle.run(inputs).outputs,
            lambda inputs: session.run(inputs).outputs,
            compiled.reference,
        )
        states = [np.zeros(shapes[state_input], np.float32) for _ in runs]
        for magnitudes in spectra(shared_dir, word, bins):
            x = magnitudes.reshape(shapes[1 - state_input])
            outputs = []
            for side, run in enumerate(runs):
                pair = (x, states[side])
                outputs.append(run(list(pair if state_input else pair[::-1])))
                states[side] = np.asarray(outputs[-1][at]).reshape(shapes[state_input])
            for wanted, found, same in zip(*outputs, strict=True):
                assert found.tobytes() == np.ascontiguousarray(same).tobytes()
                difference = np.abs(found.reshape(wanted.shape) - wanted).max()
                assert difference <= tolerance * np.abs(wanted).max()
