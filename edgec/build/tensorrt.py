"""The library through which a model's C calls TensorRT, whose interface is of C++ alone."""

from __future__ import annotations

from pathlib import Path

from edgec.boards.toolchain import Toolchain
from edgec.build.staging import work_folder
from edgec.errors import BuildFailed

SOURCE, LIBRARY = "ec_tensorrt.cpp", "libedgec_tensorrt.so"
#: Where CUDA's headers lie, which TensorRT's include: compilers do not search there.
_CUDA = "-I/usr/local/cuda/include"
#: How to do the same by hand, in a project's folder.
COMMAND = f"g++ -std=c++17 -O2 -shared -fPIC {SOURCE} {_CUDA} -lnvinfer -o {LIBRARY}"


def build_tensorrt(source: Path, out: Path, toolchain: Toolchain) -> Path | None:
    """Compile `ec_tensorrt.cpp` into a library in the folder `out`, and return its path.

    None if the compiler does not find NvInfer.h, or is not a C++ compiler. Raises BuildFailed if
    the header exists and compiling or linking fails.
    """
    command = [*cxx_command(toolchain), "-std=c++17", "-O2", _CUDA]
    with work_folder("tensorrt") as folder:
        (folder / "probe.cpp").write_text("#include <NvInfer.h>\n")
        try:
            if toolchain.run([*command, "-E", "probe.cpp", "-o", "probe"], folder).returncode != 0:
                return None
        except OSError:  # no such program
            return None
        built = out.absolute() / LIBRARY
        command += ["-shared", "-fPIC", str(source.absolute()), "-lnvinfer", "-o", str(built)]
        done = toolchain.run(command, folder)
    if done.returncode != 0:
        raise BuildFailed(
            f"{SOURCE} does not compile with the TensorRT that is installed",
            details=tuple(done.stderr.splitlines()[:20]),
            hint="TensorRT 8.6 or newer is needed, its headers and libnvinfer",
        )
    return built


def cxx_command(toolchain: Toolchain) -> tuple[str, ...]:
    """The command of the C++ compiler beside a C compiler."""
    program, *rest = toolchain.command
    if toolchain.is_zig:
        return (program, *("c++" if word == "cc" else word for word in rest))
    return (
        f"{program.removesuffix('gcc')}g++" if program.endswith("gcc") else f"{program}++",
        *rest,
    )
