"""Menus with what was tuned: replayed, never worse than the default, nothing that is not safe."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.printer import print_func
from edgec.loop.tuned import Figures, Tuned, TunedGroup, Winner, digest
from edgec.ops.conv2d import Conv2dAttrs
from edgec.options import Optimize, Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, lower_group, lowering_of
from edgec.passes.tuned_variants import nest_digest, with_tuned
from edgec.targets.core import find_core
from edgec.targets.target import target_for

TRACE = json.dumps(
    [
        ["split", {"loop": "out_d3", "factor": 3, "tail": "exact"}],
        ["compute_at", {"block": "acc", "loop": "out_d3_o", "scope": "register"}],
        ["decompose_reduction", {"block": "acc", "loop": "acc_c"}],
        ["set_kind", {"loop": "out_d3_i", "kind": "unrolled"}],
    ]
)


PLAIN = Conv2dAttrs()
FIGURES = Figures(100, 0, 500, 40, 80)


def convolution(first_weight: float = 1.0, attrs: Conv2dAttrs = PLAIN) -> Function:
    rng = np.random.default_rng(1)
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4, 5, 2), "float32"))
    weights = rng.standard_normal((6, 2, 2, 2)).astype(np.float32)
    weights[0, 0, 0, 0] = first_weight
    w = b.constant("w", weights)
    bias = b.constant("bias", rng.standard_normal(6).astype(np.float32))
    return b.finish([b.op("conv2d", [x, w, bias], attrs, name="y")])


def menu(
    trace: str = TRACE, *, instructions: int = 60, optimize: Optimize = "time", nest: str = "",
    function: Function | None = None,
) -> tuple[LoweredGroup, LoweredGroup]:  # fmt: skip
    """The rules' menu, and the menu with a winner; the default takes 100 instructions."""
    core = find_core("cortex-m3")
    target = target_for(core, Options(optimize=optimize))
    (group,) = fuse_groups(function or convolution())
    lowered = lower_group(group, target)
    default = digest(print_func(lowered.variants[0].function))
    found = TunedGroup(
        nest or nest_digest(lowered), core.name, "gcc", "", default,
        {default: Figures(100, 0, 0, 0), "made": Figures(instructions, 0, 0, 0)},
        (), (Winner("", trace, "made"),),
    )  # fmt: skip
    options = replace(target.options, tuned=Tuned({found.key: found}))
    return lowered, with_tuned(lowered, replace(target, options=options))


def shipped(
    optimize: Optimize, made: Figures, base: Figures = FIGURES, core: str = "cortex-m3",
    measured: int = 0,
) -> tuple[LoweredGroup, LoweredGroup]:  # fmt: skip
    """The rules' menu, and the menu with a winner that ships; `measured` of the rules' is known."""
    target = target_for(find_core(core), Options(optimize=optimize))
    (group,) = fuse_groups(convolution())
    lowered = lower_group(group, target)
    default = digest(print_func(lowered.variants[measured].function))
    found = TunedGroup(
        nest_digest(lowered), core, "gcc", "", default, {default: base, "made": made},
        (), (Winner("", TRACE, "made"),),
    )  # fmt: skip
    options = replace(target.options, tuned=Tuned(shipped={found.key: found}))
    return lowered, with_tuned(lowered, replace(target, options=options))


def test_what_ships_comes_first_where_time_alone_counts() -> None:
    lowered, made = shipped("time", Figures(60, 0, 900, 400, 900))
    assert [v.is_tuned for v in made.variants] == [True, *(False for _ in lowered.variants)]


def test_by_default_what_ships_takes_no_more_bytes_of_any_kind() -> None:
    lowered, made = shipped("balanced", replace(FIGURES, instructions=60))
    assert made.variants[0].is_tuned and made.variants[1:] == lowered.variants
    for more in ("code_bytes", "scratch_bytes", "stack_bytes"):
        figures = replace(FIGURES, instructions=60, **{more: 1 + getattr(FIGURES, more)})
        lowered, made = shipped("balanced", figures)
        assert made == lowered, more
    for figures in (FIGURES, replace(FIGURES, instructions=60, stack_bytes=None)):
        lowered, made = shipped("balanced", figures)
        assert made == lowered
    lowered, made = shipped("size", replace(FIGURES, instructions=60))
    assert made == lowered


def test_by_default_what_ships_does_not_stand_beside_kernels() -> None:
    """Others share a kernel: its bytes stay."""
    lowered, made = shipped("balanced", replace(FIGURES, instructions=60), core="cortex-m4")
    assert any(step.primitive == "tensorize" for step in lowered.variants[0].schedule.trace)
    assert made == lowered
    _, made = shipped("time", replace(FIGURES, instructions=60), core="cortex-m4")
    assert made.variants[0].is_tuned


def test_what_ships_waits_for_figures_of_what_comes_first() -> None:
    lowered, made = shipped(
        "time", replace(FIGURES, instructions=60), core="cortex-m4", measured=-1
    )
    assert len(lowered.variants) > 1 and made == lowered


def test_a_winner_comes_first_at_its_share_of_the_default() -> None:
    lowered, made = menu()
    first, *others = made.variants
    assert first.is_tuned and not any(v.is_tuned for v in others)
    assert first.instructions == round(0.6 * lowered.variants[0].instructions)
    assert [v.function for v in others] == [v.function for v in lowered.variants]
    function = convolution()
    x = np.random.default_rng(2).standard_normal((1, 4, 5, 2)).astype(np.float32)
    (expected,) = interpret(function, [x])
    assert np.array_equal(run_loops(first.function, {"x": x, **first.constants})["out"], expected)


@pytest.mark.parametrize(
    "trace",
    [
        "no json", "{}", "[[]]", "[3]",
        json.dumps([["inline_constant", {"buffer": "bias", "values": [0.0] * 6}]]),
        json.dumps([["tensorize", {"loop": "out_d2", "kernel": "ec_conv_row_f32"}]]),
        json.dumps([["split", {"loop": "nope", "factor": 3}]]),
        json.dumps([["split", {"loop": "out_d3", "factor": "x"}]]),
        json.dumps([["split", {"wrong": 1}]]),
        *(json.dumps([["split", {"loop": "out_d3", "factor": factor}]])
          for factor in (1.5, float("inf"), True, 10**30)),  # half a step computed 4 of 6 elements
        json.dumps([["compute_at", {"block": "acc", "loop": "out_d3", "scope": "oops"}]]),
        json.dumps([["set_kind", {"loop": "out_d3", "kind": "oops"}]]),
        "[" * 60_000,
    ],
)  # fmt: skip
def test_what_does_not_fit_or_is_not_safe_is_left_out(trace: str) -> None:
    lowered, made = menu(trace)
    assert made.variants == lowered.variants


def test_nothing_is_taken_that_is_no_better_or_is_of_another_nest() -> None:
    for given in ({"instructions": 100}, {"nest": "other"}, {"optimize": "size"}):
        lowered, made = menu(**given)  # type: ignore[arg-type]
        assert [v.function for v in made.variants] == [v.function for v in lowered.variants]


def test_floats_are_padded_only_where_constants_allow_it() -> None:
    """0 * inf is not 0."""
    pad = {"block": "acc", "buffer": "x", "name": "padded", "order": [0, 1, 2, 3], "axes": [1, 2]}
    trace, padded = json.dumps([["pad_copy", pad]]), Conv2dAttrs(padding=((1, 0), (1, 0)))
    for first_weight, count in ((1.0, 1), (np.inf, 0), (np.nan, 0)):
        lowered, made = menu(trace, function=convolution(first_weight, padded))
        assert len(made.variants) == len(lowered.variants) + count


def test_balanced_gets_what_takes_hardly_more_memory() -> None:
    """Where channels are the outermost loop, the output cannot take over the input."""
    hungry = json.dumps(
        [
            ["reorder", {"order": ["out_d3", "out_d0", "out_d1", "out_d2"]}],
            ["compute_at", {"block": "acc", "loop": "out_d2", "scope": None}],
        ]
    )
    assert len(menu(hungry)[1].variants) == len(menu(hungry)[0].variants) + 1
    lowered, made = menu(hungry, optimize="balanced")
    assert lowered.variants[0].overlaps and len(made.variants) == len(lowered.variants)


def test_the_nest_of_a_group_has_one_digest() -> None:
    lowered, _ = menu()
    assert nest_digest(lowered) == digest(print_func(lowering_of(lowered.group)[0].build()))
