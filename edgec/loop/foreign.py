"""C functions of a user's own file that nests call: who runs them here, and how C knows them.

A foreign function takes a pointer to each input, then a pointer to each output, which it writes
completely, then a pointer to scratch if it needs any, then numbers: int32_t or float. Its reference
is a Python function of the input arrays and the numbers; it returns the output, or a tuple of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError, RunFailed
from edgec.loop.ir import BufferRef, Call, PrimFunc
from edgec.loop.microkernel import written_by
from edgec.numerics.narrow_float import STORED_IN

#: Names that C, its library or edgec's own runtime has.
RESERVED = re.compile(r"ec_|EC_|_|mem(?:cpy|move|set|cmp)$|main$")
IDENTIFIER = re.compile(r"[A-Za-z]\w*")


def runs_as_c(*given: Any) -> Any:
    """The reference of a function that stands for a nest of ours: nobody asks it."""
    raise ValueError("it runs as C alone")


@dataclass(frozen=True)
class Foreign:
    """symbol: the C function. source: its file, whose text is copied. reference: see above, or
    `runs_as_c`.

    instructions: approximate number of a call, for estimates. files: further C files and headers
    that are copied, by name. libraries: to link, by the names of the linker's `-l`. can_fail: it
    returns an int, and the model's run ends if that is not 0. alignment: of the constants that it
    is given, in bytes. on_gpu: the model's host C calls it to start kernels of a library; then it
    gets the model's GPU, numbers and addresses on the device, and `blocks` says how many of the
    GPU's blocks share a call's instructions.
    """

    symbol: str
    source: Path
    text: str
    reference: Callable[..., Any]
    instructions: float | Callable[[Call], float] = 0.0
    files: tuple[tuple[str, str], ...] = ()
    libraries: tuple[str, ...] = ()
    can_fail: bool = False
    alignment: int = 1
    on_gpu: bool = False
    blocks: Callable[[Call], int] | None = None

    def cost(self, call: Call) -> float:
        """About how many instructions a call of it takes."""
        return self.instructions(call) if callable(self.instructions) else self.instructions


_KNOWN: dict[str, Foreign] = {}


def register_foreign(foreign: Foreign) -> Foreign:
    """Make a function known; the same name again replaces it.

    Raises EdgecError for a name that C or edgec has.
    """
    _check_name(foreign.symbol)
    _KNOWN[foreign.symbol] = foreign
    return foreign


def _check_name(symbol: str) -> None:
    if not IDENTIFIER.fullmatch(symbol) or RESERVED.match(symbol):
        raise EdgecError(
            f"{symbol!r} cannot be the C function of an operator or a kernel",
            hint="use a C identifier that begins with a letter, and not with ec_",
        )


#: C functions that are the kernels of nests, which `edgec.loop.microkernel` knows.
_SOURCES: dict[str, Foreign] = {}


def register_source(foreign: Foreign) -> None:
    """Make the C file of a user's microkernel known; the same name again replaces it."""
    _check_name(foreign.symbol)
    _SOURCES[foreign.symbol] = foreign


def find_source(name: str) -> Foreign | None:
    """The C file of a function of the user's, None for all others."""
    return _KNOWN.get(name) or _SOURCES.get(name)


def library_call(func: PrimFunc) -> tuple[Call, Foreign] | None:
    """The call that a function is, where a library of a GPU's does all of it; else None."""
    call = func.body
    found = find_source(call.callee) if isinstance(call, Call) else None
    return (call, found) if isinstance(call, Call) and found and found.on_gpu else None


def find_foreign(name: str) -> Foreign | None:
    """The function of this name, None if there is none."""
    return _KNOWN.get(name)


def computed(foreign: Foreign, inputs: list[Any], results: Any, numbers: tuple[Any, ...]) -> Any:
    """The reference's results for arrays, checked against each result's (shape, dtype)."""
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
    """The function that runs a foreign call on flat lists; None for other calls."""
    foreign = find_foreign(call.callee)
    if foreign is None:
        return None
    refs = [argument for argument in call.args if isinstance(argument, BufferRef)]

    def run(*given: Any) -> None:
        lists = [(given[2 * n], given[2 * n + 1]) for n in range(len(refs))]
        inputs, outputs = [], []
        for ref, (values, offset) in zip(refs, lists, strict=True):
            end = offset + ref.buffer.elements
            if ref.use == "updates":
                continue
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
    """The declaration in C that a call of a function of the user's needs."""
    words, written = [], written_by(call)
    for argument in call.args:
        if isinstance(argument, BufferRef):
            kept = "" if argument.buffer in written else "const "
            dtype = STORED_IN.get(argument.buffer.dtype, argument.buffer.dtype)
            words.append(f"{kept}{c_type(dtype)} *")
        else:
            words.append(c_type(argument.dtype))
    return f"{'int' if can_fail(call) else 'void'} {call.callee}({', '.join(words)});"


def can_fail(call: Call) -> bool:
    """Whether the model's run may end at a call."""
    found = find_source(call.callee)
    return found is not None and found.can_fail
