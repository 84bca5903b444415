"""`--specialize batch=1,8`: code of its own for some sizes, beside the code for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from open_functions import BATCH, MOST, convolution, perceptron

from edgec.boards.board import load_board
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError
from edgec.graph.builder import GraphBuilder
from edgec.graph.extents import function_at, open_type, symbols_of
from edgec.graph.interpret import Interpretation, interpret
from edgec.graph.ir import Function, Module
from edgec.graph.operator import get_op
from edgec.graph.types import Array, TensorType
from edgec.numerics.term import Var
from edgec.ops.add import AddAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.reduce import ReduceAttrs
from edgec.options import Options
from edgec.oracle.verify import verify_model
from edgec.pipeline import Compiled, compile_module
from edgec.runners.engine import open_session

EVERY = (("batch", (1, MOST)),)
_random = np.random.default_rng(5)


def small_net() -> Function:
    """[batch, height, width, 3] floats through two convolutions, averaged."""
    b = GraphBuilder()
    height, width = Var("height", 6, 17), Var("width", 6, 17)
    x = b.param("x", open_type("float32", 1, height, width, 3))
    for number, (channels, filters) in enumerate(((3, 8), (8, 8))):
        kernel = _random.normal(0, 0.3, (filters, 3, 3, channels)).astype(np.float32)
        bias = _random.normal(0, 0.3, filters).astype(np.float32)
        operands = [x, b.constant(f"w{number}", kernel), b.constant(f"b{number}", bias)]
        attrs = Conv2dAttrs(padding=((1, 1), (1, 1)))
        x = b.op("conv2d", operands, attrs, name=f"conv{number}")
    return b.finish([b.op("reduce", [x], ReduceAttrs((1, 2), "mean"), name="mean")])


def build(
    function: Function, board_name: str, folder: Path, **options: object
) -> tuple[Compiled, Built]:
    board = load_board(board_name)
    module = Module({"main": function}, source="special.text")
    ordered = Options(float_sums="ordered", **options)  # type: ignore[arg-type]
    compiled = compile_module(module, board.core, ordered, board=board)
    return compiled, deploy(compiled, board, folder, traced=board.is_host)


def given(function: Function, sizes: dict[str, int]) -> Array:
    values = {var: sizes[var.name] for var in symbols_of([function.params[0].type])}
    type_ = function_at(function, values).params[0].type
    if type_.is_float:
        return _random.normal(size=type_.shape).astype(type_.dtype)
    return _random.integers(-128, 128, type_.shape).astype(type_.dtype)


@pytest.mark.parametrize(("make", "io"), [(perceptron, "arena"), (convolution, "caller")])
def test_every_size_has_the_bits_of_the_interpreter(make: object, io: str, tmp_path: Path) -> None:
    function = make()  # type: ignore[operator]
    compiled, built = build(function, "host", tmp_path, specialize=EVERY, io=io)
    with open_session("host", built) as session:
        assert session.selftest() == 0
        for rows in (1, 3, MOST, 2, 1):
            x = given(function, {"batch": rows})
            answers = session.run([x], trace=True).outputs
            for mine, bits in zip(answers, interpret(function, [x]), strict=True):
                np.testing.assert_array_equal(mine, bits)
    arenas = [each.program.arena_bytes for each in compiled.specials]
    assert compiled.program.arena_bytes == max(compiled.plan.peak_bytes["arena"], *arenas)
    header = (built.project / "special_text.h").read_text("utf-8")
    assert " *     batch = 1\n *     batch = 8\n" in header
    assert [v.sizes for v in built.manifest.versions] == [(1,), (MOST,)]


@pytest.mark.parametrize(
    ("make", "choices"),
    [
        pytest.param(convolution, [{"batch": 1}, {"batch": MOST}], marks=pytest.mark.full),
        (small_net, [{"height": 8, "width": 16}]),
    ],
)
def test_it_is_as_fast_as_a_static_build(
    make: object, choices: list[dict[str, int]], tmp_path: Path
) -> None:
    function = make()  # type: ignore[operator]
    names = choices[0].keys()
    special = tuple((name, tuple(c[name] for c in choices)) for name in names)
    compiled, built = build(function, "stm32", tmp_path / "open", specialize=special)
    spent = {}
    with open_session("core", built) as session:
        assert session.selftest() == 0
        for number, sizes in enumerate(choices):
            x = given(function, sizes)
            result = session.run([x])
            values = {var: sizes[var.name] for var in symbols_of([function.params[0].type])}
            closed = function_at(function, values)
            np.testing.assert_array_equal(result.outputs[0], interpret(closed, [x])[0])
            _, static = build(closed, "stm32", tmp_path / str(number))
            with open_session("core", static) as alone:
                spent[number] = result.instructions, alone.run([x]).instructions
    for mine, theirs in spent.values():
        assert mine <= 1.02 * theirs
    # Weights are kept once where versions store them alike, and all of the memory is shared.
    total = sum(array.nbytes for array in compiled.program.constants.values())
    apart = [compiled.specials[0].program, *(each.program for each in compiled.specials)]
    assert total < sum(array.nbytes for each in apart for array in each.constants.values())
    assert built.manifest.arena_bytes == max(
        compiled.plan.peak_bytes["arena"], *(e.plan.peak_bytes["arena"] for e in compiled.specials)
    )


def remembering() -> Function:
    """[batch, 4] plus the mean over all runs' rows so far, which is state."""
    b = GraphBuilder()
    x = b.param("x", open_type("float32", BATCH, 4))
    before = b.state("sum", TensorType((1, 4), "float32"), np.zeros((1, 4), np.float32))
    mean = b.op("reduce", [x], ReduceAttrs((0,), "mean"), name="mean")
    b.become(before, b.op("add", [mean, before], AddAttrs(), name="after"))
    return b.finish([b.op("add", [x, before], AddAttrs(), name="y")])


def test_state_is_shared(tmp_path: Path) -> None:
    function = remembering()
    _, built = build(function, "host", tmp_path, specialize=EVERY)
    reference = Interpretation(function)
    with open_session("host", built) as session:
        for rows in (1, 3, MOST, 2, 1, MOST):
            x = given(function, {"batch": rows})
            np.testing.assert_array_equal(session.run([x]).outputs[0], reference.run([x])[0])


def test_an_output_in_the_place_of_the_input(tmp_path: Path) -> None:
    """At all sizes tanh works in place; a version may not, and still answers there."""
    b = GraphBuilder()
    x = b.param("x", open_type("float32", BATCH, 4))
    function = b.finish([b.op("tanh", [x], get_op("tanh").attrs_class(), name="y")])
    _, built = build(function, "host", tmp_path, specialize=EVERY)
    with open_session("host", built) as session:
        for rows in (MOST, 1, 2):
            x = given(function, {"batch": rows})
            np.testing.assert_array_equal(session.run([x]).outputs[0], interpret(function, [x])[0])


def test_verify_compares_layers_of_every_version(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["":17]>
    net (float[batch,2,6,6] x, float[3,2,3,3] w) => (float[batch,3,4,4] y)
    { c = Conv(x, w)
      y = Relu(c) }"""
    model = onnx.parser.parse_model(text)
    kernel = _random.normal(size=(3, 2, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(kernel, "w"))
    del model.graph.input[1:]
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    options = Options(
        input_shapes=(("x", (range(1, 5), 2, 6, 6)),), specialize=(("batch", (1, 2)),)
    )
    cases = [[_random.normal(size=(rows, 2, 6, 6)).astype(np.float32)] for rows in (1, 2, 3, 4)]
    found = verify_model(
        path, load_board("host"), options, "host", cases, tmp_path / "work", layers=True
    )
    assert found.beyond == 0
    shapes = {row.shape for row in found.layers}
    assert {(1, 3, 4, 4), (2, 3, 4, 4), (4, 3, 4, 4)} <= shapes


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": (1,)}, "--specialize rows: there is no such size"),
        ({"batch": (1, 9)}, "--specialize batch=9: 1 to 8 are possible"),
        ({"batch": "many"}, "has no numbers"),
    ],
)
def test_what_cannot_be_is_refused(given: object, message: str) -> None:
    with pytest.raises(EdgecError, match=message):
        core = load_board("host").core
        options = Options.of_words({"specialize": given})
        compile_module(Module({"main": perceptron()}, source="p.text"), core, options)


def test_all_sizes_must_be_named() -> None:
    core = load_board("host").core
    options = replace(Options(), specialize=(("width", (8,)),))
    with pytest.raises(EdgecError, match="leaves the size 'height' open"):
        compile_module(Module({"main": small_net()}, source="p.text"), core, options)
