"""Audio from samples to answers: the front end, and what listens to its features."""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from built_models import build

from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session

FRONT_END = "tflm_audio_preprocessor_int8.tflite"
LISTENER = "tflm_micro_speech_int8.tflite"
#: What each recording holds, as TFLite Micro's own example names the answers.
ANSWERS = ("silence", "unknown", "yes", "no")
WORDS = ("yes", "no", "silence", "noise")
#: Samples of a frame, and from one to the next: 30 and 20 ms.
FRAME, STEP = 480, 320


def frames(shared_dir: Path, word: str) -> Iterator[np.ndarray]:
    """49 overlapping frames of a recording of one second."""
    with wave.open(str(shared_dir / "data" / f"tflm_{word}_1000ms.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    for start in range(0, len(samples) - FRAME + 1, STEP):
        yield samples[None, start : start + FRAME]


@pytest.mark.parametrize("word", WORDS)
def test_every_tensor_of_the_front_end(
    word: str, sample_model: Callable[[str], Path], shared_dir: Path
) -> None:
    path = sample_model(FRONT_END)
    module, oracle = import_model(path), open_oracle(path)
    reference = Interpretation(module.main)
    # Of the energies TFLite Micro computes only those that are read.
    undefined = {24, 25}
    for frame in frames(shared_dir, word):
        expected = oracle.run([frame], tensors=True)
        found = set()

        def compare(value, array, expected=expected, found=found) -> None:
            if value.origin is not None and value.origin.index in expected.indexed:
                found.add(value.origin.index)
                wanted = expected.indexed[value.origin.index]
                np.testing.assert_array_equal(array, wanted.reshape(array.shape), value.name)

        reference.run([frame], compare)
        assert found == set(expected.indexed) - undefined


@pytest.mark.parametrize("word", ["yes", "no"])
def test_a_word_from_samples_to_the_answer(
    word: str, sample_model: Callable[[str], Path], shared_dir: Path
) -> None:
    """The generated C of both models, one after the other, and TFLite Micro's."""
    paths = [sample_model(FRONT_END), sample_model(LISTENER)]
    _, front_end = build(paths[0], "host")
    _, listener = build(paths[1], "host")
    oracles = [open_oracle(path) for path in paths]
    features, wanted = [], []
    with open_session("host", front_end) as session:
        assert session.selftest() == 0
        for frame in frames(shared_dir, word):
            features.append(session.run([frame]).outputs[0])
            wanted.append(oracles[0].run([frame]).outputs[0])
    np.testing.assert_array_equal(features, wanted)
    spectrogram = np.concatenate(features)[None]
    with open_session("host", listener) as session:
        (answer,) = session.run([spectrogram]).outputs
    np.testing.assert_array_equal(answer, oracles[1].run([spectrogram]).outputs[0])
    assert ANSWERS[int(answer.argmax())] == word


def test_the_front_end_on_a_core(sample_model: Callable[[str], Path], shared_dir: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    path = sample_model(FRONT_END)
    compiled, built = build(path, "mps2_an386")
    reference = Interpretation(compiled.imported.main)
    with open_session("core", built) as session:
        assert session.selftest() == 0
        for _, frame in zip(range(4), frames(shared_dir, "yes"), strict=False):
            (wanted,) = reference.run([frame])
            np.testing.assert_array_equal(session.run([frame]).outputs[0], wanted)


@pytest.mark.parametrize("name", ["mww_hey_jarvis_int8.tflite", "mww_vad_int8.tflite"])
def test_wake_words_over_real_features(
    name: str, sample_model: Callable[[str], Path], shared_dir: Path
) -> None:
    """Three frames of features at a time, as these models are fed; the state runs through."""
    front_end = Interpretation(import_model(sample_model(FRONT_END)).main)
    path = sample_model(name)
    oracle = open_oracle(path)
    _, built = build(path, "host")
    answers = []
    with open_session("host", built) as session:
        for word in ("yes", "no"):
            rows = [front_end.run([frame])[0] for frame in frames(shared_dir, word)]
            for start in range(0, len(rows) - 2, 3):
                x = np.stack(rows[start : start + 3])[None]
                (wanted,) = oracle.run([x]).outputs
                np.testing.assert_array_equal(session.run([x]).outputs[0], wanted)
                answers.append(int(wanted.reshape(())))
    assert len(answers) == 32
    if "vad" in name:
        assert len(set(answers)) > 1
    else:  # neither recording holds the wake word
        assert max(answers) < 128
