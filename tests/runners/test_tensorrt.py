"""Layers by TensorRT (`edgec/external/tensorrt.py`), which a library of the tests stands in for.

Its headers have the names and arguments of TensorRT's, of version 8 and of version 10; it refuses
what may not be so, and computes what a network says when the stream comes to it.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
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
from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build import tensorrt
from edgec.build.tensorrt import build_tensorrt
from edgec.codegen.gpu_text import Images
from edgec.deploy.project import deploy
from edgec.errors import BuildFailed, RunFailed
from edgec.pipeline import Compiled
from edgec.report.summary import build_report, print_build
from edgec.runners import gpu_emulation
from edgec.runners.gpu_emulation import build_emulated
from edgec.targets.core import host_core

STAND_IN = Path(__file__).with_name("tensorrt_stand_in")
SYMBOL = "edgec_tensorrt_conv_f32"
TOOLCHAIN = find_toolchain(host_core())


def layers(folder: Path) -> Path:
    """Four convolutions and a dense layer that TensorRT has, one of which no cuDNN call does."""
    b = Layers(5, (2, 4, 9, 7))
    y = b.add("Relu", [b.conv("x", (8, 4, 3, 3), pads=[1, 1, 1, 1], strides=[2, 1])])
    y = b.conv(y, (8, 8, 3, 2), pads=[2, 0, 2, 1], dilations=[2, 1])
    y = b.clip(b.conv(y, (8, 8, 1, 1)), -0.5, 0.75)
    y = b.conv(y, (8, 1, 3, 3), pads=[1, 1, 1, 1], group=8)  # stays ours
    y = b.add("GlobalAveragePool", [b.conv(y, (6, 8, 2, 2), pads=[0, 0, 1, 1])])
    w = b.constant(b.rng.normal(size=(6, 5)).astype(np.float32), "w")
    bias = b.constant(b.rng.normal(size=5).astype(np.float32), "b")
    return b.save(b.add("Gemm", [b.add("Flatten", [y]), w, bias]), folder / "m.onnx", 20)


def compiled_with(folder: Path, cost: float = 1e-4, **words: object) -> Compiled:
    return compile_with(external.tensorrt(cost), layers(folder), **words)


def stand_in(folder: Path, driver: Path, major: int) -> Path:
    """The library in place of TensorRT's, and the environment in which compilers find it."""
    library = folder / "libnvinfer.so"
    command = ["g++", "-std=c++17", "-shared", "-fPIC", "-O1", "-Wall", f'-DDRIVER="{driver}"']
    command += [f"-DNV_TENSORRT_MAJOR={major}", f"-I{STAND_IN}", str(STAND_IN / "stand_in.cpp")]
    name = f"libnvinfer_{major}.so"
    subprocess.run([*command, f"-Wl,-soname,{name}", "-o", str(library), "-ldl"], check=True)
    return library


@dataclass(frozen=True)
class Engines(Model):
    """One whose library counts."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of engines built, of engines built at level 3, and of runs."""
        library = self.library
        return library.stand_in_builds(), library.stand_in_timed(), library.stand_in_runs()


def set_up(folder: Path, major: int, patch: pytest.MonkeyPatch) -> Engines:
    compiled = compiled_with(folder, float_sums="free")
    manifest = written(compiled, folder / "project")
    driver = folder / "built" / "ec_cuda_emulation.so"
    library = stand_in(folder, driver, major)
    patch.setenv("CPLUS_INCLUDE_PATH", str(STAND_IN))
    patch.setenv("LIBRARY_PATH", str(folder))
    opened = ctypes.CDLL(str(library))  # before what needs it, which then finds it by its name
    source = folder / "project" / tensorrt.SOURCE
    if major == 8:
        source.write_text(f"#define NV_TENSORRT_MAJOR 8\n{source.read_text('utf-8')}", "utf-8")
    built = build_tensorrt(source, folder, TOOLCHAIN)
    assert built is not None and built == folder / tensorrt.LIBRARY
    patch.setattr(gpu_emulation, "TENSORRT", str(built))
    model = build_emulated(folder / "project", "m", folder / "built")
    return Engines(compiled, manifest, model, ctypes.CDLL(str(driver)), opened)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with pytest.MonkeyPatch.context() as patch:
        yield set_up(tmp_path_factory.mktemp("tensorrt"), 10, patch)


def test_layers_run_by_engines(model: Engines) -> None:
    """In a graph that is recorded once; each also once before that. Nothing is timed."""
    assert theirs(model.compiled) == 5
    opened = model.opened()
    assert model.counts == (5, 0, 5)
    assert model.live == (3, 11), "arena, state, weights; a runtime, engines and their contexts"
    for seed in (1, 2):
        check(model.compiled, opened, seed)
    assert model.counts == (5, 0, 15)
    assert opened.call("close") == 0
    assert model.live == (0, 0)


@pytest.mark.full
def test_the_interface_of_version_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = set_up(tmp_path, 8, monkeypatch)
    opened = model.opened()
    check(model.compiled, opened, 3)
    assert opened.call("close") == 0 and model.live == (0, 0)


def test_plans_are_kept_where_a_folder_is_named(
    model: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the builder takes its time, once; what is no plan of this version is made again."""
    monkeypatch.setenv("EDGEC_TENSORRT_PLANS", str(tmp_path))
    found = []
    for expected in ((5, 5), (0, 0), (1, 1)):
        opened = model.opened()
        assert model.counts[:2] == expected
        found.append(check(model.compiled, opened, 4))
        assert opened.call("close") == 0
        plans = sorted(tmp_path.iterdir())
        assert len(plans) == 5 and {p.suffix for p in plans} == {".plan"}
        if expected == (0, 0):
            plans[0].write_bytes(b"of another version")
    assert found[0] == found[1] == found[2]
    monkeypatch.setenv("EDGEC_TENSORRT_PLANS", str(tmp_path / "none"))
    opened = model.opened()  # it says so, and goes on
    check(model.compiled, opened, 5)
    assert opened.call("close") == 0 and model.live == (0, 0)


def test_what_is_refused_ends_init(model: Engines, capfd: pytest.CaptureFixture[str]) -> None:
    """Each object, layer, address and start: nothing is left behind; errors are said, no more."""
    assert model.refuse_each_call(tensorrt.LIBRARY) > 60, "as many calls as there are"
    said = capfd.readouterr().err
    assert "edgec: TensorRT: a context" in said and "warning" not in said


def test_without_the_library_the_processor_runs(
    model: Engines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where it can: all layers of a model of which some are on the GPU; else init says so."""
    monkeypatch.setattr(gpu_emulation, "TENSORRT", "/no/such/libedgec_tensorrt.so")
    named = dot_products(model.compiled, 2)
    shared = compiled_with(tmp_path, float_sums="free", offload=named)
    assert theirs(shared) == 2
    check(shared, emulated(shared, tmp_path / "project"), 3)
    with pytest.raises(RunFailed, match="EC_ERR_GPU"):
        emulated(model.compiled, tmp_path / "all")


def test_it_is_taken_where_it_may_be_and_is_faster(tmp_path: Path) -> None:
    assert theirs(compiled_with(tmp_path)) == 0, "ordered sums allow no other order"
    assert theirs(compiled_with(tmp_path, cost=1e4, float_sums="free")) == 0
    assert theirs(compiled_with(tmp_path, float_sums="free", driver="grid")) == 0


def test_only_models_that_need_it_have_its_files(tmp_path: Path) -> None:
    for name, sums in (("with", "free"), ("without", "ordered")):
        project = tmp_path / name
        manifest = written(compiled_with(tmp_path, float_sums=sums), project)
        cmake = (project / "CMakeLists.txt").read_text("utf-8")
        for file in (tensorrt.SOURCE, "ec_tensorrt.h"):
            assert (file in manifest.files) == (project / file).is_file() == (name == "with")
        assert (tensorrt.SOURCE in cmake) == (name == "with")
        assert not (project / "ec_cudnn.h").is_file()


def test_both_libraries_in_one_model(tmp_path: Path) -> None:
    """Each has what it is cheaper at, a struct, and a header."""
    kernels = (*external.cudnn(1e-6), *external.tensorrt(1e-4))
    compiled = compile_with(kernels, layers(tmp_path), float_sums="free", driver="graph")
    written(compiled, tmp_path / "both")
    text = (tmp_path / "both" / "m.c").read_text("utf-8")
    for name, launches in (("cudnn", 1), ("tensorrt", 4)):
        assert f"ec_{name}_open(gpu, &context->{name});" in text
        assert text.count(f"_conv_f32(gpu, &context->{name}, numbers, places)") == 2 * launches
    check_only = ["gcc", "-std=c99", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "m.c"]
    subprocess.run(check_only, cwd=tmp_path / "both", check=True)


def test_the_compiler_of_cxx_beside_one_of_c() -> None:
    for given, is_zig, expected in (
        (("/bin/aarch64-linux-gnu-gcc",), False, ("/bin/aarch64-linux-gnu-g++",)),
        (("clang",), False, ("clang++",)),
        (
            ("zig", "cc", "--target=aarch64-linux-gnu"),
            True,
            ("zig", "c++", "--target=aarch64-linux-gnu"),
        ),
    ):
        there = replace(TOOLCHAIN, command=given, is_zig=is_zig)
        assert tensorrt.cxx_command(there) == expected
    absent = replace(TOOLCHAIN, command=("/no/such/gcc",))
    assert build_tensorrt(STAND_IN / "stand_in.cpp", STAND_IN, absent) is None


def test_a_library_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "NvInfer.h").write_text("#error too old\n")
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(tmp_path))
    (tmp_path / "ec_tensorrt.cpp").write_text("#include <NvInfer.h>\n")
    # the preprocessor stops at it: there is no header that can be read
    assert build_tensorrt(tmp_path / "ec_tensorrt.cpp", tmp_path, TOOLCHAIN) is None
    (tmp_path / "NvInfer.h").write_text("namespace nvinfer1 { broken }\n")
    with pytest.raises(BuildFailed, match="does not compile with the TensorRT"):
        build_tensorrt(tmp_path / "ec_tensorrt.cpp", tmp_path, TOOLCHAIN)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_build_says_once_where_it_is_absent(
    is_there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "edgec.deploy.project.compile_kernels",
        lambda text, name: Images("none", name, "//", b"machine code"),
    )
    monkeypatch.delenv("CPLUS_INCLUDE_PATH", raising=False)
    if is_there:
        stand_in(tmp_path, tmp_path / "none", 10)
        monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(STAND_IN))
        monkeypatch.setenv("LIBRARY_PATH", str(tmp_path))
    compiled = compiled_with(tmp_path, float_sums="free")
    built = deploy(compiled, load_board("cuda_host"), tmp_path / "out")
    print_build(build_report(compiled, built))
    said = " ".join(capsys.readouterr().out.split())
    assert f"{SYMBOL} for" in said
    assert said.count("no NvInfer.h was found") == said.count("-lnvinfer") == (not is_there)
    assert (tmp_path / "out" / "build" / tensorrt.LIBRARY).is_file() == is_there
