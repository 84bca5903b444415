"""Inputs that the output may overwrite: found where safe, refused where a read comes too late."""

from __future__ import annotations

import pytest

from edgec.loop.in_place import in_place_inputs, row_bytes
from edgec.loop.parser import parse_func

HEAD = "func f(x: arena int8[4, 6], y: arena int8[4, 6], out: arena int8[4, 6]) {"
PLANE = "func f(x: arena int8[4, 6], out: arena int8[4, 6], p: scratch int8[4]) {"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # elementwise, also split and with a broadcast of another shape
        (HEAD + "for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] } } }", ("x", "y")),
        (
            HEAD + "for i in 0..4 { for j in 0..3 { unrolled for k in 0..2 {"
            " out[i, j*2 + k] = x[i, j*2 + k] } } } }",
            ("x", "y"),
        ),
        # elementwise in another order
        (
            HEAD + "for j in 0..6 { for i in 0..4 { out[i, j] = x[i, j] } } }",
            ("x", "y"),
        ),
        # another element is read after it was written
        (HEAD + "for i in 0..4 { for j in 0..6 { out[i, j] = x[3 - i, j] } } }", ("y",)),
        (HEAD + "for i in 0..3 { for j in 0..6 { out[i + 1, j] = x[i, j] } } }", ("y",)),
        # two steps of j write what both read
        (HEAD + "for i in 0..4 { for j in 0..6 { out[i, j//2] = x[i, j//2] } } }", ("y",)),
        # a channel is copied before it is written
        (
            PLANE + "for c in 0..6 { for i in 0..4 { p[i] = x[i, c] }"
            " for i in 0..4 { out[i, c] = p[3 - i] } } }",
            ("x",),
        ),
        # ... but its neighbour's is read as well
        (
            PLANE + "for c in 0..5 { for i in 0..4 { p[i] = x[i, c] }"
            " for i in 0..4 { out[i, c + 1] = p[3 - i] } } }",
            (),
        ),
        # read after the first write of the same step
        (
            PLANE + "for c in 0..6 { for i in 0..4 { p[i] = x[i, c] }"
            " for i in 0..4 { out[i, c] = p[3 - i] } for i in 0..4 { p[i] = x[i, c] } } }",
            (),
        ),
        # the output is read itself
        (HEAD + "for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] + out[i, j] } } }", ()),
    ],
)
def test_in_place(text, expected):
    assert in_place_inputs(parse_func(text)) == expected


def test_shapes_and_dtypes_must_agree():
    text = "func f(x: arena int8[6, 4], y: arena uint8[24], out: arena int8[24]) {"
    text += "for i in 0..6 { for j in 0..4 { out[i*4 + j] = x[i, j] } } }"
    assert in_place_inputs(parse_func(text)) == ()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # loops that start elsewhere, and steps that reach further than one element
        ("for i in 1..4 { for j in 2..6 { out[i, j] = x[i, j] } }", ("x", "y")),
        ("for i in 0..4 { for j in 0..2 { for k in 0..3 { out[i, j*3 + k] = x[i, j*3 + k] } } }",
         ("x", "y")),
        ("for i in 0..4 { for j in 0..2 { for k in 0..4 { out[i, j*2 + k] = x[i, j*2 + k] } } }",
         ("y",)),
        ("for i in 0..4 { for j in 0..2 { for k in 3..6 { out[i, k - j] = x[i, k - j] } } }",
         ("y",)),
        # a loop of one step has nothing for itself, and needs nothing
        ("for n in 0..1 { for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] } } }", ("x", "y")),
        ("for n in 0..2 { for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] } } }", ("y",)),
        ("for n in 3..4 { for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] } } }", ("x", "y")),
        # ... also where the loop is a thread's
        ("thread_x for n in 1..2 { for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] } } }",
         ("x", "y")),
        # what comes before and after, in a sequence of its own
        ("out[0, 0] = 1i8 for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] } }", ("y",)),
        ("for i in 0..4 { { for j in 0..6 { out[i, j] = x[i, j] } } }", ("x", "y")),
    ],
)  # fmt: skip
def test_slabs_of_steps(body: str, expected: tuple[str, ...]) -> None:
    assert in_place_inputs(parse_func(f"{HEAD} {body} }}")) == expected


def test_a_sequence_with_one_user_of_the_buffers_is_entered() -> None:
    text = (
        PLANE
        + """
      for i in 0..4 { p[i] = 0i8 }
      for c in 0..6 { p[0] = 1i8 for i in 0..4 { out[i, c] = x[i, c] } }
    }"""
    )
    assert in_place_inputs(parse_func(text)) == ("x",)


def test_only_one_output_may_replace() -> None:
    two = "func f(x: arena int8[4], a: arena int8[4], b: arena int8[4]) { for i in 0..4 {"
    assert in_place_inputs(parse_func(f"{two} a[i] = x[i] b[i] = x[i] }} }}")) == ()
    assert in_place_inputs(parse_func(f"{two} a[i] = x[i] }} }}")) == ("x", "b")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # a channel is copied before it is written, or two are
        ("for c in 0..6 { for i in 0..4 { p[i] = x[i, c] }"
         " for i in 0..4 { out[i, c] = p[3 - i] } }", 6),
        ("for c in 0..3 { for i in 0..4 { p[i] = x[i, c*2] }"
         " for i in 0..4 { out[i, c*2 + 1] = p[i] out[i, c*2] = p[i] } }", 0),
        # a row is copied before it is written, element after element
        ("for i in 0..4 { for j in 0..4 { p[j] = x[i, j] }"
         " for j in 0..4 { out[i, j] = p[j] } }", 0),
        ("for i in 0..4 { for j in 0..6 { out[i, j] = x[i, j] } }", 0),
        # not in place
        ("for c in 0..5 { for i in 0..4 { p[i] = x[i, c] }"
         " for i in 0..4 { out[i, c + 1] = p[3 - i] } }", 0),
    ],
)  # fmt: skip
def test_rows_that_an_output_may_lie_above(body: str, expected: int) -> None:
    assert row_bytes(parse_func(f"{PLANE} {body} }}")) == expected
