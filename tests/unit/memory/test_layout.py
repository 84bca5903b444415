"""From groups to a placement problem: what may overlap what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.memory.layout import placement_problem, variant_distances
from edgec.memory.problem import Overlap, Problem
from edgec.memory.solve import plan_memory
from edgec.ops.add import AddAttrs
from edgec.ops.dense import Dense
from edgec.ops.leaky_relu import LeakyReluAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.transpose import Transpose, TransposeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

TYPE = TensorType((4, 4), "int8", Quant((0.1,), (0,)))


def problem_of(function: Function, *, io: Any = "arena") -> Problem:
    policy = target_for(find_core("cortex-m4"), Options())
    groups = [lower_group(group, policy) for group in fuse_groups(function)]
    chosen = [lowered.variants[0] for lowered in groups]
    return placement_problem(function, groups, chosen, io=io)


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


def test_scratch_may_take_the_place_of_an_input_that_dies() -> None:
    policy = target_for(find_core("cortex-m4"), Options())
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 32), "int8", Quant((0.1,), (0,))))
    once = b.finish([dense(b, x, 8, "once")])
    groups = [lower_group(group, policy) for group in fuse_groups(once)]
    by_scratch = {v.scratch_bytes: v for v in groups[0].variants}
    problem = placement_problem(once, groups, [by_scratch[32]])
    assert Overlap("x", "scratch.0", 0) in problem.overlaps
    assert plan_memory(problem).peak_bytes == {"arena": 40}
    # A copy that is larger than the input would have to start below it.
    for scratch_bytes, io in ((64, "arena"), (32, "caller")):
        problem = placement_problem(once, groups, [by_scratch[scratch_bytes]], io=io)
        assert "scratch.0" not in {overlap.second for overlap in problem.overlaps}

    b = GraphBuilder()
    x = b.param("x", TensorType((1, 32), "int8", Quant((0.1,), (0,))))
    twice = b.finish([dense(b, x, 8, "first"), dense(b, x, 8, "second")])
    groups = [lower_group(group, policy) for group in fuse_groups(twice)]
    chosen = [{v.scratch_bytes: v for v in lowered.variants}[32] for lowered in groups]
    overlaps = placement_problem(twice, groups, chosen).overlaps
    assert [o for o in overlaps if o.second.startswith("scratch")] == [Overlap("x", "scratch.1", 0)]


def test_a_value_that_one_element_reads_several_times_needs_no_scratch() -> None:
    floats = TensorType((1, 4, 4, 8), "float32")
    b = GraphBuilder()
    x = b.param("x", floats)
    moved = b.op("add", [x, b.constant("b", np.ones(8, np.float32))], AddAttrs(None), name="moved")
    out = b.op("leaky_relu", [moved], LeakyReluAttrs(0.2), name="out")
    problem = problem_of(b.finish([out]))
    assert [buffer.name for buffer in problem.buffers] == ["x", "out"]
    assert problem.overlaps == (Overlap("x", "out", 0),)
