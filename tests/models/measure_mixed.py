"""Measure mixes of weights of four and eight bits for `docs/mixed_precision.toml`.

    python tests/models/measure_mixed.py [NAME...]     all cases, or these

Calibrated on every fourth sample and compared on the others, as `measure_quantization.py` does it.
What is compared are the integers of the device. Cases whose files are not there are left as they
are in the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from measure_quantization import (
    CASES,
    REPO_ROOT,
    by_reference,
    data_of,
    decibels,
    file_of,
    fitted,
)
from measured_table import write_entry
from quantized_files import float_function

from edgec.frontends import import_model
from edgec.passes.sequence import run_passes
from edgec.quantizer.mixed_weights import mix, stored_bytes
from edgec.quantizer.post_training import Recipe, quantize_function

TABLE = REPO_ROOT / "docs" / "mixed_precision.toml"
NAMES = ("digits", "kws", "ic", "vww")
#: One in this many samples is calibrated with, and at most this many are compared on.
EVERY = 4
MOST_CALIBRATED, MOST_TESTED = 250, 1000
#: At most this part of the weights' bytes in int8.
SHARE = 0.6


def measure(name: str, most_tests: int = MOST_TESTED) -> dict[str, Any]:
    """All figures of one case; most_tests: compare on this many samples only."""
    case = CASES[name]
    function = float_function(file_of(case.float_file))
    module = import_model(file_of(case.published))
    published = run_passes(module.main, "onnx" if module.format == "onnx" else "tflm")
    data = data_of(case, published)
    inputs = fitted(data.inputs, function.inputs[0].type.shape)
    is_calibration = np.arange(len(inputs)) % EVERY == 0
    calibration = [[x] for x, chosen in zip(inputs, is_calibration, strict=True) if chosen]
    calibration = calibration[:MOST_CALIBRATED]
    places = np.flatnonzero(~is_calibration)[:most_tests]
    labels = data.labels[places]
    made = quantize_function(function, calibration, Recipe("mse", equalize="never"))
    whole = sum(stored_bytes(node, 8) for node in made.scheme.weights)
    mixed = mix(made, int(SHARE * whole))
    used = sum(stored_bytes(n, w.bits) for n, w in mixed.made.scheme.weights.items())
    runs = {
        "float": by_reference(function),
        "int8": by_reference(made.integers),
        "mixed": by_reference(mixed.made.integers),
    }
    outputs = {who: run([inputs[i] for i in places]) for who, run in runs.items()}
    right = {who: np.argmax(found, axis=1) == labels for who, found in outputs.items()}
    return {
        "calibration": len(calibration),
        "samples": len(places),
        "layers": len(mixed.layers),
        "int4_layers": sum(layer.bits == 4 for layer in mixed.layers),
        "int8_weights_bytes": whole,
        "mixed_weights_bytes": used,
        **{f"{who}_right": int(found.sum()) for who, found in right.items()},
        "mixed_won": int((right["mixed"] & ~right["float"]).sum()),
        "mixed_lost": int((right["float"] & ~right["mixed"]).sum()),
        "int8_db": round(decibels(outputs["float"], outputs["int8"]), 2),
        "mixed_db": round(decibels(outputs["float"], outputs["mixed"]), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*NAMES, []])
    for name in parser.parse_args().names or NAMES:
        missing = [f for f in (CASES[name].float_file, CASES[name].published)
                   if not Path(file_of(f)).exists()]  # fmt: skip
        if missing:
            print(f"{name}: {missing[0]} is not there", flush=True)
            continue
        entry = measure(name)
        write_entry(TABLE, Path(__file__).name, name, entry, NAMES)
        print(name, entry, flush=True)


if __name__ == "__main__":
    main()
