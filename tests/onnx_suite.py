"""ONNX's official suite (`onnx.backend.test`) with edgec as its backend: which tests run."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import edgec.onnx_backend

#: Node tests that pass, by the reference interpreter and by C; and models that pass by C.
NODE_CASES = Path(__file__).parent / "ops" / "onnx_node_cases.txt"
MODEL_CASES = Path(__file__).parent / "models" / "onnx_model_cases.txt"
#: Those that do not pass, each with its reason: `name: reason`.
NODE_REASONS = NODE_CASES.with_name("onnx_node_reasons.txt")
MODEL_REASONS = MODEL_CASES.with_name("onnx_model_reasons.txt")
#: The reasons there are. What a microcontroller's C has no types for, or no use.
REASONS = (
    "strings as values",
    "sequences as values",
    "optionals as values",
    "random numbers",
    "image decoding",
    "training",
)
#: Small models of the suite; those named "real" are downloaded, and have no place here.
KINDS = ("simple", "pytorch-converted", "pytorch-operator")
#: Tests of the sample that `make test` runs.
SAMPLE = 300


def listed(path: Path) -> list[str]:
    """The names of a list, sorted, without the constant inputs that follow some names."""
    return sorted(line.split()[0] for line in path.read_text("utf-8").splitlines())


def reasons(path: Path) -> dict[str, str]:
    """Why each test of a list does not pass."""
    lines = (line.partition(": ") for line in path.read_text("utf-8").splitlines())
    found = {name: why for name, _, why in lines}
    unknown = {why for why in found.values() if why not in REASONS}
    assert not unknown, f"no reasons: {sorted(unknown)}"
    return found


def sample() -> set[str]:
    """Names from all over the lists."""
    names = [*listed(NODE_CASES), *listed(MODEL_CASES)]
    return {names[number * len(names) // SAMPLE] for number in range(SAMPLE)}


@cache
def backend_test() -> Any:
    """The suite, as it is in the onnx package."""
    with warnings.catch_warnings(action="ignore"):
        from onnx.backend.test import BackendTest

        return BackendTest(edgec.onnx_backend, __name__)


def test_classes(names: set[str], module: str) -> dict[str, Any]:
    """The suite's unittest classes, with these of their tests, for the namespace of a module."""
    classes = {}
    for name, found in backend_test().test_cases.items():
        wanted = {f"{test}_cpu" for test in names}
        kept = {key: value for key, value in vars(found).items() if key in wanted}
        if kept:
            classes[name] = type(name, found.__bases__, {**kept, "__module__": module})
    return classes
