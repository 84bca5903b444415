"""The wheel of edgec itself: `twine` takes it, and in an empty environment it builds and runs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from repo_files import REPO_ROOT

DIGITS = REPO_ROOT / "examples" / "digits" / "digits_int8.onnx"


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from what git has, so that nothing that lies around gets into it."""
    pytest.importorskip("twine", reason="twine is not installed (edgec[packages])")
    work = tmp_path_factory.mktemp("wheel")
    run("git", "archive", "-o", work / "source.tar", "HEAD", cwd=REPO_ROOT)
    with tarfile.open(work / "source.tar") as archive:
        archive.extractall(work / "source", filter="data")
    words = ("--quiet", "--no-deps", "--no-build-isolation", "-w", work / "dist")
    run(sys.executable, "-m", "pip", "wheel", *words, work / "source", cwd=work)
    (found,) = (work / "dist").glob("*.whl")
    return found


@pytest.mark.full
def test_twine_takes_it_and_it_is_for_every_system(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl"), "Linux, macOS and Windows"
    told = run(sys.executable, "-m", "twine", "check", "--strict", wheel, cwd=wheel.parent)
    assert "PASSED" in told


@pytest.mark.full
def test_a_plain_install_builds_runs_and_says_what_is_missing(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    binaries = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    python, edgec = binaries / "python", binaries / "edgec"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel, cwd=tmp_path)
    run(edgec, "build", DIGITS, "-o", "out", cwd=tmp_path)
    assert "FNV-1a" in run(edgec, "run", "out", cwd=tmp_path)
    assert Path(run(edgec, "cmake-dir", cwd=tmp_path).strip()).is_dir()
    served = subprocess.run([edgec, "explore", "--serve"], capture_output=True, text=True)
    assert served.returncode == 1 and 'pip install "edgec[serve]"' in served.stderr
