"""ONNX files whose tensors lie in files beside them, as PyTorch's exporter writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import float_network, with_data_beside

from edgec.errors import EdgecError, TooLarge
from edgec.frontends import import_model, onnx_file
from edgec.frontends.onnx_file import read_onnx


@pytest.mark.parametrize("location", ["model.onnx.data", "weights/all.bin"])
def test_weights_beside_the_model_are_its_own(location: str, tmp_path: Path) -> None:
    inside = float_network(3, tmp_path / "inside.onnx")
    beside = with_data_beside(float_network(3, tmp_path / "beside.onnx"), location)
    wanted, found = (import_model(path).main for path in (inside, beside))
    assert [node.op.name for node in found.nodes] == [node.op.name for node in wanted.nodes]
    for one, other in zip(wanted.nodes, found.nodes, strict=True):
        for a, b in zip(one.inputs, other.inputs, strict=True):
            data = getattr(a, "data", None)
            assert data is None or np.array_equal(data, b.data)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TensorProto.INT4, [1, -2, 3]),
        (TensorProto.UINT4, [1, 2, 15, 4]),
        (TensorProto.BFLOAT16, [1.0, -2.5]),
        (TensorProto.BOOL, [True, False, True]),
        (TensorProto.DOUBLE, [0.25]),
    ],
)
def test_dtypes(kind: int, values: list[float], tmp_path: Path) -> None:
    tensor = helper.make_tensor("w", kind, [len(values)], values)
    raw = numpy_helper.from_array(numpy_helper.to_array(tensor), "w")
    graph = helper.make_graph([], "g", [], [helper.make_tensor_value_info("w", kind, None)], [raw])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    found = read_onnx(with_data_beside(tmp_path / "m.onnx")).graph.initializer[0]
    assert np.array_equal(numpy_helper.to_array(found), numpy_helper.to_array(tensor))


def changed(path: Path, **fields: str) -> Path:
    """The file with other words of where its first tensor lies; "" removes one."""
    model = onnx.load(path, load_external_data=False)
    tensor = next(onnx_file.external_tensors(model))
    words = {entry.key: entry.value for entry in tensor.external_data} | fields
    tensor.ClearField("external_data")
    for key, value in words.items():
        if value:
            tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"location": "absent.bin"}, "not a file beside the model"),
        ({"location": "."}, "not a file beside the model"),
        ({"location": ""}, "outside the model's folder"),
        ({"location": "a\0b"}, "no readable place"),
        ({"offset": "many"}, "no readable place"),
        ({"offset": "-4"}, "bytes, but lies in"),
        ({"offset": "1000000"}, "bytes, but lies in"),
        ({"length": "4000000000"}, "bytes, but lies in"),
        ({"length": "-4"}, "bytes, but lies in"),
    ],
)
def test_places_that_are_none(fields: dict[str, str], said: str, tmp_path: Path) -> None:
    path = changed(with_data_beside(float_network(2, tmp_path / "m.onnx")), **fields)
    with pytest.raises(EdgecError, match=said):
        import_model(path)


def test_one_file_that_is_the_data_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_data_beside(float_network(2, tmp_path / "m.onnx"))
    monkeypatch.setattr(onnx_file, "MAX_EXTERNAL_BYTES", 64)
    with pytest.raises(TooLarge, match="external tensors take"):
        import_model(path)
