"""A sample of ONNX's official node cases as C on a simulated Cortex-M4, in the reference's bits."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from official_cases import as_array, official_cases, specialized
from onnx_suite import NODE_CASES, listed
from sanitized import same

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.errors import DoesNotFit
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.runners.engine import open_session

BOARD = "mps2_an386"
#: Cases, divided among so many tests.
SAMPLE, PARTS = 300, 10

#: Cases that no board can build yet, and why.
KNOWN = {
    "test_optional_has_element_empty_no_input_name_tensor_input":
        "a model without inputs, whose main.c would have an empty table",
}  # fmt: skip


def sample() -> list[str]:
    """Names from all over the list."""
    names = listed(NODE_CASES)
    return [names[number * len(names) // SAMPLE] for number in range(SAMPLE)]


def difference(name: str, folder: Path) -> str:
    """How the M4 differs from the interpreter for a case; "" if it does not."""
    (case,) = (case for case in official_cases() if case.name == name)
    path = folder / "case.onnx"
    path.write_bytes(case.model.SerializeToString())
    names = [entry.name for entry in case.model.graph.input]
    arrays = [as_array(value) for value in case.data_sets[0][0]]
    main, fixed = specialized(path, dict(zip(names, arrays, strict=False)))
    free = [x for key, x in zip(names, arrays, strict=False) if key not in fixed]
    board = load_board(BOARD)
    module = Module({"main": main}, source="case.onnx", format="onnx")
    compiled = compile_module(module, board.core, Options(), board_name=BOARD)
    wanted = Interpretation(compiled.module.main).run(free)
    try:
        built = deploy(compiled, board, folder / "out")
    except DoesNotFit:
        return "too large"
    with open_session("core", built) as session:
        if session.selftest():
            return "its self-test fails"
        found = session.run(free).outputs
    equal = [same(a, b.reshape(a.shape)) for a, b in zip(found, wanted, strict=True)]
    return "" if all(equal) else f"other bits in outputs {equal}"


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_a_sample_of_official_cases(part: int, tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    found: dict[str, str] = {}
    for name in sample()[part::PARTS]:
        if name in KNOWN:
            continue
        (tmp_path / name).mkdir()
        why = difference(name, tmp_path / name)
        if why and why != "too large":
            found[name] = why
    assert not found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        for name in sys.argv[1:] or sample():
            (Path(root) / name).mkdir()
            try:
                print(name, difference(name, Path(root) / name), flush=True)
            except Exception as error:  # all are findings
                print(name, type(error).__name__, str(error)[:200], flush=True)
