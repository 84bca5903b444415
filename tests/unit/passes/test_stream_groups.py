"""A segment that runs row by row gives what its groups give, and keeps a few rows only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.loop.access import writes
from edgec.loop.interpret import interpret as interpret_loops
from edgec.loop.interpret import run_source
from edgec.loop.ir import TRACE_PART
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.schedule import replay
from edgec.loop.verify import verify_func
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup
from edgec.passes.row_functions import RowSum, row_members
from edgec.passes.stream_groups import Member, stream_segment
from edgec.targets.core import find_core
from edgec.targets.target import target_for

QUANT = Quant((0.1,), (-5,))


def as_callee(func):
    """What runs a function where another one calls it, on parts of the caller's lists."""

    def run(*args):
        parts = {}
        for position, buffer in enumerate(func.params):
            values, offset = args[2 * position], args[2 * position + 1]
            parts[buffer.name] = values[offset : offset + buffer.elements]
        run_source(func, parts)
        written = writes(func.body)
        for position, buffer in enumerate(func.params):
            if buffer in written:
                values, offset = args[2 * position], args[2 * position + 1]
                values[offset : offset + buffer.elements] = parts[buffer.name]

    return run


class Network:
    """Builds small int8 networks; every value has the same quantization."""

    def __init__(self) -> None:
        self.b = GraphBuilder()
        self.rng = np.random.default_rng(5)

    def input(self, *shape: int) -> Value:
        return self.b.param("x", TensorType((1, *shape), "int8", QUANT))

    def constant(self, name: str, shape: tuple[int, ...], dtype: str) -> Any:
        most = 127 if dtype == "int8" else 500
        data = self.rng.integers(-most, most + 1, shape).astype(dtype)
        return self.b.constant(name, data, Quant((0.02,), (0,)) if dtype == "int8" else None)

    def window(self, x: Value, name: str, channels: int, kernel: int, stride: int = 1,
               padding: Any = ((0, 0), (0, 0))) -> Value:  # fmt: skip
        depth = x.type.shape[3]
        if channels:
            w = self.constant(f"{name}.w", (channels, kernel, kernel, depth), "int8")
            attrs: Any = Conv2dAttrs((stride, stride), (1, 1), padding)
            op, taps = "conv2d", kernel * kernel * depth
        else:
            w = self.constant(f"{name}.w", (kernel, kernel, depth), "int8")
            attrs = DepthwiseConv2dAttrs((stride, stride), (1, 1), padding)
            op, taps, channels = "depthwise_conv2d", kernel * kernel, depth
        bias = self.constant(f"{name}.b", (channels,), "int32")
        acc = self.b.op(op, [x, w, bias], attrs, name=name)
        factor = RequantizeAttrs((0.012 / taps**0.5,) * channels, QUANT, -128, 127, "tflm")
        return self.b.op("requantize", [acc], factor, name=f"{name}.q")


SAME = ((1, 1), (1, 1))


def mobile() -> Function:
    n = Network()
    x = n.input(13, 8, 3)
    a = n.window(x, "a", 8, 3, 2, ((0, 1), (0, 1)))
    b = n.window(a, "b", 0, 3, 1, SAME)
    c = n.window(b, "c", 4, 1)
    d = n.window(c, "d", 0, 3, 2, ((1, 1), (1, 1)))
    return n.b.finish([n.window(d, "e", 6, 1)])


def residual() -> Function:
    """A branch around, and one with a convolution of its own."""
    n = Network()
    x = n.window(n.input(10, 6, 4), "x", 4, 1)
    a = n.window(n.window(x, "a", 4, 3, 1, SAME), "b", 4, 3, 1, SAME)
    y = n.b.op("add", [x, a], AddAttrs(QUANT), name="y")
    c = n.window(n.window(y, "c", 8, 3, 2, ((0, 1), (0, 1))), "d", 8, 3, 1, SAME)
    return n.b.finish([n.b.op("add", [c, n.window(y, "e", 8, 1, 2)], AddAttrs(QUANT), name="z")])


def pooled() -> Function:
    n = Network()
    a = n.window(n.input(9, 4, 2), "a", 8, 3, 1, SAME)
    b = n.b.op("max_pool2d", [a], MaxPool2dAttrs((2, 2), (2, 2)), name="b")
    mean = AvgPool2dAttrs(b.type.shape[1:3], (1, 1), output=QUANT)
    return n.b.finish([n.b.op("avg_pool2d", [b], mean, name="mean")])


def scalar_sum() -> Function:
    """A number is added to every element, as some networks do at their end."""
    n = Network()
    a = n.window(n.input(6, 5, 3), "a", 4, 3, 1, SAME)
    one = n.b.constant("one", np.array(7, np.int8), QUANT)
    b = n.b.op("add", [a, one], AddAttrs(QUANT), name="b")
    return n.b.finish([n.window(b, "c", 4, 1)])


def streamed(function: Function, core: str, fastest: bool) -> LoweredGroup:
    policy = target_for(find_core(core), Options())
    members = []
    for rows in row_members(fuse_groups(function), policy).values():
        variants = {}
        if not isinstance(rows, RowSum):
            for kind in rows.kinds:
                menu = rows.lowered(kind).variants
                variants[kind] = menu[0] if fastest else menu[-1]
        members.append(Member(rows, variants))
    return stream_segment(members)


@pytest.mark.parametrize("make", [mobile, residual, pooled, scalar_sum])
@pytest.mark.parametrize(("core", "fastest"), [("cortex-m4", True), ("cortex-m0", False)])
def test_rows_give_the_same_bits(make: Any, core: str, fastest: bool) -> None:
    function = make()
    (variant,) = streamed(function, core, fastest).variants
    verify_func(variant.function)
    assert parse_func(print_func(variant.function)) == variant.function
    x = function.params[0]
    data = np.random.default_rng(2).integers(-128, 128, x.type.shape).astype(np.int8)
    (expected,) = interpret(function, [data])
    given = {p.name: variant.constants[p.name] for p in variant.function.params
             if p.scope == "constant"}  # fmt: skip
    rows = next(p for p in variant.function.params if p.name == "x").shape
    callees = {name: as_callee(func) for name, func in variant.callees.items()}
    found = interpret_loops(variant.function, {**given, "x": data.reshape(rows)}, callees=callees)[
        "out"
    ]
    assert np.array_equal(found.reshape(expected.shape), expected)


def test_as_few_rows_as_possible_are_kept() -> None:
    (variant,) = streamed(mobile(), "cortex-m4", True).variants
    rows = {p.name: p.shape[0] for p in variant.function.params if p.name[0] == "v"}
    assert rows == {"v0": 3, "v1": 1, "v2": 3, "v3": 1}
    (variant,) = streamed(residual(), "cortex-m4", True).variants
    rows = {p.name: p.shape[0] for p in variant.function.params if p.name[0] == "v"}
    # v0 waits two rows for the sum, which replaces v2's rows by v3's; v6, one row ahead of v5, is
    # computed in the output.
    assert rows == {"v0": 3, "v1": 3, "v3": 3, "v4": 3, "v5": 1}


def test_a_sum_keeps_one_row_and_its_accumulator() -> None:
    (variant,) = streamed(pooled(), "cortex-m4", True).variants
    sizes = {p.name: p.shape for p in variant.function.params if p.scope == "scratch"}
    assert sizes["v0"] == (2, 32) and sizes["v1"] == (1, 16) and sizes["total"] == (1, 1, 1, 8)


def test_rolling_rows_follow_their_input_through_memory() -> None:
    (variant,) = streamed(mobile(), "cortex-m4", True).variants
    distances = {place: distance for place, _, distance in variant.scratch_overlaps}
    # The first row of a is written while the first three rows of x are alive, the second when
    # two are dead, and so on: a's ring may begin one row below x.
    assert distances["v0"] == 4 * 8
    assert distances["v1"] < 0 and distances["v3"] < distances["v1"]


def test_the_schedule_replays() -> None:
    (variant,) = streamed(mobile(), "cortex-m4", True).variants
    schedule = variant.schedule
    names = [step.primitive for step in schedule.trace]
    assert set(names) == {"slide", "fold_storage"}
    with pytest.raises(ScheduleError):
        replay(schedule.func, schedule.trace_json())  # it has been done


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0"])
def test_rows_share_weights_by_their_bits(core: str) -> None:
    """A NaN equals itself, and a zero no negative zero."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 8, 8, 4), "float32"))
    zeros = np.zeros((4, 3, 3, 4), np.float32)
    bias = b.constant("bias", np.ones(4, np.float32))
    attrs = Conv2dAttrs((1, 1), (1, 1), ((1, 1), (1, 1)))
    for name, of in (("a", zeros), ("b", -zeros), ("c", np.full_like(zeros, np.nan))):
        x = b.op("conv2d", [x, b.constant(f"{name}.w", of), bias], attrs, name=name)
    (variant,) = streamed(b.finish([x]), core, True).variants
    arrays = [variant.constants[name] for part in variant.parts for name in part.constants]
    weights = {array.tobytes() for array in arrays if array.size > 4}
    assert len(weights) == 3
    own = [part.constants for part in variant.parts]
    assert all(names and len(names) == len(set(names)) for names in own)


def test_parts_tell_of_every_row() -> None:
    """A part for each member, in their order, with what its rows read and how often it tells."""
    (variant,) = streamed(pooled(), "cortex-m4", True).variants
    assert [part.group.output.name for part in variant.parts] == ["a.q", "b", "mean"]
    told: dict[int, int] = {}

    def tell(*args: Any) -> None:
        told[args[0]] = told.get(args[0], 0) + 1

    callees = {name: as_callee(func) for name, func in variant.callees.items()}
    given = {p.name: variant.constants[p.name] for p in variant.function.params
             if p.scope == "constant"}  # fmt: skip
    rows = next(p for p in variant.function.params if p.name == "x").shape
    interpret_loops(
        variant.function,
        {**given, "x": np.zeros(rows, np.int8)},
        callees={**callees, TRACE_PART: tell},
    )
    for number, part in enumerate(variant.parts):
        calls = told[number] * (2 if part.group.output in variant.rows else 1)
        assert part.hook_calls == calls, part.group.name
    read = {name for part in variant.parts for name in part.constants}
    assert read == set(variant.constants)


@pytest.mark.parametrize(("height", "goes_by_rows"), [(8, False), (1, True)])
def test_a_constant_with_rows_of_its_own_does_not_go_by_rows(
    height: int, goes_by_rows: bool
) -> None:
    """A row would be added to all rows of it, and eight rows written where one is."""
    n = Network()
    x = n.input(8, 6, 4)
    c = n.constant("c", (1, height, 6 if height > 1 else 1, 4), "int8")
    y = n.b.op("add", [x, c], AddAttrs(QUANT), name="y")
    function = n.b.finish([n.window(y, "last", 0, 3)])
    groups = fuse_groups(function)
    found = row_members(groups, target_for(find_core("cortex-m4"), Options()))
    assert (0 in found) == goes_by_rows
