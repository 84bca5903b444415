"""Planes of single channels with padding around them, which depthwise convolutions read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from edgec.loop.define import Definition
from edgec.loop.gathered import plane_element
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.values import Value


@dataclass(frozen=True)
class PlaneSizes:
    """An image of [1, height, width, step] elements, and a plane of one of its channels.

    top, left: rows and columns of padding before the image. fill: the value of the padding.
    """

    height: int
    width: int
    step: int
    top: int
    left: int
    plane_height: int
    plane_width: int
    fill: int


SIZES = tuple(size.name for size in fields(PlaneSizes))


def gather_plane(dtype: str, **sizes: int) -> PrimFunc:
    """plane[h, w] = x[h - top, w - left, 0]; `fill` outside of x."""
    s, b = PlaneSizes(**sizes), Definition("gather_plane")
    x = b.input("x", (1, s.height, s.width, s.step), dtype)
    plane = b.output("plane", (s.plane_height, s.plane_width), dtype)

    def element(h: Any, w: Any) -> Value:
        return plane_element(x, (0, h - s.top, w - s.left, 0), s.height, s.width, s.fill)

    b.compute(plane, element)
    return b.build()


def _register(name: str, dtype: str) -> None:
    register(
        Microkernel(
            name,
            partial(gather_plane, dtype),
            sizes=SIZES,
            struct=Struct("ec_plane_sizes", SIZES),
            header="common/gather_plane.h",
            reads_first=False,
        )
    )


_register("ec_gather_plane_s8", "int8")
_register("ec_gather_plane_s16", "int16")
