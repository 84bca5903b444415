"""The commands of the pages on packages and on other tools work, in the order they are written.

Left out is what needs a board, a program of another maker, or hours.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from repo_files import REPO_ROOT

from edgec.cli.main import main

PAGES = sorted(
    path.stem
    for kind in ("from_*", "package_*")
    for path in (REPO_ROOT / "docs").glob(f"{kind}.md")
)
#: A board at the end of a cable; another generator of C; a search; a program of PyTorch.
LEFT_OUT = ("edgec flash", "--port", "--peers", "edgec tune", ".pt2", "model_int8.onnx")
#: Nothing but these is on the page: its `out` is made by what is left out.
NEEDS_LEFT_OUT = {"from_executorch"}


def commands_of(page: str) -> list[str]:
    text = (REPO_ROOT / "docs" / f"{page}.md").read_text("utf-8")
    lines = re.findall(r"^ {4}(edgec .*)$", text, re.M)
    return [line for line in lines if not any(word in line for word in LEFT_OUT)]


def rename_input(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    old = model.graph.input[0].name
    model.graph.input[0].name = name
    for node in model.graph.node:
        node.input[:] = [name if each == old else each for each in node.input]
    return model


@pytest.mark.full
@pytest.mark.parametrize("page", [page for page in PAGES if page not in NEEDS_LEFT_OUT])
def test_commands_of_a_page(
    page: str, sample_model: Callable[[str], Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    for name in ("kws.tflite", "model.tflite"):
        shutil.copy(sample_model("mlperf_kws_dscnn_int8.tflite"), tmp_path / name)
    digits = onnx.load(REPO_ROOT / "examples" / "digits" / "digits_int8.onnx")
    onnx.save(rename_input(digits, "x"), tmp_path / "model.onnx")
    np.save(tmp_path / "sample.npy", np.full((1, 1, 8, 8), 0.5, np.float32))
    monkeypatch.chdir(tmp_path)
    commands = commands_of(page)
    assert commands
    for command in commands:
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(command)[1:])
        assert stop.value.code == 0, f"{command}\n{capsys.readouterr().err}"
