"""The engine gpu_emulation: a model's own host C and kernels, without a GPU.

g++ compiles the kernels together with `runtime_c/cuda/ec_cuda_emulation.cpp`, which has the
driver's functions, to one library; the model's C opens that in place of `libcuda.so.1`.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import SANITIZERS, build_host_library, library_name, sanitizer_of
from edgec.build.staging import work_folder
from edgec.codegen.manifest import Manifest
from edgec.errors import BuildFailed, RunFailed, ToolMissing
from edgec.resources import resource_dir
from edgec.runners.engine import Project
from edgec.runners.host import HostSession
from edgec.targets.core import CORES, Core, host_core, is_this_computer

#: As the kernels' compiler has it: floats are rounded after every operation. Their C is C++ here.
FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-Wall",
    "-Wno-unused",
)  # fmt: skip
#: The library that the model opens in place of CUDA's driver; "" for the one built with the
#: kernels.
DRIVER = ""
#: The library in place of cuDNN; "" for the system's.
CUDNN = ""
#: The library in place of the one from `ec_tensorrt.cpp`; "" for the one beside it.
TENSORRT = ""
TRACE_DEFINE = "EC_TRACE_HOOK"
CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


def require_gxx() -> str:
    """The path of g++. Raises ToolMissing."""
    found = shutil.which("g++")
    if found is None:
        raise ToolMissing(
            "the engine gpu_emulation compiles kernels with g++, which is not installed",
            hint="install g++ with the system's package manager",
        )
    return found


def is_checked() -> bool:
    """Whether this process was started with gcc's address sanitizer, which models then have, too.

    `LD_PRELOAD=$(g++ -print-file-name=libasan.so)` asks for it, and so does `--sanitize`.
    """
    return hasattr(ctypes.CDLL(None), "__asan_init")


def require_sanitizer() -> Path:
    """The library of g++'s address sanitizer. Raises ToolMissing."""
    found = sanitizer_of([require_gxx()])
    if found is None:
        raise ToolMissing(
            "g++ has no address sanitizer here",
            hint="install gcc's libasan with the system's package manager",
        )
    return found


def build_emulated(project: Path, model: str, folder: Path, *, traced: bool = False) -> Path:
    """Build a project's model and kernels into `folder`; returns the model's library.

    Raises BuildFailed if something does not compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kernels = project / f"{model}_kernels.cu"
    driver = folder / library_name("ec_cuda_emulation")
    source = resource_dir("runtime_c") / "cuda" / "ec_cuda_emulation.cpp"
    command = [
        require_gxx(),
        *FLAGS,
        *(CHECKS if is_checked() else ()),
        f'-DEC_CUDA_KERNELS="{kernels}"',
        "-shared",
    ]
    command += [str(source), "-o", str(driver)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(
            f"{kernels.name} does not compile with g++",
            details=tuple(done.stderr.splitlines()[:20]), hint="this is a bug in edgec",
        )  # fmt: skip
    files = sorted(project.glob("*.c"))
    defines = [f'EC_CUDA_LIBRARY="{DRIVER or driver}"']
    defines += _stand_ins()
    if traced:
        files.append(resource_dir("runtime_c") / "host" / "ec_trace_callback.c")
        defines.append(TRACE_DEFINE)
    toolchain = find_toolchain(_processor(project))
    return build_host_library(
        files, folder / library_name(model), toolchain=toolchain,
        include_dirs=[project, resource_dir("runtime_c") / "link"], defines=defines,
        sanitize=SANITIZERS if is_checked() and toolchain.family == "gcc" else (),
    )  # fmt: skip


def _stand_ins() -> list[str]:
    """Defines that replace the names of NVIDIA's libraries, which the model's C opens."""
    given = {"EC_CUDNN_LIBRARY": CUDNN, "EC_TENSORRT_LIBRARY": TENSORRT}
    return [f'{name}="{path}"' for name, path in given.items() if path]


def _processor(project: Path) -> Core:
    """The core of the model's C. Raises RunFailed for another computer's instructions."""
    name = Manifest.load(project).processor
    core = CORES[name] if name else host_core()
    if not is_this_computer(core):
        raise RunFailed(
            f"parts of the model run on {core.title}, which this computer is not",
            hint="use --board cuda_host on 64-bit x86, a Jetson's board on 64-bit Arm,"
            " or --offload all",
        )
    return core


class GpuEmulationSession(HostSession):
    """A session in this process; kernels are built when they are first needed."""

    engine = "gpu_emulation"

    def __init__(self, project: Project) -> None:
        self._folders = ExitStack()
        try:
            super().__init__(project)
        except BaseException:
            self._folders.close()
            raise

    def artefact(self, trace: bool) -> Path:
        """The model's library, built here."""
        folder = self._folders.enter_context(work_folder("gpu"))
        return build_emulated(self._project.project, self.manifest.model, folder, traced=trace)

    def close(self) -> None:
        super().close()
        self._folders.close()
