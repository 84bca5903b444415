"""The packages that edgec can make, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgec.exporters.archives import tar_bytes, zip_bytes
from edgec.exporters.library import Library
from edgec.exporters.wheel import wheel_files

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Labels:
    """The user's metadata of a package: `version` as in semantic versioning."""

    version: str = "1.0.0"
    vendor: str = "edgec"
    url: str = "https://example.org"

    @property
    def major(self) -> str:
        """The part of the version that changes with the interface: a shared library's version."""
        return self.version.partition(".")[0]


@dataclass(frozen=True)
class Format:
    """One kind of package.

    title: the build system. core: the default core. headers, sources: the folders of the C files.
    archive: if a package is an archive, the function from the package's files to the written files.
    for_computers: its builder supports flags per file and included binary files, so it takes
    libraries of several processor levels and large weights.
    """

    title: str
    core: str
    headers: str = "include"
    sources: str = "src"
    archive: Callable[[Library, Labels, Files], Files] | None = None
    for_computers: bool = False


def _pack(library: Library, labels: Labels, files: Files) -> Files:
    return {f"{labels.vendor}.{library.name}.{labels.version}.pack": zip_bytes(files)}


def _mlf(library: Library, labels: Labels, files: Files) -> Files:
    return {f"{library.name}.tar": tar_bytes(files)}


def _wheel(library: Library, labels: Labels, files: Files) -> Files:
    return wheel_files(library, labels.version, files)


#: Cortex-M code compiles on every processor: where the compiler has no Arm assembly, it is plain C.
_ANY_MCU = "cortex-m4"

FORMATS: Mapping[str, Format] = {
    "cmake": Format(
        "CMake: find_package, FetchContent, add_subdirectory", "host", for_computers=True
    ),
    "conan": Format("Conan 2", "host", for_computers=True),
    "zephyr": Format("Zephyr module", _ANY_MCU),
    "arduino": Format("Arduino library", _ANY_MCU, headers="src"),
    "platformio": Format("PlatformIO library", _ANY_MCU),
    "esp-idf": Format("ESP-IDF component", "rv32imc"),
    "cmsis-pack": Format("CMSIS-Pack for Keil, IAR, VS Code", _ANY_MCU, archive=_pack),
    "cubeide": Format(
        "STM32CubeIDE and STM32CubeMX",
        _ANY_MCU,
        headers="Middlewares/MODEL/Inc",
        sources="Middlewares/MODEL/Src",
    ),
    "rust": Format("Rust crate, no_std", "host", headers="c", sources="c"),
    "python-wheel": Format("Python wheel for this computer", "host", "c", "c", _wheel, True),
    "mlf": Format(
        "Model Library Format of TVM", _ANY_MCU, "codegen/host/include", "codegen/host/src", _mlf
    ),
}
