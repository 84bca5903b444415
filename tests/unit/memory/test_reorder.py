"""Branches run one after the other where that keeps fewer bytes alive."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgec.graph.ir import Function, Module
from edgec.memory.choose import choose
from edgec.memory.layout import ARENA, placement_problem
from edgec.memory.reorder import best_order, orders
from edgec.memory.solve import plan_memory
from edgec.ops.add import AddAttrs
from edgec.options import Optimize, Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, lower_group
from edgec.passes.row_functions import RowGroup, row_members
from edgec.passes.stream_groups import Member, stream_segment
from edgec.pipeline import compile_module
from edgec.targets.core import find_core
from edgec.targets.target import target_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from test_stream_groups import QUANT, Network, mobile

POLICY = target_for(find_core("cortex-m0"), Options())


def branches() -> Function:
    """Two wide layers that narrow ones follow, written wide first: breadth first is dear."""
    n = Network()
    x = n.input(1, 8, 8)
    wide = [n.window(x, name, 64, 1) for name in "ab"]
    narrow = [n.window(w, f"{w.name}.narrow", 4, 1) for w in wide]
    return n.b.finish([n.b.op("add", narrow, AddAttrs(QUANT), name="sum")])


def lowered(function: Function) -> list[LoweredGroup]:
    return [lower_group(group, POLICY) for group in fuse_groups(function)]


def test_a_branch_is_finished_before_the_next_begins() -> None:
    function = branches()
    groups = lowered(function)
    known = orders(function, groups)
    assert len(known) == 2 and known[0] == tuple(groups)
    order = [groups.index(group) for group in known[1]]
    assert order in ([0, 2, 1, 3, 4], [1, 3, 0, 2, 4])
    _, choice = choose(function, groups, POLICY, Options(optimize="ram"))
    given = plan_memory(
        placement_problem(function, groups, [group.variants[-1] for group in groups])
    ).peak_bytes[ARENA]
    chosen = plan_memory(placement_problem(function, choice.groups, choice.variants)).peak_bytes[
        ARENA
    ]
    assert chosen + 8 * 50 <= given  # hardly more than one wide value instead of two


def residual() -> Function:
    """A residual block that can stream, then one whose long branch is written before its short."""
    n = Network()
    same = ((1, 1), (1, 1))
    x = n.window(n.input(24, 15, 8), "x", 32, 3, 1, same)
    a = n.window(n.window(x, "a", 32, 3, 1, same), "b", 32, 3, 1, same)
    y = n.b.op("add", [x, a], AddAttrs(QUANT), name="y")
    c = n.window(n.window(y, "c", 64, 3, 2, ((0, 1), (1, 1))), "d", 64, 3, 1, same)
    return n.b.finish([n.b.op("add", [c, n.window(y, "e", 64, 1, 2)], AddAttrs(QUANT), name="z")])


def test_what_streams_leaves_room_for_another_order() -> None:
    """The hungriest step needs the same in every order, but not when it streams."""
    function = residual()
    policy = target_for(find_core("cortex-m4"), Options())
    groups = tuple(lower_group(group, policy) for group in fuse_groups(function))
    fastest = [min(g.variants, key=lambda v: v.instructions) for g in groups]
    given = list(range(len(groups)))
    assert list(best_order(function, groups, fastest)) == given
    members = []
    for rows in (row_members([g.group for g in groups], policy)[i] for i in (1, 2, 3)):
        assert isinstance(rows, RowGroup)
        members.append(Member(rows, {k: rows.lowered(k).variants[0] for k in rows.kinds}))
    running = (groups[0], stream_segment(members), *groups[4:])
    order = best_order(function, running, [fastest[0], running[1].variants[0], *fastest[4:]])
    ends = [running[i].group.output.name for i in order]
    assert ends.index("e.q") < ends.index("d.q")


def test_a_chain_stays_as_it_is() -> None:
    function = mobile()
    groups = lowered(function)
    assert orders(function, groups) == (tuple(groups),)


@pytest.mark.parametrize("optimize", ["balanced", "size", "ram"])
def test_whole_compilations_take_the_better_order(
    optimize: Optimize, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Module({"main": branches()}, source="net.onnx")
    core = find_core("cortex-m0")
    options = Options(optimize=optimize)
    ordered = compile_module(module, core, options)
    for name in ("edgec.memory.reorder", "edgec.memory.choose"):
        monkeypatch.setattr(f"{name}.best_order", lambda _, groups, __: tuple(range(len(groups))))
    given = compile_module(module, core, options)
    titles = [[step.title for step in c.program.steps] for c in (ordered, given)]
    assert titles[0] != titles[1] and sorted(titles[0]) == sorted(titles[1])
    assert ordered.program.arena_bytes + 8 * 50 <= given.program.arena_bytes
    assert ordered.plan.certificate.is_optimal
    # The golden run's CRC is computed on the graph: the same for both.
    assert ordered.program.golden == given.program.golden
