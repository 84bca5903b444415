"""The folders and files that edgec made and may replace.

A folder of ours has a marker, `.edgec.json`: the schema's name, and the SHA-256 of every file that
edgec wrote into it. A file that is not listed belongs to somebody else and stays. If a listed
file's bytes have changed, it was edited, and the folder is not replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from edgec.errors import BuildFailed

MARKER_NAME = ".edgec.json"
SCHEMA = "edgec-folder-1"
#: Names of edited files that an error shows.
_MOST_NAMES = 8


def write_marker(folder: Path) -> None:
    """List every file of a folder that edgec has just written."""
    _write(folder, {name: _hash(folder / name) for name in _files(folder)})


def add_to_marker(folder: Path, name: str) -> None:
    """List one more file, which edgec wrote into a folder of ours; other folders stay unchanged.

    Raises OSError.
    """
    listed = _listed(folder)
    if listed is not None:
        _write(folder, {**listed, name: _hash(folder / name)})


def kept_files(folder: Path) -> tuple[str, ...]:
    """The files in a folder made by edgec that edgec did not write, by their paths inside it.

    Raises BuildFailed if it is not a folder, if edgec did not make it, if a file of edgec's was
    edited, or if it contains a pipe or a device, which cannot be kept. Empty for a folder that is
    empty or absent.
    """
    if not folder.exists():
        return ()
    if not folder.is_dir():
        raise BuildFailed(f"{folder} is a file, not a folder", hint="choose another -o")
    listed = _listed(folder)
    found = [name for name in _files(folder) if name != MARKER_NAME]
    if listed is None:
        if not any(folder.iterdir()):
            return ()
        raise BuildFailed(
            f"{folder} exists and was not made by edgec",
            details=(f"it is not empty and its {MARKER_NAME} was not written by edgec",),
            hint="choose another output folder with -o, or empty this one",
        )
    for name in found:
        path = folder / name
        if not path.is_symlink() and not path.is_file():
            raise BuildFailed(
                f"{path} is a pipe or a device, not a file",
                hint="remove it, or choose another output folder with -o",
            )
    edited = [name for name in found if name in listed and _hash(folder / name) != listed[name]]
    if edited:
        raise BuildFailed(
            f"{folder} has files that were changed after edgec wrote them",
            details=tuple(edited[:_MOST_NAMES]),
            hint="choose another output folder with -o, or delete or rename these files",
        )
    return tuple(name for name in found if name not in listed)


def _write(folder: Path, files: dict[str, str]) -> None:
    temporary = folder / f"{MARKER_NAME}.{os.getpid()}"
    text = json.dumps({"schema": SCHEMA, "files": files}, indent=0)
    temporary.write_text(text + "\n", encoding="utf-8", newline="\n")
    temporary.replace(folder / MARKER_NAME)


def _listed(folder: Path) -> dict[str, str] | None:
    """The contents of the marker file; None if it is absent or not one of ours."""
    try:
        found = json.loads((folder / MARKER_NAME).read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA:
            return None
        return {str(name): str(digest) for name, digest in found["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _files(folder: Path) -> Iterator[str]:
    """Paths inside the folder of all files and links, in order; links are not followed."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in sorted([*names, *links]):
            yield (Path(parent) / name).relative_to(folder).as_posix()


def _hash(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest()
