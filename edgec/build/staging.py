"""Files and folders that are written whole or not at all: beside their place first, then moved.

Who is killed leaves a folder of half a project behind. Each holds the lock of a file in it while it
is written, and that lock ends with the process, so the next one to write there can tell.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from edgec.errors import BuildFailed, EdgecError

try:
    import fcntl
except ImportError:  # not on Windows: there what is left stays
    fcntl = None  # type: ignore[assignment]

#: A full or read-only disk, which may show at any write into a staged folder.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

_LOCK = "edgec.lock"


@contextmanager
def staged_file(target: Path, hint: str) -> Iterator[Path]:
    """Give the path of a temporary file beside `target`, with its suffix, to be written.

    If the block succeeds the file becomes `target`, else nothing changes. Raises EdgecError with
    `hint` where the block raises an OSError.
    """
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
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
def staged_folder(target: Path, marker: str) -> Iterator[Path]:
    """Give a temporary folder beside `target` that becomes `target` if the block succeeds.

    What is there already is replaced if it is an empty folder or one that has the file `marker`,
    which the block writes; anything else raises BuildFailed and is left alone. If the block
    raises, nothing changes. What a killed process left of the same target is removed.
    """
    target = Path(os.path.abspath(target))
    _remove_stale(target)
    _check_replaceable(target, marker)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise BuildFailed(
            f"cannot write to {target.parent}: {problem.strerror}",
            hint="choose another output folder with -o",
        ) from problem
    try:
        # Of its own, because mkdtemp makes its folder private.
        content = staging / "new"
        content.mkdir()
        with _held_lock(staging):
            try:
                yield content
            except OSError as problem:
                if problem.errno not in _DISK_ERRORS:
                    raise
                raise BuildFailed(
                    f"cannot write to {target.parent}: {problem.strerror}"
                ) from problem
            _check_replaceable(target, marker)
            _swap(content, target, staging / "old")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _held_lock(staging: Path) -> Iterator[None]:
    """Hold the lock of a staging folder; it bears its name only once it is held."""
    unnamed = staging / "lock.new"
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


def _remove_stale(target: Path) -> None:
    """Remove staging folders of this target that no process holds.

    One may have been killed between the two moves: then what was there is put back.
    """
    if not target.parent.is_dir():
        return
    for staging in target.parent.glob(f".{glob.escape(target.name)}.*"):
        with suppress(OSError), (staging / _LOCK).open("rb+") as file:
            if not _try_lock(file):
                continue
            old = staging / "old"
            if old.exists() and not target.exists():
                old.rename(target)
            shutil.rmtree(staging, ignore_errors=True)


def _swap(content: Path, target: Path, old: Path) -> None:
    """Put `content` in the place of `target`; what was there goes to `old`, and back on failure."""
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


def _check_replaceable(target: Path, marker: str) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise BuildFailed(f"{target} is a file, not a folder", hint="choose another -o")
    if any(target.iterdir()) and not (target / marker).is_file():
        raise BuildFailed(
            f"{target} exists and was not made by edgec",
            details=(f"it is not empty and has no {marker}",),
            hint="choose another output folder, or empty this one",
        )
