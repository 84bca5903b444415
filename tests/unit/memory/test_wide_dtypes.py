"""Values of 8 bytes an element lie at multiples of 8."""

from __future__ import annotations

import numpy as np
import pytest

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Module
from edgec.graph.types import TensorType
from edgec.loop.ir import Buffer, PrimFunc, Seq
from edgec.memory.layout import value_aligns
from edgec.ops.concat import ConcatAttrs
from edgec.ops.control import WhileAttrs
from edgec.ops.slice import SliceAttrs
from edgec.options import Options
from edgec.passes.lower_groups import scratch_places
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


def repeated(dtype: str) -> Function:
    """A loop as long as `n[0] < 9`, whose body joins two values and takes a part of them."""
    condition, body, b = GraphBuilder("condition"), GraphBuilder("body"), GraphBuilder()
    type_ = TensorType((3,), dtype)
    least = condition.constant("least", np.full(3, 9, dtype))
    holds = condition.op("less", [condition.param("n", type_), least], name="holds")
    first = condition.op("slice", [holds], SliceAttrs((0,), (1,), (1,)), name="first")
    n = body.param("n", type_)
    one = body.op("int_add", [n, body.constant("one", np.ones(3, dtype))], name="one_more")
    both = body.op("concat", [one, n], ConcatAttrs(0), name="both")
    part = body.op("slice", [both], SliceAttrs((1,), (1,), (3,)), name="part")
    bodies = (condition.finish([first]), body.finish([part]))
    return b.finish(
        b.node("while", [b.param("n", type_)], WhileAttrs(1, 9), name="w", bodies=bodies).outputs
    )


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("core", ["host", "cortex-m4"])
def test_values_inside_a_loop_are_aligned(core: str, dtype: str) -> None:
    chosen = host_core() if core == "host" else find_core(core)
    program = compile_module(
        Module({"main": repeated(dtype)}, "test"), chosen, Options(unfused=True)
    ).program
    program.check()


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


def test_scratch_lies_at_multiples_of_its_dtype() -> None:
    scratch = [
        Buffer(name, (3,), dtype, scope="scratch")
        for name, dtype in (("a", "int8"), ("b", "int64"), ("c", "int16"), ("d", "float32"))
    ]
    function = PrimFunc("f", tuple(scratch), (), Seq(()))
    assert scratch_places(function) == ({"a": 0, "b": 8, "c": 32, "d": 40}, 52)
