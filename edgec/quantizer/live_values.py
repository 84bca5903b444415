"""Which stored values are alive together: the approximate bytes of a mix of dtypes at each step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Value
from edgec.graph.operator import Fusion
from edgec.graph.types import Array
from edgec.quantizer.value_losses import Choice


def live_elements(function: Function, choices: Sequence[Choice]) -> Array:
    """Number of live elements of each choice while each node runs, [nodes, choices] int64.

    In the order of the nodes; inputs are alive from the first on, results to the last. Views are
    not counted. The compiler may need less (rows that stream, results in place of inputs) or more
    (scratch).
    """
    storage: dict[Value, Value] = {}
    for node in function.nodes:
        if node.op.fusion is Fusion.VIEW:
            storage[node.output] = storage.get(node.inputs[0], node.inputs[0])
    count = len(function.nodes)
    first: dict[Value, int] = dict.fromkeys(function.params, 0)
    last: dict[Value, int] = dict.fromkeys(function.params, 0)
    for index, node in enumerate(function.nodes):
        for value in (*node.inputs, *node.outputs):
            if not isinstance(value, Constant):
                stored = storage.get(value, value)
                first.setdefault(stored, index)
                last[stored] = index
    last.update(dict.fromkeys((storage.get(v, v) for v in function.results), count - 1))
    live = np.zeros((count, len(choices)), np.int64)
    for number, choice in enumerate(choices):
        for stored in dict.fromkeys(storage.get(value, value) for value in choice.values):
            live[first[stored] : last[stored] + 1, number] += stored.type.elements
    return live
