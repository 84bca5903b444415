"""Control flow end to end: what the host and a simulated Cortex-M4 compute is what the interpreter
does, in every bit, and what numpy does, within float32's precision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from control_functions import CASES, FLAG, ROW, UNITS, U, W, by_numpy, inputs_of

from edgec.boards.board import load_board
from edgec.deploy.project import Built, deploy
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Module, Value
from edgec.graph.types import Array
from edgec.link.commands import Stopped
from edgec.link.errors import WrongSize
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.verify import verify_func
from edgec.ops.concat import ConcatAttrs
from edgec.ops.control import WhileAttrs
from edgec.ops.slice import SliceAttrs
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module
from edgec.runners.core import CoreModel
from edgec.runners.engine import open_session
from edgec.runners.on_link import trace_limits

ENGINES = {"host": "host", "core": "stm32"}


def build(name: str, board_name: str, folder: Path, **options: object) -> tuple[Compiled, Built]:
    board = load_board(board_name)
    module = Module({"main": CASES[name]()}, source=f"{name}.text")
    ordered = Options(float_sums="ordered", **options)  # type: ignore[arg-type]
    compiled = compile_module(module, board.core, ordered, board=board)
    return compiled, deploy(compiled, board, folder, traced=True)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_same_bits_as_the_interpreter(name: str, engine: str, tmp_path: Path) -> None:
    compiled, built = build(name, ENGINES[engine], tmp_path)
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for given in inputs_of(name):
            found = session.run(given, trace=True).outputs
            wanted = interpret(compiled.imported.main, given)
            for mine, bits, real in zip(found, wanted, by_numpy(name, given), strict=True):
                np.testing.assert_array_equal(mine, bits)
                np.testing.assert_allclose(mine, real, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"optimize": "time"}, {"optimize": "ram"}, {"optimize": "size"}, {"io": "caller"},
        {"unfused": True},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["nested", "recurrent", "exchange"])
def test_every_option_keeps_the_bits(name: str, options: dict[str, object], tmp_path: Path) -> None:
    compiled, built = build(name, "host", tmp_path, **options)
    with open_session("host", built) as session:
        for given in inputs_of(name)[-2:]:
            found = session.run(given).outputs
            for mine, bits in zip(found, interpret(compiled.imported.main, given), strict=True):
                np.testing.assert_array_equal(mine, bits)


def test_values_inside_a_loop_are_shown_in_every_round(tmp_path: Path) -> None:
    compiled, built = build("nested", "stm32", tmp_path)
    seen: dict[str, list[Array]] = {}
    given = inputs_of("nested")[3]  # three rounds, of which the second takes the other branch

    def observe(value: Value, array: Array) -> None:
        seen.setdefault(value.name, []).append(array)

    interpret(compiled.imported.main, given, observe)
    inside = {t.value: t for t in built.manifest.traces if t.is_inside}
    assert set(inside) >= {"loop/step/after", "loop/step/branch/squared/square"}
    with open_session("core", built) as session:
        result = session.run(given, trace=True)
        for value, rounds in (
            ("after", 3),
            ("branch/squared/square", 1),
            ("branch/twice/double", 2),
        ):
            found = result.traces[inside[f"loop/step/{value}"].id].view(np.float32)
            wanted = seen[value.rpartition("/")[2]]
            assert len(wanted) == rounds
            np.testing.assert_array_equal(found, np.concatenate(wanted).reshape(-1))
        costs = zip(built.manifest.layers, result.layers, strict=True)
        spent = {layer.title: cost.instructions for layer, cost in costs}
        assert all(spent.values())
        (tanh,) = (count for title, count in spent.items() if "tanh" in title)
        assert tanh > spent['abs+mul "away"']
        none = session.run([np.zeros(1, np.int32), given[1]], trace=True)
        assert inside["loop/step/after"].id not in none.traces


@pytest.mark.parametrize("left", [0, 3, 9, 100])
def test_a_link_expects_no_fewer_events_than_come(left: int, tmp_path: Path) -> None:
    _, built = build("nested", "stm32", tmp_path)
    model = CoreModel(built.traced, "cortex-m4", built.manifest)
    result, _ = model.run([np.array([left], np.int32), inputs_of("nested")[0][1]])
    model.close()
    limits = trace_limits(built.manifest)
    for event in result.trace:
        limits.take(Stopped(0, event.id, event.row, len(event.data), 0))
    with pytest.raises(WrongSize):
        for _ in range(10_000):
            limits.take(Stopped(0, 0, 0, 0, 0))


def test_branches_share_bytes_and_lifetimes_nest() -> None:
    b = GraphBuilder("many")
    x = b.param("x", ROW)
    wide = b.op("concat", [x] * 8, ConcatAttrs(0), name="wide")
    many = b.finish([b.op("slice", [wide], SliceAttrs((7, 0), (1, UNITS), (1, 1)), name="last")])
    b = GraphBuilder()
    flag, x = b.param("flag", FLAG), b.param("x", ROW)
    y = b.node("if", [flag, x], name="choose", bodies=(many, many)).output
    board = load_board("host")
    module = Module({"main": b.finish([y])}, source="share.text")
    compiled = compile_module(module, board.core, Options(), board=board)
    sizes = {buffer.name: buffer.size_bytes for buffer in compiled.problem.buffers}
    assert sizes["scratch.0.bodies"] == 8 * ROW.nbytes  # of one branch, not of both
    assert compiled.plan.peak_bytes["arena"] == sum(sizes.values())


@pytest.mark.parametrize(("name", "copies"), [("decoder", 1), ("recurrent", 1), ("exchange", 5)])
def test_what_a_loop_carries_is_copied_only_where_it_must_be(name: str, copies: int) -> None:
    """The condition; an output that is carried as well; two values that change places."""
    board = load_board("host")
    module = Module({"main": CASES[name]()}, source=f"{name}.text")
    (variant,) = compile_module(module, board.core, Options(), board=board).chosen
    assert print_func(variant.function).count("call copy") == copies


def test_a_loop_without_a_limit_runs_but_has_no_golden_run(tmp_path: Path) -> None:
    function = CASES["decoder"]()
    (node,) = function.nodes
    endless = replace(function, nodes=(replace(node, attrs=WhileAttrs(2)),))
    board = load_board("host")
    compiled = compile_module(
        Module({"main": endless}, source="endless.text"), board.core,
        Options(float_sums="ordered"), board=board,
    )  # fmt: skip
    assert compiled.program.golden is None
    with open_session("host", deploy(compiled, board, tmp_path)) as session:
        given = [np.array([40], np.int32), inputs_of("decoder")[0][1]]
        (wanted, _), found = interpret(endless, given), session.run(given).outputs
        np.testing.assert_array_equal(found[0], wanted)
        assert session.selftest() == 0


@pytest.mark.parametrize("name", CASES)
def test_the_loops_print_and_parse(name: str) -> None:
    board = load_board("host")
    module = Module({"main": CASES[name]()}, source=f"{name}.text")
    for variant in compile_module(module, board.core, Options(), board=board).chosen:
        verify_func(variant.function)
        assert parse_func(print_func(variant.function)) == variant.function


def test_onnx_runtime_computes_the_same_rnn() -> None:
    """The scan of the cases as ONNX's Scan: an oracle that is not ours."""
    text = """<ir_version: 9, opset_import: ["":17]>
    rnn (float[5,1,6] xs, float[1,6] start, float[6,6] w, float[6,6] u)
      => (float[1,6] last, float[5,1,6] every)
    { last, every = Scan <num_scan_inputs = 1, body = step (float[1,6] h, float[1,6] x)
        => (float[1,6] after, float[1,6] shown)
        { hw = MatMul(h, w)
          xu = MatMul(x, u)
          total = Add(hw, xu)
          after = Tanh(total)
          shown = Identity(after) }> (start, xs) }"""
    session = onnxruntime.InferenceSession(
        onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for xs, start in inputs_of("recurrent"):
        oracle = session.run(None, {"xs": xs, "start": start, "w": W, "u": U})
        for mine, wanted in zip(interpret(CASES["recurrent"](), [xs, start]), oracle, strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)


def test_onnx_runtime_computes_the_same_decoder() -> None:
    """The loop of the cases as ONNX's Loop, which ends when nothing is left."""
    text = """<ir_version: 9, opset_import: ["":17]>
    decode (int32[1] left, float[1,6] x, float[6,6] w, float[1,6] zeros, int32[1] one)
      => (int32[1] left_last, float[1,6] h_last)
    { none = Constant<value = int64 {9}>()
      start = Cast<to = 9>(left)
      flag = Squeeze(start)
      left_last, h_last = Loop <body = step (int64 i, bool go, int32[1] n, float[1,6] h)
        => (bool more, int32[1] n_after, float[1,6] after)
        { n_after = Sub(n, one)
          left_now = Cast<to = 9>(n_after)
          more = Squeeze(left_now)
          hw = MatMul(h, w)
          total = Add(hw, x)
          after = Tanh(total) }> (none, flag, left, zeros) }"""
    session = onnxruntime.InferenceSession(
        onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    zeros, one = np.zeros((1, UNITS), np.float32), np.ones(1, np.int32)
    for left, x in inputs_of("decoder"):
        given = {"left": left, "x": x, "w": W, "zeros": zeros, "one": one}
        left_last, h_last = session.run(None, given)
        mine, mine_left = interpret(CASES["decoder"](), [left, x])
        np.testing.assert_array_equal(mine_left, left_last)
        np.testing.assert_allclose(mine, h_last, rtol=1e-5, atol=1e-6)
