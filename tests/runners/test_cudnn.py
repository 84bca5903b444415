"""Convolutions by cuDNN (`edgec/external/cudnn.py`), which a library of the tests stands in for.

It checks every argument and computes what the arguments say, when the stream comes to it.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from foreign_layers import (
    Layers,
    Model,
    check,
    compile_with,
    dot_products,
    emulated,
    theirs,
    written,
)

from edgec import external
from edgec.codegen.one_launch import plan_of
from edgec.errors import BuildFailed, RunFailed
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.runners import gpu_emulation
from edgec.runners.gpu_emulation import build_emulated
from edgec.targets.core import find_core

STAND_IN = Path(__file__).with_name("cudnn_stand_in.c")
SYMBOL = "edgec_cudnn_conv_f32"


def layers(folder: Path) -> Path:
    """Three convolutions that cuDNN has, and three that stay ours."""
    b = Layers(5, (1, 4, 9, 7))
    y = b.add("Relu", [b.conv("x", (8, 4, 3, 3), pads=[1, 1, 1, 1], strides=[2, 1])])
    y = b.conv(y, (8, 8, 3, 2), pads=[2, 1, 2, 1], dilations=[2, 1])
    y = b.add("Relu", [b.conv(y, (8, 8, 1, 1))])
    y = b.clip(b.conv(y, (8, 8, 1, 1)), 0, 6)
    y = b.conv(y, (8, 8, 2, 2), pads=[0, 0, 1, 1])
    return b.save(b.conv(y, (8, 1, 3, 3), pads=[1, 1, 1, 1], group=8), folder / "m.onnx", 20)


def compiled_with(folder: Path, cost: float = 0.001, **words: object) -> Compiled:
    return compile_with(external.cudnn(cost), layers(folder), **words)


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
    assert model.refuse_each_call("libcudnn") > 80, "as many calls as there are"


@pytest.mark.full
def test_without_the_library_init_says_so(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_emulation, "CUDNN", "/no/such/libcudnn.so")
    with pytest.raises(RunFailed, match="EC_ERR_GPU"):
        emulated(model.compiled, tmp_path / "project")


def test_without_the_library_the_processor_runs(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where it can: all layers of a model of which some are on the GPU."""
    monkeypatch.setattr(gpu_emulation, "CUDNN", "/no/such/libcudnn.so")
    named = dot_products(model.compiled, 2)
    shared = compiled_with(tmp_path, float_sums="free", offload=named)
    assert any(step.on_processor for step in shared.program.steps) and theirs(shared) == 2
    check(shared, emulated(shared, tmp_path / "project"), 3)


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
    with pytest.raises(BuildFailed, match="a library starts its own kernels"):
        plan_of(replace(program, driver="grid"))
