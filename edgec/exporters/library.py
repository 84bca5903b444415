"""The content of every package: a model's own C files and their entries of the manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.codegen.c_types import C_TYPE
from edgec.codegen.levels import has_levels, level_name
from edgec.codegen.manifest import Manifest, PortEntry
from edgec.codegen.model_text import compile_flags
from edgec.codegen.project import MODEL_FILES
from edgec.errors import BuildFailed
from edgec.targets.core import find_core, is_gpu

#: C type -> the types of Rust and NumPy with the same bytes.
_RUST = {
    "float": "f32", "double": "f64", "int8_t": "i8", "uint8_t": "u8", "int16_t": "i16",
    "uint16_t": "u16", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64",
}  # fmt: skip


@dataclass(frozen=True)
class PackagedPort:
    """An input or output as the templates show it. `elements` counts the largest shape."""

    name: str
    c_name: str
    c_type: str
    rust_type: str
    numpy_type: str
    shape: tuple[int, ...]
    elements: int
    scale: float | None
    zero_point: int | None


@dataclass(frozen=True)
class Library:
    """A model's C files by name, with the manifest of the project they come from.

    blobs: weights that the sources include as files of bytes.
    """

    manifest: Manifest
    sources: Mapping[str, bytes]
    headers: Mapping[str, bytes]
    blobs: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The model's identifier in C, and of every package."""
        return self.manifest.model

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the model's header declares, which a shared library exports."""
        text = self.headers[f"{self.name}.h"].decode("utf-8")
        lines = (
            line for line in text.splitlines() if not line.startswith(("static", "#", " ", "/"))
        )
        found = (re.search(rf"\b({self.name}_\w+)\(", line) for line in lines)
        return tuple(match[1] for match in found if match)

    @property
    def compile_flags(self) -> str:
        """The flags of GCC and clang for its vectors and float sums, separated by spaces."""
        return compile_flags(self.manifest.target, self.manifest.float_sums).replace(";", " ")

    @property
    def level_flags(self) -> tuple[tuple[str, str], ...]:
        """A library of several levels: the source file of each, and its flags as CMake's list."""
        if not has_levels(self.manifest):
            return ()
        cores = map(find_core, self.manifest.target.split(","))
        return tuple(
            (f"{level_name(self.name, core)}.c",
             compile_flags(core.name, self.manifest.float_sums))
            for core in cores
        )  # fmt: skip

    @property
    def is_parallel(self) -> bool:
        """Whether threads share loops, by OpenMP."""
        return b"#pragma omp" in b"".join(self.sources.values())

    @property
    def inputs(self) -> tuple[PackagedPort, ...]:
        """The model's inputs."""
        return tuple(map(_port, self.manifest.inputs))

    @property
    def outputs(self) -> tuple[PackagedPort, ...]:
        """The model's outputs."""
        return tuple(map(_port, self.manifest.outputs))


def read_library(project: Path) -> Library:
    """Read the model's own files out of a folder that `edgec build` made.

    Raises BuildFailed if it is not a project, lacks a file, or uses memories that only its board
    has.
    """
    manifest = Manifest.load(project)
    _require_c(manifest)
    if manifest.areas:
        regions = ", ".join(area.region for area in manifest.areas)
        raise BuildFailed(
            f"{project} keeps values in memories of {manifest.board}: {regions}",
            details=("a package has to work without that board's linker script",),
            hint=f"export {manifest.source_file} itself, with --target {manifest.target}",
        )
    if manifest.libraries:
        raise BuildFailed(
            f"{project} links {', '.join(manifest.libraries)}, which packages do not",
            hint="build it again without --kernels",
        )
    names = _file_names(manifest)
    missing = [name for name in names if not (project / name).is_file()]
    if missing:
        raise BuildFailed(
            f"{project} lacks {', '.join(missing)}", hint="build it again with `edgec build`"
        )
    files = {name: (project / name).read_bytes() for name in sorted(names)}
    return Library(
        manifest,
        sources={name: data for name, data in files.items() if name.endswith((".c", ".S"))},
        headers={name: data for name, data in files.items() if name.endswith(".h")},
        blobs={name: data for name, data in files.items() if name.endswith(".bin")},
    )


def _file_names(manifest: Manifest) -> list[str]:
    """The C files that a package takes."""
    if has_levels(manifest):
        return [name for name in manifest.files if name.endswith((".c", ".h", ".bin"))]
    names = [f"{manifest.model}{end}" for end in MODEL_FILES] + ["ec_status.h"]
    blobs = [name for name in manifest.files if name.endswith(".bin")]
    return [*names, *manifest.foreign, *blobs]


def _require_c(manifest: Manifest) -> None:
    if is_gpu(manifest.target):
        raise BuildFailed(
            f"no package is for {manifest.target}: its kernels are files of CUDA",
            hint="use the folder that `edgec build` writes, which CMake builds",
        )


def _port(entry: PortEntry) -> PackagedPort:
    c_type = C_TYPE.get(entry.dtype, "uint16_t")  # float16 is its bits
    elements = 1
    for extent in entry.shape:
        elements *= extent
    per_tensor = len(entry.scale) == 1
    return PackagedPort(
        name=entry.name,
        c_name=entry.c_name,
        c_type=c_type,
        rust_type=_RUST[c_type],
        numpy_type=entry.dtype,
        shape=entry.shape,
        elements=elements,
        scale=entry.scale[0] if per_tensor else None,
        zero_point=entry.zero_point[0] if per_tensor and entry.zero_point else None,
    )
