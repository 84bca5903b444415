"""Models on an emulated GPU, compared with the reference interpreter in every bit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from edgec.build import nvrtc
from edgec.build.host import library_name
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


def for_gpu(module: Module, driver: Driver = "graph", core: Core = GPU) -> Compiled:
    return compile_module(module, core, Options(model_name="m", driver=driver))


def written(compiled: Compiled, folder: Path) -> Path:
    """The folder of a model's C, written once; nothing compiles kernels for a real GPU."""
    project = folder / "project"
    if not project.is_dir():
        project.mkdir(parents=True)
        write_project(
            compiled.program, project,
            compile_kernels=lambda source, architecture: Images("no compiler", architecture, "//"),
        )  # fmt: skip
    return project


def emulated(compiled: Compiled, folder: Path) -> HostModel:
    """The model in emulation, built once in a folder."""
    project = written(compiled, folder)
    manifest = Manifest.load(project)
    library = folder / "built" / library_name("m")
    if not library.is_file():
        build_emulated(project, "m", library.parent)
    return HostModel(library, manifest)


@contextmanager
def gpu_with(**properties: int) -> Iterator[None]:
    """A GPU with other properties: variables that `ec_cuda_emulation.cpp` reads, without `EC_`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in properties.items():
            patch.setenv(f"EC_{name}", str(value))
        yield


def both_orders(compiled: Compiled, folder: Path) -> Iterator[HostModel]:
    """The model twice, while threads and blocks run in their order, and from the last on."""
    for is_reversed in (0, 1):
        with gpu_with(CUDA_REVERSE=is_reversed):
            model = emulated(compiled, folder)
            yield model
            model.close()


def check_on_gpu(
    module: Module, folder: Path, steps: int = 2, *, driver: Driver = "graph", core: Core = GPU
) -> int:
    """Compare some runs, in both orders of threads; returns how many elements were compared."""
    compiled = for_gpu(module, driver, core)
    main = compiled.module.main
    types = [(value.type.shape, value.type.dtype) for value in main.inputs]
    given = generate_steps(3, types, steps)
    count = 0
    for model in both_orders(compiled, folder):
        reference = Interpretation(main)
        assert model.call("selftest") == 0
        for inputs in given:
            expected = reference.run_whole(inputs)
            status, outputs, _ = model.run([np.asarray(x, order="C") for x in inputs])
            assert status == 0
            for want, found in zip(expected, outputs, strict=True):
                assert want.tobytes() == found, "other bits on the emulated GPU"
                count += want.size
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
