"""transform_layout: store a constant parameter in another order, repacked at compile time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Buffer, Expr, Load, PrimFunc
from edgec.loop.primitives.lookup import find_buffer
from edgec.loop.rewrite import Rewriter
from edgec.numerics.term import Term, floor_div, floor_mod

Array = npt.NDArray[Any]
Repack = Callable[[Array], Array]


@dataclass(frozen=True)
class Packing:
    """A new order of dimensions, some of them split: `OHWI -> O/4 H W I O%4`.

    Each new dimension is (old dimension, "all" | "outer" | "inner", factor).
    """

    dimensions: tuple[tuple[int, str, int], ...]
    rank: int

    def factors(self) -> dict[int, int]:
        """The factor of each old dimension that is split."""
        return {d: f for d, part, f in self.dimensions if part != "all"}

    def shape(self, old: tuple[int, ...]) -> tuple[int, ...]:
        """The packed shape; an outer dimension is rounded up."""
        return tuple(
            {"all": old[d], "outer": -(-old[d] // f), "inner": f}[part]
            for d, part, f in self.dimensions
        )

    def indices(self, old: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(
            old[d]
            if part == "all"
            else (floor_div(old[d], f) if part == "outer" else floor_mod(old[d], f))
            for d, part, f in self.dimensions
        )

    def repack(self, array: Array) -> Array:
        """The packed array; dimensions that are rounded up are filled with zeros."""
        factors = self.factors()
        padding = [(0, -array.shape[d] % factors.get(d, 1)) for d in range(self.rank)]
        padded = np.pad(array, padding)
        split_shape: list[int] = []
        place: dict[tuple[int, str], int] = {}
        for d, extent in enumerate(padded.shape):
            if d in factors:
                place[d, "outer"] = len(split_shape)
                place[d, "inner"] = len(split_shape) + 1
                split_shape += [extent // factors[d], factors[d]]
            else:
                place[d, "all"] = len(split_shape)
                split_shape.append(extent)
        order = [place[d, part] for d, part, _ in self.dimensions]
        return np.ascontiguousarray(padded.reshape(split_shape).transpose(order))


def parse_packing(text: str) -> Packing:
    """Read `OHWI -> O/4 H W I O%4`: letters name the old dimensions; ScheduleError if malformed."""
    old, arrow, new = text.partition("->")
    letters = old.strip()
    dimensions: list[tuple[int, str, int]] = []
    for word in new.split():
        letter, sign, factor = word[0], word[1:2], word[2:]
        if letter not in letters or (sign and (sign not in "/%" or not factor.isdigit())):
            raise ScheduleError(f"transform_layout: {word!r} in {text!r} is not understood")
        part = {"": "all", "/": "outer", "%": "inner"}[sign]
        dimensions.append((letters.index(letter), part, int(factor or 1)))
    packing = Packing(tuple(dimensions), len(letters))
    wanted = {(d, p, f) for d, f in packing.factors().items() for p in ("outer", "inner")}
    wanted |= {(d, "all", 1) for d in range(len(letters)) if d not in packing.factors()}
    if not arrow or len(set(letters)) != len(letters) or sorted(dimensions) != sorted(wanted):
        raise ScheduleError(
            f"transform_layout: {text!r} does not place every part of every dimension once",
            hint="for example 'OHWI -> O/4 H W I O%4'",
        )
    return packing


def transform_layout(func: PrimFunc, buffer: str, packing: str) -> tuple[PrimFunc, Repack]:
    """Store a constant in another order; change every read.

        w: constant int8[64, 3, 3, 16]           w: constant int8[16, 3, 3, 16, 4]
        .. = w[o, h, w, i]                 ->    .. = w[o // 4, h, w, i, o % 4]

    with `packing` "OHWI -> O/4 H W I O%4". A dimension that its factor does not divide is filled
    with zeros. Returns the function that repacks the constant's array at compile time.
    """
    old = find_buffer(func, buffer)
    if old.scope != "constant":
        raise ScheduleError(f"transform_layout: {buffer} is {old.scope}, not constant")
    if any(a.indices is None for a in accesses(func.body, of=(old,))):
        raise ScheduleError(f"transform_layout: {buffer} is read by a gather or a call")
    plan = parse_packing(packing)
    if plan.rank != len(old.shape):
        raise ScheduleError(
            f"transform_layout: {buffer} has {len(old.shape)} dimensions, {packing!r} {plan.rank}"
        )
    new = replace(old, shape=plan.shape(old.shape))
    body = _Repack(old, new, plan).stmt(func.body)
    params = tuple(new if p == old else p for p in func.params)
    return replace(func, params=params, body=body), plan.repack


class _Repack(Rewriter):
    def __init__(self, old: Buffer, new: Buffer, packing: Packing) -> None:
        self.old, self.new, self.packing = old, new, packing

    def load(self, load: Load) -> Expr:
        if load.buffer != self.old:
            return load
        return Load(self.new, self.packing.indices(load.indices))
