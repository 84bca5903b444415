"""Files and folders are written whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edgec.boards.toolchain import find_toolchain
from edgec.build.ownership import MARKER_NAME, add_to_marker
from edgec.build.staging import remove_unlocked, staged_file, staged_folder, work_folder
from edgec.errors import BuildFailed, EdgecError
from edgec.targets.core import host_core

MARKER = "mark"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != MARKER_NAME)


def test_folder_appears_when_complete(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with staged_folder(out) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()
    assert names(out) == ["x"]
    assert names(out.parent) == ["b"]


def test_failure_leaves_what_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staged_folder(out) as folder:
        (folder / MARKER).write_text("1")
    with pytest.raises(RuntimeError), staged_folder(out) as folder:
        (folder / MARKER).write_text("2")
        raise RuntimeError
    assert (out / MARKER).read_text() == "1"
    assert names(tmp_path) == ["out"]


def test_folders_above_go_again_unless_something_is_in_them(tmp_path: Path) -> None:
    out = tmp_path / "build" / "inner" / "out"
    with pytest.raises(RuntimeError), staged_folder(out):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError), staged_folder(out):
        (tmp_path / "build" / "other").touch()
        raise RuntimeError
    assert [path.name for path in tmp_path.rglob("*")] == ["build", "other"]
    with staged_folder(out) as folder:
        (folder / "made").touch()
    assert (out / "made").exists()


def test_own_folder_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("x", "y"):
        with staged_folder(out) as folder:
            (folder / name).touch()
            (folder / MARKER).touch()
    assert names(out) == [MARKER, "y"]
    assert names(tmp_path) == ["out"]


def test_foreign_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BuildFailed, match="not made by edgec"), staged_folder(tmp_path):
        pytest.fail("the block must not run")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def written(out: Path, files: dict[str, str]) -> Path:
    with staged_folder(out) as folder:
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    return out


@pytest.mark.parametrize(
    "files",
    [
        {"manifest.json": '{"manifest_version": 3, "name": "a browser extension"}'},
        {"manifest.json": "{}", MARKER_NAME: "{}"},
        {MARKER_NAME: '{"schema": "edgec-folder-1", "files": []}'},
        {MARKER_NAME: '{"schema": "another-folder-1", "files": {"thesis.txt": ""}}'},
        {MARKER_NAME: "not JSON"},
    ],
    ids=["manifest", "empty marker", "list", "another schema", "text"],
)
def test_only_our_marker_makes_a_folder_ours(tmp_path: Path, files: dict[str, str]) -> None:
    files["thesis.txt"] = "years of work"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BuildFailed, match="not made by edgec"), staged_folder(tmp_path):
        pytest.fail("the block must not run")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == files


def test_an_edited_file_is_not_replaced(tmp_path: Path) -> None:
    out = written(tmp_path / "out", {"main.c": "ours", "link/a.c": "ours"})
    (out / "main.c").write_text("edited for hours")
    with pytest.raises(BuildFailed, match="were changed") as caught:
        written(out, {"main.c": "ours again"})
    assert caught.value.details == ("main.c",)
    assert (out / "main.c").read_text() == "edited for hours"
    (out / "main.c").rename(out / "mine.c")
    written(out, {"main.c": "ours again"})
    assert (out / "main.c").read_text() == "ours again"
    assert (out / "mine.c").read_text() == "edited for hours"


def test_an_edit_while_the_new_folder_is_written_is_seen(tmp_path: Path) -> None:
    out = written(tmp_path / "out", {"main.c": "ours"})
    with pytest.raises(BuildFailed, match="were changed"), staged_folder(out) as folder:
        (folder / "main.c").write_text("new")
        (out / "main.c").write_text("edited")
    assert (out / "main.c").read_text() == "edited"
    assert names(tmp_path) == ["out"]


def test_what_is_not_listed_is_kept(tmp_path: Path) -> None:
    out = written(tmp_path / "out", {"a.c": "1", "old.c": "1"})
    (out / "notes.txt").write_text("mine")
    (out / "cmake").mkdir()
    (out / "cmake" / "cache").write_text("mine too")
    (out / "here").symlink_to(tmp_path)
    for _ in range(2):
        written(out, {"a.c": "2"})
        assert names(out) == ["a.c", "cmake", "here", "notes.txt"]
        assert (out / "cmake" / "cache").read_text() == "mine too"
        assert (out / "here").is_symlink() and (out / "notes.txt").read_text() == "mine"
    for file in ({"notes.txt": "of edgec"}, {"cmake": "a file"}):
        with pytest.raises(BuildFailed, match=r"notes\.txt|cmake"):
            written(out, file)
    assert (out / "notes.txt").read_text() == "mine"


def test_a_file_that_edgec_adds_later_is_its_own(tmp_path: Path) -> None:
    out = written(tmp_path / "out", {"a.c": "1"})
    (out / "profile.json").write_text("{}")
    add_to_marker(out, "profile.json")
    written(out, {"a.c": "2"})
    assert names(out) == ["a.c"]
    add_to_marker(tmp_path, "out")
    assert names(tmp_path) == ["out"]  # not a folder of ours: no marker


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (tmp_path / "link").symlink_to(real)
    for text in ("1", "2"):
        written(tmp_path / "link", {"a.c": text})
        assert (tmp_path / "link").is_symlink() and (real / "a.c").read_text() == text
    (tmp_path / "page").symlink_to(real / "page.html")
    with staged_file(tmp_path / "page", hint="") as temporary:
        temporary.write_text("text")
    assert (tmp_path / "page").is_symlink() and (real / "page.html").read_text() == "text"


def test_a_killed_process_leaves_no_work_folder(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("fcntl", reason="locks of files that end with their process")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = """
import os, signal
from edgec.build.staging import work_folder
with work_folder("host") as folder:
    (folder / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=False, env=environment)
    assert len(names(tmp_path)) == 1
    with work_folder("verify") as one, work_folder("host") as other:
        assert len(names(tmp_path)) == 2 and one.is_dir() and other.is_dir()
    assert names(tmp_path) == []


def test_compilers_leave_their_temporary_files_in_the_folder(tmp_path: Path) -> None:
    toolchain = find_toolchain(host_core())
    program = "import os, tempfile; print(tempfile.mkstemp()[1], os.environ['TMPDIR'])"
    done = toolchain.run([sys.executable, "-c", program], tmp_path)
    assert done.stdout.split() == [str(next(tmp_path.iterdir())), str(tmp_path)]


def test_empty_folder_is_taken(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with staged_folder(out) as folder:
        (folder / "x").touch()
    assert (out / "x").exists()


def test_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with (
        pytest.raises(BuildFailed, match="is a file"),
        staged_folder(tmp_path / "out"),
    ):
        pytest.fail("the block must not run")


def test_unwritable_place(tmp_path: Path) -> None:
    # A file where a parent folder should be fails for every user, root too.
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(BuildFailed, match="cannot write to"),
        staged_folder(tmp_path / "file" / "out"),
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
if {last!r} == "removal":
    # In the middle of it: a file is gone, and which one is up to the file system.
    def remove_locks(folder, **how):
        for name in (staging._LOCK, staging._UNNAMED_LOCK):
            pathlib.Path(folder, name).unlink(missing_ok=True)
        die()
    staging.shutil.rmtree = remove_locks
with staging.staged_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "half").touch()
    if {last!r} == "block":
        die()
"""
    done = subprocess.run([sys.executable, "-c", code, str(out)], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("last", ["block", "old", "removal"])
def test_what_a_killed_process_left_is_removed(tmp_path: Path, last: str) -> None:
    pytest.importorskip("fcntl", reason="locks of files that end with their process")
    out = tmp_path / "out"
    with staged_folder(out) as folder:
        (folder / MARKER).write_text("1")
    (tmp_path / ".out.of_the_user").mkdir()
    write_and_be_killed(out, last)
    assert len(names(tmp_path)) == (2 if last == "old" else 3)
    if last == "removal":
        (out / MARKER).write_text("1")  # the new folder is in its place
    with pytest.raises(RuntimeError), staged_folder(out):
        assert (out / MARKER).read_text() == "1"  # put back, where it had been moved away
        raise RuntimeError
    assert names(tmp_path) == [".out.of_the_user", "out"]


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staged_folder(out) as one:
        (one / MARKER).write_text("1")
        with staged_folder(out) as other:
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


def test_a_folder_whose_lock_is_about_to_be_taken_is_left_alone(tmp_path: Path) -> None:
    young, old = tmp_path / "edgec-work-young", tmp_path / "edgec-work-old"
    for folder in (young, old):
        folder.mkdir()
        (folder / "lock.new").touch()
    os.utime(old / "lock.new", (0, 0))
    remove_unlocked(tmp_path, "edgec-work-*")
    assert names(tmp_path) == ["edgec-work-young"]


# Pipes and devices --------------------------------------------------------------------------------

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX only")


@needs_pipes
def test_no_file_takes_the_place_of_a_pipe_or_a_device(tmp_path: Path) -> None:
    """With rights on the folder, `-o /dev/null` would replace it for the whole computer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(EdgecError, match="pipe or a device"), staged_file(pipe, "hint") as file:
        file.write_text("new")
    assert pipe.is_fifo() and names(tmp_path) == ["pipe"]


@needs_pipes
@pytest.mark.parametrize("name", ["main.c", "other"])
def test_a_folder_with_a_pipe_is_left_alone(name: str, tmp_path: Path) -> None:
    """In the place of a file of ours, or beside them: reading it would wait for ever."""
    out = tmp_path / "out"
    with staged_folder(out) as folder:
        (folder / "main.c").write_text("1")
    (out / name).unlink(missing_ok=True)
    os.mkfifo(out / name)
    with pytest.raises(BuildFailed, match=f"{name} is a pipe or a device"), staged_folder(out):
        pytest.fail("the block must not run")
    assert (out / name).is_fifo()
