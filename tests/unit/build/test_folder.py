"""Folders are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.build.folder import MARKER, whole_folder
from edgec.errors import BuildFailed


def test_folder_appears_when_complete(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with whole_folder(out) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()
    assert sorted(path.name for path in out.iterdir()) == [MARKER, "x"]
    assert [path.name for path in out.parent.iterdir()] == ["b"]


def test_failure_leaves_what_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with whole_folder(out) as folder:
        (folder / "x").write_text("1")
    with pytest.raises(RuntimeError), whole_folder(out) as folder:
        (folder / "x").write_text("2")
        raise RuntimeError
    assert (out / "x").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_own_folder_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("x", "y"):
        with whole_folder(out) as folder:
            (folder / name).touch()
    assert sorted(path.name for path in out.iterdir()) == [MARKER, "y"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_foreign_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(BuildFailed, match="edgec did not write"), whole_folder(tmp_path):
        pytest.fail("the block must not run")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_empty_folder_is_taken(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with whole_folder(out) as folder:
        (folder / "x").touch()
    assert (out / "x").exists()


def test_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with (
        pytest.raises(BuildFailed, match="is not a folder"),
        whole_folder(tmp_path / "out"),
    ):
        pytest.fail("the block must not run")


def test_unwritable_place(tmp_path: Path) -> None:
    # A file where a parent folder should be fails for every user, root too.
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(BuildFailed, match="cannot write the folder"),
        whole_folder(tmp_path / "file" / "out"),
    ):
        pytest.fail("the block must not run")
