"""The repository's own text files, for the tests that look at the repository itself."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

REPO_ROOT = Path(__file__).resolve().parents[1]

#: Folders and file names at the root that are not sources.
_SKIPPED_DIRS = {"build", "dist", "node_modules", "__pycache__"}
_KEPT_HIDDEN = {".ci", ".clang-format", ".gitignore"}

CODE_SUFFIXES = {".py", ".c", ".h", ".inc", ".cpp", ".j2"}
TEXT_SUFFIXES = CODE_SUFFIXES | {".md", ".toml", ".txt", ".json", ".ld", ".S", ".cmake", ".in", ""}


@cache
def text_files() -> tuple[Path, ...]:
    """Every text file of the checkout, generated and installed ones left out.

    A folder with a manifest is a project that `edgec build` wrote, as somebody who tries the
    commands of the README leaves one.
    """
    found = []
    for folder, names, files in os.walk(REPO_ROOT):
        here = Path(folder)
        if "manifest.json" in files:
            names.clear()
            continue
        names[:] = sorted(
            name
            for name in names
            # edgec/build and tests/unit/build are sources; a build/ folder at the root is not.
            if not (name in _SKIPPED_DIRS and (here == REPO_ROOT or name == "__pycache__"))
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name in _KEPT_HIDDEN)
        )
        for name in sorted(files):
            path = here / name
            if path.suffix in TEXT_SUFFIXES and (not name.startswith(".") or name in _KEPT_HIDDEN):
                found.append(path)
    return tuple(found)


def relative(path: Path) -> str:
    """A path as the repository's own texts write it."""
    return path.relative_to(REPO_ROOT).as_posix()
