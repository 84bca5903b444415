"""Microkernels: small C functions registered with the loop nest that they mean.

A block of a schedule whose nest matches the meaning can be replaced by a call (`tensorize`). The
meaning is a PrimFunc: its parameters are the pointers of the C function, in order; the sizes that
it is built for follow them as int32 arguments.

    def dot4(k: int) -> PrimFunc: ...          # acc[i] += x[j] * w[j, i] for j < k, i < 4
    register(Microkernel("ec_mk_dot4_s8", dot4, sizes=("k",), header="common/dot4_s8.h"))

A kernel may read several constants of its meaning as one array, in the order of use (`Stream`);
and its meaning may depend on index terms, which are int32 arguments after the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from edgec.errors import ContractError
from edgec.loop.access import writes
from edgec.loop.ir import (
    Buffer,
    BufferRef,
    Call,
    Const,
    IndexValue,
    PrimFunc,
    SyncScope,
    remembered,
)
from edgec.loop.rewrite import statements
from edgec.loop.stream import Stream
from edgec.numerics.term import TermLike


@dataclass(frozen=True)
class Struct:
    """Sizes that a C function takes as one pointer to a struct, in place of the first of them.

    name: of the struct in the kernel's header, `ec_..._sizes`; members: its integers, in its order.
    Members not listed are 0. types: of members that are no int32; unread: sizes that only the
    stream depends on, which the C function does not take; times: factors of members, such as the
    bytes of an element, for kernels that share their C code.
    """

    name: str
    members: tuple[str, ...]
    types: tuple[tuple[str, str], ...] = ()
    unread: tuple[str, ...] = ()
    times: tuple[tuple[str, int], ...] = ()

    def of(self, sizes: Sequence[str]) -> Struct:
        """The same for a kernel that has only these sizes."""
        return replace(self, members=tuple(name for name in self.members if name in sizes))

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether each of these sizes fits in its member."""
        times = dict(self.times)
        numbers = [(times.get(n, 1) * sizes[n], np.iinfo(t)) for n, t in self.types if n in sizes]
        return all(limits.min <= number <= limits.max for number, limits in numbers)


@dataclass(frozen=True)
class Microkernel:
    """One C function and its contract.

    `meaning(**sizes)` is the nest it stands for. `needs` are features a core must have; `header`
    is its file below `runtime_c/kernels/`. `alignment` is the bytes each pointer must be
    aligned to, by parameter, and `reads_past` how many bytes past the last element may be read
    (never used); a parameter not named has 1 and 0. `reads_first` says that all reads of the
    inputs come before the first write: only then may output and input overlap freely. `in_order`
    names the meaning's outermost loop and a number: the kernel takes this many of its steps at a
    time, in any order among these (with `reads_first`: all reads of these before their writes),
    and goes through all in the order of the loop. `starts(**sizes)` says with which steps it
    begins anew, where these are not the multiples of the number; not with `reads_first`. `inner`
    names the loop inside: of the steps taken at a time, the kernel goes through this one in order,
    and reads for each of its steps before it writes what that makes.

    `indices` are names of int32 arguments, after the sizes, that a schedule passes as index terms;
    `meaning` takes them as it takes sizes. `instructions(**sizes)` estimates one call on the cores
    it is for; without it a call costs as much as its meaning. `code_bytes` is its code size
    including its callees; 0: negligible. `weight_bits` is the number of bits of a weight in its
    stream. `struct` holds sizes that would exceed eight parameters. `together` is the scope whose
    threads must all make the call together: they share one thread's meaning. `product` names sizes
    of which the C function takes the product, in place of the first. `macros` gives C
    macros that fit the kernel to a model, from the sizes of all its calls there.
    """

    name: str
    meaning: Callable[..., PrimFunc]
    sizes: tuple[str, ...] = ()
    header: str = ""
    needs: frozenset[str] = frozenset()
    alignment: tuple[tuple[str, int], ...] = ()
    reads_past: tuple[tuple[str, int], ...] = ()
    reads_first: bool = False
    in_order: tuple[str, int] | None = None
    starts: Callable[..., Sequence[int]] | None = None
    inner: str = ""
    indices: tuple[str, ...] = ()
    stream: Stream | None = None
    instructions: Callable[..., float] | None = None
    code_bytes: int = 0
    weight_bits: int = 8
    together: SyncScope | None = None
    struct: Struct | None = None
    product: tuple[str, ...] = ()
    macros: Callable[[Sequence[Mapping[str, int]]], Mapping[str, str]] | None = None

    def pointers(self, meaning: PrimFunc) -> tuple[Buffer, ...]:
        """The buffers behind the C function's pointers; for a stream, its first source."""
        if self.stream is None:
            return meaning.params
        hidden = self.stream.sources[1:]
        return tuple(param for param in meaning.params if param.name not in hidden)

    def run(self, *args: Any) -> None:
        """Compute on flat lists, for the interpreter: list and offset per pointer, then sizes."""
        from edgec.loop.interpret import run_source

        names = (*self.sizes, *self.indices)
        numbers = args[len(args) - len(names) :]
        func = meaning_of(self, tuple(numbers))
        given = self.pointers(func)
        parts: dict[str, list[Any]] = {}
        for position, buffer in enumerate(given):
            values, offset = args[2 * position], args[2 * position + 1]
            if self.stream is not None and buffer.name == self.stream.sources[0]:
                sizes = dict(zip(names, numbers, strict=True))
                end = offset + self.stream.words(**sizes)
                words = np.array(values[offset:end], self.stream.dtype)
                for name, array in self.stream.unpack(words, **sizes).items():
                    parts[name] = np.asarray(array).reshape(-1).tolist()
                continue
            parts[buffer.name] = values[offset : offset + buffer.elements]
            missing = buffer.elements - len(parts[buffer.name])
            parts[buffer.name] += [None] * missing  # stride beyond the last row
        run_source(func, parts)
        for position, buffer in enumerate(given):
            if buffer.scope != "constant":
                values, offset = args[2 * position], args[2 * position + 1]
                inside = min(buffer.elements, len(values) - offset)
                values[offset : offset + inside] = parts[buffer.name][:inside]


@lru_cache(maxsize=256)
def meaning_of(kernel: Microkernel, numbers: tuple[TermLike, ...]) -> PrimFunc:
    """The nest for these sizes and indices, in their order."""
    names = (*kernel.sizes, *kernel.indices)
    return kernel.meaning(**dict(zip(names, numbers, strict=True)))


@remembered
def kernels_of(func: PrimFunc) -> frozenset[str]:
    """The names of the microkernels that a function calls."""
    return frozenset(s.callee for s in statements(func.body) if isinstance(s, Call)) & set(
        _REGISTRY
    )


def is_microkernel(name: str) -> bool:
    return name in _REGISTRY


def _sizes_of_call(kernel: Microkernel, call: Call) -> list[int]:
    """The sizes of a call; the largest where they are open."""
    numbers = [arg for arg in call.args if not isinstance(arg, BufferRef)][: len(kernel.sizes)]
    return [
        int(each.value) if isinstance(each, Const) else each.term.bounds()[1]
        for each in numbers
        if isinstance(each, (Const, IndexValue))
    ]


def meaning_of_call(kernel: Microkernel, call: Call) -> PrimFunc:
    """The nest that a call stands for, its indices 0."""
    return meaning_of(kernel, (*_sizes_of_call(kernel, call), *(0 for _ in kernel.indices)))


def bytes_read_past(func: PrimFunc) -> dict[str, int]:
    """Number of bytes after its end that a function's kernels may read, by buffer."""
    found: dict[str, int] = {}
    for call in (s for s in statements(func.body) if isinstance(s, Call)):
        kernel = _REGISTRY.get(call.callee)
        if kernel is None or not kernel.reads_past:
            continue
        given = [arg.buffer.name for arg in call.args if isinstance(arg, BufferRef)]
        names = [param.name for param in kernel.pointers(meaning_of_call(kernel, call))]
        for name, past in kernel.reads_past:
            buffer = given[names.index(name)]
            found[buffer] = max(found.get(buffer, 0), past)
    return found


def stated_instructions(kernel: Microkernel, call: Call) -> float | None:
    """The instructions of a call as the kernel states them; None where it does not."""
    if kernel.instructions is None:
        return None
    sizes = dict(zip(kernel.sizes, _sizes_of_call(kernel, call), strict=True))
    return float(kernel.instructions(**sizes))


def stream_of_call(call: Call) -> str:
    """The constants that a call reads as one stream, by name; empty if it has none."""
    kernel = _REGISTRY.get(call.callee)
    if kernel is None or kernel.stream is None:
        return ""
    return kernel.stream.describe(
        **dict(zip(kernel.sizes, _sizes_of_call(kernel, call), strict=True))
    )


def _numbers(kernel: Microkernel, call: Call) -> dict[str, int]:
    """The sizes of a call; none where a run decides one of them."""
    given = [arg for arg in call.args if not isinstance(arg, BufferRef)]
    sizes = zip(kernel.sizes, given, strict=False)
    numbers = {name: int(arg.value) for name, arg in sizes if isinstance(arg, Const)}
    return numbers if len(numbers) == len(kernel.sizes) else {}


def macros_of_calls(calls: Iterable[Call]) -> dict[str, str]:
    """The C macros by which kernels fit a model with these calls."""
    found: dict[str, list[dict[str, int]]] = {}
    for call in calls:
        kernel = _REGISTRY.get(call.callee)
        if kernel is None or kernel.macros is None:
            continue
        found.setdefault(kernel.name, []).append(_numbers(kernel, call))
    made: dict[str, str] = {}
    for name, sizes_of_calls in found.items():
        macros = _REGISTRY[name].macros
        if macros is not None and all(sizes_of_calls):
            made |= macros(sizes_of_calls)
    return made


def struct_of_call(call: Call) -> tuple[Struct, list[int], list[int]] | None:
    """The struct of a call's C function, and the arguments that are its members or unread."""
    kernel = _REGISTRY.get(call.callee)
    if kernel is None or kernel.struct is None:
        return None
    pointers = sum(isinstance(arg, BufferRef) for arg in call.args)
    places = {name: pointers + place for place, name in enumerate(kernel.sizes)}
    struct = kernel.struct
    return struct, [places[n] for n in struct.members], [places[n] for n in struct.unread]


def product_of_call(call: Call) -> slice:
    """The arguments of a call of which its C function takes the product."""
    kernel = _REGISTRY.get(call.callee)
    if kernel is None or not kernel.product:
        return slice(0, 0)
    first = sum(isinstance(arg, BufferRef) for arg in call.args)
    first += kernel.sizes.index(kernel.product[0])
    return slice(first, first + len(kernel.product))


def pointed_at(call: Call) -> list[tuple[BufferRef, int]]:
    """The pointers of a microkernel's call, and how many elements its meaning has after each."""
    kernel = get_microkernel(call.callee)
    refs = [arg for arg in call.args if isinstance(arg, BufferRef)]
    params = kernel.pointers(meaning_of_call(kernel, call))
    return [(ref, param.elements) for ref, param in zip(refs, params, strict=True)]


def written_by(call: Call) -> frozenset[Buffer]:
    """The buffers that a call writes; of an unknown callee, all that are not constant."""
    refs = [arg for arg in call.args if isinstance(arg, BufferRef)]
    if all(ref.use for ref in refs):
        return frozenset(ref.buffer for ref in refs if ref.use != "reads")
    kernel = _REGISTRY.get(call.callee)
    if kernel is None:
        return frozenset(ref.buffer for ref in refs if ref.buffer.scope != "constant")
    meaning = meaning_of_call(kernel, call)
    written = writes(meaning.body)
    pairs = zip(kernel.pointers(meaning), refs, strict=True)
    return frozenset(ref.buffer for param, ref in pairs if param in written)


_REGISTRY: dict[str, Microkernel] = {}


def register(kernel: Microkernel) -> Microkernel:
    """Make a microkernel known; its name is given once."""
    if kernel.name in _REGISTRY:
        raise ContractError(f"microkernel {kernel.name!r} is registered twice")
    _REGISTRY[kernel.name] = kernel
    return kernel


def register_again(kernel: Microkernel) -> None:
    """Make a microkernel of the user's known; it replaces one with its name."""
    _REGISTRY[kernel.name] = kernel


def get_microkernel(name: str) -> Microkernel:
    """The microkernel of this name; ContractError if there is none."""
    if name not in _REGISTRY:
        known = ", ".join(sorted(_REGISTRY)) or "none"
        raise ContractError(f"microkernel {name!r} is unknown", details=(f"known: {known}",))
    return _REGISTRY[name]


def all_microkernels() -> tuple[Microkernel, ...]:
    """Every microkernel of `runtime_c/kernels/`, by name; the user's have no header there."""
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY) if _REGISTRY[name].header)
