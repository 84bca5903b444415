"""ONNX's official suite by C on this computer: every listed test passes, no other one is forgotten.

`python tests/models/test_onnx_suite.py` writes the list of models again, and says what is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx_suite import (
    KINDS,
    MODEL_CASES,
    MODEL_REASONS,
    NODE_CASES,
    listed,
    reasons,
    sample,
    test_classes,
)

import edgec.onnx_backend
from edgec.errors import EdgecError

pytestmark = pytest.mark.full

globals().update(test_classes({*listed(NODE_CASES), *listed(MODEL_CASES)} - sample(), __name__))
del test_classes


def refusals() -> Iterator[tuple[str, str]]:
    """Each model of the suite that is not listed, and why it is refused ("" if it is not)."""
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            if case.name in listed(MODEL_CASES):
                continue
            folder = Path(case.model_dir)
            try:  # a model with open sizes is compiled when it runs
                edgec.onnx_backend.prepare(onnx.load(folder / "model.onnx")).run(_inputs(folder))
            except EdgecError as error:
                yield case.name, (error.details or (error.message,))[0]
            else:
                yield case.name, ""


def _inputs(folder: Path) -> list[np.ndarray]:
    """The inputs of a model's first set of test data."""
    files = sorted(
        (folder / "test_data_set_0").glob("input_*.pb"), key=lambda p: p.stem[6:].zfill(3)
    )
    return [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]


def test_what_is_not_listed_is_refused() -> None:
    found = dict(refusals())
    assert not [name for name, why in found.items() if not why], (
        "write the list again: they compile"
    )
    assert {*found} == {*reasons(MODEL_REASONS)}


if __name__ == "__main__":
    MODEL_CASES.write_text("", "utf-8")
    every = sorted(refusals())
    MODEL_CASES.write_text("\n".join(name for name, why in every if not why) + "\n", "utf-8")
    print("\n".join(f"{name}: {why}" for name, why in every if why), file=sys.stderr)
