"""`edgec run` in the user's terms: features of a sound, boxes on a picture."""

from __future__ import annotations

import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.deploy.front_end import Listener
from edgec.errors import EdgecError
from edgec.frontends.features import read_features
from edgec.graph.interpret import Interpretation
from edgec.report.run import print_run

RUN: dict[str, Any] = {
    "steps": 1, "instructions": None, "cycles": None, "time_ms": None, "energy_mj": None,
    "stack_bytes": None, "values": [], "output_fnv1a": "0", "outputs": None,
}  # fmt: skip
RATE, FRAMES, BANDS = 8000, 3, 20
FEATURES = f"""
kind = "log-mel"
rate = {RATE}
window_ms = 16
step_ms = 8
bands = {BANDS}
"""


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """int8 [1, 60] as it is, in another shape."""
    model = TfliteBuilder()
    x, y = (model.tensor(name, shape, "int8", scale=0.05, zero_point=20)
            for name, shape in (("x", (1, FRAMES * BANDS)), ("y", (1, FRAMES, BANDS))))  # fmt: skip
    model.operator("RESHAPE", [x], [y])
    path = tmp_path_factory.mktemp("models") / "listener.tflite"
    path.write_bytes(model.build([x], [y]))
    return path


@dataclass(frozen=True)
class Port:
    shape: tuple[int, ...]
    name: str = "x"
    dtype: str = "float32"
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()


def tone(path: Path, samples: int, rate: int = RATE) -> Path:
    values = np.rint(9000 * np.sin(2 * np.pi * 1000 / rate * np.arange(samples)))
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(values.astype("<i2").tobytes())
    return path


def test_features_of_a_sound(listener: Path, edgec: Callable[..., Any], work: Path) -> None:
    (work / "f.toml").write_text(FEATURES)
    sound = tone(work / "tone.wav", 256)
    ran = edgec("run", listener, "--input", sound, "--features", "f.toml", "--output", "y.npz",
                "--picture", "p.png", "--json")  # fmt: skip
    assert ran.status == 0, ran
    assert ran.json["features"] == {
        "engine": "host", "board": "host", "frames": FRAMES, "instructions": None,
    }  # fmt: skip
    (value,) = ran.json["values"]
    assert value["real"] == pytest.approx([0.05 * (n - 20) for n in value["first"]])
    found = 0.05 * (np.load("y.npz")["y"][0].astype(float) - 20)
    front = read_features(Path("f.toml"))
    samples = np.rint(9000 * np.sin(2 * np.pi / 8 * np.arange(128))).astype(np.int16)[None]
    (frame,) = Interpretation(front.module.main).run([samples])
    limited = np.clip(frame, 0.05 * (-128 - 20), 0.05 * (127 - 20))
    np.testing.assert_allclose(found, np.repeat(limited, FRAMES, 0), atol=0.026)
    assert (work / "p.png").read_bytes().startswith(b"\x89PNG")


def test_sounds_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(FEATURES)
    front, port = read_features(tmp_path / "f.toml"), Port((1, FRAMES * BANDS))
    path = tmp_path / "s.wav"
    with Listener(front, load_board("host"), "host", tmp_path / "out") as listener:
        with pytest.raises(EdgecError, match="16,000 samples per second, but the features need"):
            listener.hear(tone(path, 256, 16000), port, 1)
        with pytest.raises(EdgecError, match="320 samples, 3 frames take 256"):
            listener.hear(tone(path, 320), port, 1)
        with pytest.raises(EdgecError, match="not a whole number of frames"):
            listener.hear(path, Port((1, 61)), 1)
        told: list[tuple[int, int]] = []
        heard = listener.hear(path, port, 2, lambda done, total: told.append((done, total)))
        assert heard.shape == (2, 1, 60) and told[-1] == (6, 6)
        # After the sound comes silence.
        assert heard[1, 0, -BANDS:].max() < -13 < heard[0, 0].max()


def test_what_run_says_of_features(capsys: pytest.CaptureFixture[str]) -> None:
    heard = {"engine": "core", "board": "stm32", "frames": 49, "instructions": 171749}
    print_run({**RUN, "features": heard}, False, ["a picture"])
    text = capsys.readouterr().out
    assert text.startswith("a picture\n")
    assert "features      49 frames on stm32, 171,749 instructions each" in text


@pytest.mark.full
def test_a_word_by_tflite_micros_front_end(
    sample_model: Callable[[str], Path], shared_dir: Path, edgec: Callable[..., Any], work: Path
) -> None:
    front = sample_model("tflm_audio_preprocessor_int8.tflite")
    (work / "micro.toml").write_text(f'model = "{front}"\nrate = 16000\nstep_ms = 20\n')
    (work / "labels.txt").write_text("silence\nunknown\nyes\nno\n")
    ran = edgec("run", sample_model("tflm_micro_speech_int8.tflite"), "--features", "micro.toml",
                "--input", shared_dir / "data" / "tflm_no_1000ms.wav", "--labels", "labels.txt",
                "--json")  # fmt: skip
    assert ran.json["classes"][0]["label"] == "no" and ran.json["features"]["frames"] == 49


def test_boxes_on_a_picture(edgec: Callable[..., Any], work: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[1,1,2,4] x) => (float[1,2,4] boxes, float[1,2] scores)
        <int64[3] shape = {1, 2, 4}>
        { boxes = Reshape(x, shape) scores = ReduceMax<axes = [2], keepdims = 0>(boxes) }
    """)
    onnx.save(model, "m.onnx")
    pixels = np.array([[51, 51, 204, 153], [0, 0, 25, 25]], np.uint8)
    image.fromarray(pixels).save("in.png")
    words = ("run", "m.onnx", "--input", "in.png", "--boxes", "boxes=boxes,scores=scores")
    ran = edgec(*words, "--picture", "out.png", "--json")
    assert ran.status == 0, ran
    (box,) = ran.json["boxes"]
    assert [round(box[key], 2) for key in ("left", "top", "right", "bottom", "score")] == [
        0.2, 0.2, 0.8, 0.6, 0.8,
    ]  # fmt: skip
    with image.open("out.png") as drawn:
        assert drawn.size == (768, 384)
    assert "class 0  0.800  20.0 %" in edgec(*words).out
    assert edgec("run", "m.onnx", "--picture", "p.png").status == 2
