"""Measure how far int8 models agree with float ones where there are no labels.

    python tests/models/measure_agreement.py [NAME...]     all cases, or these

Writes `docs/quantization_agreement.toml`, of which `make docs` makes a part of a page. Models are
quantized with the defaults on some samples and compared on others; both forms are run by ONNX
Runtime, which has the integers of the quantized file.
"""

from __future__ import annotations

import argparse
import sys
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

REPO_ROOT = Path(__file__).resolve().parents[2]
TABLE = REPO_ROOT / "docs" / "quantization_agreement.toml"
sys.path.insert(0, str(REPO_ROOT / "tests"))

from measured_table import write_entry  # noqa: E402  tests are no package
from quantized_files import float_function, qdq_bytes  # noqa: E402  tests are no package
from shared_folder import find_shared  # noqa: E402  tests are no package
from word_images import HEIGHT, WIDTH, decoded, edits, words  # noqa: E402  tests are no package
from word_images import pictures as word_pictures  # noqa: E402  tests are no package

from edgec import __version__  # noqa: E402
from edgec.frontends.onnx_writer import to_onnx  # noqa: E402
from edgec.graph.ir import Function  # noqa: E402
from edgec.quantizer.mixed_values import DEFAULT_SQNR_DB, mix_values  # noqa: E402
from edgec.quantizer.post_training import Recipe, quantize_function  # noqa: E402
from edgec.report.mlperf_data import load_samples  # noqa: E402

Array = np.ndarray[Any, Any]
Run = Callable[[Sequence[Array]], list[Array]]

#: Pictures to calibrate with, and to compare on.
CALIBRATION, COMPARED = 24, 300
#: A face is a box of at least this score; two boxes are one if they overlap by so much.
LEAST_SCORE, SAME_FACE, SAME_BOX = 0.7, 0.3, 0.5


def runner(model: bytes) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(model, options)
    names = [port.name for port in session.get_inputs()]
    return lambda inputs: session.run(None, dict(zip(names, inputs, strict=True)))


def float_runner(function: Function) -> Run:
    return runner(to_onnx(function, producer_version=__version__).SerializeToString())


@dataclass(frozen=True)
class Made:
    """Quantized models: how to run each, and for mixes of values how many of them are which."""

    runs: tuple[Run, ...]
    mix: dict[str, int]


def quantized(
    functions: Sequence[Function],
    samples: Sequence[Sequence[Sequence[Array]]],
    recipe: Recipe,
    goal_db: float = DEFAULT_SQNR_DB,
) -> Made:
    """Each function quantized with its samples; goal_db: of mixed values."""
    runs, mix = [], dict.fromkeys(("values_bytes", "int8_values_bytes"), 0)
    mix |= dict.fromkeys(("int8_layers", "int16_layers", "float_layers"), 0)
    for function, calibration in zip(functions, samples, strict=True):
        made = quantize_function(function, calibration, recipe)
        if recipe.activations == "mixed":
            mixed = mix_values(made, goal_db)
            made = mixed.made
            for layer in mixed.layers:
                mix[f"{'float' if layer.bits == 32 else f'int{layer.bits}'}_layers"] += 1
                mix["values_bytes"] += layer.value_bytes
                mix["int8_values_bytes"] += layer.elements
        runs.append(runner(qdq_bytes(made)))
    return Made(tuple(runs), mix if recipe.activations == "mixed" else {})


def decibels(exact: Sequence[Array], found: Sequence[Array]) -> float:
    wanted, given = (np.concatenate([np.ravel(x) for x in side]) for side in (exact, found))
    noise = float(np.sum((wanted.astype(np.float64) - given) ** 2))
    return round(10 * float(np.log10(np.sum(wanted.astype(np.float64) ** 2) / noise)), 2)


def pictures(count: int) -> list[Array]:
    """Photographs [240, 320, 3] of 0 to 255, enlarged from 96 x 96 pixels."""
    from PIL import Image

    found = []
    for sample in load_samples("vww", find_shared() / "data", count):
        pixels = np.frombuffer(sample.inputs[0], np.uint8).reshape(96, 96, 3)
        found.append(np.asarray(Image.fromarray(pixels).resize((320, 240), Image.BILINEAR)))
    return found


def faces(scores: Array, boxes: Array) -> list[Array]:
    """Boxes of faces, the surest first, each but once."""
    sure = np.flatnonzero(scores[:, 1] > LEAST_SCORE)
    kept: list[Array] = []
    for place in sure[np.argsort(-scores[sure, 1])]:
        if all(overlap(boxes[place], other) < SAME_FACE for other in kept):
            kept.append(boxes[place])
    return kept


def overlap(a: Array, b: Array) -> float:
    """Intersection over union of two boxes (left, top, right, bottom)."""
    extent = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(extent, 0)))
    areas = [float(np.prod(box[2:] - box[:2])) for box in (a, b)]
    return common / max(sum(areas) - common, 1e-12)


def measure_faces(file: str, activations: str, goal_db: float = DEFAULT_SQNR_DB) -> dict[str, Any]:
    """UltraFace: scores and boxes, and the faces that follow from them."""
    function = float_function(find_shared() / "models" / file)
    recipe = Recipe(activations=activations)
    inputs = [
        ((image.astype(np.float32) - 127) / 128).transpose(2, 0, 1)[np.newaxis].copy()
        for image in pictures(CALIBRATION + COMPARED)
    ]
    made = quantized([function], [[[x] for x in inputs[:CALIBRATION]]], recipe, goal_db)
    exact, found = float_runner(function), made.runs[0]
    both = [(exact([x]), found([x])) for x in inputs[CALIBRATION:]]
    entry: dict[str, Any] = {"calibration": CALIBRATION, "samples": COMPARED}
    for place, name in enumerate(("scores", "boxes")):
        sides = ([outputs[side][place] for outputs in both] for side in (0, 1))
        entry[f"{name}_db"] = decibels(*sides)
    seen = same = other = 0
    overlaps = []
    for wanted, given in both:
        theirs, ours = (faces(scores[0], boxes[0]) for scores, boxes in (wanted, given))
        nearest = [max((overlap(box, mine) for mine in ours), default=0.0) for box in theirs]
        good = [value for value in nearest if value >= SAME_BOX]
        seen, same, other = seen + len(theirs), same + len(good), other + len(ours) - len(good)
        overlaps += good
    return {**entry, "faces": seen, "faces_found": same, "faces_more": other,
            "mean_overlap": round(float(np.mean(overlaps)), 4) if overlaps else 0.0,
            **made.mix}  # fmt: skip


BLOCK, SHIFT = 512, 128


@dataclass
class Denoiser:
    """DTLN's two halves over a recording, each with its own state."""

    halves: tuple[Run, Run]
    shape: tuple[int, ...]
    heard: tuple[list[list[Array]], list[list[Array]]]

    def __call__(self, sound: Array) -> Array:
        states = [np.zeros(self.shape, np.float32) for _ in self.halves]
        out = np.zeros(len(sound) + BLOCK, np.float32)
        for start in range(0, len(sound) - BLOCK + 1, SHIFT):
            spectrum = np.fft.rfft(sound[start : start + BLOCK])
            size = np.abs(spectrum).astype(np.float32).reshape(1, 1, -1)
            self.heard[0].append([size, states[0]])
            mask, states[0] = self.halves[0]([size, states[0]])
            cleaned = np.fft.irfft(spectrum * mask.reshape(-1)).astype(np.float32)
            block = cleaned.reshape(1, 1, -1)
            self.heard[1].append([block, states[1]])
            part, states[1] = self.halves[1]([block, states[1]])
            out[start : start + BLOCK] += part.reshape(-1)
        return out


def measure_denoiser(files: str, activations: str) -> dict[str, Any]:
    """DTLN: words of others in the noise of a recording, and the sound that comes out."""
    recipe = Recipe(activations=activations)
    functions = [float_function(find_shared() / "models" / name) for name in files.split()]
    data = find_shared() / "data"
    with np.load(data / "speechcmd_v2_test_dev_wav360.npz") as stored:
        words = stored["pcm16"].astype(np.float32) / 32768
    with wave.open(str(data / "tflm_noise_1000ms.wav")) as file:
        noise = np.frombuffer(file.readframes(file.getnframes()), np.int16) / np.float32(32768)
    sounds = [word + np.resize(noise, len(word)) for word in words[::30]]
    shape = functions[0].params[1].type.shape
    first, second = (float_runner(function) for function in functions)
    exact = Denoiser((first, second), shape, ([], []))
    half = len(sounds) // 2
    for sound in sounds[:half]:
        exact(sound)
    made = quantized(functions, [heard[::4] for heard in exact.heard], recipe)
    found = Denoiser((made.runs[0], made.runs[1]), shape, ([], []))
    wanted, given = ([side(sound) for sound in sounds[half:]] for side in (exact, found))
    return {
        "calibration": len(exact.heard[0][::4]), "samples": len(wanted),
        "waveform_db": decibels(wanted, given), **made.mix,
    }  # fmt: skip


#: Words to calibrate with, and others to compare on.
CALIBRATION_WORDS, COMPARED_WORDS = 48, 400


def measure_text(file: str, activations: str) -> dict[str, Any]:
    """A text recogniser: made-up words and numbers, and the characters it reads in their pictures.

    texts: how many different ones the float model reads; all words are different.
    """
    function = float_function(find_shared() / "models" / file, {"x": (1, 3, HEIGHT, WIDTH)})
    inputs = word_pictures(1, words(0, CALIBRATION_WORDS + COMPARED_WORDS))
    calibration = [[x] for x in inputs[:CALIBRATION_WORDS]]
    made = quantized([function], [calibration], Recipe(activations=activations))
    exact, found = float_runner(function), made.runs[0]
    wanted, given = ([run([x])[0] for x in inputs[CALIBRATION_WORDS:]] for run in (exact, found))
    theirs, ours = ([decoded(each[0]) for each in side] for side in (wanted, given))
    return {
        "calibration": CALIBRATION_WORDS, "samples": COMPARED_WORDS, "texts": len(set(theirs)),
        "texts_same": sum(a == b for a, b in zip(theirs, ours, strict=True)),
        "characters": sum(map(len, theirs)),
        "characters_off": sum(edits(a, b) for a, b in zip(theirs, ours, strict=True)),
        "probabilities_db": decibels(wanted, given), **made.mix,
    }  # fmt: skip


#: Samples that a voice detector takes at once, and how many of those before it looks at again.
FRAME, CONTEXT = 512, 64
#: The spectrum and the sums of its squares: one frequency is a millionth of another, of which
#: integers keep nothing.
STFT = ("/stft/padding/Pad", "/stft/Conv/conv", "/stft/Slice_1", "/stft/Slice_3", "/stft/Add")


def voice(run: Run, sound: Array, heard: list[list[Array]] | None = None) -> Array:
    """The probability of speech in each frame; each side goes on with its own state."""
    state = np.zeros((2, 1, 128), np.float32)
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), sound])
    found = []
    for start in range(0, len(sound) - FRAME + 1, FRAME):
        x = padded[np.newaxis, start : start + CONTEXT + FRAME]
        if heard is not None:
            heard.append([x, state])
        probability, state = run([x, state])
        found.append(float(probability.reshape(-1)[0]))
    return np.array(found, np.float32)


def measure_voice(file: str, activations: str, kept: Sequence[str] = ()) -> dict[str, Any]:
    """Silero's voice detector over a minute of speech, half of it to calibrate with."""
    shapes = {"input": (1, CONTEXT + FRAME), "state": (2, 1, 128)}
    function = float_function(find_shared() / "models" / file, shapes)
    with wave.open(str(find_shared() / "data" / "silero_vad_test_60s.wav")) as stored:
        samples = np.frombuffer(stored.readframes(stored.getnframes()), np.int16)
    sound = samples / np.float32(32768)
    heard: list[list[Array]] = []
    wanted = voice(float_runner(function), sound, heard)
    half = len(heard) // 2
    recipe = Recipe(activations=activations, keep_float=tuple(kept))
    made = quantized([function], [heard[:half:4]], recipe)
    given = voice(made.runs[0], sound)
    compared = slice(half, None)
    same = np.count_nonzero((wanted > 0.5)[compared] == (given > 0.5)[compared])
    return {
        "calibration": len(heard[:half:4]), "samples": len(heard) - half,
        "decisions_same": int(same),
        "probabilities_db": decibels([wanted[compared]], [given[compared]]), **made.mix,
    }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """files: one or more names. activations: storage of values."""

    measure: Callable[[str, str], dict[str, Any]]
    files: str
    activations: str = "int8"


VOICE = "silero_vad_half.onnx"
TEXT = "ppocr_v3_rec_svtr.onnx"
DTLN = "dtln_1_f32.onnx dtln_2_f32.onnx"
CASES = {
    "ultraface_rfb320": Case(measure_faces, "ultraface_rfb320.onnx"),
    "ultraface_rfb320, mixed values for 45 dB": Case(
        partial(measure_faces, goal_db=45.0), "ultraface_rfb320.onnx", "mixed"
    ),
    "dtln": Case(measure_denoiser, DTLN),
    "dtln, int16 values": Case(measure_denoiser, DTLN, "int16"),
    "dtln, mixed values": Case(measure_denoiser, DTLN, "mixed"),
    "ppocr_v3_rec_svtr": Case(measure_text, TEXT),
    "ppocr_v3_rec_svtr, int16 values": Case(measure_text, TEXT, "int16"),
    "ppocr_v3_rec_svtr, mixed values": Case(measure_text, TEXT, "mixed"),
    "silero_vad": Case(measure_voice, VOICE),
    "silero_vad, spectrum in float": Case(partial(measure_voice, kept=STFT), VOICE),
    "silero_vad, spectrum in float, int16 values": Case(
        partial(measure_voice, kept=STFT), VOICE, "int16"
    ),
    "silero_vad, mixed values": Case(measure_voice, VOICE, "mixed"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*CASES, []])
    for name in parser.parse_args().names or CASES:
        case = CASES[name]
        entry = case.measure(case.files, case.activations)
        write_entry(TABLE, Path(__file__).name, name, entry, CASES)
        print(name, entry, flush=True)


if __name__ == "__main__":
    main()
