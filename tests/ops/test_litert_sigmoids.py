"""LiteRT's int8 LOGISTIC and TANH: every value, where XNNPACK rounds halves to even."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.oracle.frameworks import open_oracle

VALUES = np.arange(-128, 128, dtype=np.int8)[None]


@pytest.mark.parametrize(("kind", "scale", "zero"), [("LOGISTIC", 1 / 256, -128),
                                                     ("TANH", 1 / 128, 0)])  # fmt: skip
@pytest.mark.parametrize("quant", [(1 / 128, -128), (1 / 256, 0), (0.0371, 9), (0.3, 127)])
@pytest.mark.parametrize("framework", ["litert", "tflm"])
def test_every_value(
    kind: str, scale: float, zero: int, quant: tuple[float, int], framework: str, tmp_path: Path
) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", VALUES.shape, "int8", scale=quant[0], zero_point=quant[1])
    y = model.tensor("y", VALUES.shape, "int8", scale=scale, zero_point=zero)
    model.operator(kind, [x], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    mine = Interpretation(import_model(path, match=framework).main).run([VALUES])[0]
    theirs = open_oracle(path, framework).run([VALUES]).outputs[0]
    assert np.array_equal(mine, theirs)
