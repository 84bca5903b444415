"""Files and folders are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.errors import BuildFailed, EdgecError
from edgec.staging import staged_file, staged_folder

MARKER = "mark"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_folder_appears_when_complete(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with staged_folder(out, MARKER) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()
    assert names(out) == ["x"]
    assert names(out.parent) == ["b"]


def test_failure_leaves_what_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staged_folder(out, MARKER) as folder:
        (folder / MARKER).write_text("1")
    with pytest.raises(RuntimeError), staged_folder(out, MARKER) as folder:
        (folder / MARKER).write_text("2")
        raise RuntimeError
    assert (out / MARKER).read_text() == "1"
    assert names(tmp_path) == ["out"]


def test_own_folder_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("x", "y"):
        with staged_folder(out, MARKER) as folder:
            (folder / name).touch()
            (folder / MARKER).touch()
    assert names(out) == [MARKER, "y"]
    assert names(tmp_path) == ["out"]


def test_foreign_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BuildFailed, match="not made by edgec"), staged_folder(tmp_path, MARKER):
        pytest.fail("the block must not run")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_empty_folder_is_taken(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with staged_folder(out, MARKER) as folder:
        (folder / "x").touch()
    assert (out / "x").exists()


def test_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with (
        pytest.raises(BuildFailed, match="is a file"),
        staged_folder(tmp_path / "out", MARKER),
    ):
        pytest.fail("the block must not run")


def test_unwritable_place(tmp_path: Path) -> None:
    # A file where a parent folder should be fails for every user, root too.
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(BuildFailed, match="cannot write to"),
        staged_folder(tmp_path / "file" / "out", MARKER),
    ):
        pytest.fail("the block must not run")
    with (
        pytest.raises(EdgecError, match=r"cannot write .*out\.txt: Not a directory") as caught,
        staged_file(tmp_path / "file" / "out.txt", hint="choose another one") as temporary,
    ):
        temporary.write_text("x")
    assert caught.value.hint == "choose another one"


def test_file_is_whole_or_as_before(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    with staged_file(target, hint="") as temporary:
        temporary.write_text("first")
        assert temporary.suffix == ".html" and not target.exists()
    with pytest.raises(RuntimeError), staged_file(target, hint="") as temporary:
        temporary.write_text("half of the sec")
        raise RuntimeError
    assert target.read_text() == "first"
    assert names(tmp_path) == ["page.html"]
