"""CUDA's compilers from the extra `[cuda]`: NVRTC, which makes PTX of kernels, and ptxas.

NVRTC is a library (`nvidia-cuda-nvrtc-cu12`), ptxas a program (`nvidia-cuda-nvcc-cu12`), both of
CUDA 12.6, which JetPack 6 has: a driver does not compile PTX of newer CUDA than its own. Machine
code for newer GPUs is made of the same PTX by ptxas of CUDA 13 (`nvidia-cuda-nvcc`, or on PATH).
None needs a GPU. Facts and names: NVIDIA, NVRTC documentation; "CUDA Binary Utilities".
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from edgec.build.kernel_cache import find_images, keep_images, key_of
from edgec.build.staging import work_folder
from edgec.codegen.gpu_text import Images
from edgec.errors import BuildFailed, ToolMissing

#: Floats are rounded after every operation; functions other than kernels are device functions.
OPTIONS = ("-fmad=false", "--device-as-default-execution-space", "--std=c++17")
MOST_LOG_LINES = 20


@dataclass(frozen=True)
class Usage:
    """The resources of a multiprocessor that one kernel uses, as ptxas reports them.

    registers: of each thread. spilled_bytes: that do not fit into them. shared_bytes: of a block.
    """

    registers: int
    spilled_bytes: int
    shared_bytes: int


def package_folder(package: str) -> Path | None:
    """The folder of one of NVIDIA's packages, such as "cuda_nvrtc"; None where it is absent."""
    try:
        found = importlib.util.find_spec(f"nvidia.{package}")
    except ModuleNotFoundError:
        return None
    paths = list(found.submodule_search_locations or ()) if found is not None else []
    return Path(paths[0]) if paths else None


def find_nvrtc() -> Path | None:
    """NVRTC's library, None where the extra is not installed."""
    folder = package_folder("cuda_nvrtc")
    found = sorted(folder.glob("*/*nvrtc*12*")) if folder is not None else []
    return next((p for p in found if "builtins" not in p.name and "alt" not in p.name), None)


def find_ptxas(architecture: str) -> Path | None:
    """The first ptxas that knows an architecture: CUDA 12's, 13's, or the one on PATH."""
    folders = [package_folder("cuda_nvcc"), package_folder("cu13")]
    paths = [path for folder in folders if folder for path in sorted(folder.glob("bin/ptxas*"))]
    paths += map(Path, filter(None, [shutil.which("ptxas")]))
    return next((path for path in paths if architecture in _known(path)), None)


@cache
def _known(ptxas: Path) -> frozenset[str]:
    """The architectures that a program ptxas names."""
    with suppress(OSError):  # programs of another computer know none of ours
        if not ptxas.stat().st_mode & 0o111:
            ptxas.chmod(0o755)  # wheels that were unpacked without their modes
        done = subprocess.run([str(ptxas), "--help"], capture_output=True, text=True, check=False)
        return frozenset(re.findall(r"'(sm_\d+)'", done.stdout))
    return frozenset()


def require_nvrtc() -> Path:
    """NVRTC's library. Raises ToolMissing that names the extra."""
    found = find_nvrtc()
    if found is None:
        raise ToolMissing(
            "kernels for a GPU need NVRTC, the compiler of CUDA, which is not installed",
            hint="pip install 'edgec[cuda]'; it needs no GPU",
        )
    return found


@lru_cache(maxsize=8)
def compile_kernels(source: str, architecture: str) -> Images:
    """PTX of a model's kernels, and machine code where ptxas is installed.

    architecture: such as "sm_87"; if NVRTC is too old for it, PTX for the newest that it supports,
    which the driver compiles. Raises ToolMissing without NVRTC, BuildFailed if compiling fails.
    Kernels compiled before come from the user's cache.
    """
    programs = [
        (path.name, path.stat().st_size)
        for path in (require_nvrtc(), find_ptxas(architecture))
        if path
    ]
    key = key_of(programs, OPTIONS, architecture, source)
    images = find_images(key)
    if images is None:
        images = _compile_anew(source, architecture)
        keep_images(key, images)
    return images


def _compile_anew(source: str, architecture: str) -> Images:
    nvrtc = _Nvrtc(require_nvrtc())
    newest = nvrtc.newest(architecture)
    ptx = nvrtc.compile(source, newest.replace("sm_", "compute_"))
    cubin = assemble_ptx(ptx, architecture)[0] if find_ptxas(architecture) else b""
    return Images("NVRTC of CUDA 12", newest, ptx, cubin)


def what_is_missing(architecture: str) -> str:
    """Why kernels for an architecture are PTX alone; "" where they are machine code too.

    Raises ToolMissing without NVRTC.
    """
    newest = _Nvrtc(require_nvrtc()).newest(architecture)
    if find_ptxas(architecture):
        return ""
    return (
        f"kernels: PTX for {newest} alone, since no ptxas that knows {architecture} is installed;"
        " the driver compiles it when the model is set up (pip install 'edgec[cuda]')"
    )


@lru_cache(maxsize=8)
def assemble_ptx(ptx: str, architecture: str) -> tuple[bytes, dict[str, Usage]]:
    """Machine code of PTX, and each kernel's resources by its name.

    Raises ToolMissing without ptxas, BuildFailed if it refuses the PTX.
    """
    ptxas = find_ptxas(architecture)
    if ptxas is None:
        raise ToolMissing(
            f"no ptxas that knows {architecture} is installed", hint="pip install 'edgec[cuda]'"
        )
    with work_folder("ptxas") as folder:
        (folder / "kernels.ptx").write_text(ptx, encoding="ascii")
        command = [str(ptxas), f"-arch={architecture}", "-O3", "-v", "kernels.ptx", "-o", "cubin"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise BuildFailed(
                f"ptxas refuses the kernels for {architecture}",
                details=tuple(said.splitlines()[:MOST_LOG_LINES]), hint="this is a bug in edgec",
            )  # fmt: skip
        return (folder / "cubin").read_bytes(), usage_of(said)


def usage_of(said: str) -> dict[str, Usage]:
    """The report of `ptxas -v`, by kernel."""
    found = {}
    for name, text in re.findall(r"Compiling entry function '(\w+)'((?:.*\n)*?.*Used .*)", said):
        spills = re.search(r"(\d+) bytes spill stores", text)
        shared = re.search(r"(\d+) bytes smem", text)
        registers = re.search(r"Used (\d+) registers", text)
        assert spills is not None and registers is not None
        found[name] = Usage(
            int(registers[1]), int(spills[1]), int(shared[1]) if shared is not None else 0
        )
    return found


@cache
def _library(path: Path) -> Any:
    """The library, after loading its own dependency, which is not on the search path."""
    for builtins in sorted(path.parent.glob("*nvrtc-builtins*")):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(path))


class _Nvrtc:
    """The functions of the library that are needed."""

    def __init__(self, path: Path) -> None:
        try:
            self._library = _library(path)
        except OSError as error:
            raise ToolMissing(
                f"cannot load {path}: {error}", hint="pip install --force-reinstall 'edgec[cuda]'"
            ) from None

    def newest(self, architecture: str) -> str:
        """The newest architecture that it knows and whose PTX runs on this one."""
        count = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        known = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(known)
        wanted = int(architecture.removeprefix("sm_"))
        return f"sm_{max(number for number in known if number <= wanted)}"

    def compile(self, source: str, architecture: str) -> str:
        """PTX of CUDA C++. Raises BuildFailed with the compiler's message."""
        library, program = self._library, ctypes.c_void_p()
        library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None
        )
        options = [word.encode() for word in (f"--gpu-architecture={architecture}", *OPTIONS)]
        given = (ctypes.c_char_p * len(options))(*options)
        try:
            if library.nvrtcCompileProgram(program, len(options), given) != 0:
                log = self._text("ProgramLog", program)
                raise BuildFailed(
                    f"the kernels do not compile for {architecture}",
                    details=tuple(log.splitlines()[:MOST_LOG_LINES]), hint="this is a bug in edgec",
                )  # fmt: skip
            return self._text("PTX", program)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, what: str, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self._library, f"nvrtcGet{what}")(program, text)
        return text.value.decode("utf-8", "replace")
