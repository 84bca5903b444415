"""Branches run one after the other where that keeps fewer bytes alive."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgec.graph.ir import Function, Module
from edgec.loop.policy import policy_for
from edgec.memory.choose import choose
from edgec.memory.layout import ARENA, placement_problem
from edgec.memory.reorder import reordered
from edgec.memory.solve import plan_memory
from edgec.ops.add import AddAttrs
from edgec.options import Optimize, Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, lower_group
from edgec.pipeline import compile_module
from edgec.target.core import find_core

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from test_stream_groups import QUANT, Network, mobile

POLICY = policy_for(find_core("cortex-m0"), Options())


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
    order = [groups.index(group) for group in reordered(function, groups)]
    assert order in ([0, 2, 1, 3, 4], [1, 3, 0, 2, 4])
    choice = choose(function, groups, POLICY, Options(optimize="ram"))
    given = plan_memory(
        placement_problem(function, groups, [group.variants[-1] for group in groups])
    ).peak_bytes[ARENA]
    chosen = plan_memory(placement_problem(function, choice.groups, choice.variants)).peak_bytes[
        ARENA
    ]
    assert chosen + 8 * 50 <= given  # hardly more than one wide value instead of two


def test_a_chain_stays_as_it_is() -> None:
    function = mobile()
    groups = lowered(function)
    assert reordered(function, groups) == tuple(groups)


@pytest.mark.parametrize("optimize", ["balanced", "size", "ram"])
def test_whole_compilations_take_the_better_order(
    optimize: Optimize, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Module({"main": branches()}, source="net.onnx")
    core = find_core("cortex-m0")
    options = Options(optimize=optimize)
    ordered = compile_module(module, core, options)
    for name in ("edgec.pipeline", "edgec.memory.choose"):
        monkeypatch.setattr(f"{name}.reordered", lambda function, groups: tuple(groups))
    given = compile_module(module, core, options)
    titles = [[step.title for step in c.program.steps] for c in (ordered, given)]
    assert titles[0] != titles[1] and sorted(titles[0]) == sorted(titles[1])
    assert ordered.program.arena_bytes + 8 * 50 <= given.program.arena_bytes
    assert ordered.plan.certificate.is_optimal
    # The golden run's CRC is computed on the graph: the same for both.
    assert ordered.program.golden == given.program.golden
