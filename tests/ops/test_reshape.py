"""reshape: shapes, quantization, and TFLite Micro's RESHAPE."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.reshape import Reshape, ReshapeAttrs
from edgec.oracle.frameworks import open_oracle

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


def test_a_shape_that_the_file_computes_itself(tmp_path: Path) -> None:
    """Exporters leave a shape open that SHAPE, STRIDED_SLICE and PACK compute."""
    model = TfliteBuilder()
    x = model.tensor("x", (1, 3, 4, 2), "float32", signature=(-1, 3, 4, 2))
    shape = model.tensor("shape", (4,), "int32")
    batch = model.tensor("batch", (), "int32")
    minus, two = (
        model.tensor(name, (), "int32", data=np.array(value, np.int32))
        for name, value in (("minus", -1), ("two", 2))
    )
    ranges = [
        model.tensor(name, (1,), "int32", data=np.array([value], np.int32))
        for name, value in (("begin", 0), ("end", 1), ("strides", 1))
    ]
    wanted = model.tensor("wanted", (3,), "int32")
    y = model.tensor("y", (1, 1, 2), "float32", signature=(-1, -1, 2))
    z = model.tensor("z", (1, 1, 2), "float32", signature=(-1, -1, 2))
    model.operator("SHAPE", [x], [shape], "ShapeOptions", OutType=2)
    model.operator(
        "STRIDED_SLICE", [shape, *ranges], [batch], "StridedSliceOptions", ShrinkAxisMask=1
    )
    model.operator("PACK", [batch, minus, two], [wanted], "PackOptions", ValuesCount=3)
    model.operator("RESHAPE", [x, wanted], [y])
    model.operator("ADD", [y, y], [z], "AddOptions")
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [z]))
    main = import_model(path).main
    assert main.results[0].type.shape == (1, 12, 2)
    assert main.results[0].origin.shape == (1, 12, 2)
    values = np.arange(24, dtype=np.float32).reshape(1, 3, 4, 2)
    (mine,) = interpret(main, [values])
    np.testing.assert_array_equal(mine, open_oracle(path, "litert").run([values]).outputs[0])


def test_an_input_of_open_shape_is_refused(tmp_path: Path) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (1, 3), "int8", **QUANT, signature=(1, -1))
    y = model.tensor("y", (3,), "int8", **QUANT)
    model.operator("RESHAPE", [x], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    with pytest.raises(ImportFailed, match=r"dynamic shape \(dimension 1\)"):
        import_model(path)
