"""Boards, templates and runtime are found in a checkout and in an installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgec import resources
from edgec.boards.board import load_board
from edgec.errors import BoardError, ToolMissing


@pytest.mark.parametrize("name", resources.RESOURCE_DIRS)
def test_checkout_has_each_folder(name: str) -> None:
    folder = resources.resource_dir(name)
    assert folder.is_dir()
    assert any(folder.iterdir())


def test_unknown_name_is_a_bug() -> None:
    with pytest.raises(ValueError, match="docs"):
        resources.resource_dir("docs")


def test_incomplete_installation_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "edgec")
    with pytest.raises(ToolMissing, match="no 'boards' folder"):
        resources.resource_dir("boards")


def test_built_package_holds_copies(repo_root: Path, tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build", "--build-base", str(tmp_path)],
        cwd=repo_root,
        check=True,
        capture_output=True,
    )
    package = tmp_path / "lib" / "edgec"
    for name in ("boards/host.toml", "templates/link.ld.j2", "runtime_c/ports/ec_port.h"):
        assert (package / "_resources" / name).read_bytes() == (repo_root / name).read_bytes()
    # The copy finds itself, not the checkout.
    code = "from edgec.boards.board import load_board; import edgec.resources as r;"
    code += "print(r.resource_dir('boards')); load_board('stm32')"
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(package.parent)!r}); {code}",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(done.stdout.strip()) == package / "_resources" / "boards"


def test_templates_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEC_CACHE", str(tmp_path))
    render = resources.text_templates.__wrapped__
    text = render().get_template("main.c.j2").environment  # compiled, and kept
    (kept,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    whole = kept.read_bytes()
    with monkeypatch.context() as patch:  # what is kept is not compiled again
        patch.setattr(type(text), "compile", None)
        assert render().get_template("main.c.j2").name == "main.c.j2"
    kept.write_bytes(whole[:40])  # damaged: compiled and kept again
    assert render().get_template("main.c.j2").name == "main.c.j2"
    assert kept.read_bytes() == whole


@pytest.mark.parametrize("folder", ["/dev/null", "/dev/null/below"])
def test_templates_without_a_cache(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEC_CACHE", folder)
    assert resources.text_templates.__wrapped__().get_template("main.c.j2").name == "main.c.j2"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a." * 200_000 + "b = 1", "a line has more than 10,000 characters"),
        ("a = " + "[" * 5000 + "]" * 5000, "a line has more than 10,000 characters"),
        ("a = " + "[\n" * 5000 + "]" * 5000, "nested too deeply"),
        ("a = " + "9" * 9000, "4300 digits"),
        ("a = ", "Invalid value"),
    ],
    ids=["dots", "wide", "deep", "digits", "none"],
)
def test_toml_that_is_none_or_costs_minutes(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        resources.parse_toml(text)
    board = tmp_path / "b.toml"
    board.write_text(text, "utf-8")
    with pytest.raises(BoardError, match=f"is not TOML: .*{why}"):
        load_board(str(board))
    assert resources.parse_toml("[a]\nb = 1\n") == {"a": {"b": 1}}
