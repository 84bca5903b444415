"""`features.toml`: files that define a model's audio features.

kind = "mfcc"             # or "log-mel"; or: model = "front_end.tflite"
like = "tensorflow"       # whose defaults: tensorflow (tf.signal) or torchaudio
rate = 16000              # samples per second
window_ms = 30            # a frame
step_ms = 20              # from one frame to the next
bands = 40
low_hz = 20
high_hz = 4000
coefficients = 10         # of "mfcc"
normalize = "peak"        # the loudest sample of a sound becomes 1; or "none"

Further keys: fft, power, triangles, orthonormal, log_floor, unit (ln or dB), scale, offset;
`edgec.ops.audio_features.Features` defines them. A `model` takes a frame of int16 samples and
returns a row of features; with it, only rate, step_ms and normalize are allowed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import edgec.ops
from edgec.errors import ImportFailed
from edgec.graph.ir import Module
from edgec.ops.audio_features import Features, feature_function
from edgec.ops.signal_rfft import LENGTHS
from edgec.resources import parse_toml

SUFFIX = ".toml"
#: Defaults of the frameworks' own functions.
STYLES: dict[str, dict[str, Any]] = {
    "tensorflow": {"power": 1, "triangles": "mel", "orthonormal": False},
    "torchaudio": {"power": 2, "triangles": "hertz", "orthonormal": True},
}
_CHOICES = {
    "kind": ("mfcc", "log-mel"), "like": tuple(STYLES), "normalize": ("none", "peak"),
    "triangles": ("mel", "hertz"), "unit": ("ln", "dB"), "power": (1, 2),
}  # fmt: skip
_OF_A_MODEL = {"model", "rate", "step_ms", "normalize"}
_OF_A_KIND = (_OF_A_MODEL - {"model"}) | {
    "kind", "like", "window_ms", "fft", "bands", "low_hz", "high_hz", "coefficients", "power",
    "triangles", "orthonormal", "log_floor", "unit", "scale", "offset",
}  # fmt: skip
#: Least and most of each number; whole ones where the least is an int.
_RANGES: dict[str, tuple[float, float]] = {
    "rate": (100, 768_000), "window_ms": (0.1, 10_000.0), "step_ms": (0.1, 60_000.0),
    "fft": (LENGTHS[0], LENGTHS[-1]), "bands": (1, 512), "low_hz": (0.0, 384_000.0),
    "high_hz": (1.0, 384_000.0), "coefficients": (1, 512), "log_floor": (1e-12, 1.0),
    "scale": (-1e6, 1e6), "offset": (-1e6, 1e6),
}  # fmt: skip


@dataclass(frozen=True)
class FrontEnd:
    """The content of a file of features.

    module: from a frame of samples, int16 [1, window], to a row of features. rate: samples per
    second. window, step: samples of a frame, and from one to the next. peak: whether the loudest
    sample of a sound becomes 1 first.
    """

    module: Module
    rate: int
    window: int
    step: int
    peak: bool


def read_features(path: Path) -> FrontEnd:
    """Read a file of features, with the model that it names. Raises ImportFailed."""
    try:
        data = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ImportFailed(f"cannot read {path}: {problem.strerror}") from None
    except ValueError as problem:
        raise ImportFailed(f"{path} is not TOML: {problem}", hint="see https://toml.io") from None
    known = _OF_A_MODEL if "model" in data else _OF_A_KIND
    for key, value in data.items():
        _check(path, key, value, known)
    missing = {"rate", "step_ms"} | ({"model"} if "model" in data else {"kind", "window_ms"})
    if not missing <= set(data):
        named = ", ".join(sorted(missing - set(data)))
        raise ImportFailed(
            f"{path} lacks {named}", hint="docs/sounds_and_pictures.md lists all keys"
        )
    rate, peak = int(data["rate"]), data.get("normalize", "none") == "peak"
    step = max(1, round(rate * data["step_ms"] / 1000))
    if "model" in data:
        module = _model(path, path.parent / str(data["model"]))
        return FrontEnd(module, rate, module.main.inputs[0].type.elements, step, peak)
    features = _features(path, data, rate, step)
    edgec.ops.load()
    module = Module({"main": feature_function(features)}, source=path.name, format="features")
    return FrontEnd(module, rate, features.window, step, peak)


def import_features(path: Path) -> Module:
    """The graph of one frame alone, as `edgec build` compiles it."""
    return read_features(path).module


def _check(path: Path, key: str, value: Any, known: set[str]) -> None:
    if key not in known:
        near = difflib.get_close_matches(key, known, n=3, cutoff=0.4) or sorted(known)
        raise ImportFailed(
            f"{path}: the key {key} is unknown", details=(f"near it: {', '.join(near)}",)
        )
    if key in _CHOICES and value not in _CHOICES[key]:
        words = " or ".join(str(each) for each in _CHOICES[key])
        raise ImportFailed(f"{path}: {key} = {value!r} is not {words}")
    if key == "orthonormal" and not isinstance(value, bool):
        raise ImportFailed(f"{path}: {key} is neither true nor false")
    if key in _RANGES:
        _check_number(path, key, value)


def _check_number(path: Path, key: str, value: Any) -> None:
    low, high = _RANGES[key]
    kinds = (int,) if isinstance(low, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        whole = "whole number" if isinstance(low, int) else "number"
        raise ImportFailed(f"{path}: {key} = {value!r} is not a {whole} from {low:g} to {high:g}")


def _features(path: Path, data: Mapping[str, Any], rate: int, step: int) -> Features:
    """The keys with their defaults, checked against each other."""
    window = max(2, round(rate * data["window_ms"] / 1000))
    words = {**STYLES[data.get("like", "tensorflow")], **data}
    is_mfcc = data["kind"] == "mfcc"
    high_hz = float(data.get("high_hz", rate / 2))
    found = Features(
        rate, window, step, int(data.get("fft", 1 << max(6, math.ceil(math.log2(window))))),
        int(data.get("bands", 40)), float(data.get("low_hz", 20.0)), high_hz,
        int(data.get("coefficients", 13)) if is_mfcc else 0,
        decibels=data.get("unit") == "dB",
        **{f.name: words[f.name] for f in fields(Features)
           if f.name in ("power", "triangles", "orthonormal", "log_floor", "scale", "offset")
           and f.name in words},
    )  # fmt: skip
    wrong = {
        f"a window of {window} samples needs an fft of {' or '.join(map(str, LENGTHS))} samples, "
        f"and at least the window's length, not {found.fft}":
            found.fft not in LENGTHS or found.fft < window,
        f"high_hz = {high_hz:g} is not between low_hz and half of the rate, {rate / 2:g}":
            not found.low_hz < high_hz <= rate / 2,
        "coefficients are for the kind mfcc": not is_mfcc and "coefficients" in data,
        f"{found.coefficients} coefficients of {found.bands} bands":
            found.coefficients > found.bands,
    }  # fmt: skip
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise ImportFailed(f"{path}: {what}")
    return found


def _model(path: Path, file: Path) -> Module:
    """The front end that a file names. Raises ImportFailed where it is none."""
    from edgec.frontends import import_model

    if file.suffix.lower() == SUFFIX:
        raise ImportFailed(f"{path}: model = {file.name!r} is another file of features")
    module = import_model(file)
    inputs, outputs = module.main.inputs, module.main.outputs
    if len(inputs) != 1 or inputs[0].type.dtype != "int16" or len(outputs) != 1:
        shown = ", ".join(f"{value.type}" for value in inputs)
        raise ImportFailed(
            f"{file} is not a front end: it takes {shown} and has {len(outputs)} outputs",
            hint="it must take one frame of int16 samples and return one row of features",
        )
    return module
