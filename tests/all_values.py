"""8-bit functions of one operand: every stored value at random scales, against TFLite Micro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from one_operator import Operand, one_operator
from single_node import check_nests

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle

VALUES = np.arange(-128, 128).astype(np.int8).reshape(4, 64)


def check_all_values(
    kind: str, x: tuple[float, int], y: tuple[float, int], folder: Path, options: str = "",
    **fields: Any,
) -> None:  # fmt: skip
    """x, y: scale and zero point of input and output."""
    data = one_operator(
        kind, [Operand(VALUES.shape, "int8", *x)], [Operand(VALUES.shape, "int8", *y)], options,
        **fields,
    )  # fmt: skip
    path = folder / "case.tflite"
    path.write_bytes(data)
    function = import_model(path).main
    (mine,) = interpret(function, [VALUES])
    wanted = open_oracle(path).run([VALUES]).outputs[0]
    wrong = np.flatnonzero(mine.ravel() != wanted.ravel())
    assert not wrong.size, (
        f"{wrong.size} values differ for x={x}, y={y}: at {VALUES.ravel()[wrong[:5]]}"
        f" {mine.ravel()[wrong[:5]]} instead of {wanted.ravel()[wrong[:5]]}"
    )
    check_nests(function, [VALUES])
