"""C functions of a user's own file that nests call: who runs them here, and how C knows them.

A foreign function gets a pointer to each input, then one to each output, which it writes as a
whole, then numbers: int32_t or float. Its reference is a Python function of the input arrays and
the numbers; it returns the output, or a tuple of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError, RunFailed
from edgec.loop.ir import BufferRef, Call, Const
from edgec.numerics.narrow_float import STORED_IN

#: Names that C, its library or edgec's own runtime has.
RESERVED = re.compile(r"ec_|EC_|_|mem(?:cpy|move|set|cmp)$|main$")
IDENTIFIER = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True)
class Foreign:
    """symbol: the C function. source: its file, whose text is copied. reference: see above.

    instructions: about how many one call takes, for estimates.
    """

    symbol: str
    source: Path
    text: str
    reference: Callable[..., Any]
    instructions: float = 0.0


_KNOWN: dict[str, Foreign] = {}


def register_foreign(foreign: Foreign) -> Foreign:
    """Make a function known; the same name again replaces it.

    Raises EdgecError for a name that C or edgec has.
    """
    if not IDENTIFIER.fullmatch(foreign.symbol) or RESERVED.match(foreign.symbol):
        raise EdgecError(
            f"{foreign.symbol!r} cannot be the C function of an operator",
            hint="use a C identifier that begins with a letter, and not with ec_",
        )
    _KNOWN[foreign.symbol] = foreign
    return foreign


def find_foreign(name: str) -> Foreign | None:
    """The function of this name, None if there is none."""
    return _KNOWN.get(name)


def computed(foreign: Foreign, inputs: list[Any], results: Any, numbers: tuple[Any, ...]) -> Any:
    """What the reference makes of arrays, checked against (shape, dtype) of each result."""
    try:
        made = foreign.reference(*inputs, *numbers)
    except Exception as error:  # the user's own code
        raise RunFailed(
            f"the reference of {foreign.symbol} failed: {type(error).__name__}: {error}",
            hint=f"it is declared beside {foreign.source.name}",
        ) from error
    arrays = [np.asarray(each) for each in (made if isinstance(made, tuple) else (made,))]
    found = [(array.shape, array.dtype.name) for array in arrays]
    wanted = [(tuple(shape), dtype) for shape, dtype in results]
    if found != wanted:
        raise RunFailed(
            f"the reference of {foreign.symbol} returned {found}, its declaration says {wanted}"
        )
    return arrays


def runner(call: Call) -> Callable[..., None] | None:
    """What runs a call of a foreign function on flat lists; None for calls of others."""
    foreign = find_foreign(call.callee)
    if foreign is None:
        return None
    refs = [argument for argument in call.args if isinstance(argument, BufferRef)]

    def run(*given: Any) -> None:
        lists = [(given[2 * n], given[2 * n + 1]) for n in range(len(refs))]
        inputs, outputs = [], []
        for ref, (values, offset) in zip(refs, lists, strict=True):
            end = offset + ref.buffer.elements
            if ref.use == "reads":
                data = np.array(values[offset:end], ref.buffer.dtype)
                inputs.append(data.reshape(ref.box))
            else:
                outputs.append((ref, values, offset, end))
        results = [(ref.box, ref.buffer.dtype) for ref, *_ in outputs]
        made = computed(foreign, inputs, results, tuple(given[2 * len(refs) :]))
        for array, (_, values, offset, end) in zip(made, outputs, strict=True):
            values[offset:end] = array.reshape(-1).tolist()

    return run


def prototype(call: Call, c_type: Callable[[str], str]) -> str:
    """The declaration in C that a call of a foreign function needs."""
    words = []
    for argument in call.args:
        if isinstance(argument, BufferRef):
            kept = "const " if argument.use == "reads" else ""
            dtype = STORED_IN.get(argument.buffer.dtype, argument.buffer.dtype)
            words.append(f"{kept}{c_type(dtype)} *")
        else:
            assert isinstance(argument, Const)
            words.append(c_type(argument.dtype))
    return f"void {call.callee}({', '.join(words)});"
