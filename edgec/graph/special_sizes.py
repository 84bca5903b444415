"""Values of open sizes that get code of their own: `--specialize batch=1,8`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from edgec.errors import ImportFailed
from edgec.graph.extents import symbols_of
from edgec.graph.ir import Function
from edgec.numerics.fit_term import Sizes
from edgec.numerics.term import Var

#: Largest number of size combinations of a build: each adds a model's code.
MOST_CHOICES = 16


def special_sizes(
    function: Function, given: Sequence[tuple[str, tuple[int, ...]]]
) -> tuple[Sizes, ...]:
    """Every choice of the values, as sizes of the function; equal ones once.

    given: the names of sizes and their values. Raises ImportFailed unless these are all open sizes
    of the function, with values in their ranges.
    """
    if not given:
        return ()
    symbols = symbols_of(param.type for param in function.params)
    values: dict[str, tuple[int, ...]] = {}
    for name, numbers in given:
        values[name] = (*values.get(name, ()), *numbers)
    _require_names(symbols, values)
    for var in symbols:
        for value in values[var.name]:
            if not var.start <= value < var.stop:
                raise ImportFailed(
                    f"--specialize {var.name}={value}: {var.start} to {var.stop - 1} are possible"
                )
    columns = [dict.fromkeys(values[var.name]) for var in symbols]
    choices = [dict(zip(symbols, row, strict=True)) for row in itertools.product(*columns)]
    if len(choices) > MOST_CHOICES:
        raise ImportFailed(
            f"--specialize makes {len(choices)} choices of sizes, {MOST_CHOICES} are the most",
            hint="give fewer values: each adds the code of a whole model",
        )
    return tuple(choices)


def _require_names(symbols: Sequence[Var], values: dict[str, tuple[int, ...]]) -> None:
    """Raise ImportFailed unless the names are the symbols' names."""
    names = [var.name for var in symbols]
    known = f"its open sizes: {', '.join(names)}" if names else "the model has no open sizes"
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ImportFailed(f"--specialize {unknown[0]}: there is no such size", hint=known)
    missing = [name for name in names if name not in values]
    if missing:
        raise ImportFailed(
            f"--specialize leaves the size {missing[0]!r} open: a version needs all sizes",
            hint=known,
        )


def words_of(sizes: Sizes) -> str:
    """`batch=8, time=100`."""
    return ", ".join(f"{var.name}={value}" for var, value in sizes.items())
