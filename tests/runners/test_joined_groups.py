"""Groups of a GPU that are one kernel: how many are left, and the same bits in emulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gpu_models import both_orders, check_on_gpu, for_gpu
from gpu_races import races
from onnx_builder import OnnxBuilder
from stateful_functions import delay_line, in_place, module_of, read_late

from edgec.boards.board import load_board
from edgec.codegen import one_launch
from edgec.codegen.c_text import writes_param
from edgec.codegen.model_text import make_text
from edgec.codegen.one_launch import plan_of
from edgec.deploy.project import deploy
from edgec.frontends import import_model
from edgec.loop.bound import launch_of
from edgec.options import Options
from edgec.passes import join_groups
from edgec.pipeline import Compiled, compile_model, compile_module
from edgec.report.run import print_run, run_report
from edgec.runners.engine import STATUS_NAMES, open_session
from edgec.targets.core import find_core

Write = Callable[[Path], Path]
ROWS = (1, 6, 32)


def heads(folder: Path) -> Path:
    """Attention of two heads: transposes after views, a scale, a sum with the input, GELU."""
    b = OnnxBuilder(3, ROWS)

    def dense(value: str) -> str:
        weights = b.rng.normal(size=(32, 32)).astype(np.float32)
        return b.add("MatMul", [value, b.constant(weights, "w")])

    def split(value: str, order: list[int]) -> str:
        shape = b.constant(np.array([1, 6, 2, 16]), "shape")
        return b.add("Transpose", [b.add("Reshape", [value, shape])], perm=order)

    scores = b.add("MatMul", [split(dense("x"), [0, 2, 1, 3]), split(dense("x"), [0, 2, 3, 1])])
    scaled = b.add("Mul", [scores, b.constant(np.float32(0.25), "scale")])
    shares = b.add("Softmax", [scaled], axis=-1)
    mixed = b.add("MatMul", [shares, split(dense("x"), [0, 2, 1, 3])])
    joined = b.add("Transpose", [mixed], perm=[0, 2, 1, 3])
    flat = b.add("Reshape", [joined, b.constant(np.array(ROWS), "rows")])
    total = b.add("Add", [dense(flat), "x"])
    return b.save(b.add("Add", [b.add("Gelu", [dense(total)]), total]), folder / "m.onnx", 20)


def residual(folder: Path) -> Path:
    """Convolutions of int8 with a sum, and one of channels-first floats before and after."""
    b = OnnxBuilder(4, (1, 8, 6, 6))

    def conv(value: str) -> str:
        weights, bias, _ = b.weights((8, 8, 3, 3), 0.05)
        return b.qdq(b.add("Conv", [value, weights, bias], pads=[1, 1, 1, 1]), 0.1, 4)

    first = conv(b.qdq("x", 0.05, -3))
    total = b.qdq(b.add("Add", [conv(first), first]), 0.2, -5)
    return b.save(b.add("Relu", [total]), folder / "m.onnx")


#: Kernels' groups with and without joining.
COUNTS: dict[Write, tuple[int, int]] = {heads: (8, 15), residual: (3, 5)}


@pytest.mark.parametrize("write", COUNTS)
def test_maps_join_what_makes_or_reads_them(write: Write, tmp_path: Path) -> None:
    module, (joined, alone) = import_model(write(tmp_path)), COUNTS[write]
    unfused = Options(unfused=True)
    assert len(for_gpu(module).groups) == joined
    assert len(compile_module(module, find_core("host"), Options()).groups) == alone
    assert len(compile_module(module, find_core("cuda-sm_75"), unfused).groups) >= alone
    assert check_on_gpu(module, tmp_path, 1) > 0


@pytest.mark.parametrize("make", [in_place, read_late, delay_line])
def test_states_are_read_in_order(make: Callable[..., object], tmp_path: Path) -> None:
    assert check_on_gpu(module_of(make), tmp_path, 3) > 0  # type: ignore[arg-type]


def test_what_others_read_is_made(tmp_path: Path) -> None:
    """The sum is read twice, and stays a step of its own."""
    b = OnnxBuilder(5, (1, 4, 8))
    total = b.add("Add", ["x", b.constant(np.ones((1, 4, 8), np.float32), "one")])
    turned = b.add("Transpose", [total], perm=[0, 2, 1])
    module = import_model(b.save(b.add("MatMul", [total, turned]), tmp_path / "m.onnx"))
    assert [len(each.group.nodes) for each in for_gpu(module).groups] == [1, 2]
    assert check_on_gpu(module, tmp_path, 1) > 0


def test_a_slower_kernel_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = import_model(residual(tmp_path))
    monkeypatch.setattr(join_groups, "launched_us", lambda func, *_: float("inf"))
    assert len(for_gpu(module).groups) == COUNTS[residual][1]


def test_segments_of_the_processor_stay(tmp_path: Path) -> None:
    """A group on the GPU is not moved after one on the processor."""
    module = import_model(heads(tmp_path))
    names = [each.group.name for each in for_gpu(module).groups]
    options = Options(offload=(names[0],))
    found = compile_module(module, find_core("cuda-sm_75"), options)
    sides = [step.on_processor for step in found.program.general_steps]
    assert sides.count(False) >= 1 and sides.count(True) >= 10


def branches(folder: Path, widths: tuple[int, ...] = (32, 32, 32)) -> Path:
    """Some dense layers of one input and a softmax of their sums: floats, and with no barrier."""
    b = OnnxBuilder(6, ROWS)
    made = []
    for width in widths:
        weights = b.constant(b.rng.normal(size=(32, width)).astype(np.float32), "w")
        made.append(b.add("MatMul", ["x", weights]))
    total = b.add("Concat", made, axis=1 if len(set(widths)) == 1 else -1)
    return b.save(b.add("Softmax", [total], axis=-1), folder / "m.onnx", 20)


def launches(compiled: Compiled) -> list[int]:
    """Kernels of steps in each launch of a graph."""
    waits = plan_of(compiled.program).waits
    starts = [number for number, begins in enumerate(waits) if begins]
    return [stop - start for start, stop in itertools.pairwise([*starts, len(waits)])]


def test_layers_of_one_input_are_one_launch(tmp_path: Path) -> None:
    """As blocks beside each other, whatever runs first; and they touch nothing of each other."""
    module = import_model(branches(tmp_path))
    compiled = for_gpu(module)
    assert launches(compiled)[0] == 3
    program, gpu = compiled.program, make_text(compiled.program).text.gpu
    assert gpu is not None
    assert len(gpu.launches[0]) == 1 and gpu.launches[1] == gpu.launches[2] == ()
    written, touched = set[int](), set[int]()
    for step in program.steps[:3]:
        for param, name in zip(step.function.params, step.args, strict=True):
            if name not in program.constants:
                places = range(program.offsets[name], program.offsets[name] + program.buffers[name])
                assert written.isdisjoint(places)
                touched |= set(places)
                written |= set(places) if writes_param(step.function, param) else set()
    assert len(touched) == len(written) + 6 * 32 * 4
    assert check_on_gpu(module, tmp_path, 2) > 0


@pytest.mark.parametrize(
    "write", [branches, *(pytest.param(each, marks=pytest.mark.full) for each in COUNTS)]
)
def test_no_race_in_joined_kernels(write: Write, tmp_path: Path) -> None:
    assert races(write(tmp_path)) > 2


def test_layers_of_other_widths_are_one_launch(tmp_path: Path) -> None:
    """Threads beyond a layer's own do nothing in its blocks."""
    module = import_model(branches(tmp_path, (32, 10, 7)))
    compiled = for_gpu(module)
    threads = [launch.threads for step in compiled.program.steps[:3]
               if (launch := launch_of(step.function))]  # fmt: skip
    assert len(set(threads)) == 3 and launches(compiled)[0] == 3
    gpu = make_text(compiled.program).text.gpu
    assert gpu is not None and gpu.launches[0][0].size[3:] == (max(threads), 1, 1)
    for each in sorted(threads)[:2]:
        assert f"if (EC_THREAD_X < {each}) {{" in gpu.source
    assert check_on_gpu(module, tmp_path, 2) > 0


def test_threads_that_wait_are_all_of_a_launch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kernel of fewer threads that wait for each other is a launch of its own."""
    module = import_model(branches(tmp_path, (32, 10, 7)))
    monkeypatch.setattr(one_launch, "does_wait", lambda part: True)
    assert set(launches(for_gpu(module))) == {1}


def test_a_kernel_beside_its_maker_gives_other_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With no bytes compared: the model's own test of its outputs finds it."""
    module = import_model(branches(tmp_path))
    right = launches(for_gpu(module))
    monkeypatch.setattr(one_launch._Span, "clashes", lambda *_: False)
    compiled = for_gpu(module)
    assert len(launches(compiled)) < len(right)
    found = {model.call("selftest") for model in both_orders(compiled, tmp_path)}
    assert STATUS_NAMES[min(found)] == "EC_ERR_SELFTEST"


def test_what_reads_the_same_comes_next_to_it(tmp_path: Path) -> None:
    """The third dense layer of attention, which nothing needs before the softmax is made."""
    names = [step.function.name for step in for_gpu(import_model(heads(tmp_path))).program.steps]
    assert names[:5] == ["dense", "dense", "dense", "matmul", "softmax"]


def test_what_reads_a_later_value_stays(tmp_path: Path) -> None:
    """Two layers read the input; the second reads a sum of the first, too."""
    b = OnnxBuilder(7, ROWS)

    def dense(value: str) -> str:
        weights = b.rng.normal(size=(32, 32)).astype(np.float32)
        return b.add("MatMul", [value, b.constant(weights, "w")])

    shares = b.add("Softmax", [dense("x")], axis=-1)
    second = dense(b.add("Add", [shares, "x"]))
    module = import_model(b.save(b.add("Add", [second, dense("x")]), tmp_path / "m.onnx", 20))
    compiled = for_gpu(module)
    assert [step.function.name for step in compiled.program.steps][:2] == ["dense", "dense"]
    assert launches(compiled)[0] == 2
    assert check_on_gpu(module, tmp_path, 1) > 0


@pytest.mark.parametrize(
    ("name", "value"), [("MOST_ARGUMENTS", 5), ("MOST_SHARED_BYTES", -1), ("beside_us", None)]
)
def test_limits_of_a_launch(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its arguments, its shared memory, and that it is faster."""
    dearer = lambda parts, *_: float(len(parts) ** 2)  # noqa: E731
    monkeypatch.setattr(one_launch, name, dearer if name == "beside_us" else value)
    assert set(launches(for_gpu(import_model(branches(tmp_path))))) == {1}


def test_a_profile_says_which_layers_run_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The number of its launch, for each; where no launch is shared there is no such column."""
    board, inputs = load_board("cuda_host"), [np.ones(ROWS, np.float32)]
    options = Options(driver="graph")
    compiled = compile_model(branches(tmp_path), board.core, options, board_name="cuda_host")
    built = deploy(compiled, board, tmp_path / "built", traced=True)
    with open_session("gpu_emulation", built) as session:
        results = [session.run(inputs), session.run(inputs, profile=True)]
    report = run_report(built, "gpu_emulation", results[:1], results[1:], None)
    assert [row["launches"] for row in report["layers"]] == [[1], [1], [1], [2], [3]]
    print_run(report, True)
    assert "layers of one launch run together" in capsys.readouterr().out
    alone = [{**row, "launches": []} for row in report["layers"]]
    print_run({**report, "layers": alone}, True)
    assert "launch" not in capsys.readouterr().out


@pytest.mark.full
def test_traced_runs_show_each_of_them(tmp_path: Path) -> None:
    """A traced build shows the same values as the host."""
    path, found = branches(tmp_path), []
    for board in ("host", "cuda_host"):
        options = Options(driver="graph") if board != "host" else Options(float_sums="ordered")
        compiled = compile_model(path, load_board(board).core, options, board_name=board)
        built = deploy(compiled, load_board(board), tmp_path / board, traced=True)
        with open_session("host" if board == "host" else "gpu_emulation", built) as session:
            x = np.random.default_rng(3).normal(size=ROWS).astype(np.float32)
            result = session.run([x], trace=True)
        names = {trace.id: trace.value for trace in built.manifest.traces}
        found.append({names[key]: data.tobytes() for key, data in result.traces.items()})
    host, gpu = found
    assert len(gpu) >= 4 and gpu.items() <= host.items()
