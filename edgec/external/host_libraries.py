"""Kernels of libraries for this computer: XNNPACK's and oneDNN's convolutions and dense layers.

Their C is in `runtime_c/external/`: functions of pointers around the libraries' own interfaces.
Headers and libraries are the system's: on Debian libxnnpack-dev with libpthreadpool-dev, and
libdnnl-dev.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from edgec.graph.types import Array
from edgec.loop.primitives.call_foreign import Argument
from edgec.resources import resource_dir
from edgec.targets.common.described import Products, products_of
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest

#: Header of both libraries' files: the order of `sizes_of`.
HEADER = "edgec_convolution.h"
#: Families of machine code that the libraries are for.
HOSTS = ("x86_64", "aarch64")
#: Estimated overhead of a call; and how many products run at once, of floats and of int8.
CALL, FLOATS, BYTES = 2000, 12, 20
#: Scales that XNNPACK takes: normal numbers below this.
LEAST_SCALE, MOST_SCALE = 2.0**-32, 256.0


def xnnpack(cost: float = 1.0) -> tuple[Kernel, ...]:
    """Convolutions, depthwise convolutions and dense layers by XNNPACK.

    XNNPACK rounds int8 results as ONNX Runtime does. It adds floats in another order, which only
    `float_sums="free"` allows. cost: a factor of the estimated instructions; less
    than 1 prefers them. Raises EdgecError where edgec's own files are missing.
    """
    return tuple(
        _kernel(symbol, "edgec_xnnpack.c", partial(use, cost), "XNNPACK")
        for symbol, use in (("edgec_xnn_conv_f32", _floats), ("edgec_xnn_conv_s8", _xnn_bytes))
    )


def onednn(cost: float = 1.0) -> tuple[Kernel, ...]:
    """Convolutions, depthwise convolutions and dense layers of floats by oneDNN.

    They add in another order, which only `float_sums="free"` allows. cost: as of `xnnpack`.
    """
    return (_kernel("edgec_dnnl_conv_f32", "edgec_onednn.c", partial(_floats, cost), "dnnl"),)


def _kernel(symbol: str, source: str, use: Callable[[Nest], Use | None], library: str) -> Kernel:
    """A function of a file of `runtime_c/external/`, with the header that the files share."""
    folder = resource_dir("runtime_c") / "external"
    header = (HEADER, (folder / HEADER).read_text("utf-8"))
    return Kernel(symbol, folder / source, use=use, files=(header,), libraries=(library,))


def _floats(cost: float, nest: Nest) -> Use | None:
    """A call for sums of floats that may be added in any order."""
    found = _products(nest)
    if found is None or nest.dtype != "float32" or nest.options.float_sums != "free":
        return None
    limits = np.array([found.minimum, found.maximum], np.float32)
    given: list[Argument] = ["x", "out", found.weights, found.bias, limits, sizes_of(found)]
    return Use(given, _instructions(found, FLOATS) * cost)


def _xnn_bytes(cost: float, nest: Nest) -> Use | None:
    """A call for sums of int8 that are rescaled by floats."""
    found = _products(nest)
    if found is None or (nest.dtype, nest.out_dtype) != ("int8", "int8"):
        return None
    scale = found.scale
    if found.rounding != "onnx" or scale is None or found.minimum >= found.maximum:
        return None
    if not (np.all(scale >= LEAST_SCALE) and np.all(scale < MOST_SCALE)):
        return None
    given: list[Argument] = ["x", "out", found.weights, found.bias, scale, sizes_of(found)]
    return Use(given, _instructions(found, BYTES) * cost)


def _products(nest: Nest) -> Products | None:
    """The products of a nest, if the target is this computer or a Linux board; else None."""
    return products_of(nest) if nest.core.isa in HOSTS else None


def _instructions(found: Products, at_once: int) -> float:
    """About how many a call takes."""
    return CALL + found.macs / at_once + prod(found.out) / 2


def sizes_of(found: Products) -> Array:
    """The numbers of a convolution, as `runtime_c/external/edgec_convolution.h` names them.

    A dense layer is one of single pixels: its rows are the pixels of one row.
    """
    shape, (bottom, right) = (*found.x, found.out[-1]), (0, 0)
    if found.sort == "dense":
        shape = (1, 1, *shape)
    else:
        bottom, right = found.padding_after
    top, left = found.padding
    limits = (found.minimum, found.maximum) if found.rounding else (0, 0)
    numbers = (
        *shape, *found.kernel, *found.stride, *found.dilation, top, right, bottom, left,
        found.sort == "depthwise", found.offset, found.zero_point, *limits,
    )  # fmt: skip
    return np.array(numbers, np.int32)
