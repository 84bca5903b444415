"""deform_columns: the standard's own answers in groups, C on any numbers, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.deform_conv import DeformAttrs, DeformColumns


def test_groups_are_those_of_the_standard(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    shapes = {
        "x": (2, 4, 5, 6),
        "w": (6, 2, 2, 3),
        "o": (2, 24, 3, 3),
        "b": (6,),
        "m": (2, 12, 3, 3),
    }
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    node = helper.make_node(
        "DeformConv", list(inputs), ["y"], group=2, offset_group=2, strides=[2, 2],
        pads=[1, 0, 0, 1], dilations=[1, 1],
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    (wanted,) = ReferenceEvaluator(model).run(None, inputs)
    (found,) = interpret(import_model(path).main, list(inputs.values()))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["test_deform_conv_with_mask_bias", "test_deform_conv_with_multiple_offset_groups"]
)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


def test_refusals() -> None:
    op, attrs = DeformColumns(), DeformAttrs((2, 2), (1, 1), (1, 1), (0, 0))
    x, offsets = TensorType((1, 3, 4, 4), "float32"), TensorType((1, 8, 3, 3), "float32")
    weights = TensorType((1, 4, 3, 3), "float32")
    assert op.infer(attrs, x, offsets, weights)[0].shape == (1, 3, 4, 3, 3)
    for bad, given in [
        (attrs, (x, weights, weights)),
        (attrs, (x, offsets, offsets)),
        (replace(attrs, groups=2), (x, offsets, weights)),
        (replace(attrs, stride=(1,)), (x, offsets, weights)),
    ]:
        with pytest.raises(TypeMismatch, match="deform_columns of"):
            op.infer(bad, *given)
