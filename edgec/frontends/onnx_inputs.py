"""Inputs of an ONNX graph: quantization parameters of inputs that are stored integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.graph.ir import Constant, Value
from edgec.graph.types import Quant

#: Operators whose first three inputs are integers, their scale and their zero point.
READERS = ("DequantizeLinear", "QLinearConv", "QLinearMatMul")


def stored_inputs(graph: Any, constants: dict[str, Value]) -> dict[str, Quant]:
    """Scale and zero point of the inputs that `READERS` read, by name; one scale for each.

    constants: the graph's initializers by name. Inputs that are dequantized in several ways are
    left out, and so are scales that are computed: importing their readers says so.
    """
    names = {entry.name for entry in graph.input}
    found: dict[str, set[Quant]] = {}
    for node in graph.node:
        if node.op_type not in READERS or len(node.input) < 2 or node.input[0] not in names:
            continue
        parameters = [constants.get(name) for name in node.input[1:3]]
        known = [value.data for value in parameters if isinstance(value, Constant)]
        if len(known) < len(parameters) or any(array.size != 1 for array in known):
            continue
        scale, zero = (*known, np.zeros(1, np.int8))[:2]
        if scale.dtype.kind == "f" and zero.dtype.kind in "iu":
            quant = Quant((float(scale.item()),), (int(zero.item()),))
            found.setdefault(node.input[0], set()).add(quant)
    return {name: quants.pop() for name, quants in found.items() if len(quants) == 1}


def example_shape(tensor: Any) -> str:
    """The shape of an input as an option's text, with numbers in place of open extents."""
    extents = [int(d.dim_value) if d.HasField("dim_value") else 0 for d in tensor.shape.dim]
    likely = (1, *(224 if len(extents) == 4 else 512 for _ in extents[1:]))
    return ",".join(str(e if e > 0 else guess) for e, guess in zip(extents, likely, strict=True))
