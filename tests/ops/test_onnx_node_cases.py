"""ONNX's official node tests: those that pass are listed, and none may answer wrongly.

`onnx_node_cases.txt` grows with what is supported: a case that passes and is not listed fails, too.
`python tests/ops/test_onnx_node_cases.py` writes the list again, and prints why others are refused.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation

LIST = Path(__file__).with_name("onnx_node_cases.txt")
#: Cases are divided among this many tests.
PARTS = 8


@cache
def cases() -> tuple[Any, ...]:
    """Every official case: its name, model, data and tolerances."""
    with warnings.catch_warnings(action="ignore"):
        from onnx.backend.test.case.node import collect_testcases

        return tuple(sorted(collect_testcases(None), key=lambda case: str(case.name)))


def verdict(case: Any, path: Path) -> str:
    """ "pass", "wrong: …" or "refused: …" for one case, by the reference interpreter."""
    path.write_bytes(case.model.SerializeToString())
    try:
        main = import_model(path).main
        for inputs, wanted in case.data_sets:
            answers = Interpretation(main).run([np.asarray(array) for array in inputs])
            for answer, array in zip(answers, wanted, strict=True):
                expected = np.asarray(array)
                if (answer.shape, answer.dtype) != (expected.shape, expected.dtype):
                    return f"wrong: {answer.dtype}{list(answer.shape)}"
                if not np.allclose(
                    answer.astype(float), expected.astype(float), case.rtol, case.atol,
                    equal_nan=True,
                ):  # fmt: skip
                    return "wrong: other numbers"
    except EdgecError as error:
        return f"refused: {(error.details or (error.message,))[0]}"
    return "pass"


def verdicts(part: int, folder: Path) -> Iterator[tuple[str, str]]:
    """(name, verdict) of every PARTS-th case."""
    for case in cases()[part::PARTS]:
        yield case.name, verdict(case, folder / "case.onnx")


@pytest.mark.parametrize("part", range(PARTS))
def test_official_cases(part: int, tmp_path: Path) -> None:
    found = dict(verdicts(part, tmp_path))
    assert not [f"{name} {why}" for name, why in found.items() if why.startswith("wrong")]
    listed = set(LIST.read_text("utf-8").split())
    passing = {name for name, why in found.items() if why == "pass"}
    assert not sorted((listed & set(found)) - passing), "these passed before"
    assert not sorted(passing - listed), "write the list again: these pass now"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        every = [entry for part in range(PARTS) for entry in verdicts(part, Path(name))]
    LIST.write_text("\n".join(sorted(n for n, why in every if why == "pass")) + "\n", "utf-8")
    for reason, count in Counter(why.partition(":")[0] for _, why in every).most_common():
        print(f"{count:5} {reason}")
    for reason, count in Counter(why.partition("  ")[0] for _, why in every).most_common(40):
        print(f"{count:5} {reason}")
    sys.exit(any(why.startswith("wrong") for _, why in every))
