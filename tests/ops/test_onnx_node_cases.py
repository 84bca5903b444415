"""ONNX's official node tests: those that pass are listed, and none may answer wrongly.

`onnx_node_cases.txt` grows with what is supported: a case that passes and is not listed fails, too.
`onnx_node_reasons.txt` says of every other case why it does not pass.
`PYTHONPATH=tests:tests/models python tests/ops/test_onnx_node_cases.py` writes the list again, and
prints why others are refused.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from official_cases import as_array, official_cases, specialized
from onnx_suite import NODE_REASONS, reasons

from edgec.errors import EdgecError
from edgec.graph.interpret import Interpretation

LIST = Path(__file__).with_name("onnx_node_cases.txt")
#: Cases are divided among this many tests.
PARTS = 8


def differs(answer: Any, expected: Any, case: Any) -> str:
    """How an answer differs from the standard's, "" if it does not."""
    if (answer.shape, answer.dtype) != (expected.shape, expected.dtype):
        return f"{answer.dtype}{list(answer.shape)}"
    wide = complex if expected.dtype.kind == "c" else float
    pair = answer.astype(wide), expected.astype(wide)
    if np.allclose(*pair, case.rtol, case.atol, equal_nan=True):
        return ""
    return "other numbers"


def verdict(case: Any, path: Path) -> str:
    """ "pass", "wrong: …" or "refused: …" for one case, by the reference interpreter.

    "pass" is followed by the names of inputs that are constants.
    """
    path.write_bytes(case.model.SerializeToString())
    names = [entry.name for entry in case.model.graph.input]
    try:
        for inputs, wanted in case.data_sets:
            arrays = [as_array(value) for value in inputs]
            main, fixed = specialized(path, dict(zip(names, arrays, strict=False)))
            free = [x for name, x in zip(names, arrays, strict=False) if name not in fixed]
            answers = Interpretation(main).run(free)
            for answer, value in zip(answers, wanted, strict=True):
                wrong = differs(answer, as_array(value), case)
                if wrong:
                    return f"wrong: {wrong}"
    except (EdgecError, ValueError) as error:
        details = getattr(error, "details", ()) or (str(error),)
        return f"refused: {details[0]}"
    return " ".join(("pass", *sorted(fixed)))


def verdicts(part: int, folder: Path) -> Iterator[tuple[str, str]]:
    """(name, verdict) of every PARTS-th case."""
    for case in official_cases()[part::PARTS]:
        yield case.name, verdict(case, folder / "case.onnx")


def line_of(name: str, why: str) -> str:
    """A line of the list: a case, and the names of its inputs that are constants."""
    return name + why.removeprefix("pass")


@pytest.mark.parametrize("part", range(PARTS))
def test_official_cases(part: int, tmp_path: Path) -> None:
    found = dict(verdicts(part, tmp_path))
    assert not [f"{name} {why}" for name, why in found.items() if why.startswith("wrong")]
    listed = {line for line in LIST.read_text("utf-8").splitlines() if line.split()[0] in found}
    passing = {line_of(name, why) for name, why in found.items() if why.startswith("pass")}
    assert not sorted(listed - passing), "these passed before"
    assert not sorted(passing - listed), "write the list again: these pass now"
    refused = {name for name, why in found.items() if not why.startswith("pass")}
    excused = {name for name in reasons(NODE_REASONS) if name in found}
    assert not sorted(refused - excused), "these have no reason in onnx_node_reasons.txt"
    assert not sorted(excused - refused), "these pass, and have a reason why they do not"


def test_reasons_are_of_official_cases() -> None:
    assert not {*reasons(NODE_REASONS)} - {case.name for case in official_cases()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        every = [entry for part in range(PARTS) for entry in verdicts(part, Path(name))]
    passing = sorted(line_of(name, why) for name, why in every if why.startswith("pass"))
    LIST.write_text("\n".join(passing) + "\n", "utf-8")
    for reason, count in Counter(why.partition(":")[0] for _, why in every).most_common():
        print(f"{count:5} {reason}")
    for reason, count in Counter(why.partition("  ")[0] for _, why in every).most_common(40):
        print(f"{count:5} {reason}")
    sys.exit(any(why.startswith("wrong") for _, why in every))
