"""`edgec run --sanitize`: what emulated kernels do outside of their memory ends the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.boards.board import load_board
from edgec.build.host import library_name
from edgec.cli import sanitizer
from edgec.codegen.gpu_text import Images
from edgec.codegen.project import write_project
from edgec.errors import RunFailed, ToolMissing
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners import gpu_emulation


@pytest.fixture(scope="module")
def folder(dense_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model for a GPU, with kernels that nothing compiled for a real one."""
    out = tmp_path_factory.mktemp("sanitize")
    board = load_board("cuda_host")
    compiled = compile_model(dense_model, board.core, Options(), board_name=board.name)
    write_project(
        compiled.program, out, compile_kernels=lambda text, name: Images("none", name, "//")
    )
    (out / "build").mkdir()
    (out / "build" / library_name("dense")).touch()  # for a GPU: the emulation builds its own
    return out


def test_what_reaches_outside_is_found(folder: Path) -> None:
    """The kernel reads weights after the end of their array."""
    (kernels,) = folder.glob("*_kernels.cu")
    text = kernels.read_text("utf-8")
    weights = json.loads((folder / "manifest.json").read_text("utf-8"))["weights_bytes"]
    planted, count = re.subn(r"weights \+ 156\)", f"weights + {(weights // 16 + 2) * 16})", text)
    assert count == 1
    kernels.write_text(planted, "utf-8")
    done = _run(folder, "--sanitize", "--json")
    kernels.write_text(text, "utf-8")
    assert done.returncode == 1 and "heap-buffer-overflow" in done.stderr
    assert "outside of its memory" in json.loads(done.stderr.splitlines()[-1])["error"]["message"]


@pytest.mark.full
def test_what_stays_inside_runs(folder: Path) -> None:
    done = _run(folder, "--sanitize")
    assert done.returncode == 0 and "ERROR: AddressSanitizer" not in done.stderr
    assert done.stdout == _run(folder).stdout


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    if not _has_sanitizer():
        pytest.skip("g++ has no address sanitizer here")
    command = [sys.executable, "-m", "edgec", "run", str(folder), "--engine", "gpu_emulation"]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False)


def _has_sanitizer() -> bool:
    try:
        return gpu_emulation.require_sanitizer().is_file()
    except ToolMissing:
        return False


def test_other_engines_have_no_sanitizer(dense_model: Path, edgec: Callable) -> None:
    for command in ("run", "verify"):
        ran = edgec(command, dense_model, "--sanitize")
        assert ran.status == 2 and "--sanitize is for --engine gpu_emulation" in ran.err


def test_without_the_library_it_says_so(
    monkeypatch: pytest.MonkeyPatch, dense_model: Path, refused: Callable
) -> None:
    monkeypatch.setattr(gpu_emulation, "sanitizer_of", lambda command: None)
    words = (dense_model, "--board", "cuda_host", "--engine", "gpu_emulation", "--sanitize")
    assert "g++ has no address sanitizer here" in refused("verify", *words)


def test_a_crash_is_no_success() -> None:
    sanitizer._require_clean(0)
    sanitizer._require_clean(3)
    with pytest.raises(RunFailed, match="signal 11 ended it"):
        sanitizer._require_clean(-11)
