"""Microkernels: small C functions registered with the loop nest that they mean.

A block of a schedule whose nest matches the meaning can be replaced by a call (`tensorize`). The
meaning is a PrimFunc: its parameters are the pointers of the C function, in order; the sizes that
it is built for follow them as int32 arguments.

    def dot4(k: int) -> PrimFunc: ...          # acc[i] += x[j] * w[j, i] for j < k, i < 4
    register(Microkernel("ec_mk_dot4_s8", dot4, sizes=("k",), header="c/dot4_s8.h"))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from edgec.errors import ContractError
from edgec.loop.ir import PrimFunc


@dataclass(frozen=True)
class Microkernel:
    """One C function and its contract.

    `meaning(**sizes)` is the nest it stands for. `needs` are features a core must have; `header`
    is its file below `runtime_c/microkernels/`. `alignment` is the bytes each pointer must be
    aligned to, by parameter, and `reads_past` how many bytes behind the last element may be read
    (never used); a parameter not named has 1 and 0. `reads_first` says that all reads of the
    inputs come before the first write: only then may output and input overlap.
    """

    name: str
    meaning: Callable[..., PrimFunc]
    sizes: tuple[str, ...] = ()
    header: str = ""
    needs: frozenset[str] = frozenset()
    alignment: tuple[tuple[str, int], ...] = ()
    reads_past: tuple[tuple[str, int], ...] = ()
    reads_first: bool = False

    def run(self, *args: Any) -> None:
        """Compute on flat lists, for the interpreter: list and offset per pointer, then sizes."""
        from edgec.loop.interpret import run_source

        count = len(self.sizes)
        sizes = args[len(args) - count :]
        func = _meaning(self, tuple(sizes))
        pointers = args[: len(args) - count]
        parts = {}
        for position, buffer in enumerate(func.params):
            values, offset = pointers[2 * position], pointers[2 * position + 1]
            parts[buffer.name] = values[offset : offset + buffer.elements]
            missing = buffer.elements - len(parts[buffer.name])
            parts[buffer.name] += [None] * missing  # stride beyond the last row
        run_source(func, parts)
        for position, buffer in enumerate(func.params):
            if buffer.scope != "constant":
                values, offset = pointers[2 * position], pointers[2 * position + 1]
                inside = min(buffer.elements, len(values) - offset)
                values[offset : offset + inside] = parts[buffer.name][:inside]


@lru_cache(maxsize=256)
def _meaning(kernel: Microkernel, sizes: tuple[int, ...]) -> PrimFunc:
    return kernel.meaning(**dict(zip(kernel.sizes, sizes, strict=True)))


_REGISTRY: dict[str, Microkernel] = {}


def register(kernel: Microkernel) -> Microkernel:
    """Make a microkernel known; its name is given once."""
    if kernel.name in _REGISTRY:
        raise ContractError(f"microkernel {kernel.name!r} is registered twice")
    _REGISTRY[kernel.name] = kernel
    return kernel


def get_microkernel(name: str) -> Microkernel:
    """The microkernel of this name; ContractError if there is none."""
    if name not in _REGISTRY:
        known = ", ".join(sorted(_REGISTRY)) or "none"
        raise ContractError(f"microkernel {name!r} is unknown", details=(f"known: {known}",))
    return _REGISTRY[name]


def all_microkernels() -> tuple[Microkernel, ...]:
    """Every microkernel, by name."""
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY))
