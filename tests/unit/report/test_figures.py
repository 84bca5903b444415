from __future__ import annotations

import pytest

from edgec.report.figures import (
    count,
    percent,
    plural,
    ranges,
    ratio,
    short_function,
    short_name,
    signed,
    signed_percent,
    tight_name,
)


@pytest.mark.parametrize(
    ("name", "short", "tight"),
    [
        ("a/b/c/d;e/f", "c/d", "c"),
        ("model/activation_2/Relu;x", "activation_2/Relu", "activation_2"),
        ("layer/conv/Conv_output_0", "conv/Conv_output_0", "Conv_output_0"),
        ("plain", "plain", "plain"),
        ("/lead/x", "lead/x", "lead"),
        (";", ";", ";"),
        ("", "", ""),
    ],
)
def test_names(name: str, short: str, tight: str) -> None:
    assert short_name(name) == short
    assert tight_name(name) == tight


def test_functions_lose_prefix_and_clone_suffix() -> None:
    assert short_function("net_conv2d.constprop.0", "net") == "conv2d"
    assert short_function("net_run.part.0.isra.0", "net") == "run"
    assert short_function("memcpy", "net") == "memcpy"


def test_numbers() -> None:
    assert (count(1234567), count(0), count(None)) == ("1,234,567", "0", "")
    assert (signed(1200), signed(-1200), signed(0), signed(None)) == (
        "+1,200", "\N{MINUS SIGN}1,200", "0", "")  # fmt: skip
    assert (percent(1, 8), percent(1, 0)) == ("12.5 %", "")
    assert (signed_percent(200, 150), signed_percent(0, 1)) == ("\N{MINUS SIGN}25.0 %", "")
    assert signed_percent(10000, 9999) == ""
    assert (plural(1, "step"), plural(1200, "step")) == ("1 step", "1,200 steps")
    assert (ratio(5, 2), ratio(None, 2), ratio(1, 0)) == ("2.50", "", "")


def test_ranges() -> None:
    assert ranges([9, 3, 8, 7, 1]) == "1, 3, 7\N{EN DASH}9"
    assert ranges([]) == ""
