"""TFLite models of one operator, compared with TFLite Micro's interpreter and with their nests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from against_tflm import assert_same_bits
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.graph.ir import Module
from edgec.runners.samples import generate_inputs


@dataclass(frozen=True)
class Operand:
    """A tensor of the model: an input, unless it has `data`."""

    shape: Sequence[int]
    dtype: str = "int8"
    scale: float | None = 0.1
    zero_point: int = 0
    data: np.ndarray | None = None

    @staticmethod
    def integers(values: Sequence[int], dtype: str = "int32") -> Operand:
        """A constant vector without quantization."""
        return Operand((len(values),), dtype, None, data=np.array(values, dtype))


def one_operator(
    kind: str, inputs: Sequence[Operand], outputs: Sequence[Operand], options: str = "",
    **fields: Any,
) -> bytes:  # fmt: skip
    """The bytes of a model; tensors of floats and 32-bit integers have no quantization."""
    model = TfliteBuilder()

    def add(name: str, operand: Operand) -> int:
        quant: dict[str, Any] = {}
        if operand.dtype in ("int8", "int16", "uint8") and operand.scale is not None:
            quant = {"scale": operand.scale, "zero_point": operand.zero_point}
        return model.tensor(name, operand.shape, operand.dtype, data=operand.data, **quant)

    numbers = [add(f"x{n}", operand) for n, operand in enumerate(inputs)]
    results = [add(f"y{n}", operand) for n, operand in enumerate(outputs)]
    model.operator(kind, numbers, results, options, **fields)
    given = [n for n, operand in zip(numbers, inputs, strict=True) if operand.data is None]
    return model.build(given, results)


def check_operator(data: bytes, folder: Path, seed: int = 1) -> Module:
    """Assert TFLite Micro's bits for two inputs, and the same of every nest."""
    module = assert_same_bits(data, folder, seeds=(seed, seed + 1))
    main = module.main
    check_nests(main, generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in main.params]))
    return module
