"""Float models in the formats that `edgec quantize` writes, each made once per test session.

Calibrated with 32 real samples and compared on 64 others, taken from all over the set: few, so that
budgets are quickly checked. How good int8 is on all samples is told by `measure_quantization.py`.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from measure_quantization import CASES, by_reference, data_of, decibels, file_of, fitted
from quantized_files import float_function, qdq_bytes

from edgec.frontends import import_model
from edgec.passes.sequence import run_passes
from edgec.quantizer.mixed_values import mix_values
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function

#: The end of a model's key in budgets.toml -> how it is quantized. Of `weights` all else is float.
FORMATS = {
    "int8": Recipe(),
    "int16": Recipe(activations="int16"),
    "int4": Recipe(weights="int4"),
    "groups": Recipe(weights="int4", group=32),
    "mixed": Recipe(activations="mixed"),
    "weights": Recipe(activations="float32"),
}
#: Decibels that mixed values are to keep: between what int8 and int16 reach.
GOALS_DB = {"digits": 40.0, "kws": 35.0, "ic": 36.0, "ad": 44.0}
#: Observers that the budgets were measured with, where the automatic choice is another: for kws it
#: is `percentile`, which keeps 35 dB on held-out samples, but with two more layers in int16.
OBSERVERS = {"kws_mixed": "local"}
CALIBRATED, COMPARED = 32, 64

#: Keys in budgets.toml: the float model, by its name in CASES, and the format.
QUANTIZED = {f"{name}_{way}": (name, way) for name in GOALS_DB for way in FORMATS}
#: Those that `make test` checks, in less than a minute.
QUICK = {f"digits_{way}" for way in FORMATS} | {"kws_int8", "kws_int16", "kws_int4", "kws_weights"}

_FOLDER = tempfile.TemporaryDirectory(prefix="edgec_tests_")


def source_file(key: str) -> Path:
    """The float model that a key of QUANTIZED is made of."""
    return file_of(CASES[QUANTIZED[key][0]].float_file)


@cache
def samples(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Those to calibrate with, every third of all that are taken, and those to compare on."""
    case = CASES[name]
    module = import_model(file_of(case.published))
    published = run_passes(module.main, "onnx" if module.format == "onnx" else "tflm")
    shape = float_function(file_of(case.float_file)).inputs[0].type.shape
    inputs = fitted(data_of(case, published).inputs, shape)
    taken = np.linspace(0, len(inputs) - 1, CALIBRATED + COMPARED).astype(int)
    chosen = [inputs[n] for n in taken]
    return chosen[::3], [x for n, x in enumerate(chosen) if n % 3]


@cache
def quantized(key: str) -> PostTraining:
    """The model that a key of QUANTIZED stands for."""
    name, way = QUANTIZED[key]
    function = float_function(source_file(key))
    recipe = replace(FORMATS[way], observer=OBSERVERS.get(key, "auto"))
    made = quantize_function(function, [[x] for x in samples(name)[0]], recipe)
    return mix_values(made, GOALS_DB[name]).made if way == "mixed" else made


@cache
def quantized_file(key: str) -> Path:
    """It as a file that the session keeps."""
    path = Path(_FOLDER.name) / f"{key}.onnx"
    path.write_bytes(qdq_bytes(quantized(key)))
    return path


def sqnr_db(key: str) -> float:
    """Signal to noise of its outputs against the float model's, on samples not calibrated with."""
    tests = samples(QUANTIZED[key][0])[1]
    function = float_function(source_file(key))
    return decibels(by_reference(function)(tests), by_reference(quantized(key).integers)(tests))
