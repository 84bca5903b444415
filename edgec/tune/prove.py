"""A winner is proven before it is used: the loop interpreter runs it and the nest it came from."""

from __future__ import annotations

import numpy as np

from edgec.loop.interpret import interpret
from edgec.tune.candidates import Candidates, Found, random_inputs

#: Seed of inputs that differ from the measurements'.
PROOF_SEED = 2


def is_proven(candidates: Candidates, found: Found) -> bool:
    """Whether the interpreter gets the same bits from a winner as from the untuned nest."""
    inputs = random_inputs(candidates.plain, PROOF_SEED)
    expected = interpret(candidates.plain, {**inputs, **candidates.tables})
    function = found.variant.function
    shapes = {param.name: param.shape for param in function.params}
    given = {name: array.reshape(shapes[name]) for name, array in inputs.items() if name in shapes}
    result = interpret(function, {**given, **found.variant.constants})
    return all(
        result[name].tobytes() == np.ascontiguousarray(array).tobytes()
        for name, array in expected.items()
        if name.startswith("out")
    )
