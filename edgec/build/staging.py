"""Files and folders that are written whole or not at all: beside their place first, then moved.

A killed process leaves a folder of half a project. Each holds the lock of a file in it while it
is written, and that lock ends with the process, so the next process to write there sees it.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from edgec.build.ownership import kept_files, write_marker
from edgec.errors import BuildFailed, EdgecError
from edgec.resources import plain_file

try:
    import fcntl
except ImportError:  # on Windows leftovers stay
    fcntl = None  # type: ignore[assignment]

#: A full or read-only disk, which may show at any write into a staged folder.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

_LOCK, _UNNAMED_LOCK = "edgec.lock", "lock.new"
#: A lock that has no name yet is another process's for this long: it may be about to take it.
_UNNAMED_SECONDS = 60
#: Prefix of temporary folders.
_WORK_PREFIX = "edgec-work-"


@contextmanager
def staged_file(target: Path, hint: str) -> Iterator[Path]:
    """Yield the path of a temporary file beside `target`, with its suffix, to be written."""
    target = Path(os.path.realpath(target))
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        plain_file(target)
        yield temporary
        os.replace(temporary, target)
    except OSError as problem:
        raise EdgecError(
            f"cannot write {target}: {problem.strerror or problem}", hint=hint
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `target` that becomes `target` if the block succeeds.

    A folder that edgec made (`edgec.build.ownership`) is replaced; others' files in it stay. Any
    other non-empty folder raises BuildFailed and stays, and so does a folder of edgec's with a
    changed file. A link stays a link: the folder that it points to is written. If the block raises,
    nothing changes. Leftovers of a killed process for the same target are removed.
    """
    target = Path(os.path.realpath(target))
    _remove_stale(target)
    kept_files(target)
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise BuildFailed(
            f"cannot write to {target.parent}: {problem.strerror}",
            hint="choose another output folder with -o",
        ) from problem
    try:
        with _held_lock(staging):
            # Of its own, because mkdtemp makes its folder private.
            content = staging / "new"
            content.mkdir()
            try:
                yield content
                write_marker(content)
                _copy_kept(target, content)
            except OSError as problem:
                if problem.errno not in _DISK_ERRORS:
                    raise
                raise BuildFailed(
                    f"cannot write to {target.parent}: {problem.strerror}"
                ) from problem
            _swap(content, target, staging / "old")
    finally:
        _remove(staging)
        for folder in missing:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


@contextmanager
def work_folder(purpose: str) -> Iterator[Path]:
    """Yield a temporary folder that is removed at the end, or by the next one if this process is
    killed.
    """
    common = Path(tempfile.gettempdir())
    remove_unlocked(common, f"{_WORK_PREFIX}*")
    folder = Path(tempfile.mkdtemp(prefix=f"{_WORK_PREFIX}{purpose}-", dir=common))
    try:
        with _held_lock(folder):
            content = folder / "work"
            content.mkdir()
            yield content
    finally:
        _remove(folder)


def remove_unlocked(parent: Path, pattern: str) -> None:
    """Remove the folders with a lock that no process holds: their processes were killed."""
    for folder in parent.glob(pattern):
        with _taken_lock(folder) as is_ours:
            if is_ours:
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: who is killed in between leaves one that the next removes."""
    with suppress(OSError):
        for entry in folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held_lock(staging: Path) -> Iterator[None]:
    """Hold the lock of a staging folder; it bears its name only once it is held."""
    unnamed = staging / _UNNAMED_LOCK
    with unnamed.open("wb") as file:
        _try_lock(file)
        unnamed.rename(staging / _LOCK)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process holds it, or the file system has no locks
        return False
    return True


@contextmanager
def _taken_lock(folder: Path) -> Iterator[bool]:
    """Whether the folder has a lock that its process holds no more; we hold it meanwhile."""
    for name in (_LOCK, _UNNAMED_LOCK):
        with suppress(OSError):
            file = (folder / name).open("rb+")
            age = time.time() - os.fstat(file.fileno()).st_mtime
            if name == _LOCK or age > _UNNAMED_SECONDS:
                break
            file.close()
    else:
        yield False
        return
    with file:
        yield _try_lock(file)


def _remove_stale(target: Path) -> None:
    """Remove staging folders of this target that no process holds.

    If a process was killed between the two moves, the old folder is restored.
    """
    if not target.parent.is_dir():
        return
    for staging in target.parent.glob(f".{glob.escape(target.name)}.*"):
        with _taken_lock(staging) as is_ours, suppress(OSError):
            if not is_ours:
                continue
            old = staging / "old"
            if old.exists() and not target.exists():
                old.rename(target)
            _remove(staging)


def _copy_kept(target: Path, content: Path) -> None:
    """Copy others' files to `target`, so that they survive the swap."""
    for name in kept_files(target):
        copy = content / name
        if os.path.lexists(copy):
            raise BuildFailed(
                f"{target / name} is not a file of edgec, and the new project has one there",
                hint="move it elsewhere, or choose another output folder with -o",
            )
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise BuildFailed(
                f"{target / name} cannot be kept: the new project has a file in its way",
                hint="move it elsewhere, or choose another output folder with -o",
            ) from None
        shutil.copy2(target / name, copy, follow_symlinks=False)


def _swap(content: Path, target: Path, old: Path) -> None:
    """Move `target` to `old` and `content` to `target`; if that fails, move `old` back."""
    try:
        if target.exists():
            target.rename(old)
        content.rename(target)
    except BaseException as problem:  # also when the user stops us right here
        if old.exists() and not target.exists():
            old.rename(target)
        if not isinstance(problem, OSError):
            raise
        raise BuildFailed(f"cannot replace {target}: {problem.strerror}") from problem
