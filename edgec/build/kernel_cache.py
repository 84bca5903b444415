"""Compiled kernels of GPUs, kept from one build to the next in the user's cache.

Each has a file named by a hash of its inputs: source, architecture, compiler, options. The file's
first line is JSON with the lengths and a hash of the rest; a file that contradicts its first line
is ignored. $EDGEC_CACHE names another folder.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from edgec.build.staging import staged_file
from edgec.codegen.gpu_text import Images
from edgec.errors import EdgecError
from edgec.resources import cache_folder

#: The files that stay, by when they were written: models of some months.
MOST_FILES = 200
_FOLDER, _SUFFIX = "kernels", ".ec"


def key_of(*parts: object) -> str:
    """The name of the entry for these inputs."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def find_images(key: str) -> Images | None:
    """The cached entry of this name; None if there is none or it is damaged."""
    try:
        line, _, data = (cache_folder() / _FOLDER / f"{key}{_SUFFIX}").read_bytes().partition(b"\n")
        said = json.loads(line)
        if hashlib.sha256(data).hexdigest() != said["sha256"]:
            return None
        ptx, cubin = data[: said["ptx_bytes"]], data[said["ptx_bytes"] :]
        return Images(said["compiler"], said["architecture"], ptx.decode("ascii"), cubin)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_images(key: str, images: Images) -> None:
    """Keep compiled kernels; does nothing if the cache is read-only."""
    folder = cache_folder() / _FOLDER
    ptx = images.ptx.encode("ascii")
    said = {
        "compiler": images.compiler, "architecture": images.architecture, "ptx_bytes": len(ptx),
        "sha256": hashlib.sha256(ptx + images.cubin).hexdigest(),
    }  # fmt: skip
    with suppress(OSError, EdgecError):
        folder.mkdir(parents=True, exist_ok=True)
        with staged_file(folder / f"{key}{_SUFFIX}", "") as path:
            path.write_bytes(json.dumps(said).encode() + b"\n" + ptx + images.cubin)
        found = sorted(folder.glob(f"[!.]*{_SUFFIX}"), key=lambda file: file.stat().st_mtime)
        for file in found[:-MOST_FILES]:
            file.unlink(missing_ok=True)
