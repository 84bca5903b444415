"""A program: call a function of a shared library on arrays, in a process that it may crash.

    call_library.py LIBRARY FUNCTION ARGUMENTS.npz RESULTS.npz

The arrays are named `<case>_<argument>`; each case is one call. Of the arguments whose names end in
`_out` the results are saved; `guard_<case>` says whether bytes around any of them were written. It
imports nothing of edgec, so that it starts at once.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

#: Guard bytes before and after each array, and their value.
MARGIN, FILL = 256, 0xA5


def main(library: str, function: str, given: str, made: str) -> None:
    """Run all cases in order."""
    symbol = ctypes.CDLL(library)[function]
    symbol.restype = None
    arrays = np.load(given)
    cases: dict[str, dict[str, Any]] = {}
    for key in arrays.files:
        case, _, name = key.partition("_")
        cases.setdefault(case, {})[name] = arrays[key]
    results: dict[str, Any] = {}
    kept = []  # a function may remember the addresses of its constants
    for case, arguments in cases.items():
        held = {name: _guarded(array) for name, array in arguments.items()}
        kept.append(held)
        symbol(*(ctypes.c_void_p(whole.ctypes.data + MARGIN) for whole in held.values()))
        for name, whole in held.items():
            array = arguments[name]
            inside = whole[MARGIN : MARGIN + array.nbytes]
            outside = np.concatenate([whole[:MARGIN], whole[MARGIN + array.nbytes :]])
            is_kept = bool((outside == FILL).all())
            results[f"guard_{case}"] = results.get(f"guard_{case}", True) and is_kept
            if name.endswith("_out"):
                results[f"{case}_{name}"] = inside.view(array.dtype).reshape(array.shape).copy()
    np.savez(made, **results)


def _guarded(array: Any) -> Any:
    """The bytes of an array with a margin on each side, aligned as NumPy's are."""
    whole = np.full(array.nbytes + 2 * MARGIN, FILL, np.uint8)
    whole[MARGIN : MARGIN + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return whole


if __name__ == "__main__":
    main(*sys.argv[1:])
