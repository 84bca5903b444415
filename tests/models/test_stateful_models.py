"""Sample models with state: TFLite Micro's bits over sequences, in the reference and in C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from against_tflm import differences
from built_models import build

from edgec.boards.board import load_board
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.oracle.verify import verify_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_steps

#: With the bytes of state that each has.
MODELS = {
    "mww_hey_jarvis_int8.tflite": 2840,
    "mww_vad_int8.tflite": 1120,
    "tflm_dtln_noise_suppression_int8.tflite": 768,
    "tflm_keyword_scrambled_int8.tflite": 5120,
    "tflm_mnist_lstm_int8.tflite": 60,
    "xtensa_micro_speech_lstm.tflite": 240,
}

#: Tensors that are views of a model's input: they are no values of the compiled graph.
RESHAPED_INPUTS = {"model/tf.expand_dims/ExpandDims1", "model_1/tf.expand_dims/ExpandDims1"}


def generated(path: Path, steps: int) -> list[list[np.ndarray]]:
    main = import_model(path).main
    return generate_steps(1, [(v.type.shape, v.type.dtype) for v in main.inputs], steps)


@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_of_a_sequence(name: str, sample_model: Callable[[str], Path]) -> None:
    path = sample_model(name)
    module, oracle = import_model(path), open_oracle(path)
    reference = Interpretation(module.main)
    for inputs in generated(path, 5):
        assert differences(module, oracle, inputs, reference) == []


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.full] * ("dtln" in n or "mww_vad" in n)) for n in MODELS],
)
def test_c_over_a_sequence(name: str, sample_model: Callable[[str], Path], tmp_path: Path) -> None:
    path = sample_model(name)
    _, built = build(path, "host")
    assert built.manifest.state_bytes == MODELS[name]
    host = load_board("host")
    result = verify_model(path, host, Options(), "host", generated(path, 4), tmp_path, layers=True)
    assert result.mismatches == 0, result.to_dict()["first_difference"]
    assert set(result.uncovered) <= RESHAPED_INPUTS


@pytest.mark.parametrize("name", MODELS)
def test_a_core_over_a_sequence(name: str, sample_model: Callable[[str], Path]) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    path = sample_model(name)
    compiled, built = build(path, "mps2_an386")
    reference = Interpretation(compiled.imported.main)
    with open_session("core", built) as session:
        assert session.selftest() == 0
        for inputs in generated(path, 2):
            for want, got in zip(reference.run(inputs), session.run(inputs).outputs, strict=True):
                assert got.tobytes() == want.tobytes()


def mnist_answers(path: Path, images: np.ndarray) -> None:
    """Each image from the initial state: the LSTM keeps it, and every image is a new sequence."""
    _, built = build(path, "host")
    oracle = open_oracle(path)
    with open_session("host", built) as session:
        for image in images:
            x = (image.astype(np.int16) - 128).astype(np.int8)[None]
            oracle.reset()
            session.reset()
            (wanted,) = oracle.run([x]).outputs
            assert session.run([x]).outputs[0].tobytes() == wanted.tobytes()


def mnist_images(shared_dir: Path) -> np.ndarray:
    with np.load(shared_dir / "data" / "mnist_test_dev.npz") as data:
        images: np.ndarray = data[next(n for n in data.files if data[n].ndim >= 3)]
    return images.reshape(-1, 28, 28)


def test_some_mnist_answers(sample_model: Callable[[str], Path], shared_dir: Path) -> None:
    mnist_answers(sample_model("tflm_mnist_lstm_int8.tflite"), mnist_images(shared_dir)[::100])


@pytest.mark.full
def test_all_mnist_answers_of_floats(sample_model: Callable[[str], Path], shared_dir: Path) -> None:
    """The same class as the framework for every image, from probabilities that are nearly equal."""
    path = sample_model("tflm_mnist_lstm_f32.tflite")
    compiled, built = build(path, "host")
    oracle = open_oracle(path)
    (port,) = compiled.module.main.inputs
    with open_session("host", built) as session:
        for image in mnist_images(shared_dir):
            x = (image.astype(np.float32) / np.float32(255)).reshape(port.type.shape)
            oracle.reset()
            session.reset()
            (wanted,), (found,) = oracle.run([x]).outputs, session.run([x]).outputs
            assert np.abs(found - wanted).max() <= 1e-5
            assert found.argmax() == wanted.argmax()


@pytest.mark.full
def test_all_mnist_answers(sample_model: Callable[[str], Path], shared_dir: Path) -> None:
    mnist_answers(sample_model("tflm_mnist_lstm_int8.tflite"), mnist_images(shared_dir))
