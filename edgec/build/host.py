"""Build C for this computer: a shared library for ctypes, or a program."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from edgec.boards.toolchain import WARNING_FLAGS, Toolchain
from edgec.build.diagnose import explain_compiler
from edgec.build.firmware import compile_sources
from edgec.build.staging import staged_file, work_folder
from edgec.errors import BuildFailed, ToolMissing

SANITIZERS = ("address", "undefined")
"""The sanitizers that host builds may ask for."""


def library_name(stem: str) -> str:
    """Return the file name of a shared library on this system, such as "model.so"."""
    return stem + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def build_host_library(
    sources: Sequence[Path],
    out: Path,
    *,
    optimize: str = "-O2",
    flags: Sequence[str] = (),
    openmp: bool = False,
    libraries: Sequence[str] = (),
    link_flags: Sequence[str] = (),
    **how: Any,
) -> Path:
    """Build C files into the shared library `out` and return its path.

    openmp: parallel loops run on threads. libraries: by the names that the linker's `-l` takes.
    how: as of `build_host_program`. A library with the address sanitizer only loads into a program
    that has its runtime: start Python with LD_PRELOAD set to `sanitizer_runtime`.
    Raises BuildFailed if something does not compile or link, ToolMissing where the compiler has no
    OpenMP.
    """
    flags = [optimize, "-fPIC", *flags]
    shared = ["-shared", *link_flags, *(f"-l{name}" for name in libraries)]
    if openmp:
        require_openmp(how["toolchain"])
        flags.append("-fopenmp")
        shared.append("-fopenmp")
        if sys.platform == "linux":  # OpenMP's threads live on when the library is closed
            shared.append("-Wl,-z,nodelete")
    return build_host_program(sources, out, flags=flags, link_flags=shared, **how)


def build_host_program(
    sources: Sequence[Path],
    out: Path,
    *,
    toolchain: Toolchain,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    sanitize: Sequence[str] = (),
    flags: Sequence[str] = ("-O2",),
    link_flags: Sequence[str] = (),
) -> Path:
    """Build C files, one with `main`, into the program `out` and return its path.

    sanitize: words of SANITIZERS. Raises BuildFailed if compiling or linking fails.
    """
    checks = _checks(toolchain, sanitize)
    out = Path(out).absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    with work_folder("host") as folder:
        flags = [*flags, *WARNING_FLAGS, *checks]
        objects = compile_sources(
            toolchain, sources, folder, flags=flags, include_dirs=include_dirs, defines=defines
        )
        built = folder / out.name
        command = [*toolchain.command, *toolchain.core_flags, *checks]
        command += [*map(str, objects), "-o", str(built), *link_flags]
        done = toolchain.run(command, folder)
        if done.returncode != 0 or not built.is_file():
            raise explain_compiler(out, done.stdout + done.stderr)
        # Into its own folder first, so that a program never sees half of a library.
        with staged_file(out, hint="choose another output folder") as temporary:
            shutil.copyfile(built, temporary)
            temporary.chmod(0o755)
    return out


def require_openmp(toolchain: Toolchain) -> None:
    """Raise ToolMissing unless a compiler builds programs with OpenMP."""
    if has_openmp(toolchain):
        return
    raise ToolMissing(
        f"the compiler '{toolchain.name}' ({toolchain.version}) has no OpenMP, which threads need",
        hint="use gcc (--compiler gcc), install LLVM's libomp beside clang, or omit --threads",
    )


@cache
def has_openmp(toolchain: Toolchain) -> bool:
    """Whether a compiler builds programs with OpenMP."""
    if toolchain.is_zig:
        return False
    with work_folder("openmp") as folder:
        (folder / "a.c").write_text("int main(void) {\n#pragma omp parallel\n{}\nreturn 0;\n}\n")
        command = [*toolchain.command, *toolchain.core_flags, "-fopenmp", "a.c", "-o", "a"]
        return toolchain.run(command, folder).returncode == 0


def _checks(toolchain: Toolchain, sanitize: Sequence[str]) -> list[str]:
    """Flags of the sanitizers. Raises BuildFailed for a wrong word, or a wrong toolchain."""
    if toolchain.core.is_embedded:
        raise BuildFailed(f"the toolchain is for {toolchain.core.name}, not for this computer")
    unknown = [word for word in sanitize if word not in SANITIZERS]
    if unknown:
        raise BuildFailed(f"'{unknown[0]}' is not one of {', '.join(SANITIZERS)}")
    if sanitize:
        return [f"-fsanitize={','.join(sanitize)}", "-fno-sanitize-recover=all", "-g"]
    return ["-fno-sanitize=all"] if toolchain.is_zig else []


def sanitizer_runtime(toolchain: Toolchain) -> Path | None:
    """Return gcc's address sanitizer library, to preload into Python; None where there is none."""
    return sanitizer_of(toolchain.command) if toolchain.family == "gcc" else None


def sanitizer_of(command: Sequence[str]) -> Path | None:
    """The AddressSanitizer library of a gcc with this command."""
    done = subprocess.run(
        [*command, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    path = Path(done.stdout.strip())
    return path if path.is_absolute() and path.exists() else None
