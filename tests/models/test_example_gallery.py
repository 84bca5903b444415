"""The smaller examples: integers on the emulated board are as good as PyTorch's floats."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Folder, how many cases run on the board here, and the least that every figure may be: percent,
#: and decibels of `denoise`.
CASES = (
    pytest.param("wav_kws", 40, 94.0, marks=pytest.mark.full),
    ("gesture", 10, 98.0),
    pytest.param("transformer", 40, 92.0, marks=pytest.mark.full),
    pytest.param("vibration", 40, 90.0, marks=pytest.mark.full),
    pytest.param("detector", 20, 92.0, marks=pytest.mark.full),
    pytest.param("denoise", 3, 5.5, marks=pytest.mark.full),
)


@pytest.mark.parametrize(("name", "count", "least"), CASES)
def test_integers_are_as_good_as_floats(
    name: str, count: int, least: float, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name / "train.py", str(count)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("float", "int8"))]
    assert [line.partition(",")[0] for line in lines] == ["float", "int8"], done.stdout
    for line in lines:
        figures = re.findall(r"([\d.]+) (?:%|dB)", line)
        assert figures and min(map(float, figures)) >= least, line
    if name == "detector":
        assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")
    if name == "wav_kws":
        _answers_by_name(tmp_path)


def _answers_by_name(folder: Path) -> None:
    """The words of the README's first command, in a folder with the example's own files."""
    for name in ("features.toml", "edgec.toml", "words.txt"):
        (folder / name).write_bytes((EXAMPLES / "wav_kws" / name).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "edgec", "run", "kws.onnx", "--input", "yes.wav", "--json"],
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["board"] == "netduinoplus2"
    assert report["classes"][0]["label"] == "yes"


#: Of `digits` the script also writes the files that are committed.
SHORT = ("gesture", "wav_kws", "transformer", "vibration", "detector", "denoise", "digits")


@pytest.mark.parametrize("name", SHORT)
def test_scripts_and_their_pages_stay_short(name: str) -> None:
    for file, most in (("train.py", 210 if name == "digits" else 80), ("README.md", 30)):
        assert len((EXAMPLES / name / file).read_text("utf-8").splitlines()) <= most, file


def test_the_gallery_names_every_example() -> None:
    page = (EXAMPLES.parent / "docs" / "gallery.md").read_text("utf-8")
    folders = {folder.name for folder in EXAMPLES.iterdir() if any(folder.glob("*.*"))}
    folders -= {"own_kernels"}  # of a page of its own
    assert folders == set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    shown = re.findall(r"^## (\w+)\n\n!\[.+\]\(gallery/(\w+)\.png\)$", page, re.M)
    assert shown == [(name, name) for name, _ in shown] and {n for n, _ in shown} == folders - {
        "cmake"
    }
    for name, _ in shown:
        picture = EXAMPLES.parent / "docs" / "gallery" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
