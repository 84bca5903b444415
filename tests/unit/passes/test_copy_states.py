"""copy_states: a copy where it is needed and nowhere else; the meaning stays."""

from __future__ import annotations

import pytest
from stateful_functions import STATEFUL, Make, module_of

from edgec.graph.interpret import Interpretation
from edgec.graph.verify import verify_function
from edgec.options import Options
from edgec.passes.copy_states import copy_states
from edgec.passes.fuse_groups import fuse_groups, storage
from edgec.passes.lower_groups import lower_group
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core
from edgec.targets.target import target_for


@pytest.mark.parametrize("make", STATEFUL, ids=lambda make: make.__name__)
def test_copies_and_meaning(make: Make) -> None:
    before = module_of(make).main
    policy = target_for(find_core("cortex-m4"), Options())
    groups = [lower_group(group, policy) for group in fuse_groups(before)]
    after = copy_states(before, groups)
    verify_function(after)
    copies = [node for node in after.nodes if node.op.name == "copy"]
    assert len(copies) == STATEFUL[make]
    assert (after is before) == (not copies)
    # What a state becomes is made by a node, is no view, no output, and becomes one state only.
    afters = [state.after for state in after.states]
    made = {value for node in after.nodes for value in node.outputs}
    assert set(afters) <= made - set(storage(after)) - set(after.outputs)
    assert len(set(afters)) == len(afters)
    # The same groups are there, and the copies.
    again = fuse_groups(after)
    assert [g.nodes for g in again[: len(groups)]] == [g.group.nodes for g in groups]
    assert len(again) == len(groups) + len(copies)
    old, new = Interpretation(before), Interpretation(after)
    for seed in range(1, 6):
        inputs = generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in before.inputs])
        for wanted, found in zip(old.run(inputs), new.run(inputs), strict=True):
            assert wanted.tobytes() == found.tobytes()


def test_a_function_without_states_stays() -> None:
    function = module_of(next(iter(STATEFUL))).main
    pure = type(function)("main", function.params, function.nodes, function.results)
    assert copy_states(pure, []) is pure
