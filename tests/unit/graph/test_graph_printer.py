"""The text of a module: its form, and that printing, parsing and printing gives it again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from graph_text_cases import KindAttrs, Padding, StubOp, Window, stub_op
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import edgec.ops
from edgec.errors import ContractError
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Function, Module, Node, State, Value
from edgec.graph.literal import MAX_INLINE
from edgec.graph.parser import parse_module
from edgec.graph.printer import HASH_DIGITS, constant_data, constant_hash, print_module
from edgec.graph.provenance import Origin
from edgec.graph.types import DTYPES, Array, Quant, TensorType
from edgec.ops.clip import ClipAttrs
from edgec.ops.quantize import QuantizeAttrs
from edgec.ops.transpose import TransposeAttrs


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[StubOp]:
    with stub_op() as op:
        yield op


def flatten(module: Module) -> list[object]:
    """Everything a module holds, with values as their names, so that modules compare by ==."""

    def value(v: Value) -> tuple[object, ...]:
        data = v.data.tobytes() if isinstance(v, Constant) else None
        return (type(v), v.name, v.type, v.origin, data)

    found: list[object] = [module.source, module.format]
    for name, function in module.functions.items():
        found += [name, function.name, [value(v) for v in function.params]]
        for node in function.nodes:
            found += [node.op, node.attrs, node.name, node.sources]
            found += [[value(v) for v in node.inputs], [value(v) for v in node.outputs]]
        found += [[value(v) for v in function.results]]
        found += [(value(s.before), value(s.after), value(s.initial)) for s in function.states]
    return found


def check_round_trip(module: Module) -> str:
    text = print_module(module)
    again = parse_module(text, constant_data(module))
    assert print_module(again) == text
    assert flatten(again) == flatten(module)
    return text


GOLDEN = """\
module {source='kws.tflite', format='tflite'}

#q0 = quant(axis=1, scale=[0.5, 0.25], zero_point=[0, 0])

function 'main' {
  param %x: float32[1, 2] from {tensor='serving_default_x:0', shape=(1, 2), index=3}
  constant @w: int8[1, 2] #q0 sha256 'aa9576ec87d57ebd'

  %q: int8[1, 2] quant(0.5, -128)
    = quantize(%x) {output=quant(0.5, -128), dtype='int8', rounding='onnx'}
    node 'q'

  %'a b': float32[1, 2]
    = test.stub(%q, @w) {types=(float32[1, 2],), kind=Padding.SAME, window=Window{size=(3, 3),\
 quant=#q0}, factor=inf, note=None}
    node 'odd "name"' sources ('conv', 'relu')

  return %'a b'
}
"""


def golden_module(stub: StubOp) -> Module:
    per_channel = Quant((0.5, 0.25), (0, 0), axis=1)
    builder = GraphBuilder()
    origin = Origin("serving_default_x:0", (1, 2), index=3)
    x = builder.param("x", TensorType((1, 2), "float32"), origin)
    w = builder.constant("w", np.array([[1, -2]], np.int8), per_channel)
    q = builder.op("quantize", [x], QuantizeAttrs(Quant((0.5,), (-128,))), name="q")
    attrs = KindAttrs(
        types=(TensorType((1, 2), "float32"),),
        kind=Padding.SAME,
        window=Window((3, 3), per_channel),
        factor=math.inf,
    )
    y = builder.op(
        stub, [q, w], attrs, name='odd "name"', output_names=["a b"], sources=("conv", "relu")
    )
    return Module({"main": builder.finish([y])}, "kws.tflite", "tflite")


def test_text_is_as_documented(stub: StubOp) -> None:
    module = golden_module(stub)
    assert print_module(module) == GOLDEN
    assert check_round_trip(module) == GOLDEN


def test_real_operators_round_trip() -> None:
    edgec.ops.load()
    builder = GraphBuilder()
    x = builder.param("x:0", TensorType((1, 2, 4, 4), "float32"), Origin("x:0", (1, 2, 4, 4)))
    t = builder.op(
        "transpose", [x], TransposeAttrs((0, 2, 3, 1)), name="t",
        origins=[Origin("x:0", (1, 2, 4, 4), permutation=(0, 2, 3, 1))],
    )  # fmt: skip
    c = builder.op("clip", [t], ClipAttrs(minimum=0.0), name="relu")
    q = builder.op("quantize", [c], QuantizeAttrs(Quant((0.1,), (3,)), "uint8"), name="q")
    text = check_round_trip(Module({"main": builder.finish([q])}, "m.onnx", "onnx"))
    assert "{minimum=0.0, maximum=inf}" in text
    assert "permutation=(0, 2, 3, 1)" in text


def test_states_several_functions_and_shared_constants(stub: StubOp) -> None:
    int8 = TensorType((2,), "int8")
    w = Constant("w", int8, data=np.array([1, 2], np.int8))
    functions = {}
    for name in ("main", "body of loop"):
        x, s = Value("x", int8), Value("s", int8)
        y, s_next = Value("y", int8), Value("s'", int8)
        node = Node(stub, KindAttrs(types=(int8, int8)), (x, s, w), (y, s_next), "n", ())
        states = (State(s, s_next, Constant("zero", int8, data=np.zeros(2, np.int8))),)
        functions[name] = Function(name, (x, s), (node,), (y, x, s_next), states)
    text = check_round_trip(Module(functions))
    assert """  state %s -> %"s'" initial @zero\n""" in text
    assert "sources ()" in text
    assert len(constant_data(Module(functions))) == 2


def test_empty_results_and_constant_results() -> None:
    w = Constant("w", TensorType((), "float32"), data=np.array(1.5, np.float32))
    check_round_trip(Module({"main": Function("main", (), (), (w, w))}))
    check_round_trip(Module({"main": Function("main", (), (), ())}))


def test_equal_quantizations_share_an_alias(stub: StubOp) -> None:
    builder = GraphBuilder()
    for number in range(3):
        quant = Quant(tuple(0.1 * (i + 1) for i in range(9)), (0,) * 9, axis=number % 2)
        builder.param("x", TensorType((9, 9), "int8", quant))
    text = check_round_trip(Module({"main": builder.finish([])}))
    assert text.count(" = quant(") == 2
    assert "%x.2: int8[9, 9] #q0" in text


def test_a_long_tuple_becomes_an_alias(stub: StubOp) -> None:
    x = Value("x", TensorType((1,), "int8"))
    numbers = tuple(range(MAX_INLINE + 1))
    attrs = KindAttrs(types=(x.type,), note=(numbers, numbers[1:]))
    node = Node(stub, attrs, (x,), (Value("y", x.type),), "n")
    text = check_round_trip(Module({"main": Function("main", (x,), (node,), node.outputs)}))
    assert "#t0 = (0, 1, 2, 3, 4, 5, 6, 7, 8)\n" in text
    assert "note=(#t0, (1, 2, 3, 4, 5, 6, 7, 8))" in text


def test_the_documented_example_is_what_is_printed() -> None:
    edgec.ops.load()
    page = (Path(__file__).parents[3] / "docs" / "graph_ir.md").read_text("utf-8")
    (example,) = re.findall(r"^```\n(module \{source.*?)^```$", page, re.DOTALL | re.MULTILINE)
    zeros = [np.zeros((2, 10, 4, 1), np.int8), np.zeros(2, np.int32)]
    module = parse_module(example, {constant_hash(array): array for array in zeros})
    assert print_module(module) == example


def test_hash_tells_dtype_and_shape_apart() -> None:
    arrays = [
        np.zeros(4, np.int8), np.zeros(4, np.uint8), np.zeros((2, 2), np.int8),
        np.zeros(1, np.int32), np.array(0, np.int32),
    ]  # fmt: skip
    hashes = {constant_hash(array) for array in arrays}
    assert len(hashes) == len(arrays)
    assert all(len(text) == HASH_DIGITS for text in hashes)
    big_endian = np.array([1, 2], ">i4")
    assert constant_hash(big_endian) == constant_hash(np.array([1, 2], np.int32))


NESTED = """\
module {source='', format='text'}

function 'main' {
  size 'n' from 1 to 8
  param %x: float32[8] sizes('n')
  param %c: int32[1]
  param %f: float32[2]

  %y: float32[2]
    = call(%f)
    node 'outer'
    body 'outer' {
      param %x: float32[2]

      %inner: float32[2]
        = call(%x)
        node 'inner'
        body 'inner' {
          param %x: float32[2]

          %e: float32[2]
            = exp(%x)
            node 'e'

          return %e
        }

      return %inner
    }

  return %x, %y, %c
  count 0 0 2
}
"""


def test_bodies_counts_and_sizes() -> None:
    edgec.ops.load()
    assert print_module(parse_module(NESTED, {})) == NESTED


def test_what_the_text_cannot_hold_is_refused(stub: StubOp) -> None:
    x = Value("x", TensorType((1,), "int8"))
    node = Node(stub, KindAttrs(types=(x.type,), note=[1]), (x,), (Value("y", x.type),), "n")
    with pytest.raises(ContractError, match="no form for the list"):
        print_module(Module({"main": Function("main", (x,), (node,), node.outputs)}))
    with pytest.raises(ContractError, match="stored in its module as 'main'"):
        print_module(Module({"main": Function("other", (), (), ())}))


# --- any module ------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(categories=None), max_size=8)  # control characters, surrogates
FLOATS = st.floats(allow_nan=False)


@st.composite
def quants(draw: st.DrawFn, shape: tuple[int, ...]) -> Quant | None:
    scale = st.floats(min_value=1e-30, max_value=1e30)
    zero_point = st.integers(-(2**31), 2**31)
    kind = draw(st.sampled_from(["none", "tensor", "channel"]))
    if kind == "none" or (kind == "channel" and not shape):
        return None
    if kind == "tensor":
        return Quant((draw(scale),), (draw(zero_point),))
    axis = draw(st.integers(0, len(shape) - 1))
    extent = shape[axis]
    return Quant(
        tuple(draw(st.lists(scale, min_size=extent, max_size=extent))),
        tuple(draw(st.lists(zero_point, min_size=extent, max_size=extent))),
        axis,
    )


@st.composite
def types(draw: st.DrawFn) -> TensorType:
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    return TensorType(shape, draw(st.sampled_from(DTYPES)), draw(quants(shape)))


@st.composite
def origins(draw: st.DrawFn) -> Origin | None:
    if draw(st.booleans()):
        return None
    return Origin(
        draw(ANY_TEXT),
        tuple(draw(st.lists(st.integers(1, 99), max_size=3))),
        draw(st.none() | st.integers(0, 99)),
        draw(st.none() | st.permutations(range(3)).map(tuple)),
        draw(st.none() | st.lists(st.integers(0, 9), max_size=3).map(tuple)),
        tuple(draw(st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), max_size=2))),
    )


@st.composite
def constants(draw: st.DrawFn, name: str) -> Constant:
    type_ = draw(types())
    known = np.dtype(type_.dtype).kind in "biuf" and np.dtype(type_.dtype).isbuiltin == 1
    # hypothesis has no values of narrow types: whole numbers that each of them holds.
    bits = st_numpy.arrays("uint8", type_.shape, elements=st.integers(0, 1))
    data: Array = draw(st_numpy.arrays(type_.dtype, type_.shape) if known else bits)
    data = data.astype(type_.dtype)
    return Constant(name, type_, draw(origins()), data=data)


@st.composite
def attributes(draw: st.DrawFn, outputs: tuple[TensorType, ...]) -> KindAttrs:
    note = st.recursive(
        st.none() | st.booleans() | st.integers() | FLOATS | ANY_TEXT | types(),
        lambda inner: st.lists(inner, max_size=MAX_INLINE + 2).map(tuple),
        max_leaves=12,
    )
    window = st.builds(Window, st.tuples(st.integers(), st.integers()), quants((2,)))
    return KindAttrs(
        outputs,
        draw(st.sampled_from(Padding)),
        draw(st.none() | window),
        draw(FLOATS),
        draw(note),
    )


@st.composite
def functions(draw: st.DrawFn, stub: StubOp, name: str) -> Function:
    names = iter(draw(st.lists(ANY_TEXT, min_size=16, max_size=16, unique=True)))
    params = [Value(next(names), draw(types()), draw(origins())) for _ in range(draw(small()))]
    known: list[Value] = [*params]
    known += [draw(constants(next(names))) for _ in range(draw(small()))]
    nodes = []
    for _ in range(draw(small())):
        inputs = draw(st.lists(st.sampled_from(known), max_size=3)) if known else []
        outputs = [
            Value(next(names), draw(types()), draw(origins()))
            for _ in range(draw(st.integers(1, 2)))
        ]
        attrs = draw(attributes(tuple(value.type for value in outputs)))
        node_name = draw(ANY_TEXT)
        sources = draw(st.just((node_name,)) | st.lists(ANY_TEXT, max_size=2).map(tuple))
        nodes.append(Node(stub, attrs, tuple(inputs), tuple(outputs), node_name, sources))
        known += outputs
    results = draw(st.lists(st.sampled_from(known), max_size=3)) if known else []
    return Function(name, tuple(params), tuple(nodes), tuple(results))


def small() -> st.SearchStrategy[int]:
    return st.integers(0, 3)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_module_round_trips(stub: StubOp, data: st.DataObject) -> None:
    names = data.draw(st.lists(ANY_TEXT, max_size=2, unique=True).filter(lambda n: "main" not in n))
    module = Module(
        {name: data.draw(functions(stub, name)) for name in ["main", *names]},
        data.draw(ANY_TEXT),
        data.draw(st.sampled_from(["onnx", "tflite", "text"])),
    )
    check_round_trip(module)
