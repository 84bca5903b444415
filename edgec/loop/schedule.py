"""A schedule: a PrimFunc, the primitives applied to it, and the trace that repeats them.

    s = Schedule(func)
    c_o, c_i = s.split("out_c", 4)
    s.compute_at("acc", c_o)
    s.unroll(c_i)
    s.func                # the function as it is now
    s.trace_json()        # [["split", {"loop": "out_c", "factor": 4, ...}], ...]

What each primitive does, with the loops before and after, is told by the function of the same
name in `edgec.loop.primitives`. Loops and blocks are addressed by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edgec.loop.ir import PrimFunc
from edgec.loop.primitives import loops
from edgec.loop.primitives.loops import Tail


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
    """One use of a primitive. `decision` is what a sampling primitive chose."""

    primitive: str
    args: dict[str, Any]
    decision: list[int] | None = None


@dataclass
class Schedule:
    """Transforms `func` step by step. `seed` drives sampling without a given decision."""

    func: PrimFunc
    seed: int = 0
    trace: list[Step] = field(default_factory=list)

    def _apply(self, primitive: Callable[..., tuple[PrimFunc, Any]], **args: Any) -> Any:
        self.func, result = primitive(self.func, **args)
        self.trace.append(Step(primitive.__name__, args))
        return result

    def split(self, loop: str, factor: int, *, tail: Tail = "guard") -> tuple[str, str]:
        """Split a loop in two: the outer, and the inner of `factor` steps."""
        names: tuple[str, str] = self._apply(loops.split, loop=loop, factor=factor, tail=tail)
        return names

    def fuse(self, outer: str, inner: str) -> str:
        """Make one loop of two that are directly nested."""
        name: str = self._apply(loops.fuse, outer=outer, inner=inner)
        return name

    def reorder(self, *order: str) -> None:
        """Put directly nested loops in this order, outermost first."""
        self._apply(loops.reorder, loops=list(order))

    def unroll(self, loop: str) -> None:
        """Run the loop as straight code."""
        self._apply(loops.set_kind, loop=loop, kind="unrolled")

    def vectorize(self, loop: str) -> None:
        """Run the loop's steps as lanes of a vector."""
        self._apply(loops.set_kind, loop=loop, kind="vectorized")

    def parallel(self, loop: str) -> None:
        """Run the loop's steps on several cores."""
        self._apply(loops.set_kind, loop=loop, kind="parallel")
