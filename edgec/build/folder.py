"""Write a folder whole or not at all."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edgec.errors import BuildFailed

MARKER = ".edgec"
"""An empty file in every folder that edgec wrote, and may therefore replace."""


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield a new empty folder beside `out`; when the block ends well, it becomes `out`.

    If the block raises, `out` stays as it was. An `out` that exists is replaced only if it is
    empty or was written by edgec before. Raises BuildFailed if it is not, or cannot be written.
    """
    out = Path(out).absolute()
    _check_replaceable(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise BuildFailed(
            f"cannot write the folder {out}: {error.strerror or error}",
            hint="choose another one with -o",
        ) from error
    try:
        # mkdtemp makes the folder private; the result should be like any other.
        temporary.chmod(0o755)
        yield temporary
        (temporary / MARKER).touch()
        _swap(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_replaceable(out: Path) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise BuildFailed(f"{out} exists and is not a folder", hint="choose another one with -o")
    if any(out.iterdir()) and not (out / MARKER).exists():
        raise BuildFailed(
            f"the folder {out} holds files that edgec did not write",
            hint="choose another one with -o, or empty it",
        )


def _swap(new: Path, out: Path) -> None:
    """Put `new` in the place of `out`; the old one goes only when the new one is there."""
    try:
        if not out.exists():
            new.replace(out)
            return
        old = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=out.parent))
        out.replace(old / "was")
        try:
            new.replace(out)
        except OSError:
            (old / "was").replace(out)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise BuildFailed(f"cannot write the folder {out}: {error.strerror or error}") from error
