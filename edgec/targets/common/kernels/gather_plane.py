"""Planes of single channels with padding around them, which depthwise convolutions read."""

from __future__ import annotations

from functools import partial

from edgec.loop.define import Definition
from edgec.loop.gathered import plane_element
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register


def gather_plane(
    dtype: str,
    height: int,
    width: int,
    step: int,
    top: int,
    left: int,
    plane_height: int,
    plane_width: int,
    fill: int,
) -> PrimFunc:
    """plane[h, w] = x[h - top, w - left, 0], x [1, height, width, step]; `fill` outside."""
    b = Definition("gather_plane")
    x = b.input("x", (1, height, width, step), dtype)
    plane = b.output("plane", (plane_height, plane_width), dtype)
    b.compute(plane, lambda h, w: plane_element(x, (0, h - top, w - left, 0), height, width, fill))
    return b.build()


SIZES = ("height", "width", "step", "top", "left", "plane_height", "plane_width", "fill")


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
