"""ONNX's If, Loop and Scan: ONNX Runtime's numbers, and in C the interpreter's bits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

from edgec.boards.board import load_board
from edgec.cli.main import cli
from edgec.deploy.project import deploy
from edgec.errors import EdgecError, ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.graph.types import Array
from edgec.options import Options
from edgec.pipeline import compile_model, compile_module
from edgec.runners.engine import open_session

HEAD = '<ir_version: 9, opset_import: ["":17]>\n'
#: Models, and inputs that take all their ways; None: of random numbers.
CASES: dict[str, tuple[str, Sequence[Sequence[object]]]] = {
    # Both branches read values of the graph around them, of which one reads a constant.
    "branch": (
        """m (bool flag, float[2,3] x) => (float[2,3] y) {
          one = Constant<value = float {1.5}>()
          up = Add(x, one)
          z = If(flag) <
            then_branch = t () => (float[2,3] a) { a = Mul(up, x) },
            else_branch = e () => (float[2,3] b) { c = Mul(x, one)  b = Neg(c) }>
          y = Tanh(z) }""",
        [(True, None), (False, None)],
    ),
    # Branches that are a constant, and an input.
    "plain_branch": (
        """m (bool flag, float[3] x) => (float[3] y) {
          y = If(flag) <
            then_branch = t () => (float[3] a) { a = Constant<value = float[3] {1, 2, 3}>() },
            else_branch = e () => (float[3] b) { b = Identity(x) }> }""",
        [(True, None), (False, None)],
    ),
    # A known number of rounds; the body reads the count, weights and an input.
    "counted": (
        """m (float[1,4] h, float[1,4] x) => (float[1,4] last, float[5,1,4] all)
          <float[4,4] w = {0.5,0,0,0.25, 0,0.5,0,0, 0.125,0,0.5,0, 0,0,-0.5,0.5}> {
          n = Constant<value = int64 {5}>()
          yes = Constant<value = bool {1}>()
          last, all = Loop(n, yes, h) <body = b (int64 i, bool c, float[1,4] a)
              => (bool d, float[1,4] next, float[1,4] row) {
            d = Identity(c)
            p = MatMul(a, w)
            q = Add(p, x)
            next = Tanh(q)
            row = Add(next, a) }> }""",
        [(None, None)],
    ),
    # A count that is an input, and no condition.
    "given_count": (
        """m (int64 n, float[3] x) => (float[3] y) {
          half = Constant<value = float {0.5}>()
          y = Loop(n, , x) <body = b (int64 i, bool c, float[3] a) => (bool d, float[3] next) {
            d = Identity(c)
            next = Mul(a, half) }> }""",
        [(np.int64(n), None) for n in (0, 1, 6)],
    ),
    # A condition that the body computes, at most nine times, and a counter in it.
    "early_exit": (
        """m (float[3] x, float limit) => (float[3] y, int64 rounds) {
          n = Constant<value = int64 {9}>()
          yes = Constant<value = bool {1}>()
          two = Constant<value = float {2}>()
          one = Constant<value = int64 {1}>()
          zero = Constant<value = int64 {0}>()
          y, rounds = Loop(n, yes, x, zero) <body = b (int64 i, bool c, float[3] a, int64 k)
              => (bool d, float[3] next, int64 more) {
            next = Mul(a, two)
            total = ReduceSum<keepdims = 0>(next)
            d = Less(total, limit)
            more = Add(i, one) }> }""",
        [(np.array([1, 1, 1], np.float32), np.float32(limit)) for limit in (0, 7, 50, 1e9)],
    ),
    # Rows at computed places; the file says how many there are.
    "stacked": (
        """m (int64 n, bool go, float[1] x) => (float[1] y, float[4,1] rows) {
          y, rows = Loop(n, go, x) <body = b (int64 i, bool c, float[1] a)
              => (bool d, float[1] next, float[1] row) {
            d = Identity(c)
            table = Constant<value = float[5] {1, 2, 4, 8, 16}>()
            one = Constant<value = int64 {1}>()
            axes = Constant<value = int64[1] {0}>()
            end = Add(i, one)
            from = Unsqueeze(i, axes)
            to = Unsqueeze(end, axes)
            part = Slice(table, from, to)
            next = Add(a, part)
            row = Identity(next) }> }""",
        [(np.int64(4), True, None)],
    ),
    # Rows until a condition fails, at most five; how many there are comes out as a size.
    "open_stack": (
        """m (bool go, float[2] x, float limit) => (float[2] y, float[k,2] twice) {
          n = Constant<value = int64 {5}>()
          y, rows = Loop(n, go, x) <body = b (int64 i, bool c, float[2] a)
              => (bool d, float[2] next, float[2] row) {
            next = Add(a, x)
            sum = ReduceSum<keepdims = 0>(next)
            d = Less(sum, limit)
            row = Mul(next, a) }>
          twice = Add(rows, rows) }""",
        [(go, np.array([1, 2], np.float32), np.float32(limit))
         for go, limit in ((True, 0), (True, 8), (True, 100), (False, 100))],
    ),
    # What is carried grows: the rounds are written one after the other.
    "growing": (
        """m (float[1,2] x) => (float[4,2] y) {
          n = Constant<value = int64 {3}>()
          y = Loop(n, , x) <body = b (int64 i, bool c, float[k,2] a) => (bool d, float[j,2] next) {
            d = Identity(c)
            next = Concat<axis = 0>(a, x) }> }""",
        [(None,)],
    ),
    # A branch inside a loop, which reads the loop's values and those around it.
    "nested": (
        """m (float[3] x, float limit) => (float[3] y) {
          n = Constant<value = int64 {4}>()
          y = Loop(n, , x) <body = b (int64 i, bool c, float[3] a) => (bool d, float[3] next) {
            d = Identity(c)
            total = ReduceSum<keepdims = 0>(a)
            small = Less(total, limit)
            next = If(small) <
              then_branch = t () => (float[3] more) { more = Add(a, x) },
              else_branch = e () => (float[3] less) { less = Sub(a, x) }> }> }""",
        [(np.array([1, 2, 3], np.float32), np.float32(limit)) for limit in (0, 10, 100)],
    ),
    # Two inputs along other axes, one backwards; slices put along the last axis, the last first.
    "scan": (
        """m (float[2] h, float[5,2] x, float[2,5] z) => (float[2] last, float[5,2] all,
            float[2,5] back) {
          last, all, back = Scan<num_scan_inputs = 2, scan_input_axes = [0, 1],
              scan_input_directions = [0, 1], scan_output_axes = [0, -1],
              scan_output_directions = [0, 1], body = b (float[2] s, float[2] p, float[2] q)
              => (float[2] t, float[2] u, float[2] v) {
            t0 = Mul(s, p)
            t = Add(t0, q)
            u = Identity(t)
            v = Sub(p, h) }>(h, x, z) }""",
        [(None, None, None)],
    ),
}  # fmt: skip


def saved(text: str, path: Path) -> tuple[Path, onnxruntime.InferenceSession]:
    model = onnx.parser.parse_model(HEAD + text)
    path.write_bytes(model.SerializeToString())
    providers = ["CPUExecutionProvider"]
    return path, onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)


def inputs_of(name: str, main: object) -> list[list[Array]]:
    random = np.random.default_rng(5)
    types = [value.type for value in main.inputs]  # type: ignore[attr-defined]
    return [
        [
            random.normal(0, 1, type_.shape).astype(np.float32)
            if given is None
            else np.asarray(given, type_.dtype)
            for given, type_ in zip(run, types, strict=True)
        ]
        for run in CASES[name][1]
    ]


@pytest.mark.parametrize("board_name", ["host", "stm32"])
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_onnx_runtime(name: str, board_name: str, tmp_path: Path) -> None:
    path, oracle = saved(CASES[name][0], tmp_path / f"{name}.onnx")
    main = import_model(path).main
    board = load_board(board_name)
    compiled = compile_module(
        Module({"main": main}, source=path.name, format="onnx"), board.core,
        Options(float_sums="ordered"), board=board,
    )  # fmt: skip
    built, reference = deploy(compiled, board, tmp_path / "out"), Interpretation(main)
    with open_session("host" if board_name == "host" else "core", built) as session:
        for given in inputs_of(name, main):
            named = {v.name: x for v, x in zip(main.inputs, given, strict=True)}
            wanted = oracle.run(None, named)
            bits = reference.run(given)
            found = session.run(given).outputs
            for mine, same, theirs in zip(found, bits, wanted, strict=True):
                np.testing.assert_array_equal(mine.reshape(same.shape), same)
                assert (same.shape, same.dtype) == (theirs.shape, theirs.dtype)
                np.testing.assert_allclose(same, theirs, rtol=1e-5, atol=1e-6)


def test_a_loop_that_counts_is_a_scan_and_one_that_decides_a_while(tmp_path: Path) -> None:
    def kinds(name: str) -> list[str]:
        path, _ = saved(CASES[name][0], tmp_path / "m.onnx")
        return [node.op.name for node in import_model(path).main.nodes if node.bodies]

    assert kinds("counted") == ["scan"]
    assert kinds("early_exit") == ["while"]
    assert kinds("growing") == []


LOOP = """m (int64 n, bool go, float[2] x) => (float[2] y, float[k,2] rows) {
  y, rows = Loop(n, go, x) <body = b (int64 i, bool c, float[2] a)
      => (bool d, float[2] next, float[2] row) {
    d = Not(c)
    next = Add(a, x)
    row = Identity(next) }> }"""


#: Sizes of the two branches, and of a selection in one of them.
SIZES = """m (bool flag, float[3] x) => (float[n] y, float[m] most, int64[1] size) {
  above = Identity(x)
  y = If(flag) <
    then_branch = t () => (float[3] a) { a = Neg(x) },
    else_branch = e () => (float[6] b) { b = Concat<axis = 0>(x, above) }>
  most = ReduceMax<axes = [0]>(y)
  size = Shape(y) }"""
NEGATES = "(float[3] a) { a = Neg(x) }"
SELECTS = """(float[p] a) {
      zero = Constant<value = float {0.0}>()
      holds = Greater(above, zero)
      a = Compress<axis = 0>(above, holds) }"""


@pytest.mark.parametrize("branch", [NEGATES, SELECTS])
@pytest.mark.parametrize(("engine", "board"), [("host", "host"), ("core", "stm32")])
def test_branches_give_other_sizes(engine: str, board: str, branch: str, tmp_path: Path) -> None:
    """Results are as large as the larger one, and each run says how much of them is in use."""
    path, text = tmp_path / "m.onnx", SIZES.replace(NEGATES, branch)
    path.write_bytes(onnx.parser.parse_model(HEAD + text).SerializeToString())
    main = import_model(path).main
    compiled = compile_model(path, load_board(board).core, board=load_board(board))
    built = deploy(compiled, load_board(board), tmp_path / "project")
    oracle = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with open_session(engine, built) as session:
        for flag in (True, False):
            for row in ([1, -2, 3], [-3, -2, 1], [1, 2, 3]):
                x = np.array(row, np.float32)
                wanted = oracle.run(None, {"flag": np.array(flag), "x": x})
                found, bits = session.run([np.array(flag), x]).outputs, Interpretation(main)
                for mine, own, theirs in zip(
                    found, bits.run([np.array(flag), x]), wanted, strict=True
                ):
                    np.testing.assert_array_equal(own, theirs, strict=True)
                    np.testing.assert_array_equal(mine, theirs, strict=True)


def test_branches_of_other_sizes_are_written(tmp_path: Path) -> None:
    path, written = tmp_path / "m.onnx", tmp_path / "written.onnx"
    path.write_bytes(onnx.parser.parse_model(HEAD + SIZES).SerializeToString())
    done = CliRunner().invoke(cli, ["export", str(path), "--format", "onnx", "-o", str(written)])
    assert done.exit_code == 0, done.output
    ours, theirs = (
        onnxruntime.InferenceSession(str(each), providers=["CPUExecutionProvider"])
        for each in (written, path)
    )
    for flag in (True, False):
        given = {"flag": np.array(flag), "x": np.array([-1, -2, -3], np.float32)}
        for mine, wanted in zip(ours.run(None, given), theirs.run(None, given), strict=True):
            np.testing.assert_array_equal(mine, wanted, strict=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOOP, "the number of slices depends on the data"),
        (
            """m (bool flag, float[3] x) => (float[n] y) { y = If(flag) <
              then_branch = t () => (float[3] a) { a = Neg(x) },
              else_branch = e () => (int64[3] b) { b = Cast<to = 7>(x) }> }""",
            "the two bodies return different types",
        ),
        (
            """m (bool flag, float[3] x) => (float[3] y) { y = If(flag) <
              then_branch = t () => (float[3] a, float[3] c) { a = Neg(x)  c = Abs(x) },
              else_branch = e () => (float[3] b) { b = Neg(x) }> }""",
            "its then_branch computes 2 values for 1 outputs",
        ),
        (
            """m (int64 n, float[1,2] x) => (float[k,2] y) {
              y = Loop(n, , x) <body = b (int64 i, bool c, float[p,2] a) => (bool d, float[q,2] e) {
                d = Identity(c)
                e = Concat<axis = 0>(a, x) }> }""",
            "the first results and parameters of the body differ",
        ),
        (
            """m (bool flag, float[3] x) => (float[3] y) { y = If(flag) <
              then_branch = t () => (float[3] a) { a = Det(x) },
              else_branch = e () => (float[3] b) { b = Neg(x) }> }""",
            "in its then_branch: Det  node",
        ),
    ],
)  # fmt: skip
def test_words_for_what_is_refused(text: str, words: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(HEAD + text)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(EdgecError) as failure:
        import_model(tmp_path / "m.onnx")
    assert isinstance(failure.value, ImportFailed)
    assert words in failure.value.details[0]
