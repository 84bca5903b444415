"""Models that keep state, for the quantizer: states become inputs and outputs, then states again.

Calibration needs the states' values. The float model runs over the samples in order, and its states
after each run are part of the next sample. In the quantized function the states stay in float32,
between a dequantize and a quantize node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Function, State
from edgec.graph.types import Array


def open_states(function: Function) -> Function:
    """The function with states before a run as its last inputs, and after it as last outputs."""
    return replace(function, states=())


def samples_with_states(
    function: Function, samples: Iterable[Sequence[Array]]
) -> Iterator[list[Array]]:
    """Each sample with the states before it, as `open_states` takes them; made when asked for."""
    running = Interpretation(function)
    for sample in samples:
        yield [*sample, *running.state]
        running.run(sample)


def close_states(opened: Function, states: Sequence[State]) -> Function:
    """The last parameters and results of a function as these states of the original function."""
    if not states:
        return opened
    pairs = zip(opened.params[-len(states) :], opened.results[-len(states) :], states, strict=True)
    closed = tuple(State(before, after, state.initial) for before, after, state in pairs)
    return replace(opened, states=closed)
