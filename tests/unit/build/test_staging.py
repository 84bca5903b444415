"""Files and folders are written whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.build.staging import staged_file, staged_folder
from edgec.errors import BuildFailed, EdgecError

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


def write_and_be_killed(out: Path, last: str) -> None:
    """Another process that writes `out` is killed without a chance to clean up, after `last`."""
    code = f"""
import os, pathlib, signal, sys
from edgec.build import staging
def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)
if {last!r} == "old":
    rename, done = pathlib.Path.rename, []
    def rename_once(self, to):
        if str(to).endswith("old"):
            rename(self, to)
            die()
        return rename(self, to)
    pathlib.Path.rename = rename_once
with staging.staged_folder(pathlib.Path(sys.argv[1]), "mark") as folder:
    (folder / "half").touch()
    if {last!r} == "block":
        die()
"""
    done = subprocess.run([sys.executable, "-c", code, str(out)], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("last", ["block", "old"])
def test_what_a_killed_process_left_is_removed(tmp_path: Path, last: str) -> None:
    pytest.importorskip("fcntl", reason="locks of files that end with their process")
    out = tmp_path / "out"
    with staged_folder(out, MARKER) as folder:
        (folder / MARKER).write_text("1")
    (tmp_path / ".out.of_the_user").mkdir()
    write_and_be_killed(out, last)
    assert len(names(tmp_path)) == (3 if last == "block" else 2)
    with pytest.raises(RuntimeError), staged_folder(out, MARKER):
        assert (out / MARKER).read_text() == "1"  # put back, where it had been moved away
        raise RuntimeError
    assert names(tmp_path) == [".out.of_the_user", "out"]


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staged_folder(out, MARKER) as one:
        (one / MARKER).write_text("1")
        with staged_folder(out, MARKER) as other:
            (other / MARKER).write_text("2")
        assert (one / MARKER).exists()
    assert (out / MARKER).read_text() == "1"
    assert names(tmp_path) == ["out"]


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
