"""Models on an emulated GPU, compared with the reference interpreter in every bit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgec.build import nvrtc
from edgec.codegen.gpu_text import Images
from edgec.codegen.manifest import Manifest
from edgec.codegen.project import write_project
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.options import Driver, Options
from edgec.pipeline import Compiled, compile_module
from edgec.runners.gpu_emulation import build_emulated
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_steps
from edgec.targets.core import Core, find_core

GPU = find_core("cuda-sm_75")
#: Threads and blocks from the last to the first.
REVERSED = ("-DEC_CUDA_REVERSE",)


def for_gpu(module: Module, driver: Driver = "graph", core: Core = GPU) -> Compiled:
    return compile_module(module, core, Options(model_name="m", driver=driver))


def emulated(compiled: Compiled, folder: Path, flags: Sequence[str] = ()) -> HostModel:
    """The model in emulation; nothing compiles its kernels for a real GPU."""
    project = folder / "project"
    if not project.is_dir():
        project.mkdir(parents=True)
        write_project(
            compiled.program, project,
            compile_kernels=lambda source, architecture: Images("no compiler", architecture, "//"),
        )  # fmt: skip
    manifest = Manifest.load(project)
    name = "reversed" if flags else "plain"
    return HostModel(build_emulated(project, "m", folder / name, flags=flags), manifest)


def check_on_gpu(
    module: Module, folder: Path, steps: int = 2, *, driver: Driver = "graph", core: Core = GPU
) -> int:
    """Compare some runs, in both orders of threads; returns how many elements were compared."""
    compiled = for_gpu(module, driver, core)
    main = compiled.module.main
    types = [(value.type.shape, value.type.dtype) for value in main.inputs]
    given = generate_steps(3, types, steps)
    count = 0
    for flags in ((), REVERSED):
        model, reference = emulated(compiled, folder, flags), Interpretation(main)
        assert model.call("selftest") == 0
        for inputs in given:
            expected = reference.run_whole(inputs)
            status, outputs, _ = model.run([np.asarray(x, order="C") for x in inputs])
            assert status == 0
            for want, found in zip(expected, outputs, strict=True):
                assert want.tobytes() == found, "other bits on the emulated GPU"
                count += want.size
        model.close()
    return count


def machine_code(cubin: bytes, folder: Path) -> dict[str, str]:
    """The instructions of each kernel, as NVIDIA's disassembler writes them."""
    tools = nvrtc.package_folder("cu13")
    program = tools / "bin" / "nvdisasm" if tools is not None else Path("nvdisasm")
    if not program.is_file():
        pytest.skip("nvidia-cuda-nvdisasm is not installed")
    program.chmod(0o755)
    (folder / "kernels.cubin").write_bytes(cubin)
    command = [str(program), str(folder / "kernels.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"\n\.text\.(\w+):\n((?:[^\n]*;?\n)*?)(?=//---|\Z)", said))
