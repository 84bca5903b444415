"""ONNX's own test cases of operators: each is answered as it says, or refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.interpret import interpret

onnx = pytest.importorskip("onnx")

#: Cases that edgec answers; the number only rises.
FEWEST_ANSWERED = 200


def cases():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def as_array(value) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value)


def is_equal(found: np.ndarray, wanted: np.ndarray, case) -> bool:
    # The cases' own tolerances are those of one framework; sums are in another order here.
    return found.shape == wanted.shape and np.allclose(
        found.astype(np.float64), wanted.astype(np.float64),
        rtol=10 * case.rtol, atol=1e-5, equal_nan=True,
    )  # fmt: skip


def answers_as_it_says(case, path: Path) -> bool:
    path.write_bytes(case.model.SerializeToString())
    main = import_model(path).main
    names = [entry.name for entry in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        given = dict(zip(names, inputs, strict=True))
        found = interpret(main, [as_array(given[value.origin.tensor]) for value in main.params])
        pairs = zip(found, outputs, strict=True)
        if not all(is_equal(mine, as_array(wanted), case) for mine, wanted in pairs):
            return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_every_case_is_right_or_refused(tmp_path: Path) -> None:
    wrong, answered = [], 0
    for case in cases():
        try:
            right = answers_as_it_says(case, tmp_path / "m.onnx")
        except EdgecError:
            continue
        answered += 1
        if not right:
            wrong.append(case.name)
    assert wrong == []
    assert answered >= FEWEST_ANSWERED
