"""reshape: shapes, quantization, and TFLite Micro's RESHAPE."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.reshape import Reshape, ReshapeAttrs

QUANT = {"scale": 0.25, "zero_point": -7}


@pytest.mark.parametrize(
    ("before", "after", "options"),
    [((1, 4, 3, 2), (1, 24), True), ((2, 6), (3, 4), False), ((24,), (1, 2, 3, 4), False)],
    ids=str,
)
def test_tflite_reshape(before, after, options, tmp_path) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", before, "int8", **QUANT)
    shape = model.tensor("shape", (len(after),), "int32", data=np.array(after, np.int32))
    y = model.tensor("y", after, "int8", **QUANT)
    model.operator("RESHAPE", [x, shape], [y], "ReshapeOptions" if options else "")
    module = assert_same_bits(model.build([x], [y]), tmp_path)
    assert [node.op.name for node in module.main.nodes] == ["reshape"]


def test_infer_refuses_what_has_no_meaning() -> None:
    op = Reshape()
    with pytest.raises(TypeMismatch, match=r"has no shape \[5\]"):
        op.infer(ReshapeAttrs((5,)), TensorType((2, 3), "int8"))
    along_axis = Quant((0.1, 0.2), (0, 0), axis=0)
    with pytest.raises(TypeMismatch, match="along an axis"):
        op.infer(ReshapeAttrs((6,)), TensorType((2, 3), "int8", along_axis))


def test_reshape_that_requantizes_is_refused(tmp_path) -> None:
    from edgec.errors import ImportFailed
    from edgec.frontends import import_model

    model = TfliteBuilder()
    x = model.tensor("x", (2, 3), "int8", scale=0.5, zero_point=0)
    y = model.tensor("y", (6,), "int8", scale=0.25, zero_point=0)
    model.operator("RESHAPE", [x], [y])
    path = tmp_path / "model.tflite"
    path.write_bytes(model.build([x], [y]))
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "the file declares" in failure.value.details[0]
