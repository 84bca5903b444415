"""Values of 8 bytes an element lie at multiples of 8."""

from __future__ import annotations

import pytest

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Module
from edgec.graph.types import TensorType
from edgec.memory.layout import value_aligns
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.targets.core import find_core, host_core


def doubled(dtype: str) -> Function:
    """An int64 beside a value of 7 * 9 floats, which ends at no multiple of 8."""
    ops.load()
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 7, 9), "float32"))
    n = b.param("n", TensorType((7,), dtype))
    root = b.op("sqrt", [x], name="root")
    total = b.op("int_add", [n, n], name="total")
    return b.finish([root, b.op("int_mul", [total, n], name="product")])


@pytest.mark.parametrize("optimize", ["balanced", "ram", "time", "size"])
@pytest.mark.parametrize("core", ["host", "cortex-m4"])
def test_int64_is_aligned(core: str, optimize: str) -> None:
    module = Module({"main": doubled("int64")}, "test")
    chosen = host_core() if core == "host" else find_core(core)
    program = compile_module(module, chosen, Options(optimize=optimize)).program
    program.check()
    assert all(program.offsets[name] % 8 == 0 for name in ("n", "product"))


def test_others_are_packed_as_before() -> None:
    function = doubled("int64")
    aligns = {value.name: size for value, size in value_aligns(function, {}).items()}
    assert {name: aligns[name] for name in ("x", "root", "n", "product")} == {
        "x": 4, "root": 4, "n": 8, "product": 8,
    }  # fmt: skip
    assert set(value_aligns(doubled("int32"), {}).values()) == {4}


def test_what_shares_a_place_has_its_widest_alignment() -> None:
    function = doubled("int64")
    values = {value.name: value for value in function.values()}
    aligns = value_aligns(function, {}, {values["n"]: values["root"]})
    assert aligns[values["root"]] == 8 and aligns[values["x"]] == 4
