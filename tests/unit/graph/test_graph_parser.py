"""Reading graph IR text: what a person may write, and the line that every error names."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from graph_text_cases import KindAttrs, Padding, StubOp, Window, stub_op

import edgec.ops
from edgec.errors import ContractError
from edgec.graph.interpret import interpret
from edgec.graph.literal import MAX_DEPTH
from edgec.graph.operator import NoAttrs
from edgec.graph.parser import parse_module
from edgec.graph.printer import constant_hash, print_module
from edgec.graph.types import Quant, TensorType
from edgec.ops.clip import ClipAttrs

WEIGHTS = np.array([3, -4], np.int8)
CONSTANTS = {constant_hash(WEIGHTS): WEIGHTS}
HASH = constant_hash(WEIGHTS)


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[StubOp]:
    edgec.ops.load()
    with stub_op() as op:
        yield op


def test_text_written_by_hand_runs() -> None:
    module = parse_module(
        """
        // defaults may be left out, and lines broken anywhere
        module {}
        function 'main' {
          param %x: float32[1, 2]
          %y: float32[1, 2] = clip(%x) {minimum=-1.0,} node "relu"
          %"z w": float32[2, 1] = transpose(%y) {permutation=(1, 0)} node "t" sources ("a", "b",)
          return %'z w', %x
        }""",
        {},
    )
    node, transpose = module.main.nodes
    assert node.attrs == ClipAttrs(minimum=-1.0)
    assert (node.name, node.sources) == ("relu", ("relu",))
    assert transpose.sources == ("a", "b")
    x = np.array([[-3.0, 4.0]], np.float32)
    z, same = interpret(module.main, [x])
    np.testing.assert_array_equal(z, [[-1.0], [4.0]])
    np.testing.assert_array_equal(same, x)


def test_nested_attributes_and_aliases() -> None:
    module = parse_module(
        f"""module {{source='a'}}
        #channels = quant(axis=0, scale=[0.5, 1e-3], zero_point=[0, 1])
        function 'main' {{
          constant @w: int8[2] #channels sha256 '{HASH}' from {{tensor='w', shape=(2,)}}
          %a: int8[2] #channels, %b: bool[]
            = test.stub(@w) {{types=(int8[2] #channels, bool[]), kind=Padding.SAME,
                window=Window{{size=(1, 2), quant=quant(2.0, 3)}}, factor=-inf, note=(1, (), 'x')}}
            node 'n'
          return %b
        }}""",
        CONSTANTS,
    )
    (node,) = module.main.nodes
    channels = Quant((0.5, 0.001), (0, 1), 0)
    assert node.inputs[0].type.quant == channels
    types = (TensorType((2,), "int8", channels), TensorType((), "bool"))
    window = Window((1, 2), Quant((2.0,), (3,)))
    assert node.attrs == KindAttrs(types, Padding.SAME, window, float("-inf"), (1, (), "x"))
    # Printing names aliases anew.
    assert "#q0 = quant(axis=0, scale=[0.5, 0.001], zero_point=[0, 1])" in print_module(module)


CALL = "test.stub(%x, @w) {types=(int8[2],), kind=Padding.SAME, factor=1.0}"
GOOD = f"""\
module {{source='a', format='text'}}
#q0 = quant(axis=0, scale=[0.5, 1.0], zero_point=[0, 1])
function 'main' {{
  param %x: int8[2] quant(0.5, 1)
  constant @w: int8[2] #q0 sha256 '{HASH}'
  %y: int8[2]
    = {CALL}
    node 'n'
  return %y
}}
"""


def test_the_text_that_is_damaged_below_is_good() -> None:
    parse_module(GOOD, CONSTANTS)


DAMAGE = [
    # what, by what, the line, the problem
    ("module", "modul", 1, "expected 'module', found 'modul'"),
    ("source='a'", "sauce='a'", 1, "'sauce' is not a field of Module"),
    ("source='a'", "source='a', source='b'", 1, "'source' is given twice"),
    ("#q0 = quant(axis=0", "#q0 = quant(axes=0", 2, "unexpected keyword argument 'axes'"),
    ("#q0 = quant(", "#q0 = quanta(", 2, "'quanta' is not known here"),
    ("scale=[0.5, 1.0]", "scale=[0.5]", 2, "1 scales but 2 zero points"),
    ("function", "#q0 = quant(1.0, 2) function", 3, "#q0 is defined twice"),
    (
        "function 'main' {\n  param %x: int8[2] quant(0.5, 1)",
        "#t = (1, 2) function 'main' {\n param %x: int8[2] #t",
        4,
        "#t is not a quantization",
    ),
    ("function 'main'", "function main", 3, "expected the function's name in quotes"),
    ("function 'main'", "function 'other'", 0, "has no function main"),
    ("%x: int8[2]", "%x: int9[2]", 4, "unknown dtype 'int9'"),
    ("%x: int8[2]", "%x: int8[2.5]", 4, "expected an integer"),
    ("%x: int8[2]", "@x: int8[2]", 4, "@x is not the name of a value"),
    ("%x: int8[2]", "%x int8[2]", 4, "expected ':', found 'int8'"),
    ("constant @w", "constant %w", 5, "%w is not the name of a constant"),
    ("#q0 sha256", "#q7 sha256", 5, "#q7 is not defined"),
    ("@w: int8[2]", "@w: int8[1, 2]", 5, "is not int8[1, 2]"),
    (HASH, "0" * 16, 5, "no data were given for @w"),
    ("%y: int8[2]", "%x: int8[2]", 6, "%x is defined twice"),
    ("%y: int8[2]", "%y: int8[3]", 7, "test.stub gives other types"),
    ("test.stub", "clop", 7, "unknown operator 'clop'"),
    (CALL, "clip(%x, @w)", 7, "clip: too many values to unpack"),
    ("(%x, @w)", "(%z, @w)", 7, "%z is not defined"),
    ("(%x, @w)", "(%y, @w)", 7, "%y is not defined"),
    ("Padding.SAME", "Padding.SOME", 7, "'Padding.SOME' is not known here"),
    ("Padding.SAME", "ClipAttrs{}", 7, "'ClipAttrs' is not known here"),
    ("Padding.SAME", "open('f')", 7, "'open' is not known here"),
    ("factor=1.0", "factr=1.0", 7, "'factr' is not a field of KindAttrs"),
    ("factor=1.0", "factor=13.0", 7, "thirteen does not fit"),
    ("factor=1.0", "factor=" + "(" * 60, 7, "brackets are open"),
    ("factor=1.0", "factor=&", 7, "unexpected character '&'"),
    ("types=(int8[2],), ", "", 7, "missing 1 required positional argument: 'types'"),
    (CALL, "test.stub(%x, @w)", 7, "test.stub needs attributes"),
    ("node 'n'", "node 'n", 8, "unexpected character"),
    ("node 'n'", "node 'n' 'm'", 8, "expected 'return', found \"'m'\""),
    ("node 'n'", r"node '\N{no such name}'", 8, "is not a string"),
    ("return %y", "return %z", 9, "%z is not defined"),
    ("return %y", "return %y state %x -> %y initial @w", 0, "changes its type"),
    ("return %y", "return %y state %x -> %y", 10, "expected 'initial', found '}'"),
    ("return %y", "return %y state %x -> %y initial %y", 9, "%y is not a constant"),
    ("return %y", "", 10, "expected 'return', found '}'"),
    ("}\n", "", 10, "expected '}', found the end of the text"),
    ("}\n", "}\nfunction 'main' { return }", 11, "function 'main' exists already"),
    ("}\n", "}\nfiction", 11, "expected a function, found 'fiction'"),
]


@pytest.mark.parametrize(("what", "by", "line", "problem"), DAMAGE)
def test_an_error_names_its_line(what: str, by: str, line: int, problem: str) -> None:
    at = GOOD.rindex(what) if what == "}\n" else GOOD.index(what)
    text = GOOD[:at] + by + GOOD[at + len(what) :]
    where = f"line {line}: " if line else ""  # 0: found by the verifier, after parsing
    with pytest.raises(ContractError, match=f"^{where}.*{re.escape(problem)}"):
        parse_module(text, CONSTANTS)


def test_every_beginning_of_a_text_is_refused_cleanly() -> None:
    for end in range(len(GOOD) - 2):
        with pytest.raises(ContractError):
            parse_module(GOOD[:end], CONSTANTS)


def test_data_of_another_hash_are_refused() -> None:
    with pytest.raises(ContractError, match=f"line 5: the data of @w are not {HASH}"):
        parse_module(GOOD, {HASH: WEIGHTS + 1})


def test_an_unknown_operator_gets_a_hint() -> None:
    with pytest.raises(ContractError) as caught:
        parse_module(GOOD.replace("test.stub", "clipp"), CONSTANTS)
    assert caught.value.hint == "did you mean 'clip'?"


def nested(depth: int) -> str:
    """A function whose node has a body, whose node has one, ..."""
    value = "%y: int8[2] = "
    inside = "return %x"
    for number in range(depth):
        inside = (
            f"{value} call(%x) node 'n{number}' body 'b' {{ param %x: int8[2] {inside} }} return %y"
        )
    return f"module {{}} function 'main' {{ param %x: int8[2] {inside} }}"


def test_bodies_are_nested_only_so_deep() -> None:
    parse_module(nested(MAX_DEPTH), {})
    with pytest.raises(ContractError, match=f"bodies are nested more than {MAX_DEPTH} deep"):
        parse_module(nested(MAX_DEPTH + 1), {})


def test_many_bodies_side_by_side_are_not_deep() -> None:
    body = "body 'b' { param %x: int8[2] return %x }"
    nodes = " ".join(f"%y{n}: int8[2] = call(%x) node 'n{n}' {body}" for n in range(MAX_DEPTH + 2))
    module = parse_module(
        f"module {{}} function 'main' {{ param %x: int8[2] {nodes} return %y3 }}", {}
    )
    assert len(module.main.nodes) == MAX_DEPTH + 2
    # A body's names are its own, and those around it are back after it.
    assert [p.name for p in module.main.nodes[0].bodies[0].params] == ["x"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("body 'b' { param %x: int8[2] return %y }", "%y is not defined"),
        ("body 'b' { param %x: int8[2] return %w }", "%w is not defined"),
        ("body { param %x: int8[2] return %x }", "the function's name in quotes"),
        ("boddy 'b' { param %x: int8[2] return %x }", "call takes 1 bodies, 0 are given"),
        ("body 'b' { param %x: int8[2] return %x state %x -> %x initial @k }", "@k is not def"),
        ("", "call: "),
    ],
)
def test_a_wrong_body_says_its_line(body: str, problem: str) -> None:
    text = f"""module {{}}
    function 'main' {{
      param %x: int8[2]
      param %w: int8[2]
      %y: int8[2] = call(%x) node 'n'
        {body}
      return %y
    }}"""
    with pytest.raises(ContractError, match=f"line [567]: .*{re.escape(problem)}"):
        parse_module(text, {})


def test_attributes_may_be_left_out_where_all_have_defaults() -> None:
    text = """module {} function 'main' {
      param %x: float32[2]
      %y: float32[2] = clip(%x) node 'c'
      %z: float32[2] = exp(%y) node 'e'
      return %z count 0 0 1 }"""
    with pytest.raises(ContractError, match="is of no axis of an output"):
        parse_module(text, {})
    module = parse_module(text.replace("count 0 0 1", ""), {})
    assert [type(node.attrs) for node in module.main.nodes] == [ClipAttrs, NoAttrs]
    given = interpret(module.main, [np.float32([0, 1])])
    np.testing.assert_allclose(given[0], np.exp(np.float32([0, 1])), rtol=1e-6)
    wrong = text.replace("float32[2] = exp", "float32[3] = exp").replace("count 0 0 1", "")
    with pytest.raises(ContractError, match="line 4: exp gives other types than the text") as error:
        parse_module(wrong, {})
    assert error.value.details == ("stated: float32[3]", "given: float32[2]")
