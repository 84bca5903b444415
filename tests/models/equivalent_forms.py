"""The same float function with other weights, which round otherwise.

relu(t x) = t relu(x) for t > 0: weights that make a channel may be t times as large if those that
read it are 1 / t times as large. The function stays what it is; each weight of a reader becomes
another share of its largest, and each value another share of its range.
"""

from __future__ import annotations

import math

import numpy as np

from edgec.graph.ir import Function
from edgec.quantizer.channel_groups import channel_groups
from edgec.quantizer.equalize import with_factors

#: Factors are e^u with u uniform within so much of 0: a tenth moves most weights by steps, and
#: ranges hardly.
SPREAD = 0.1


def equivalent_form(function: Function, seed: int) -> Function:
    """A form by random factors, always the same for a seed.

    Channels with an upper bound, which factors would move, keep theirs. Raises ValueError if none
    has a free factor.
    """
    random = np.random.default_rng(seed)
    groups = [group for group in channel_groups(function) if group.bound == math.inf]
    if not groups:
        raise ValueError("no channel of the function has a free factor")
    return with_factors(
        function,
        [(group, np.exp(random.uniform(-SPREAD, SPREAD, group.channels))) for group in groups],
    )
