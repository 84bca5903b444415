"""One streaming pass of samples through the float graph, counting what every value is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from edgec.errors import EdgecError
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import Array
from edgec.quantize.histogram import Histogram


def calibrate(
    function: Function,
    samples: Iterable[Sequence[Array]],
    progress: Callable[[], None] | None = None,
) -> dict[Value, Histogram]:
    """A histogram of every float value of a function without state.

    samples: for each, the inputs as `interpret` takes them. progress: called after each sample.
    Raises EdgecError if there is no sample, or one that makes a NaN or an infinity.
    """
    seen = {value: Histogram() for value in function.values() if value.type.is_float}

    def observe(value: Value, array: Array) -> None:
        if value in seen:
            try:
                seen[value].add(array)
            except EdgecError as error:
                raise EdgecError(f"{value.name}: {error.message}", hint=error.hint) from None

    count = 0
    for sample in samples:
        interpret(function, sample, observe)
        count += 1
        if progress is not None:
            progress()
    if not count:
        raise EdgecError("there is no sample to calibrate with")
    return seen
