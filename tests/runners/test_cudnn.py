"""Convolutions by cuDNN (`edgec/external/cudnn.py`), which a library of the tests stands in for.

It checks every argument and computes what the arguments say, when the stream comes to it.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec import external
from edgec.codegen.gpu_text import Images
from edgec.codegen.manifest import Manifest
from edgec.codegen.one_launch import plan_of
from edgec.codegen.project import write_project
from edgec.errors import BuildFailed, RunFailed
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.runners import gpu_emulation
from edgec.runners.gpu_emulation import build_emulated
from edgec.runners.host import HostModel
from edgec.targets.core import find_core

STAND_IN = Path(__file__).with_name("cudnn_stand_in.c")
SYMBOL = "edgec_cudnn_conv_f32"


def layers(folder: Path) -> Path:
    """Three convolutions that cuDNN has, and three that stay ours."""
    b = OnnxBuilder(5, (1, 4, 9, 7))

    def conv(value: str, shape: tuple[int, ...], **attributes: object) -> str:
        weights = b.constant(b.rng.normal(size=shape).astype(np.float32) * 0.3, "w")
        bias = b.constant(b.rng.normal(size=shape[:1]).astype(np.float32), "b")
        return b.add("Conv", [value, weights, bias], **attributes)

    y = b.add("Relu", [conv("x", (8, 4, 3, 3), pads=[1, 1, 1, 1], strides=[2, 1])])
    y = conv(y, (8, 8, 3, 2), pads=[2, 1, 2, 1], dilations=[2, 1])
    y = b.add("Relu", [conv(y, (8, 8, 1, 1))])
    limits = [b.constant(np.float32(each), "limit") for each in (0, 6)]
    y = b.add("Clip", [conv(y, (8, 8, 1, 1)), *limits])
    y = conv(y, (8, 8, 2, 2), pads=[0, 0, 1, 1])
    return b.save(conv(y, (8, 1, 3, 3), pads=[1, 1, 1, 1], group=8), folder / "m.onnx", 20)


def compiled_with(folder: Path, cost: float = 0.001, **words: object) -> Compiled:
    options = Options(model_name="m", kernels=external.cudnn(cost), **words)  # type: ignore[arg-type]
    return compile_model(layers(folder), find_core("cuda-sm_75"), options)


def theirs(compiled: Compiled) -> int:
    return sum(variant.is_theirs for variant in compiled.chosen)


def written(compiled: Compiled, project: Path) -> Manifest:
    """The model's files; nothing compiles its kernels for a real GPU."""
    project.mkdir()
    write_project(
        compiled.program, project, compile_kernels=lambda text, name: Images("none", name, "//")
    )
    return Manifest.load(project)


@dataclass(frozen=True)
class Model:
    """A model in emulation that is built, the emulated driver, and the library of the tests."""

    compiled: Compiled
    manifest: Manifest
    built: Path
    driver: ctypes.CDLL
    library: ctypes.CDLL

    def opened(self, failing: int = 0) -> HostModel:
        """Set up; failing: the number of a call of the library's that fails."""
        self.library.stand_in_begin(failing)
        return HostModel(self.built, self.manifest)

    @property
    def live(self) -> tuple[int, int]:
        """Buffers on the device, and what the library made."""
        return self.driver.ec_cuda_live_buffers(), self.library.stand_in_live()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    folder = tmp_path_factory.mktemp("cudnn")
    compiled = compiled_with(folder, float_sums="free")
    manifest = written(compiled, folder / "project")
    library, driver = folder / "stand_in.so", folder / "built" / "ec_cuda_emulation.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", f'-DDRIVER="{driver}"', str(STAND_IN)]
    subprocess.run([*command, "-o", str(library), "-ldl"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_emulation, "CUDNN", str(library))
        built = build_emulated(folder / "project", "m", folder / "built")
    yield Model(compiled, manifest, built, ctypes.CDLL(str(driver)), ctypes.CDLL(str(library)))


def check(compiled: Compiled, opened: HostModel, seed: int) -> None:
    """One run is near the reference."""
    x = np.random.default_rng(seed).normal(size=(1, 4, 9, 7)).astype(np.float32)
    status, outputs, _ = opened.run([x])
    (expected,) = compiled.reference([x])
    assert status == 0
    found = np.frombuffer(outputs[0], np.float32).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_layers_run_by_the_library(model: Model) -> None:
    """In a graph that is recorded once; each convolution also once before that."""
    assert theirs(model.compiled) == 3
    opened = model.opened()
    assert model.library.stand_in_convolutions() == 3
    assert model.live == (4, 1), "arena, state, weights, what cuDNN works in; its handle"
    for seed in (1, 2):
        check(model.compiled, opened, seed)
    assert model.library.stand_in_convolutions() == 9
    assert opened.call("close") == 0
    assert model.live == (0, 0)


def test_a_call_that_fails_ends_init(model: Model) -> None:
    """Each of the handle, descriptors, workspaces and convolutions: nothing is left behind."""
    for call in range(1, 100):
        try:
            opened = model.opened(call)
        except RunFailed as error:
            assert "EC_ERR_GPU" in error.message and "libcudnn" in error.hint
        else:
            assert opened.call("close") == 0
            break
        assert model.live == (0, 0), call
    assert call > 80, "as many calls as there are"


@pytest.mark.full
def test_without_the_library_init_says_so(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_emulation, "CUDNN", "/no/such/libcudnn.so")
    manifest = written(model.compiled, tmp_path / "project")
    with pytest.raises(RunFailed, match="EC_ERR_GPU"):
        HostModel(build_emulated(tmp_path / "project", "m", tmp_path / "built"), manifest)


def test_without_the_library_the_processor_runs(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where it can: all layers of a model of which some are on the GPU."""
    monkeypatch.setattr(gpu_emulation, "CUDNN", "/no/such/libcudnn.so")
    named = [v.name for v in model.compiled.module.main.nodes if v.op.dot_products]
    shared = compiled_with(tmp_path, float_sums="free", offload=tuple(named[:2]))
    manifest = written(shared, tmp_path / "project")
    assert any(step.on_processor for step in shared.program.steps) and theirs(shared) == 2
    opened = HostModel(build_emulated(tmp_path / "project", "m", tmp_path / "built"), manifest)
    check(shared, opened, 3)


def test_it_is_taken_where_it_may_be_and_is_faster(tmp_path: Path) -> None:
    assert theirs(compiled_with(tmp_path)) == 0, "ordered sums allow no other order"
    assert theirs(compiled_with(tmp_path, cost=1e4, float_sums="free")) == 0
    assert theirs(compiled_with(tmp_path, float_sums="free", driver="block")) == 0
    on_processor = Options(kernels=external.cudnn(0.001), float_sums="free")
    host = compile_model(layers(tmp_path), find_core("x86-64-v3"), on_processor)
    assert theirs(host) == 0


def test_only_models_that_need_it_have_its_file(tmp_path: Path) -> None:
    for name, sums in (("with", "free"), ("without", "ordered")):
        project = tmp_path / name
        written(compiled_with(tmp_path, float_sums=sums), project)
        assert (project / "ec_cudnn.h").is_file() == (name == "with")
        text = (project / "m.c").read_text("utf-8")
        assert len(re.findall(f"{SYMBOL}.*places", text)) == (6 if name == "with" else 0)


def test_a_library_and_one_launch_do_not_go_together(model: Model) -> None:
    program = model.compiled.program
    assert plan_of(program).driver == "graph"
    with pytest.raises(BuildFailed, match="a library starts kernels of its own"):
        plan_of(replace(program, driver="grid"))
