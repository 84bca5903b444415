"""TFLite's IF and WHILE: the bits of TFLite Micro, in the interpreter and in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_module
from edgec.runners.engine import open_session

SHAPE = (1, 4)
INT8 = {"scale": 0.5, "zero_point": -1}


def binary(graph: TfliteBuilder, kind: str, a: int, b: int, like: str, dtype: str, **quant) -> int:  # type: ignore[no-untyped-def]
    shape = SHAPE if dtype != "int32" else (1,)
    y = graph.tensor(like, shape, dtype, **quant)
    graph.operator(kind, [a, b], [y], f"{kind.title()}Options")
    return y


def branch(dtype: str) -> bytes:
    """x + x where a flag is set, else x * x."""
    quant = INT8 if dtype == "int8" else {}
    model = TfliteBuilder()
    flag = model.tensor("flag", (1,), "bool")
    x, y = (model.tensor(name, SHAPE, dtype, **quant) for name in "xy")
    for kind in ("ADD", "MUL"):
        graph = model.subgraph()
        given = graph.tensor("given", SHAPE, dtype, **quant)
        made = binary(graph, kind, given, given, "made", dtype, **quant)
        graph.ends = ([given], [made])
    model.operator("IF", [flag, x], [y], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    return model.build([flag, x], [y])


def choice(count: int) -> bytes:
    """y = x + x, x * x or x - x, by an index."""
    model = TfliteBuilder()
    index = model.tensor("index", (1,), "int32")
    x, y = (model.tensor(name, SHAPE, "float32") for name in "xy")
    for kind in ("ADD", "MUL", "SUB")[:count]:
        graph = model.subgraph()
        given = graph.tensor("given", SHAPE, "float32")
        made = binary(graph, kind, given, given, "made", "float32")
        graph.ends = ([given], [made])
    numbers = np.arange(1, count + 1, dtype=np.int32)
    model.operator("STABLEHLO_CASE", [index, x], [y], "StablehloCaseOptions",
                   BranchSubgraphIndices=numbers)  # fmt: skip
    return model.build([index, x], [y])


def loop(dtype: str, *, given_start: bool) -> bytes:
    """y = x + 4 w, in rounds counted from a constant or an input; w is only handed on."""
    quant = INT8 if dtype == "int8" else {}
    model = TfliteBuilder()
    zero = None if given_start else np.zeros(1, np.int32)
    start = model.tensor("start", (1,), "int32", data=zero)
    count = model.tensor("count", (1,), "int32")
    x, w, y, v = (model.tensor(name, SHAPE, dtype, **quant) for name in ("x", "w", "y", "v"))

    def state(graph: TfliteBuilder) -> list[int]:
        return [
            graph.tensor("i", (1,), "int32"),
            *(graph.tensor(name, SHAPE, dtype, **quant) for name in ("a", "b")),
        ]

    head = model.subgraph()
    i, a, b = state(head)
    limit = head.tensor("limit", (1,), "int32", data=np.array([4], np.int32))
    less = head.tensor("less", (1,), "bool")
    head.operator("LESS", [i, limit], [less], "LessOptions")
    head.ends = ([i, a, b], [less])
    body = model.subgraph()
    i, a, b = state(body)
    one = body.tensor("one", (1,), "int32", data=np.array([1], np.int32))
    after = binary(body, "ADD", i, one, "after", "int32")
    total = binary(body, "ADD", a, b, "total", dtype, **quant)
    body.ends = ([i, a, b], [after, total, b])
    model.operator(
        "WHILE", [start, x, w], [count, y, v], "WhileOptions",
        CondSubgraphIndex=1, BodySubgraphIndex=2,
    )  # fmt: skip
    given = [start] if given_start else []
    return model.build([*given, x, w], [y, count])


CASES = {
    "branch_float": branch("float32"),
    "branch_int8": branch("int8"),
    "loop_float": loop("float32", given_start=False),
    "loop_int8": loop("int8", given_start=False),
    "loop_given": loop("int8", given_start=True),
}


@pytest.mark.parametrize("board_name", ["host", "stm32"])
@pytest.mark.parametrize("name", CASES)
def test_bits_of_tflite(name: str, board_name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(CASES[name])
    board = load_board(board_name)
    module = import_model(path)
    compiled = compile_module(module, board.core, Options(float_sums="ordered"), board=board)
    built = deploy(compiled, board, tmp_path / "out")
    oracles = [open_oracle(path, reference) for reference in ("tflm", "litert")]
    random = np.random.default_rng(3)
    with open_session("host" if board_name == "host" else "core", built) as session:
        for number in range(4):
            given = [
                np.full(v.type.shape, number % 2, v.type.dtype)
                if v.type.dtype == "bool"
                else np.full(v.type.shape, 2 * number, v.type.dtype)
                if v.type.dtype == "int32"
                else random.integers(-9, 9, v.type.shape).astype(v.type.dtype)
                for v in module.main.inputs
            ]
            bits = interpret(module.main, given)
            for found in (session.run(given).outputs, *(o.run(given).outputs for o in oracles)):
                for mine, theirs in zip(bits, found, strict=True):
                    np.testing.assert_array_equal(mine, theirs.reshape(mine.shape))


def test_a_loop_that_counts_to_a_constant_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    for name, limit in (("loop_int8", 4), ("loop_given", None)):
        path.write_bytes(CASES[name])
        (node,) = import_model(path).main.nodes
        assert (node.attrs.carried, node.attrs.limit) == (2, limit)


def refused(case: str) -> bytes:
    model = TfliteBuilder()
    flag = model.tensor("flag", (1,), "bool")
    x, y = (model.tensor(name, SHAPE, "float32") for name in "xy")
    graph = model.subgraph()
    given = graph.tensor("given", SHAPE, "float32")
    made = graph.tensor("made", SHAPE, "float32")
    kind = {"operator": "RFFT2D", "itself": "IF"}.get(case, "EXP")
    options = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1}
    if case == "itself":
        condition = graph.tensor("c", (1,), "bool", data=np.ones(1, bool))
        graph.operator(kind, [condition, given], [made], "IfOptions", **options)
    else:
        graph.operator(kind, [given], [made])
    more = [graph.tensor("more", SHAPE, "float32")] if case == "inputs" else []
    graph.ends = ([given, *more], [made])
    if case == "number":
        options["ElseSubgraphIndex"] = 9
    model.operator("IF", [flag, x], [y], "IfOptions", **options)
    return model.build([flag, x], [y])


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("number", "its else_subgraph is number 9 of 2"),
        ("itself", "its then_subgraph is number 1 of 2"),
        ("inputs", "its then_subgraph takes 2 inputs, 1 are given"),
        ("operator", "in its then_subgraph: RFFT2D"),
    ],
)
def test_words_for_what_is_refused(case: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(refused(case))
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.tflite")
    assert words in failure.value.details[0]


@pytest.mark.parametrize("count", [1, 3])
def test_the_subgraph_of_an_index(count: int, tmp_path: Path) -> None:
    """Of LiteRT: TFLite Micro has no STABLEHLO_CASE. Any other index is the last subgraph's."""
    path = tmp_path / "m.tflite"
    path.write_bytes(choice(count))
    board, module, oracle = load_board("host"), import_model(path), open_oracle(path, "litert")
    ordered = Options(float_sums="ordered")
    built = deploy(compile_module(module, board.core, ordered), board, tmp_path / "out")
    x = np.array([[1, -2, 3, 0.5]], np.float32)
    with open_session("host", built) as session:
        for number in (0, 1, 2, 3, -1, -(2**31)):
            given = [np.array([number], np.int32), x]
            (wanted,) = oracle.run(given).outputs
            np.testing.assert_array_equal(interpret(module.main, given)[0], wanted)
            np.testing.assert_array_equal(session.run(given).outputs[0], wanted)
