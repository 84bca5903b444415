"""Functions of the user's in the place of ours: chosen by cost, compared with their meaning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

import edgec
from edgec import external
from edgec.cli.main import main
from edgec.codegen.manifest import Manifest
from edgec.errors import BuildFailed, EdgecError, KernelRefused
from edgec.exporters.library import read_library
from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc, Seq
from edgec.loop.microkernel import all_microkernels
from edgec.loop.schedule import Schedule
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import Core, find_core, host_core

REPO = Path(__file__).parents[3]
EXAMPLE = REPO / "examples" / "own_kernels"
FLOAT = REPO / "examples" / "digits" / "digits_float.onnx"
#: The board, and what the refused kernels are compiled for.
HOST, M4, M55 = host_core(), find_core("cortex-m4"), find_core("cortex-m55")
SOURCE = (EXAMPLE / "dense_f32.c").read_text("utf-8")


def kernel(folder: Path, text: str, cost: float = 0.01, **more: object) -> external.Kernel:
    """The example's kernel with another C file, and this cost of a product."""
    source = folder / "own_dense.c"
    source.write_text(text, "utf-8")

    def use(nest: external.Nest) -> external.Use | None:
        found = external.products(nest)
        if found is None or found.sort != "dense" or nest.dtype != "float32":
            return None
        channels, depth = found.weights.shape
        given = ["x", "out", found.weights, found.bias, channels, depth]
        return external.Use(given, instructions=cost * channels * depth)

    return external.Kernel("my_dense_f32", source, use=use, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one dense layer, 32 to 4."""
    model, path = OnnxBuilder(1, (1, 32)), tmp_path_factory.mktemp("small") / "small.onnx"
    rng = np.random.default_rng(1)
    weights = model.constant(rng.standard_normal((32, 4)).astype(np.float32), "w")
    bias = model.constant(rng.standard_normal(4).astype(np.float32), "b")
    model.save(model.add("Gemm", ["x", weights, bias]), path)
    return path


def taken(model: Path, core: Core, *kernels: object) -> list[str]:
    """The functions of the user's in a model."""
    compiled = compile_model(model, core, Options(kernels=kernels))
    return [name for variant in compiled.chosen for name in variant.their_functions]


def refused(model: Path, own: object, core: Core = HOST) -> str:
    with pytest.raises(KernelRefused) as caught:
        taken(model, core, own)
    return str(caught.value)


@pytest.mark.parametrize("board", ["host", "stm32"])
def test_answers_as_without_it(small: Path, board: str) -> None:
    x = np.random.default_rng(3).standard_normal((1, 32), np.float32)
    with edgec.compile(small, board=board, float_sums="ordered") as ours:
        expected = ours.run(x)
    own = str(EXAMPLE / "kernels.py")
    with edgec.compile(small, board=board, float_sums="ordered", kernels=own) as theirs:
        assert [row["symbol"] for row in theirs.report["own_kernels"]] == ["my_dense_f32"]
        assert theirs.run(x).tobytes() == expected.tobytes()


def test_command_line_builds_and_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(FLOAT), "--kernels", str(EXAMPLE / "kernels.py")]
    with pytest.raises(SystemExit, match="0"):
        main(["build", *given, "-o", str(tmp_path / "p")])
    assert "kernels of yours: my_dense_f32 for logits" in capsys.readouterr().out
    integers = [str(FLOAT.with_name("digits_int8.onnx")), *given[1:]]
    with pytest.raises(SystemExit, match="0"):
        main(["build", *integers, "-o", str(tmp_path / "integers")])
    assert "kernels of yours: none is used" in capsys.readouterr().out
    manifest = Manifest.load(tmp_path / "p")
    assert manifest.foreign == ("digits_float_custom_dense_f32.c",)
    assert manifest.foreign[0] in read_library(tmp_path / "p").sources
    with pytest.raises(SystemExit, match="0"):
        main(["verify", *given, "--random", "1"])


def test_the_page_shows_the_example() -> None:
    page = (REPO / "docs" / "own_kernels.md").read_text("utf-8")
    assert SOURCE.partition("\n")[2] in page
    assert (EXAMPLE / "kernels.py").read_text("utf-8").partition("\n\n")[2] in page


def test_the_cheaper_one_is_taken(small: Path, tmp_path: Path) -> None:
    assert taken(small, HOST, kernel(tmp_path, SOURCE)) == ["my_dense_f32"]
    assert taken(small, HOST, kernel(tmp_path, SOURCE, cost=100.0)) == []


def test_only_where_the_core_has_what_it_needs(small: Path, tmp_path: Path) -> None:
    own = kernel(tmp_path, SOURCE, needs=frozenset({"mve"}))
    assert taken(small, M4, own) == []
    assert "nothing here runs cortex-m55, and it needs mve" in refused(small, own, M55)
    assert taken(small, M55, kernel(tmp_path, SOURCE)) == ["my_dense_f32"]


@pytest.mark.parametrize("core", [HOST, M4, M55], ids=lambda core: core.name)
def test_wrong_answers_are_refused(small: Path, tmp_path: Path, core: Core) -> None:
    wrong = SOURCE.replace("out[c] = sum", "out[c] = c == 3 ? -sum : sum")
    told = refused(small, kernel(tmp_path, wrong), core)
    assert "the kernel my_dense_f32 for" in told
    assert "answers wrongly: element [0, 3] is" in told


def test_writes_outside_and_crashes_are_refused(small: Path, tmp_path: Path) -> None:
    over = kernel(tmp_path, SOURCE.replace("out[c] = sum", "out[c + 1] = sum"))
    assert "writes outside" in refused(small, over)
    assert "writes 4 bytes" in refused(small, over, M4)
    crash = SOURCE.replace("depth) {", "depth) {\n    __builtin_trap();")
    assert "crashed: signal" in refused(small, kernel(tmp_path, crash))


def test_what_does_not_compile_is_refused(small: Path, tmp_path: Path) -> None:
    own = kernel(tmp_path, SOURCE.replace("float sum", "float total"))
    assert "does not compile" in refused(small, own)


def test_files_that_list_none_are_refused(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    alien = "from edgec import external\nKERNELS = [external.Kernel('ec_a', 'a.c', use=print)]"
    for number, (text, why) in enumerate(
        (
            ("KERNELS = 3", "lists no kernels"),
            ("1 / 0", "ZeroDivisionError"),
            ("raise SystemExit(0)", "SystemExit"),
            ("KERNELS = ['a']", "is not a kernel"),
            (alien, "cannot read a.c"),
        )
    ):
        file = tmp_path / f"kernels{number}.py"
        file.write_text(text, "utf-8")
        with pytest.raises(EdgecError, match=why):
            taken(small, HOST, file)


def test_assembly_and_libraries(small: Path, tmp_path: Path) -> None:
    """A file of assembly runs as C does; what a kernel links is in the manifest."""
    source = tmp_path / "dense.S"
    source.write_text(".syntax unified\n.thumb\n.global my_ten\n.thumb_func\nmy_ten:\n bx lr\n")
    own = external.Kernel("my_ten", source, use=_ten, isa="thumb")
    assert "my_ten for" in refused(small, own, M4)
    assert taken(small, HOST, own) == []
    linked = kernel(tmp_path, SOURCE, libraries=("m",))
    with edgec.compile(small, kernels=linked, output=tmp_path / "p") as model:
        assert model.built.manifest.libraries == ("m",)
    assert "target_link_libraries(small PUBLIC m)" in (tmp_path / "p/CMakeLists.txt").read_text()
    with pytest.raises(BuildFailed, match="links m, which packages do not"):
        read_library(tmp_path / "p")


def _ten(nest: external.Nest) -> external.Use | None:
    found = external.products(nest)
    is_dense = found is not None and found.sort == "dense"
    return external.Use(["x", "out"], instructions=1.0) if is_dense else None


DOT = """
void my_dot_f32(float *acc, const float *x, const float *w, int32_t k) {
    for (int32_t i = 0; i < k; i++) { acc[0] += x[i] * w[i]; }
}
"""


def dot(k: int) -> PrimFunc:
    """acc[0] = acc[0] + x[i] * w[i] for i < k: what comes after a sum's start."""
    b = Definition("dot")
    acc = b.output("acc", (1,), "float32")
    x, w = b.input("x", (k,), "float32"), b.constant("w", (k,), "float32")
    b.reduce(acc, [("k", 0, k)], init=lambda i: 0.0, update=lambda acc, i, k: acc + x[k] * w[k])
    schedule = Schedule(b.build())
    schedule.decompose_reduction("acc", "acc_k")
    schedule.simplify()
    assert isinstance(schedule.func.body, Seq)
    return replace(schedule.func, body=schedule.func.body.stmts[1])


@pytest.mark.parametrize(("text", "is_right"), [(DOT, True), (DOT.replace("+=", "-="), False)])
def test_a_kernel_with_a_nest_as_its_meaning(
    small: Path, tmp_path: Path, text: str, is_right: bool
) -> None:
    source = tmp_path / "dot.c"
    source.write_text(text, "utf-8")

    def use(nest: external.Nest) -> list[Schedule]:
        found = external.products(nest)
        if found is None or found.sort != "dense":
            return []
        schedule = nest.schedule()
        schedule.compute_at("acc", "out_d1")
        schedule.decompose_reduction("acc", "acc_k")
        schedule.simplify()
        schedule.tensorize("acc_k", "my_dot_f32", {"k": found.weights.shape[1]})
        return [schedule]

    own = external.NestKernel(
        "my_dot_f32", source, meaning=dot, sizes=("k",), use=use, instructions=lambda k: k / 999
    )
    if is_right:
        assert taken(small, HOST, own) == ["my_dot_f32"] == taken(small, M4, own)
        assert own.symbol not in {kernel.name for kernel in all_microkernels()}, "it is not ours"
    else:
        assert "my_dot_f32 for" in refused(small, own)
