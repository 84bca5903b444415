"""Clean-up after scheduling, text before and after."""

from dataclasses import replace

import pytest

from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func, print_stmt
from edgec.loop.simplify import drop_decided, lower_blocks, simplify


def body_of(func):
    return "\n".join(print_stmt(func.body))


HEAD = "func f(x: arena int8[8], y: arena int8[8], t: scratch int8[8]) {"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for i in 3..4 { y[i] = x[i] }", "y[3] = x[3]"),
        ("for i in 3..3 { y[i] = x[i] }\ny[0] = 1i8", "y[0] = 1i8"),
        ("for i in 0..4 { if i < 4 { y[i] = 1i8 } }", "for i in 0..4 {\n  y[i] = 1i8\n}"),
        ("for i in 0..4 { if 3 < i { y[i] = 1i8 } }\ny[0] = 1i8", "y[0] = 1i8"),
        ("if 1 < 0 { y[0] = 1i8 } else { y[0] = 2i8 }", "y[0] = 2i8"),
        (
            "for i in 0..4 { for k in i..4 { if i < k + 1 { y[k] = 1i8 } } }",
            "for i in 0..4 {\n  for k in i..4 {\n    y[k] = 1i8\n  }\n}",
        ),
    ],
)
def test_decided_parts_go(before, after):
    func = parse_func(f"{HEAD}\n{before}\n}}\n")
    assert body_of(replace(func, body=drop_decided(func.body))) == after


def test_init_becomes_a_condition():
    func = parse_func(f"""{HEAD}
      for i in 0..2 {{ for k in i..4 {{
        block b(a: spatial = i, c: reduce = k) {{
          init {{ y[a] = 0i8 }}
          y[a] = y[a] + x[c]
      }} }} }} }}""")
    assert body_of(replace(func, body=lower_blocks(func.body))) == (
        "for i in 0..2 {\n"
        "  for k in i..4 {\n"
        "    if k < i + 1 {\n"
        "      y[i] = 0i8\n"
        "    }\n"
        "    y[i] = y[i] + x[k]\n"
        "  }\n"
        "}"
    )


def test_temporaries_shrink():
    func = parse_func(f"""{HEAD}
      for i in 0..2 {{
        for k in 0..4 {{ block p(a: spatial = i*4 + k) {{ t[a] = x[a] }} }}
        for j in 0..4 {{ block q(a: spatial = i*4 + j) {{ y[a] = t[a] }} }}
      }} }}""")
    text = print_func(simplify(func))
    assert "t: scratch int8[4]" in text
    assert "t[k] = x[i*4 + k]" in text
    assert "y[i*4 + j] = t[j]" in text


def test_what_flows_between_steps_stays():
    func = parse_func(f"""{HEAD}
      for i in 0..8 {{
        block p(a: spatial = i) {{ t[a] = t[a] + x[a] }}
        block q(a: spatial = i) {{ y[a] = t[a] }}
      }} }}""")
    assert "t: scratch int8[8]" in print_func(simplify(func))


def test_an_accumulator_whose_reduction_is_outside_stays():
    func = parse_func(f"""{HEAD}
      for k in 0..4 {{ for i in 0..8 {{
        block p(a: spatial = i, c: reduce = k) {{ init {{ t[a] = 0i8 }} t[a] = t[a] + x[c] }}
        block q(a: spatial = i) {{ y[a] = t[a] }}
      }} }} }}""")
    assert "t: scratch int8[8]" in print_func(simplify(func))


def test_blocks_go_wherever_they_stand():
    inside = "block b(a: spatial = 3) { y[a] = x[a] }"
    for text in (
        "if 1 < 2 {{ y[0] = 1i8 }} else {{ {} }}", "when x[0] {{ y[0] = 1i8 }} else {{ {} }}",
        "when x[0] {{ {} }}", "repeat {{ {} }} while (x[0]) {{ y[1] = 1i8 }}",
        "repeat {{ y[1] = 1i8 }} while (x[0]) {{ {} }}", "for i in 0..4 {{ {} }}",
    ):  # fmt: skip
        func, plain = (
            parse_func(f"{HEAD} {text.format(each)} }}") for each in (inside, "y[3] = x[3]")
        )
        assert lower_blocks(func.body) == plain.body


def test_a_loop_that_may_have_no_step_is_kept():
    func = parse_func(f"{HEAD} for j in 0..2 {{ for i in 0..j {{ y[i] = 1i8 }} }} }}")
    assert drop_decided(func.body) == func.body
