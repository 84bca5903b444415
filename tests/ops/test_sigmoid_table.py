"""Logistic and tanh of int16: every value that TFLite Micro gives, in NumPy and in loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.loop.lowering import Lowering
from edgec.loop.values import int16, int32
from edgec.ops.sigmoid_table import SigmoidLoops, logistic_int16, tanh_factor, tanh_int16
from edgec.oracle.frameworks import open_oracle

EVERY = np.arange(-32768, 32768, dtype=np.int16)[None]


@pytest.mark.parametrize(("kind", "integer_bits"), [("LOGISTIC", 3), ("TANH", 3), ("TANH", 4)])
def test_every_value(kind: str, integer_bits: int, tmp_path: Path) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", EVERY.shape, "int16", scale=2.0 ** (integer_bits - 15))
    y = model.tensor("y", EVERY.shape, "int16", scale=2.0**-15)
    model.operator(kind, [x], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    (wanted,) = open_oracle(path).run([EVERY]).outputs
    wide = EVERY.astype(np.int64)
    mine = (
        logistic_int16(wide) if kind == "LOGISTIC" else tanh_int16(wide, tanh_factor(integer_bits))
    )
    np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("integer_bits", [None, 0, 2, 3, 5])
def test_loops_give_the_same(integer_bits: int | None) -> None:
    target = Lowering("sigmoid")
    x = target.input("x", EVERY.shape, "int16")
    out = target.output("out", EVERY.shape, "int16")
    loops = SigmoidLoops(target)

    def element(n, c):
        value = int32(x[n, c])
        return int16(
            loops.logistic(value)
            if integer_bits is None
            else loops.tanh(value, tanh_factor(integer_bits))
        )

    target.definition.compute(out, element)
    found = target.definition.evaluate({"x": EVERY, **target.tables})["out"]
    wide = EVERY.astype(np.int64)
    wanted = (
        logistic_int16(wide)
        if integer_bits is None
        else tanh_int16(wide, tanh_factor(integer_bits))
    )
    np.testing.assert_array_equal(found, wanted)
