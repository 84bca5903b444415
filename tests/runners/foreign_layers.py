"""Layers that a library of NVIDIA's computes, in emulation; a library of the tests stands in."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx_builder import OnnxBuilder

from edgec.codegen.gpu_text import Images
from edgec.codegen.manifest import Manifest
from edgec.codegen.project import write_project
from edgec.errors import RunFailed
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.runners.gpu_emulation import build_emulated
from edgec.runners.host import HostModel
from edgec.targets.core import find_core
from edgec.targets.external import Kernel


class Layers(OnnxBuilder):
    """A model of convolutions with random weights and biases."""

    def conv(self, value: str, shape: tuple[int, ...], **attributes: object) -> str:
        weights = self.constant(self.rng.normal(size=shape).astype(np.float32) * 0.3, "w")
        bias = self.constant(self.rng.normal(size=shape[:1]).astype(np.float32), "b")
        return self.add("Conv", [value, weights, bias], **attributes)

    def clip(self, value: str, *limits: float) -> str:
        return self.add("Clip", [value, *(self.constant(np.float32(n), "limit") for n in limits)])


def compile_with(kernels: Sequence[Kernel], model: Path, **words: object) -> Compiled:
    options = Options(model_name="m", kernels=tuple(kernels), **words)  # type: ignore[arg-type]
    return compile_model(model, find_core("cuda-sm_75"), options)


def theirs(compiled: Compiled) -> int:
    """How many layers the library computes."""
    return sum(variant.is_theirs for variant in compiled.chosen)


def dot_products(compiled: Compiled, count: int) -> tuple[str, ...]:
    """The names of the first layers with weights."""
    named = [v.name for v in compiled.module.main.nodes if v.op.dot_products]
    return tuple(named[:count])


def written(compiled: Compiled, project: Path) -> Manifest:
    """The model's files; nothing compiles its kernels for a real GPU."""
    project.mkdir()
    write_project(
        compiled.program, project, compile_kernels=lambda text, name: Images("none", name, "//")
    )
    return Manifest.load(project)


def emulated(compiled: Compiled, folder: Path) -> HostModel:
    """The model, built and set up in a new folder."""
    manifest = written(compiled, folder)
    return HostModel(build_emulated(folder, "m", folder.with_suffix(".built")), manifest)


def check(compiled: Compiled, opened: HostModel, seed: int) -> bytes:
    """One run is near the reference; returns its output."""
    (given,) = compiled.module.main.params
    x = np.random.default_rng(seed).normal(size=given.type.shape).astype(np.float32)
    (expected,) = compiled.reference([x])
    status, outputs, _ = opened.run([x])
    assert status == 0
    found = np.frombuffer(outputs[0], np.float32).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return bytes(outputs[0])


@dataclass(frozen=True)
class Model:
    """A model in emulation that is built, the emulated driver, and the library of the tests."""

    compiled: Compiled
    manifest: Manifest
    built: Path
    driver: ctypes.CDLL
    library: ctypes.CDLL

    def opened(self, failing: int = 0) -> HostModel:
        """Set up; failing: the number of a call of the library's that is refused."""
        self.library.stand_in_begin(failing)
        return HostModel(self.built, self.manifest)

    @property
    def live(self) -> tuple[int, int]:
        """Buffers on the device, and what the library made."""
        return self.driver.ec_cuda_live_buffers(), self.library.stand_in_live()

    def refuse_each_call(self, library: str) -> int:
        """Refuse one call after the other until there is none; returns how many there are."""
        for call in range(1, 200):
            try:
                opened = self.opened(call)
            except RunFailed as error:
                assert "EC_ERR_GPU" in error.message and library in error.hint
                assert self.live == (0, 0), call
            else:
                assert opened.call("close") == 0
                return call
        raise AssertionError("200 calls are too many")
