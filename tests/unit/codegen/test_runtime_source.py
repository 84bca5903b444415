"""Single functions come out of the runtime's headers with what they call."""

from __future__ import annotations

import re

import pytest

from edgec.codegen.runtime_source import needed_functions, runtime_functions
from edgec.errors import ContractError


def test_callees_come_before_callers() -> None:
    functions = needed_functions(["y = ec_requantize_tflm_small_s8(a, m, s, z);"])
    names = [function.name for function in functions]
    assert names.index("ec_high_of_double") < names.index("ec_requantize_tflm_small_s8")
    assert "ec_saturate_half_s8" in names
    assert "ec_requantize_onnx" not in names


def test_every_header_function_is_found() -> None:
    functions = runtime_functions()
    assert len(functions) > 40
    for function in functions.values():
        assert function.text.startswith("/*")
        assert function.text.endswith("}")
        assert function.text.count("static inline") == 1
        code = re.sub(r"/\*.*?\*/", "", function.text, flags=re.S)
        assert code.count("{") == code.count("}"), function.name
        assert set(function.calls) <= set(functions), function.name


def test_names_in_comments_do_not_count() -> None:
    assert needed_functions(["/* like ec_add_s32(a, b) */ y = 1;"]) == ()


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(ContractError, match="ec_no_such_thing"):
        needed_functions(["ec_no_such_thing(1);"])
