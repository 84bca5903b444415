"""Matrix products of int16 and int8, pixel by pixel.

They are in `matrix_s16.h` of the folders `dsp` and `helium` of `runtime_c/kernels/`. Kernels of
`dsp` take four inputs at a time, and have variants for one to three further inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream, lanes_of, rows_at
from edgec.targets.common.kernels.rescaling import TFLM16, TFLM16_HIGH, Rescaling
from edgec.targets.common.kernels.sums import Results, rescaled_sums
from edgec.targets.helium.kernels.matrix import CONV_UNIT, slice_of, slices_at, slices_of

Array = npt.NDArray[Any]

#: Channels of a stream's unit, and inputs whose weights share a word, as its bytes 0, 2, 1, 3; in
#: slices of vectors they keep their order.
UNIT = CONV_UNIT
IN_WORD = 4
SLICE = slice_of(TFLM16_HIGH)


@dataclass(frozen=True)
class Sums:
    """Accumulators of some dtype, and how they are rescaled."""

    dtype: str
    rescaling: Rescaling
    cost: float  # instructions for a word of weights, or a slice, of four channels
    suffix: str
    unit: str = "dsp"
    has_tail: bool = False  # inputs are no multiple of those that are taken at once

    def fits(self, inputs: int) -> bool:
        """Whether the kernel takes this many inputs."""
        if self.unit == "mve":
            return True
        return inputs > self.inputs if self.has_tail else inputs % self.inputs == 0

    @property
    def inputs(self) -> int:
        """Number of inputs taken at once."""
        return IN_WORD if self.unit == "dsp" else SLICE

    def kernel(self, result: str) -> str:
        """The name of the kernel with results of this dtype."""
        tail = "_tail" * self.has_tail
        return f"ec_matrix_1{tail}_s16{'_s8' if result == 'int8' else ''}{self.suffix}_{self.unit}"

    @property
    def header(self) -> str:
        """The file of the kernel."""
        return f"{'helium' if self.unit == 'mve' else self.unit}/matrix_s16.h"

    def limits(self, result: str) -> tuple[str, ...]:
        """The last sizes of that kernel; int16 has no zero points."""
        return ("zero_point",) * (result == "int8") + ("minimum", "maximum")


SUMS_32 = Sums("int32", TFLM16_HIGH, 19, "")
SUMS_ANY = Sums("int32", TFLM16, 19, "_any")
SUMS_64 = Sums("int64", TFLM16, 24, "_s64")
VECTOR_SUMS_ANY = Sums("int32", TFLM16, 10, "_any", "mve")
VECTOR_SUMS_64 = Sums("int64", TFLM16, 10, "_s64", "mve")

TAIL_SUMS = tuple(replace(sums, has_tail=True) for sums in (SUMS_32, SUMS_ANY, SUMS_64))

#: Those without a tail before the same with one.
ALL_SUMS = (SUMS_32, SUMS_ANY, SUMS_64, *TAIL_SUMS, VECTOR_SUMS_ANY, VECTOR_SUMS_64)


def matrix_1(
    sums: Sums,
    result: str,
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    channels: int,
    **limits: int,
) -> PrimFunc:
    """out[0, o] = rescaled bias[o] + sum of x[kh, kw, ic] * w[o, kh, kw, ic], limited."""
    b = Definition("matrix_1_int16")
    out = b.output("out", (1, channels), result)
    window = (kernel_h, kernel_w, in_channels)
    x, w = b.input("x", window, "int16"), b.constant("w", (channels, *window), "int8")
    steps = dict(zip(("kh", "kw", "ic"), window, strict=True))
    return rescaled_sums(
        b, sums.rescaling, out, steps, lambda p, c, *k: x[k], lambda p, c, *k: w[c, *k],
        Results.within(**limits), sums.dtype,
    )  # fmt: skip


def shifted_down(lanes: Array) -> list[Field]:
    """The rescaling of each channel of the units: M, half of the divisor, the shift."""
    each = [lanes[:, place : place + 1] for place in range(lanes.shape[1])]
    names = ("multiplier", "half", "shift")
    return [Field(name, lane) for lane in each for name in names]


def add_halves(arrays: Mapping[str, Array], **_: int) -> Mapping[str, Array]:
    """Adds half of the last bit that stays after a shift."""
    return {**arrays, "half": 1 << (arrays["shift"].astype(np.int64) - 1)}


def _fields(sums: Sums, channels: int, **sizes: int) -> list[Field]:
    lanes, inputs = lanes_of(channels, UNIT), _inputs(**sizes)
    has_halves = sums.rescaling is TFLM16_HIGH
    scales = [field for field in shifted_down(lanes) if has_halves or field.source != "half"]
    if sums.unit == "mve":
        w = slices_at(lanes, 1, inputs, SLICE)
    else:
        rows = rows_at(lanes, inputs)
        more = ((0, 0), (0, 0), (0, -inputs % IN_WORD))
        words = np.pad(rows, more, constant_values=-1).reshape(*lanes.shape, -1, IN_WORD)
        w = words[..., [0, 2, 1, 3]].transpose(0, 2, 1, 3)
    return [Field("bias", lanes, sums.dtype), Field("w", w, "int8"), *scales]


def _inputs(kernel_h: int, kernel_w: int, in_channels: int, **_: int) -> int:
    return kernel_h * kernel_w * in_channels


def _instructions(sums: Sums, channels: int, **sizes: int) -> float:
    each = 60 + sums.cost * slices_of(_inputs(**sizes), sums.inputs)
    tail = 35 * sums.has_tail  # as long as the begin of a loop over inputs
    return 40 + tail + (each + tail) * -(-channels // UNIT)


def _register(sums: Sums, result: str, code_bytes: int) -> None:
    """Register a kernel; without a zero point among its sizes, the struct's is 0."""
    sizes = ("kernel_h", "kernel_w", "in_channels", "channels", *sums.limits(result))
    # Kernels for whole words of inputs take numbers: a struct makes kws_int16 larger on Cortex-M4.
    in_struct = sums.unit == "mve" or sums.has_tail
    register(
        Microkernel(
            sums.kernel(result),
            partial(matrix_1, sums, result),
            sizes=sizes,
            struct=Struct("ec_matrix_s16_sizes", sizes) if in_struct else None,
            product=() if in_struct else sizes[:3],
            header=sums.header,
            needs=frozenset({sums.unit}),
            alignment=(*((("x", 4),) if sums.unit == "dsp" else ()), ("bias", 4)),
            stream=Stream(sums.rescaling.sources, partial(_fields, sums), add_halves),
            instructions=partial(_instructions, sums),
            code_bytes=code_bytes,
        )
    )


_CODE_BYTES = {SUMS_32.suffix: 520, SUMS_ANY.suffix: 560, SUMS_64.suffix: 380}
for _sums in ALL_SUMS:
    _code_bytes = 380 if _sums.unit == "mve" else _CODE_BYTES[_sums.suffix] + 60 * _sums.has_tail
    for _result in ("int16", "int8"):
        _register(_sums, _result, _code_bytes)
