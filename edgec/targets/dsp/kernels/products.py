"""The kernels of matrix products of int8, one row each (`runtime_c/kernels/dsp/matrix_s8*.h`).

They differ in how many pixels they make, how weights are stored and how sums are rescaled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.stream import Field, Stream, zeros
from edgec.targets.common.kernels.costs import UnitCost
from edgec.targets.common.kernels.rescaling import ONNX, ONNX_TO_16, TFLM, Rescaling
from edgec.targets.dsp.kernels.matrix import (
    PAIR,
    TWO_PAIRS,
    matrix_block,
    matrix_plain,
    product_stream,
    shared_stream,
)
from edgec.targets.dsp.kernels.matrix_four import (
    four_groups_stream,
    four_int4_stream,
    four_macros,
    four_pixels,
    four_stream,
    round_macros,
)
from edgec.targets.dsp.kernels.matrix_int4 import int4_stream

#: The sizes of all calls of a kernel in a model.
Calls = Sequence[Mapping[str, int]]


@dataclass(frozen=True)
class Products:
    """Number of pixels and of channels at once, and whether inputs are not packed."""

    name: str
    pixels: int
    channels: int
    is_plain: bool = False

    @property
    def size(self) -> str:
        """The unit of its first size: four inputs or eight."""
        return "quads" if self.channels == PAIR else "octets"


THREE, TWO = Products("matrix_3", 3, PAIR), Products("matrix_2", 2, PAIR)
FOUR = Products("matrix_4", 4, PAIR)
ONE, PLAIN = Products("matrix_1", 1, TWO_PAIRS), Products("matrix_1_plain", 1, TWO_PAIRS, True)

#: What names have for int4 weights, for such with a shift for each group, and where all
#: channels have one scale, as in layers that are quantized as a whole.
INT4, GROUPS, SHARED_SCALE = "s4", "groups", "shared"

#: Products, how sums are rescaled, how constants are stored, costs (as of `UnitCost`, after the
#: channels), and bytes of code on Cortex-M4, a little more than `tests/runtime_c/kernel_code.py`
#: measures.
TABLE: tuple[tuple[Products, Rescaling, str, UnitCost, int], ...] = (
    (THREE, TFLM, "", UnitCost(PAIR, 60, 51, 16 + 5 / 6, rescale=9), 1740),
    (THREE, ONNX, "", UnitCost(PAIR, 60, 67, 16 + 5 / 6), 1610),
    (THREE, ONNX_TO_16, "", UnitCost(PAIR, 60, 85, 16 + 5 / 6), 1680),
    (THREE, TFLM, INT4, UnitCost(PAIR, 40, 60, 19, rescale=6, eights=3), 980),
    (THREE, ONNX, INT4, UnitCost(PAIR, 40, 65, 19, eights=3), 980),
    (THREE, ONNX, GROUPS, UnitCost(PAIR, 40, 64, 19, group=21), 1000),
    (TWO, TFLM, "", UnitCost(PAIR, 60, 38, 12 + 13 / 15, rescale=6), 1160),
    (FOUR, TFLM, "", UnitCost(PAIR, 60, 46, 19.2, rescale=26), 1650),
    (FOUR, ONNX, "", UnitCost(PAIR, 60, 48, 19.2), 1500),
    (FOUR, TFLM, INT4, UnitCost(PAIR, 60, 68, 22.4, rescale=9), 1230),
    (FOUR, ONNX, INT4, UnitCost(PAIR, 60, 54, 22.4), 1020),
    (FOUR, ONNX, GROUPS, UnitCost(PAIR, 60, 63, 22.2, group=19), 1150),
    (ONE, TFLM, "", UnitCost(TWO_PAIRS, 55, 39, 23 + 3 / 8, rescale=5, inputs=5), 1110),
    (ONE, ONNX, "", UnitCost(TWO_PAIRS, 55, 51, 23 + 3 / 8, inputs=5), 1060),
    (ONE, ONNX, SHARED_SCALE, UnitCost(TWO_PAIRS, 55, 51, 23 + 3 / 8, inputs=5), 1060),
    (ONE, ONNX_TO_16, "", UnitCost(TWO_PAIRS, 55, 65, 23 + 3 / 8, inputs=5), 1090),
    (ONE, TFLM, INT4, UnitCost(TWO_PAIRS, 60, 45, 30, rescale=4, eights=3, inputs=7), 1330),
    (ONE, ONNX, INT4, UnitCost(TWO_PAIRS, 60, 57, 30, eights=3, inputs=7), 1330),
    (ONE, ONNX, GROUPS, UnitCost(TWO_PAIRS, 55, 43, 35, group=13), 890),
    (PLAIN, TFLM, "", UnitCost(TWO_PAIRS, 55, 39, 27 + 3 / 8, rescale=5, inputs=9), 1260),
    (PLAIN, ONNX, "", UnitCost(TWO_PAIRS, 55, 51, 27 + 3 / 8, inputs=9), 1210),
    (PLAIN, ONNX, SHARED_SCALE, UnitCost(TWO_PAIRS, 55, 51, 27 + 3 / 8, inputs=9), 1210),
    (PLAIN, ONNX_TO_16, "", UnitCost(TWO_PAIRS, 55, 65, 27 + 3 / 8, inputs=9), 1240),
    (PLAIN, TFLM, INT4, UnitCost(TWO_PAIRS, 60, 45, 34, rescale=4, eights=3, inputs=7), 1460),
    (PLAIN, ONNX, INT4, UnitCost(TWO_PAIRS, 60, 57, 34, eights=3, inputs=7), 1460),
    (PLAIN, ONNX, GROUPS, UnitCost(TWO_PAIRS, 55, 43, 39, group=13), 950),
)


def _meaning(
    products: Products,
    rescaling: Rescaling,
    *,
    channels: int,
    quads: int = 0,
    octets: int = 0,
    **sizes: int,
) -> PrimFunc:
    """Return a kernel's meaning. It does not depend on how its constants are stored."""
    whole, zero_point = quads or 2 * octets, sizes.get("zero_point", 0)
    limits = (sizes["minimum"], sizes["maximum"]) if "minimum" in sizes else None
    if products.is_plain:
        return matrix_plain(rescaling, whole, channels, zero_point, limits)
    if products is FOUR:
        return four_pixels(rescaling, whole, channels, zero_point)
    return matrix_block(products.pixels, rescaling, whole, channels, zero_point, limits)


def _stream(products: Products, rescaling: Rescaling, stored: str) -> Stream:
    unit, is_plain = products.channels, products.is_plain
    if products is FOUR:
        made = {INT4: four_int4_stream, GROUPS: four_groups_stream}.get(stored, four_stream)
        return made(rescaling)
    if stored in (INT4, GROUPS):
        return int4_stream(rescaling, unit, is_plain, has_groups=stored == GROUPS)
    if stored == SHARED_SCALE:
        return shared_stream(unit, is_plain)
    # Where others have one scale for all channels, these have two words that are not used.
    has_head = rescaling is ONNX and unit == TWO_PAIRS
    head = (Field("scale", zeros(1, 2), "float32"),) if has_head else ()
    return product_stream(rescaling, unit, is_plain, head)


def _file(products: Products, rescaling: Rescaling, stored: str) -> str:
    """Return the end of the header's name."""
    groups = "_groups" * (stored == GROUPS)
    if products is FOUR:
        return f"{rescaling.suffix or '_int4' * (stored == INT4)}{groups}_four"
    if groups:
        return f"{rescaling.suffix}{groups}"
    other = {INT4: "_int4"}.get(stored, "_two" if products is TWO else "")
    return rescaling.suffix or other


#: What fits kernels of four pixels to a model, by how sums are rescaled and weights stored.
_FITTED: dict[tuple[Rescaling, str], Callable[[Calls], dict[str, str]]] = {
    (TFLM, ""): four_macros,
    (ONNX, ""): partial(round_macros, "EC_MATRIX_4_ONNX_MODEL_ROUND", 8),
    (ONNX, INT4): partial(round_macros, "EC_S4_4_ONNX_MODEL_ROUND", 4),
}

for _products, _rescaling, _stored, _cost, _code_bytes in TABLE:
    _group = ("group",) * (_stored == GROUPS)
    _ends = ("minimum", "maximum") if _rescaling is ONNX_TO_16 else ("zero_point",)
    _shift = ("shift",) * ((_products, _rescaling, _stored) == (FOUR, TFLM, ""))
    register(
        Microkernel(
            _rescaling.kernel("_".join(filter(None, (_products.name, _stored)))),
            partial(_meaning, _products, _rescaling),
            sizes=(_products.size, *_group, "channels", *_ends, *_shift),
            header=f"dsp/matrix_s8{_file(_products, _rescaling, _stored)}.h",
            needs=frozenset({"dsp"}) | _rescaling.needs,
            alignment=(("x", 4), ("bias", 4)),
            stream=_stream(_products, _rescaling, _stored),
            instructions=_cost,
            code_bytes=_code_bytes,
            weight_bits=4 if _stored in (INT4, GROUPS) else 8,
            macros=_FITTED.get((_rescaling, _stored)) if _products is FOUR else None,
        )
    )
