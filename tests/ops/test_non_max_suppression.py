"""non_max_suppression: ONNX Runtime's boxes, C on any numbers, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from official_cases import check_official_c
from onnx import TensorProto, helper

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.types import TensorType
from edgec.ops.non_max_suppression import NonMaxSuppression, NonMaxSuppressionAttrs


def model(centered: int, folder: Path) -> Path:
    """Boxes of two images with three classes; every limit is an input."""
    given = [
        ("boxes", TensorProto.FLOAT, [2, 12, 4]), ("scores", TensorProto.FLOAT, [2, 3, 12]),
        ("most", TensorProto.INT64, [1]), ("overlap", TensorProto.FLOAT, [1]),
        ("least", TensorProto.FLOAT, [1]),
    ]  # fmt: skip
    node = helper.make_node(
        "NonMaxSuppression", [name for name, *_ in given], ["y"], center_point_box=centered
    )
    graph = helper.make_graph(
        [node], "test", [helper.make_tensor_value_info(*each) for each in given],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [None, 3])],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "nms.onnx"
    onnx.save(made, path)
    return path


@pytest.mark.parametrize("centered", [0, 1])
def test_boxes_are_those_of_onnxruntime(centered: int, tmp_path: Path) -> None:
    path = model(centered, tmp_path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    reference = Interpretation(import_model(path).main)
    sizes = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        inputs = [
            rng.uniform(0, 1, (2, 12, 4)).astype(np.float32),
            rng.integers(0, 6, (2, 3, 12)).astype(np.float32) / 5,
            np.array([seed % 5], np.int64),
            np.array([0.1 * (seed % 3)], np.float32),
            np.array([0.2], np.float32),
        ]
        names = (entry.name for entry in session.get_inputs())
        (wanted,) = session.run(None, dict(zip(names, inputs, strict=True)))
        (found,) = reference.run(inputs)
        np.testing.assert_array_equal(found, wanted.reshape(-1, 3))
        sizes.add(len(found))
    assert 0 in sizes and len(sizes) > 4


@pytest.mark.parametrize(
    "name",
    [
        "test_nonmaxsuppression_center_point_box_format",
        "test_nonmaxsuppression_suppress_by_IOU_and_scores",
    ],
)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


def test_a_constant_number_of_boxes_is_the_most_that_there_are(tmp_path: Path) -> None:
    path = model(0, tmp_path)
    known = onnx.load(path)
    (most,) = [entry for entry in known.graph.input if entry.name == "most"]
    known.graph.input.remove(most)
    known.graph.initializer.append(onnx.numpy_helper.from_array(np.array(2, np.int64), "most"))
    onnx.save(known, path)
    y = import_model(path).main.outputs[0]
    assert y.type.shape == (2 * 3 * 2, 3)


def test_refusals() -> None:
    op, attrs = NonMaxSuppression(), NonMaxSuppressionAttrs(3)
    one, number = TensorType((1,), "float32"), TensorType((1,), "int64")
    boxes, scores = TensorType((1, 6, 4), "float32"), TensorType((1, 2, 6), "float32")
    assert op.infer(attrs, boxes, scores, number, one, one)[0].shape == (1, 2, 3)
    for given, message in [
        ((boxes, TensorType((1, 2, 5), "float32"), number, one, one), "suppression of"),
        ((boxes, scores, one, one, one), "suppression of"),
        ((boxes, scores, number, one, TensorType((2,), "float32")), "3 of 6"),
    ]:
        with pytest.raises(TypeMismatch, match=message):
            op.infer(attrs, *given)
    with pytest.raises(TypeMismatch, match="7 of 6 boxes"):
        op.infer(replace(attrs, limit=7), boxes, scores, number, one, one)
