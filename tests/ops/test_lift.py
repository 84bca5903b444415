"""lift: what it refuses; its bits are tested by the operators that are made of it."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.lift import Lift, LiftAttrs

QUANT = Quant((0.1,), (3,))


def test_differences_are_raised_and_halved() -> None:
    x, type_ = np.array([-128, 3, 127], np.int8), TensorType((3,), "int8", QUANT)
    attrs = LiftAttrs(20, 0.5)
    outputs = Lift().infer(attrs, type_)
    (found,) = Lift().evaluate(attrs, [x], [type_], outputs)
    np.testing.assert_array_equal(found, (x.astype(np.int32) - 3) << 19)


@pytest.mark.parametrize(
    ("x", "attrs"),
    [
        (TensorType((2,), "int8"), LiftAttrs()),
        (TensorType((2,), "int32", Quant((0.1,), (0,))), LiftAttrs()),
        (TensorType((2,), "int8", Quant((0.1,), (0,))), LiftAttrs(23)),
        (TensorType((2,), "int8", Quant((0.1,), (0,))), LiftAttrs(1, 1.5)),
    ],
)
def test_refusals(x: TensorType, attrs: LiftAttrs) -> None:
    with pytest.raises(TypeMismatch, match="lift"):
        Lift().infer(attrs, x)
