"""Find the folders of files that are not Python: boards, templates, C, CMake's, schedules; TOML.

In a checkout they lie at the root of the repository; an installed package carries copies in
`edgec/_resources/` (see `setup.py`).
"""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from errno import EINVAL
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import ToolMissing

if TYPE_CHECKING:
    import jinja2

RESOURCE_DIRS = ("boards", "templates", "runtime_c", "cmake", "tuned")
"""The folders that ship beside the Python code."""

#: Maximum length of a line of TOML; parsing a long one takes time that grows with the square of its
#: dots.
MOST_COLUMNS = 10_000

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: str) -> Path:
    """Return the folder `name`, one of RESOURCE_DIRS.

    The installed copy wins, so that a package never reads a checkout it happens to lie beside.
    Raises ToolMissing if the installation lacks the folder.
    """
    if name not in RESOURCE_DIRS:
        raise ValueError(f"'{name}' is not one of {', '.join(RESOURCE_DIRS)}")
    for parent in (_PACKAGE / "_resources", _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise ToolMissing(
        f"this installation of edgec has no '{name}' folder",
        hint="install edgec again, from a complete checkout or a released package",
    )


def plain_file(path: Path) -> Path:
    """The path. Raises OSError, before anything is read, where it is a pipe or a device.

    A device may have no end, and a pipe may never have a writer.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(EINVAL, "it is a pipe or a device, not a file", str(path))
    return path


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError, which says why it is none."""
    if max(map(len, text.splitlines()), default=0) > MOST_COLUMNS:
        raise ValueError(f"a line has more than {MOST_COLUMNS:,} characters")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


@cache
def text_templates() -> jinja2.Environment:
    """The templates of files that are not HTML: nothing is escaped, a missing value is an error."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_dir("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=template_cache(),
    )


def template_cache() -> jinja2.BytecodeCache | None:
    """Compiled templates in the user's cache, by a hash of their texts; None where it is closed."""
    import jinja2

    class Kept(jinja2.FileSystemBytecodeCache):
        def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            try:
                super().load_bytecode(bucket)
            except Exception:  # a damaged file, which is read in many ways, is as good as none
                bucket.reset()

        def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            with suppress(OSError):  # a full disk costs the next build the time, and nothing else
                super().dump_bytecode(bucket)

    folder = cache_folder() / f"templates-{jinja2.__version__}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return Kept(str(folder))


def cache_folder() -> Path:
    """Folder in which compiled libraries and kernels are kept between runs."""
    named = os.environ.get("EDGEC_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "edgec"
