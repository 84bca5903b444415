"""Models with state over whole recordings: each side goes on from what it made itself.

DTLN's first half listens to magnitudes of spectra, its second to the sound itself. The TFLite Micro
version keeps its state inside; the float versions have it as an input and as an output, which is
fed back.
"""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from built_models import build

from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session

pytestmark = pytest.mark.full
WORDS = ("yes", "noise")
#: Framework of each float version, and how far outputs may be from it after a second, as a part of
#: the largest: the recurrence carries on what differs. Rows that are quantized at run time may
#: round a value to the next integer where a sum differs in its last bit.
FLOATS = {
    "dtln_1_drq.tflite": ("litert", 2e-2),
    "dtln_1_f32.onnx": ("onnx", 1e-5),
    "dtln_1_f32.tflite": ("litert", 1e-5),
    "dtln_2_drq.tflite": ("litert", 2e-2),
    "dtln_2_f32.onnx": ("onnx", 1e-5),
}


def frames(shared_dir: Path, word: str, window: int) -> Iterator[np.ndarray]:
    """Windows of a recording of one second, as floats from -1 to 1; they overlap by 3/4."""
    with wave.open(str(shared_dir / "data" / f"tflm_{word}_1000ms.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768.0
    for start in range(0, len(samples) - window + 1, max(window // 4, 1)):
        yield samples[start : start + window].astype(np.float32)


def spectra(shared_dir: Path, word: str, bins: int) -> Iterator[np.ndarray]:
    """Magnitudes of the windows' spectra, `bins` for each."""
    for frame in frames(shared_dir, word, 2 * (bins - 1)):
        yield np.abs(np.fft.rfft(frame)).astype(np.float32)


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
    # The state has more axes than the sound; it comes back as an output of its shape.
    state_input = max(range(len(shapes)), key=lambda n: len(shapes[n]))
    (at,) = [
        n for n, port in enumerate(built.manifest.outputs) if port.shape == shapes[state_input]
    ]
    width = shapes[1 - state_input][-1]
    sounds = frames if "dtln_2" in name else spectra
    oracle = open_oracle(path, reference)
    with open_session("host", built) as session:
        runs = (
            lambda inputs: oracle.run(inputs).outputs,
            lambda inputs: session.run(inputs).outputs,
            compiled.reference,
        )
        states = [np.zeros(shapes[state_input], np.float32) for _ in runs]
        worst = 0.0
        for sound in sounds(shared_dir, word, width):
            x = sound.reshape(shapes[1 - state_input])
            outputs = []
            for side, run in enumerate(runs):
                pair = (x, states[side])
                outputs.append(run(list(pair if state_input else pair[::-1])))
                states[side] = np.asarray(outputs[-1][at]).reshape(shapes[state_input])
            for wanted, found, same in zip(*outputs, strict=True):
                assert found.tobytes() == np.ascontiguousarray(same).tobytes()
                difference = np.abs(found.reshape(wanted.shape) - wanted).max()
                worst = max(worst, difference / np.abs(wanted).max())
    assert worst <= tolerance
