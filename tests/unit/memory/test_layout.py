"""From groups to a placement problem: what may overlap what."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.memory.layout import (
    ARENA,
    STATE,
    lifetimes,
    merged_places,
    placement_problem,
    value_aligns,
    variant_distances,
    with_states,
)
from edgec.memory.problem import Overlap, Problem, Region
from edgec.memory.solve import plan_memory
from edgec.ops.add import AddAttrs
from edgec.ops.dense import Dense
from edgec.ops.leaky_relu import LeakyReluAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.transpose import Transpose, TransposeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, Variant, lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

TYPE = TensorType((4, 4), "int8", Quant((0.1,), (0,)))


def lowered(function: Function) -> tuple[list[LoweredGroup], list[Variant]]:
    policy = target_for(find_core("cortex-m4"), Options())
    groups = [lower_group(group, policy) for group in fuse_groups(function)]
    return groups, [each.variants[0] for each in groups]


def problem_of(function: Function, *, io: Any = "arena") -> Problem:
    return placement_problem(function, *lowered(function), io=io)


def add(b: GraphBuilder, x: Value, y: Value, name: str) -> Value:
    return b.op("add", [x, y], AddAttrs(Quant((0.2,), (0,))), name=name)


def transposed(b: GraphBuilder, x: Value, name: str) -> Value:
    return b.op(Transpose(), [x], TransposeAttrs((1, 0)), name=name)


def test_sum_may_take_the_place_of_either_input() -> None:
    b = GraphBuilder()
    x, y = b.param("x", TYPE), b.param("y", TYPE)
    problem = problem_of(b.finish([add(b, x, y, "sum")]))
    assert problem.overlaps == (Overlap("x", "sum", 0), Overlap("y", "sum", 0))
    assert plan_memory(problem).peak_bytes == {"arena": 32}


def test_residual_input_is_left_alone() -> None:
    b = GraphBuilder()
    x = b.param("x", TYPE)
    first = transposed(b, x, "first")  # x is read again: not to be destroyed
    last = add(b, x, first, "last")
    problem = problem_of(b.finish([last]))
    assert [(o.first, o.second) for o in problem.overlaps] == [("x", "last"), ("first", "last")]


def test_result_that_the_last_group_reads_stays() -> None:
    b = GraphBuilder()
    x, y = b.param("x", TYPE), b.param("y", TYPE)
    kept = add(b, x, y, "kept")
    last = add(b, kept, kept, "last")
    problem = problem_of(b.finish([last, kept]))
    assert {o.second for o in problem.overlaps} == {"kept"}
    plan = plan_memory(problem)
    assert abs(plan.offsets["kept"] - plan.offsets["last"]) >= 16


def test_param_that_is_a_result_stays() -> None:
    b = GraphBuilder()
    x, y = b.param("x", TYPE), b.param("y", TYPE)
    problem = problem_of(b.finish([add(b, x, y, "sum"), x]))
    assert problem.overlaps == (Overlap("y", "sum", 0),)


def test_two_views_of_one_value_allow_what_both_allow() -> None:
    x, row, out = Value("x", TYPE), Value("row", TYPE.with_shape((16,))), Value("out", TYPE)
    roots = {row: x}

    def distances(*overlaps: tuple[Value, int]) -> dict[Value, int]:
        stub: Any = SimpleNamespace(args=(x, row, None, out), overlaps=overlaps)
        return variant_distances(stub, out, roots)

    assert distances((x, 3), (row, 5)) == {x: 5}
    assert distances((x, 3), (row, -5)) == {x: 3}
    assert distances((x, 3)) == {}


def test_callers_memory_is_never_shared() -> None:
    b = GraphBuilder()
    x, y = b.param("x", TYPE), b.param("y", TYPE)
    inner = add(b, x, y, "inner")
    last = add(b, inner, y, "last")
    assert problem_of(b.finish([last]), io="caller").overlaps == ()


def dense(b: GraphBuilder, x: Value, channels: int, name: str) -> Value:
    inputs = x.type.shape[1]
    rng = np.random.default_rng(5)
    weights = rng.integers(-127, 128, (channels, inputs)).astype(np.int8)
    w = b.constant("w", weights, Quant((0.1,), (0,)))
    bias = b.constant("bias", np.zeros(channels, np.int32))
    acc = b.op(Dense(), [x, w, bias], name=f"{name}.acc")
    attrs = RequantizeAttrs((0.002,) * channels, Quant((0.4,), (-128,)), -128, 127, "tflm")
    return b.op("requantize", [acc], attrs, name=name)


def test_scratch_that_is_larger_than_an_input_does_not_take_its_place() -> None:
    policy = target_for(find_core("cortex-m4"), Options())
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 32), "int8", Quant((0.1,), (0,))))
    once = b.finish([dense(b, x, 8, "once")])
    groups = [lower_group(group, policy) for group in fuse_groups(once)]
    (variant,) = (v for v in groups[0].variants if v.scratch_bytes == 64)
    for io in ("arena", "caller"):
        problem = placement_problem(once, groups, [variant], io=io)
        assert "scratch.0" not in {overlap.second for overlap in problem.overlaps}
        (scratch,) = (b for b in problem.buffers if b.name == "scratch.0")
        assert (scratch.start, scratch.stop, scratch.size_bytes) == (0, 1, 64)


def test_a_value_that_one_element_reads_several_times_needs_no_scratch() -> None:
    floats = TensorType((1, 4, 4, 8), "float32")
    b = GraphBuilder()
    x = b.param("x", floats)
    moved = b.op("add", [x, b.constant("b", np.ones(8, np.float32))], AddAttrs(None), name="moved")
    out = b.op("leaky_relu", [moved], LeakyReluAttrs(0.2), name="out")
    problem = problem_of(b.finish([out]))
    assert [buffer.name for buffer in problem.buffers] == ["x", "out"]
    assert problem.overlaps == (Overlap("x", "out", 0),)


def chain() -> tuple[Function, list[LoweredGroup], list[Variant], dict[str, Value]]:
    """third = transposed(second), second = first + y, first = x + y."""
    b = GraphBuilder()
    x, y = b.param("x", TYPE), b.param("y", TYPE)
    first = add(b, x, y, "first")
    second = add(b, first, y, "second")
    function = b.finish([transposed(b, second, "third")])
    return function, *lowered(function), {value.name: value for value in function.values()}


def test_values_live_from_their_group_to_their_last_reader() -> None:
    function, groups, _, values = chain()
    start, stop = lifetimes(function, groups, {})
    assert {v.name: (start[v], stop[v]) for v in start} == {
        "x": (0, 1), "y": (0, 2), "first": (0, 2), "second": (1, 3), "third": (2, 3),
    }  # fmt: skip
    b = GraphBuilder()
    x = b.param("x", TYPE)
    assert lifetimes(b.finish([x]), [], {}) == ({x: 0}, {x: 1})
    # A value that nobody reads lives while it is made.
    other = replace(function, results=(values["first"],))
    assert lifetimes(other, groups, {})[1][values["third"]] == 3


def test_an_output_replaces_an_input_that_dies() -> None:
    function, groups, chosen, values = chain()

    def merged(io: Any = "arena", **in_place: tuple[str, ...]) -> dict[str, str]:
        names = ("first", "second", "third")
        variants = [
            replace(variant, in_place=tuple(values[v] for v in in_place.get(name, ())))
            for name, variant in zip(names, chosen, strict=True)
        ]
        found = merged_places(function, groups, variants, io=io)
        return {value.name: place.name for value, place in found.items()}

    assert merged(second=("first",)) == {"second": "first"}
    assert merged(second=("first",), third=("second",)) == {"second": "first", "third": "first"}
    assert merged(first=("y",)) == {}  # y is read again
    assert merged(first=("y", "x")) == {"first": "x"}
    assert merged(io="caller", third=("second",)) == {}  # the caller's memory
    assert merged(io="caller", first=("x",)) == {}

    variants = [chosen[0], replace(chosen[1], in_place=(values["first"],)), chosen[2]]
    together = placement_problem(function, groups, variants)
    assert [(b.name, b.start, b.stop) for b in together.buffers] == [
        ("x", 0, 1), ("y", 0, 2), ("first", 0, 3), ("third", 2, 3),
    ]  # fmt: skip
    assert "second" not in {overlap.second for overlap in together.overlaps}
    assert ("first", "third") in {(o.first, o.second) for o in together.overlaps}
    variants = [*chosen[:2], replace(chosen[2], in_place=(values["second"],))]
    apart = placement_problem(function, groups, variants, merge=False)
    assert Overlap("second", "third", 0) in apart.overlaps
    assert {"second", "third"} <= {b.name for b in apart.buffers}


def test_states_live_all_the_time_in_a_region_of_their_own() -> None:
    function, groups, chosen, _ = chain()
    problem = placement_problem(function, groups, chosen)
    assert with_states(problem, function) is problem
    b = GraphBuilder()
    x = b.param("x", TYPE)
    state = b.state("total", TYPE, np.zeros((4, 4), np.int8))
    b.become(state, add(b, x, state, "more"))
    stateful = b.finish([x])
    before = problem_of(stateful)
    after = with_states(before, stateful)
    (kept,) = after.buffers[len(before.buffers) :]
    assert (kept.name, kept.start, kept.stop, kept.regions) == ("total", 0, 1, (STATE,))
    assert after.regions == (*before.regions, Region(STATE))
    empty = Problem((), (), (Region(ARENA),))
    assert [(b.start, b.stop) for b in with_states(empty, stateful).buffers] == [(0, 1)]


def test_values_are_aligned_to_the_widest_that_shares_their_place() -> None:
    def value(name: str, dtype: str) -> Value:
        return Value(name, TensorType((4,), dtype))

    byte, wide, other = value("byte", "int8"), value("wide", "float64"), value("other", "int8")
    function: Any = SimpleNamespace(inner_values=list, values=lambda: (byte, wide, other))
    assert value_aligns(function, {}) == {byte: 4, wide: 8, other: 4}
    assert value_aligns(function, {wide: byte}) == {byte: 8, wide: 8, other: 4}
    assert value_aligns(function, {}, {wide: other}) == {byte: 4, wide: 8, other: 8}
    inner: Any = SimpleNamespace(
        inner_values=lambda: [(None, value("inner", "int64"))], values=lambda: (byte, other)
    )
    assert value_aligns(inner, {}) == {byte: 8, other: 8}
