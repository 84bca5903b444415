"""A Python wheel: the model as a shared library of this computer, and a module that calls it.

The file format is PEP 427's: a zip file with METADATA, WHEEL and RECORD in `*.dist-info`.
"""

from __future__ import annotations

import base64
import hashlib
import sysconfig
from collections.abc import Mapping
from dataclasses import replace

from edgec.boards.toolchain import Toolchain, find_toolchain
from edgec.build.host import build_host_library, library_name
from edgec.build.staging import work_folder
from edgec.codegen.levels import has_levels, level_name
from edgec.errors import EdgecError
from edgec.exporters.archives import zip_bytes
from edgec.exporters.library import Library
from edgec.targets.core import find_core, host_core, is_this_computer


def wheel_files(library: Library, version: str, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the wheel with `files`, by its name. C in `c/` becomes a library in the package.

    Raises EdgecError if the C is for another computer, BuildFailed if it does not compile.
    """
    toolchain = _toolchain(library)
    content = {
        path: data for path, data in files.items() if path == "METADATA" or "/__init__" in path
    }
    with work_folder("wheel") as folder:
        for path, data in files.items():
            if path.startswith("c/"):
                (folder / path.removeprefix("c/")).write_bytes(data)
        built = build_host_library(
            sorted(folder.glob("*.c")),
            folder / library_name(library.name),
            toolchain=toolchain,
            include_dirs=[folder],
        )
        content[f"{library.name}/{built.name}"] = built.read_bytes()
    tag = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"{library.name}-{version}.dist-info"
    content[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: edgec {library.manifest.edgec_version}\n"
        f"Root-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    content[f"{info}/METADATA"] = content.pop("METADATA")
    record = [
        f"{path},sha256={_digest(content[path])},{len(content[path])}" for path in sorted(content)
    ]
    content[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    return {f"{library.name}-{version}-{tag}.whl": zip_bytes(content)}


def _toolchain(library: Library) -> Toolchain:
    """The compiler for this computer; each level's file of a library of levels is for its core."""
    cores = [find_core(name) for name in library.manifest.target.split(",")]
    if not any(map(is_this_computer, cores)):
        raise EdgecError(
            f"a wheel is for this computer, and the C of {library.name} is for"
            f" {library.manifest.target}",
            hint="export the model with --target host or --target native",
        )
    if not has_levels(library.manifest):
        return find_toolchain(cores[0])
    files = tuple((f"{level_name(library.name, core)}.c", core) for core in cores)
    return replace(find_toolchain(host_core()), file_cores=files)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
