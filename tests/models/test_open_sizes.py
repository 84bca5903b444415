"""A batch of 1 to 8 end to end: same bits as the interpreter, sizes in and out, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from open_functions import ALL, BATCH, CASES, MOST, W1, W2

from edgec.boards.board import load_board
from edgec.codegen.share import canonical
from edgec.deploy.project import Built, deploy
from edgec.errors import ImportFailed, RunFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.extents import function_at, open_type
from edgec.graph.interpret import interpret
from edgec.graph.ir import Module, Node
from edgec.graph.operator import Fusion, NoAttrs
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.numerics.term import Var
from edgec.ops.op import Op
from edgec.ops.resize import ResizeAttrs
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module
from edgec.runners.engine import STATUS_NAMES, open_session
from edgec.runners.host import HostModel

ENGINES = {"host": "host", "core": "stm32"}


def build(name: str, board_name: str, folder: Path, **options: object) -> tuple[Compiled, Built]:
    board = load_board(board_name)
    module = Module({"main": ALL[name]()}, source=f"{name}.text")
    ordered = Options(float_sums="ordered", **options)  # type: ignore[arg-type]
    compiled = compile_module(module, board.core, ordered, board=board)
    return compiled, deploy(compiled, board, folder, traced=True)


def batch(compiled: Compiled, rows: int) -> Array:
    type_ = compiled.imported.main.params[0].type
    random = np.random.default_rng(rows)
    if type_.dtype == "int8":
        return random.integers(-128, 128, (rows, *type_.shape[1:])).astype(np.int8)
    return random.normal(size=(rows, *type_.shape[1:])).astype(np.float32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ALL)
def test_every_batch_gives_the_bits_of_the_interpreter(
    name: str, engine: str, tmp_path: Path
) -> None:
    compiled, built = build(name, ENGINES[engine], tmp_path)
    spent = {}
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for rows in (3, 1, MOST, 5):
            x = batch(compiled, rows)
            result = session.run([x], trace=rows == 3)
            wanted = interpret(compiled.imported.main, [x])
            for mine, bits in zip(result.outputs, wanted, strict=True):
                assert mine.shape[0] == rows
                np.testing.assert_array_equal(mine, bits)
            spent[rows] = result.instructions
        assert session.selftest() == 0  # sizes do not outlive it
    if (
        engine == "core" and name in CASES
    ):  # loops run to the size: time is linear in it, but for the data
        per_row = (spent[MOST] - spent[1]) / (MOST - 1)
        assert spent[5] == pytest.approx(
            spent[1] + 4 * per_row, rel=0.05
        )  # tanh takes as long as its data ask for
        assert per_row > 0.5 * spent[1]


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_rows_beyond_the_batch_are_left_alone(io: str, tmp_path: Path) -> None:
    compiled, built = build("perceptron", "host", tmp_path, io=io)
    model = HostModel(built.artefact, built.manifest)
    x = batch(compiled, MOST)
    _, before, _ = model.run([x])
    assert model.set_size(0, 2) == 0
    status, outputs, _ = model.run([x * 2])
    assert status == 0
    if io == "arena":  # the outputs of the run before, where no input or temporary lies
        rows = np.frombuffer(outputs[0], np.float32).reshape(MOST, 3)
        old = np.frombuffer(before[0], np.float32).reshape(MOST, 3)
        assert not np.array_equal(rows[:2], old[:2])
        program = compiled.program
        used = {n: (o, o + program.buffers[n]) for n, o in program.offsets.items()}
        first, last = used[compiled.program.outputs[0].buffer]
        alone = all(b <= first or a >= last for a, b in used.values() if (a, b) != (first, last))
        if alone:
            np.testing.assert_array_equal(rows[2:], old[2:])
    wanted = interpret(compiled.imported.main, [(x * 2)[:2]])
    np.testing.assert_array_equal(
        np.frombuffer(outputs[0], np.float32).reshape(MOST, 3)[:2], wanted[0]
    )
    model.close()


def test_a_size_outside_its_range_is_refused(tmp_path: Path) -> None:
    compiled, built = build("perceptron", "host", tmp_path)
    model = HostModel(built.artefact, built.manifest)
    assert model.set_size(0, 4) == 0
    for number, value in ((0, 0), (0, MOST + 1), (0, 0xFFFFFFFF), (1, 1)):
        assert STATUS_NAMES[model.set_size(number, value)] == "EC_ERR_RANGE"
    x = batch(compiled, MOST)
    status, outputs, _ = model.run([x])  # the size is still 4
    wanted = interpret(compiled.imported.main, [x[:4]])[0]
    assert status == 0
    np.testing.assert_array_equal(
        np.frombuffer(outputs[0], np.float32).reshape(MOST, 3)[:4], wanted
    )
    # What else may write a context does not get past the entry of run.
    text = (built.project / "perceptron_text.c").read_text("utf-8")
    run = text[text.index("perceptron_text_run(") :]
    assert run.index("return EC_ERR_RANGE;") < run.index("arena = context->arena;")
    model.close()
    with open_session("host", built) as session:
        with pytest.raises(RunFailed, match="9 by the inputs' shapes, 1 to 8 are"):
            session.run([batch(compiled, MOST + 1)])
        with pytest.raises(RunFailed, match=r"is float32 \[2, 3, 4\], was given float64"):
            session.run([np.zeros((2, 3, 4))])


def test_the_header_and_the_manifest_say_what_is_open(tmp_path: Path) -> None:
    compiled, built = build("perceptron", "host", tmp_path)
    header = (built.project / "perceptron_text.h").read_text("utf-8")
    assert "#define PERCEPTRON_TEXT_SIZE_BATCH 0u" in header
    assert "#define PERCEPTRON_TEXT_SIZE_BATCH_MAX 8u" in header
    assert "float32 [batch,3,4]" in header
    (size,) = built.manifest.sizes
    assert (size.name, size.minimum, size.maximum) == ("batch", 1, MOST)
    assert built.manifest.outputs[0].extents == ("batch", "3")
    # The arena is what the plan says for the largest batch.
    assert built.manifest.arena_bytes == compiled.plan.peak_bytes["arena"]
    values = {value.name: value for value in compiled.module.main.values()}
    assert built.manifest.arena_bytes >= values["x"].type.nbytes


def test_a_batch_runs_the_function_of_a_single_one() -> None:
    board = load_board("stm32")
    functions = []
    for rows in (None, 1):
        main = CASES["convolution"]()
        if rows is not None:
            main = function_at(main, {BATCH: rows})
        module = Module({"main": main}, source="convolution.text")
        (variant,) = compile_module(module, board.core, Options(), board=board).chosen
        functions.append(variant)
    looped, single = functions
    assert "for n in 0..batch" in print_func(looped.function)
    (callee,) = looped.callees.values()
    assert canonical(callee) == canonical(single.function)


class Mirror(Op[NoAttrs]):
    """The rows from the last to the first: it has the types of a batch, but mixes samples."""

    name = "test.mirror"
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        return inputs

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        (x,) = inputs
        rows, columns = node.output.type.shape
        return target.compute("mirror", (rows, columns), "float32", lambda n, c: x[rows - 1 - n, c])


def test_slices_that_depend_on_each_other_run_in_loops_of_their_own(tmp_path: Path) -> None:
    b = GraphBuilder()
    x = b.param("x", open_type("float32", BATCH, 4))
    module = Module({"main": b.finish([b.op(Mirror(), [x], name="mirror")])}, source="m.text")
    board = load_board("host")
    compiled = compile_module(module, board.core, Options())
    text = print_func(compiled.chosen[0].function)
    assert parse_func(text) == compiled.chosen[0].function
    assert "sizes x[batch, 4] sizes out[batch, 4]" in text
    with open_session("host", deploy(compiled, board, tmp_path)) as session:
        for rows in (1, 3, MOST):
            x = batch(compiled, rows)
            np.testing.assert_array_equal(session.run([x]).outputs[0], x[::-1])


def test_a_table_that_follows_from_a_size_is_refused() -> None:
    b = GraphBuilder()
    x = b.param("x", open_type("float32", 1, Var("height", 4, 9), 3, 1))
    attrs = ResizeAttrs((16, 6), "bilinear", half_pixel_centers=True)
    module = Module({"main": b.finish([b.op("resize", [x], attrs, name="up")])}, source="up.text")
    with pytest.raises(ImportFailed, match="resize node 'up' cannot run at open sizes: the table"):
        compile_module(module, load_board("host").core, Options())


def test_onnx_runtime_computes_the_same(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["":17]>
    mlp (float[batch,3,4] x, float[12,10] w1, float[10,3] w2)
      => (float[batch,3] y, float[batch,1] mean)
    { flat = Flatten(x)
      hidden = MatMul(flat, w1)
      bent = Tanh(hidden)
      y = MatMul(bent, w2)
      mean = ReduceMean<axes = [1]>(y) }"""
    oracle = onnxruntime.InferenceSession(
        onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    compiled, built = build("perceptron", "host", tmp_path)
    with open_session("host", built) as session:
        for rows in range(1, MOST + 1):
            x = batch(compiled, rows)
            wanted = oracle.run(None, {"x": x, "w1": W1, "w2": W2})
            for mine, theirs in zip(session.run([x]).outputs, wanted, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
def test_images_of_any_size_become_one_size(dtype: str, tmp_path: Path) -> None:
    """By tables with a row for each height; the bits equal a build for that height."""
    quant = None if dtype == "float32" else Quant((0.1,), (0,))
    b = GraphBuilder()
    x = b.param("x", replace(open_type(dtype, 1, Var("height", 1, 10), 3, 2), quant=quant))
    ways = (
        ResizeAttrs((7, 6), "bilinear", half_pixel_centers=True),
        ResizeAttrs((5, 4), "nearest"),
        ResizeAttrs((4, 5), "bilinear", align_corners=True),
    )
    function = b.finish([b.op("resize", [x], attrs, name=f"to{attrs.size[0]}") for attrs in ways])
    ordered = Options(float_sums="ordered")
    compiled = compile_module(Module({"main": function}), load_board("host").core, ordered)
    random = np.random.default_rng(3)
    with open_session("host", deploy(compiled, load_board("host"), tmp_path)) as session:
        for height in range(1, 10):
            image = (40 * random.normal(size=(1, height, 3, 2))).astype(dtype)
            wanted = interpret(function_at(function, {Var("height", 1, 10): height}), [image])
            for mine, bits in zip(session.run([image]).outputs, wanted, strict=True):
                np.testing.assert_array_equal(mine, bits)
