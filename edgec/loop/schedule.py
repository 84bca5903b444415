"""A schedule: a PrimFunc, the primitives applied to it, and the trace that repeats them.

    s = Schedule(func)
    c_o, c_i = s.split("out_c", 4)
    s.compute_at("acc", c_o)
    s.unroll(c_i)
    s.func                        # the function as it is now
    s.trace_json()                # [["split", {"loop": "out_c", "factor": 4, ...}], ...]
    replay(func, s.trace_json())  # the same schedule again

The function of the same name in `edgec.loop.primitives` documents each primitive with the loops
before and after. Loops and blocks are addressed by name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import BoundKind, ForKind, PrimFunc, Scope, remembered
from edgec.loop.lanes import require_at_once
from edgec.loop.primitives import cache, layout, loops, reduction, sampling
from edgec.loop.primitives.barriers import place_barriers
from edgec.loop.primitives.call_foreign import Argument, call_foreign
from edgec.loop.primitives.complement import complement
from edgec.loop.primitives.compute_at import compute_at
from edgec.loop.primitives.compute_inline import compute_inline
from edgec.loop.primitives.cut import cut
from edgec.loop.primitives.factor import factor
from edgec.loop.primitives.flatten import flatten
from edgec.loop.primitives.floor_sum import floor_sum
from edgec.loop.primitives.fold_offset import fold_offset
from edgec.loop.primitives.fold_storage import fold_storage
from edgec.loop.primitives.fuse_axes import fuse_axes
from edgec.loop.primitives.gather import gather
from edgec.loop.primitives.halves import pack_halves
from edgec.loop.primitives.hold_places import hold_places
from edgec.loop.primitives.inline_constant import inline_constant
from edgec.loop.primitives.int4 import pack_int4
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.loops import Tail
from edgec.loop.primitives.reverse_compute_at import reverse_compute_at
from edgec.loop.primitives.roll import roll
from edgec.loop.primitives.run_once import run_once
from edgec.loop.primitives.share_rows import share_rows
from edgec.loop.primitives.share_sum import share_sum
from edgec.loop.primitives.shifts import pack_shifts
from edgec.loop.primitives.slide import slide
from edgec.loop.primitives.split_steps import pad_steps, split_steps
from edgec.loop.primitives.spread import spread
from edgec.loop.primitives.steps import pack_steps
from edgec.loop.primitives.storage import storage_align
from edgec.loop.primitives.store_over import store_over
from edgec.loop.primitives.tensorize import Packed, tensorize
from edgec.loop.primitives.warp_tiles import warp_tiles
from edgec.loop.primitives.whole_windows import pad_copy, pad_reads, pad_tiles
from edgec.loop.primitives.winograd import winograd
from edgec.loop.simplify import simplify
from edgec.loop.values import Array
from edgec.numerics.linear_sum import FlooredSum


class Choice(int):
    """A number that was sampled: an int that remembers the trace step it came from."""

    step: int
    item: int

    @staticmethod
    def make(value: int, step: int, item: int) -> Choice:
        """A number from item `item` of the result of step `step`."""
        choice = Choice(value)
        choice.step, choice.item = step, item
        return choice


@dataclass
class Step:
    """One use of a primitive. `decision` is a sampling primitive's choice."""

    primitive: str
    args: dict[str, Any]
    decision: list[int] | None = None


@dataclass
class Schedule:
    """Transforms `func` step by step. `seed` drives sampling without a given decision.

    `repacked` says, for each constant parameter whose layout changed, how to repack its array;
    `packed`, for each that replaces several, how to make it from theirs (after repacking);
    `folded`, for each that took in others, how to make it before all that.
    `in_place` names inputs that the output may replace where they are, or above them by a multiple
    of `row_bytes` (`edgec.loop.in_place`).
    """

    func: PrimFunc
    seed: int = 0
    trace: list[Step] = field(default_factory=list)
    repacked: dict[str, Repack] = field(default_factory=dict)
    packed: dict[str, Packed] = field(default_factory=dict)
    folded: dict[str, Packed] = field(default_factory=dict)
    in_place: tuple[str, ...] = ()
    row_bytes: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def _apply(self, primitive: Callable[..., tuple[PrimFunc, Any]], **args: Any) -> Any:
        # Models repeat layers: cache a primitive's result, so that equal functions share it.
        func, result = remembered(primitive)(self.func, **args)
        remembered(require_at_once)(func)
        self.func = func
        self.trace.append(Step(primitive.__name__, args))
        return result

    def copy(self) -> Schedule:
        """Return a copy that can change independently."""
        return replace(
            self, trace=[*self.trace], repacked={**self.repacked}, packed={**self.packed},
            folded={**self.folded},
        )  # fmt: skip

    def split(self, loop: str, factor: int, tail: Tail = "guard") -> tuple[str, str]:
        """Split a loop in two: the outer `<loop>_o`, and `<loop>_i` of `factor` steps."""
        names: tuple[str, str] = self._apply(loops.split, loop=loop, factor=factor, tail=tail)
        return names

    def cut(self, loop: str, at: int, blocks: Sequence[str], suffix: str = "_end") -> str:
        """Run the last steps of a loop in a copy of its nest; returns the name of that loop."""
        name: str = self._apply(cut, loop=loop, at=at, blocks=list(blocks), suffix=suffix)
        return name

    def fuse(self, outer: str, inner: str) -> str:
        """Make one loop of two that are directly nested, `<outer>_<inner>`."""
        name: str = self._apply(loops.fuse, outer=outer, inner=inner)
        return name

    def reorder(self, *order: str) -> None:
        """Put directly nested loops in this order, outermost first."""
        self._apply(loops.reorder, order=list(order))

    def set_kind(self, loop: str, kind: ForKind) -> None:
        """Say how a loop runs."""
        self._apply(loops.set_kind, loop=loop, kind=kind)

    def unroll(self, loop: str) -> None:
        """Run the loop as straight code."""
        self.set_kind(loop, "unrolled")

    def vectorize(self, loop: str) -> None:
        """Run the loop's steps as lanes of a vector."""
        self.set_kind(loop, "vectorized")

    def parallel(self, loop: str) -> None:
        """Run the loop's steps on several cores."""
        self.set_kind(loop, "parallel")

    def bind(self, loop: str, index: BoundKind) -> None:
        """Run each step of the loop in a block or a thread of its own, on a GPU."""
        self.set_kind(loop, index)

    def run_once(self) -> None:
        """Run statements that are not spread over a GPU in one thread; after `simplify`."""
        self._apply(run_once)

    def place_barriers(self) -> None:
        """Let threads wait before they access other threads' results; after `simplify`."""
        self._apply(place_barriers)

    def warp_tiles(
        self, loop: str, rows: int, columns: int, chunks: int = 1, halves: bool = False
    ) -> None:
        """Give each block a tile of a product, and each thread four sums of a part of it."""
        made = self._apply(
            warp_tiles, loop=loop, rows=rows, columns=columns, chunks=chunks, halves=halves
        )
        self._repack(*made)

    def share_rows(self, threads: int, free: bool = False) -> None:
        """Let a block of threads make each row together; free: floats are added in parts."""
        self._apply(share_rows, threads=threads, free=free)

    def share_sum(self, loop: str, parts: int, columns: int) -> None:
        """Let several threads of a GPU's block make parts of each sum of integers."""
        self._apply(share_sum, loop=loop, parts=parts, columns=columns)

    def pad_reads(self, block: str, buffer: str, axes: Sequence[int]) -> None:
        """Extend a sum to complete windows; outside of the buffer it reads a neutral number."""
        self._apply(pad_reads, block=block, buffer=buffer, axes=list(axes))

    def pad_copy(
        self, block: str, buffer: str, name: str, order: Sequence[int], axes: Sequence[int]
    ) -> str:
        """Let a sum go over whole windows of a copy with padding; returns the copy's name."""
        made: str = self._apply(
            pad_copy, block=block, buffer=buffer, name=name, order=list(order), axes=list(axes)
        )
        return made

    def pad_tiles(
        self, block: str, buffer: str, name: str, order: Sequence[int], axes: Sequence[int],
        tile: Sequence[int], dtype: str = "",
    ) -> str:  # fmt: skip
        """The same, in overlapping tiles along one dimension."""
        made: str = self._apply(
            pad_tiles, block=block, buffer=buffer, name=name, order=list(order), axes=list(axes),
            tile=list(tile), dtype=dtype,
        )  # fmt: skip
        return made

    def winograd(self, block: str, buffer: str, outputs: int) -> None:
        """Sum over windows of 3 x 3 by fewer products, in tiles of `outputs` x `outputs`."""
        self._repack(*self._apply(winograd, block=block, buffer=buffer, outputs=outputs))

    def factor(
        self, block: str, buffer: str, rows: Sequence[int], mix: Sequence[Sequence[int]]
    ) -> tuple[str, str]:
        """Make all channels' sums of some channels'; returns their sums' name and the factors'."""
        part, weights, repack, name = self._apply(
            factor, block=block, buffer=buffer, rows=list(rows), mix=[list(row) for row in mix]
        )
        self._repack(weights, repack)
        numbers = np.asarray(mix, np.int8)
        self.packed[name] = Packed(name, {}, lambda _: numbers)
        return part, name

    def gather(
        self, block: str, buffer: str, name: str, order: Sequence[str] = (), dtype: str = ""
    ) -> str:
        """Copy a sum's elements of a buffer before it; returns the name of the copy."""
        made: str = self._apply(
            gather, block=block, buffer=buffer, name=name, order=list(order), dtype=dtype
        )
        return made

    def fuse_axes(self, block: str, axes: Sequence[str], name: str) -> str:
        """Make one axis of neighbouring ones of a block; returns the name of its loop."""
        loop: str = self._apply(fuse_axes, block=block, axes=list(axes), name=name)
        return loop

    def pad_steps(self, block: str, buffer: str, axis: str, multiple: int) -> None:
        """Round the steps of a sum up to a multiple; the added steps add zeros."""
        self._repack(
            *self._apply(pad_steps, block=block, buffer=buffer, axis=axis, multiple=multiple)
        )

    def split_steps(self, block: str, buffer: str, axis: str, parts: Mapping[str, int]) -> None:
        """Sum over several axes in place of one, in another order."""
        self._apply(split_steps, block=block, buffer=buffer, axis=axis, parts=dict(parts))

    def fold_offset(self, block: str, buffer: str) -> None:
        """Move the offset that a sum adds to each input into its initial constant."""
        func, made = remembered(fold_offset)(self.func, block=block, buffer=buffer)
        changed = {*self.repacked, *self.packed, *self.folded} & {*made.sources.values()}
        if changed:
            raise ScheduleError(f"fold_offset: {', '.join(sorted(changed))} was repacked before")
        self.func = func
        self.trace.append(Step("fold_offset", {"block": block, "buffer": buffer}))
        self.folded[made.name] = made

    def floor_sum(self, block: str) -> FlooredSum:
        """Add two int8 by the upper words of products; returns their numbers."""
        numbers: FlooredSum = self._apply(floor_sum, block=block)
        return numbers

    def spread(self, buffer: str, block: str) -> None:
        """Repeat a constant of one element for each channel of a block's output."""
        self._repack(buffer, self._apply(spread, buffer=buffer, block=block))

    def compute_at(
        self, block: str, loop: str, scope: Literal["register", "scratch"] | None = None
    ) -> None:
        """Compute a temporary inside the loop that uses it; the nest keeps its loops' names."""
        self._apply(compute_at, block=block, loop=loop, scope=scope)

    def reverse_compute_at(self, block: str, loop: str) -> None:
        """Run a consumer inside the loop of its producer."""
        self._apply(reverse_compute_at, block=block, loop=loop)

    def slide(self, loop: str, into: str) -> None:
        """Run each step of a consumer's loop as soon as the rows that it reads exist."""
        self._apply(slide, loop=loop, into=into)

    def fold_storage(self, buffer: str, contiguous: bool = False) -> None:
        """Keep only the rows of a temporary that are still needed."""
        self._apply(fold_storage, buffer=buffer, contiguous=contiguous)

    def roll(self, loop: str, into: str, by: int) -> None:
        """Compute only the rows of a temporary that the previous iteration did not compute."""
        self._apply(roll, loop=loop, into=into, by=by)

    def compute_inline(self, block: str) -> None:
        """Put a temporary's formula where it is read."""
        self._apply(compute_inline, block=block)

    def store_over(self, block: str, buffer: str) -> None:
        """Store a block's input in the buffer of its output."""
        self._apply(store_over, block=block, buffer=buffer)

    def cache_read(self, buffer: str, loop: str, scope: Scope = "register") -> str:
        """Read through a copy of the part that one iteration needs; returns the copy's name."""
        name: str = self._apply(cache.cache_read, buffer=buffer, loop=loop, scope=scope)
        return name

    def cache_write(self, buffer: str, loop: str, scope: Scope = "register") -> str:
        """Write through a copy that goes out at the end of a step; returns the copy's name."""
        name: str = self._apply(cache.cache_write, buffer=buffer, loop=loop, scope=scope)
        return name

    def decompose_reduction(self, block: str, loop: str | None = None) -> str:
        """Run the init in a nest of its own before `loop`; returns the block `<block>_init`."""
        name: str = self._apply(reduction.decompose_reduction, block=block, loop=loop)
        return name

    def transform_layout(self, buffer: str, packing: str) -> None:
        self._repack(buffer, self._apply(layout.transform_layout, buffer=buffer, packing=packing))

    def flatten(self, buffer: str, first: int, last: int) -> None:
        """Make one dimension of neighbouring ones of a buffer."""
        repack = self._apply(flatten, buffer=buffer, first=first, last=last)
        if next(p for p in self.func.params if p.name == buffer).scope == "constant":
            self._repack(buffer, repack)

    def pack_int4(self, buffer: str) -> None:
        """Store a constant of numbers in [-8, 7] as two to a byte."""
        self._repack(buffer, self._apply(pack_int4, buffer=buffer))

    def pack_halves(self, buffer: str) -> None:
        """Store a constant of floats that float16 holds as such."""
        self._repack(buffer, self._apply(pack_halves, buffer=buffer))

    def pack_steps(self, buffer: str, axis: int, steps: Sequence[float]) -> None:
        """Store a constant of multiples of steps, one for each index along an axis, as int8."""
        repack, name = self._apply(pack_steps, buffer=buffer, axis=axis, steps=list(steps))
        self._repack(buffer, repack)
        numbers = np.asarray(steps, np.float32)
        self.packed[name] = Packed(name, {}, lambda _: numbers)

    def pack_shifts(self, buffer: str, shape: Sequence[int], shifts: Sequence[int]) -> None:
        """Store a constant of int8 without the shifts that groups of its last axis share."""
        repack, name = self._apply(
            pack_shifts, buffer=buffer, shape=list(shape), shifts=list(shifts)
        )
        self._repack(buffer, repack)
        counts = np.asarray(shifts, np.int8).reshape(shape)
        self.packed[name] = Packed(name, {}, lambda _: counts)

    def complement(self, buffer: str) -> None:
        """Store a constant of negative numbers x as their complements, -1 - x."""
        self._repack(buffer, self._apply(complement, buffer=buffer))

    def inline_constant(self, buffer: str, values: Sequence[int | float]) -> None:
        """Write the numbers of a small constant into the code that reads them."""
        self._apply(inline_constant, buffer=buffer, values=list(values))

    def table(self, name: str, tables: Mapping[str, Array]) -> Array:
        """The current array of a constant, from the function's arrays before any step."""
        packed, folded, repack = (
            self.packed.get(name), self.folded.get(name), self.repacked.get(name)
        )  # fmt: skip
        if packed is not None:
            sources = packed.sources.items()
            return packed.pack({meant: self.table(own, tables) for meant, own in sources})
        array = tables[name]
        if folded is not None:
            array = folded.pack({meant: tables[own] for meant, own in folded.sources.items()})
        return repack(array) if repack else array

    def _repack(self, buffer: str, repack: Repack) -> None:
        made = self.packed.get(buffer)
        if made is not None:
            self.packed[buffer] = replace(made, pack=lambda arrays: repack(made.pack(arrays)))
            return
        before = self.repacked.get(buffer)
        self.repacked[buffer] = repack if before is None else lambda array: repack(before(array))

    def storage_align(self, buffer: str, dimension: int, factor: int) -> None:
        """Round the extent of a temporary's dimension up to a multiple of `factor`."""
        self._apply(storage_align, buffer=buffer, dimension=dimension, factor=factor)

    def simplify(self) -> None:
        """Lower blocks, shrink temporaries, resolve decided conditions; loops keep their names."""
        self._apply(simplify_func)
        self.trace[-1].primitive = "simplify"

    def hold_places(self, loop: str) -> list[str]:
        """Hoist computed indices of gathers that are the same in all iterations of a loop."""
        names: list[str] = self._apply(hold_places, loop=loop)
        return names

    def tensorize(
        self,
        loop: str,
        kernel: str,
        sizes: dict[str, int] | None = None,
        indices: dict[str, str] | None = None,
    ) -> None:
        """Replace the loop by a call of a microkernel that means the same; comes last."""
        packed: Packed | None = self._apply(
            tensorize, loop=loop, kernel=kernel, sizes=sizes or {}, indices=indices or {}
        )
        if packed is not None:
            self.packed[packed.name] = packed

    def call_foreign(self, symbol: str, arguments: Sequence[Argument]) -> None:
        """Replace the nest by one call of a user's function; no other primitive may follow."""
        self.func, arrays = call_foreign(self.func, symbol, arguments)
        self.trace.append(Step("call_foreign", {"symbol": symbol}))
        for name, array in arrays.items():
            self.packed[name] = Packed(name, {}, partial(_given, array))

    def sample_perfect_tile(
        self, loop: str, parts: int, max_innermost: int = 16, decision: Sequence[int] | None = None
    ) -> list[int]:
        """Choose `parts` factors whose product is the loop's extent."""
        chosen = sampling.sample_perfect_tile(
            self.func, loop, parts, max_innermost, decision, self._rng
        )
        args = {"loop": loop, "parts": parts, "max_innermost": max_innermost}
        return self._chosen("sample_perfect_tile", args, chosen, chosen)

    def sample_categorical(
        self,
        candidates: Sequence[int],
        probabilities: Sequence[float],
        decision: Sequence[int] | None = None,
    ) -> int:
        """Choose one of the candidates. `decision` is its position, as a list of one."""
        chosen = sampling.sample_categorical(candidates, probabilities, decision, self._rng)
        args = {"candidates": list(candidates), "probabilities": list(probabilities)}
        value = [candidates[chosen[0]]]
        return self._chosen("sample_categorical", args, chosen, value)[0]

    def _chosen(
        self, name: str, args: dict[str, Any], decision: list[int], values: list[int]
    ) -> list[int]:
        step = len(self.trace)
        self.trace.append(Step(name, args, decision))
        return [Choice.make(value, step, item) for item, value in enumerate(values)]

    def trace_json(self) -> str:
        """The trace as JSON: [[primitive, arguments], ...], a sampling with its decision third.

        An argument that was sampled is written {"choice": [step, item]}, so that replaying with
        another decision changes it.
        """
        steps = [
            [s.primitive, {k: _to_json(v) for k, v in s.args.items()}]
            + ([] if s.decision is None else [s.decision])
            for s in self.trace
        ]
        return json.dumps(steps)


def _given(array: Array, sources: Mapping[str, Array]) -> Array:
    return array


def simplify_func(func: PrimFunc) -> tuple[PrimFunc, None]:
    """`edgec.loop.simplify.simplify` as a primitive."""
    return simplify(func), None


def _to_json(value: Any) -> Any:
    if isinstance(value, Choice):
        return {"choice": [value.step, value.item]}
    if isinstance(value, dict):
        return {k: _to_json(v) for k, v in value.items()}
    return value


def replay(func: PrimFunc, trace: str, decisions: dict[int, list[int]] | None = None) -> Schedule:
    """Apply a trace to a fresh function. `decisions` replaces the decisions of some steps.

    ScheduleError if the text is not a trace, or a step does not apply to this function.
    """
    schedule = Schedule(func)
    results: list[Any] = []
    try:
        steps = json.loads(trace)
        for number, (name, args, *rest) in enumerate(steps):
            given = {k: _from_json(v, results) for k, v in args.items()}
            if rest:
                given["decision"] = (decisions or {}).get(number, rest[0])
            if name not in REPLAYABLE:
                raise ScheduleError(f"step {number} of the trace, {name!r}, is not a primitive")
            method = getattr(schedule, name)
            results.append(method(*given["order"]) if name == "reorder" else method(**given))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ScheduleError(f"the trace is malformed: {error}") from error
    return schedule


def _from_json(value: Any, results: list[Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if set(value) != {"choice"}:
        return {k: _from_json(v, results) for k, v in value.items()}
    step, item = value["choice"]
    result = results[step]
    return result[item] if isinstance(result, list) else result


REPLAYABLE = frozenset(
    {
        "split", "cut", "fuse", "reorder", "set_kind", "compute_at",
        "reverse_compute_at", "compute_inline", "slide", "fold_storage", "roll", "cache_read",
        "cache_write",
        "decompose_reduction", "transform_layout", "pack_int4", "pack_halves", "pack_steps",
        "pack_shifts", "complement", "inline_constant", "storage_align",
        "sample_perfect_tile", "sample_categorical", "simplify", "tensorize",
        "warp_tiles", "share_rows", "share_sum",
        "pad_reads", "pad_copy", "pad_tiles", "gather", "fold_offset", "spread", "flatten",
        "floor_sum", "fuse_axes", "pad_steps", "split_steps", "place_barriers",
        "run_once", "store_over", "winograd", "hold_places", "factor",
    }
)  # fmt: skip
#: Primitives that keep the meaning of a nest without looking at its constants.
SAFE = frozenset(
    {
        "split", "fuse", "fuse_axes", "reorder", "set_kind", "compute_at", "decompose_reduction",
        "transform_layout", "complement", "pad_copy", "pad_reads", "gather", "fold_offset",
        "flatten", "simplify",
    }
)  # fmt: skip
