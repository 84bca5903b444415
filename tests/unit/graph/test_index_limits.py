"""Generated indices lie within what they index, so that frameworks take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.frontends import import_model
from edgec.graph.index_limits import index_limits
from edgec.runners.samples import within_limits

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)


def model(path: Path, kind: str, shape: tuple[int, ...]) -> Path:
    """Rows of a table by an input of indices, which is reshaped and converted first."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Cast", ["flat"], ["indices"], to=TensorProto.INT64),
        helper.make_node(kind, ["table", "indices"], ["rows"]),
        helper.make_node("Identity", ["other"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "embedding",
        [helper.make_tensor_value_info("x", TensorProto.INT32, (1, 4)),
         helper.make_tensor_value_info("other", TensorProto.INT32, (3,))],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, None),
         helper.make_tensor_value_info("y", TensorProto.INT32, (3,))],
        [numpy_helper.from_array(TABLE, "table"),
         numpy_helper.from_array(np.asarray(shape, np.int64), "shape")],
    )  # fmt: skip
    file = path / "embedding.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), file)
    return file


@pytest.mark.parametrize(
    ("kind", "shape", "limit"),
    [("Gather", (2, 2), 6), ("GatherND", (2, 2), 4), ("GatherElements", (1, 4), 6)],
)
def test_verify_generates_indices_that_the_framework_takes(
    kind: str, shape: tuple[int, ...], limit: int, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    file = model(tmp_path, kind, shape)
    assert index_limits(import_model(file).main) == [limit, None]
    assert all(not each.beyond for each in edgec.verify(file).outputs)


def test_scatters_have_limits_too(tmp_path: Path) -> None:
    file = tmp_path / "scatter.onnx"
    text = """
    <ir_version: 9, opset_import: ["":18]>
    g (int64[2,1] i, int64[1,4] j, float[2,4] u) => (float[6,4] a, float[6,4] b) {
        a = ScatterND(table, i, u)
        v = Slice(u, zero, one, zero)
        b = ScatterElements<axis = 0>(table, j, v)
    }
    """
    parsed = onnx.parser.parse_model(text)
    for name, array in (
        ("table", TABLE),
        ("zero", np.zeros(1, np.int64)),
        ("one", np.ones(1, np.int64)),
    ):
        parsed.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(parsed, file)
    assert index_limits(import_model(file).main) == [6, 6, None]
    assert all(not each.beyond for each in edgec.verify(file).outputs)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_within_limits(dtype: str) -> None:
    ends = np.iinfo(dtype)
    given = np.array([ends.min, 0, 5, 6, ends.max], dtype)
    kept, other = within_limits([given, given], [6, None])
    assert kept.dtype == given.dtype
    assert kept.min() >= 0
    assert kept.max() < 6
    assert list(kept[1:4]) == [0, 5, 0]
    assert other is given
