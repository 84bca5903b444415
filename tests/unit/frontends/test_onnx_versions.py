"""Opsets: older ones are converted, what they did differently is kept, newer ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

import edgec.ops
from edgec.errors import ImportFailed
from edgec.frontends import import_model, onnx_versions
from edgec.graph.interpret import interpret
from edgec.ops.op import find_importer, importer_kinds


def save(
    path: Path, node: Any, shape: tuple[int, ...], opset: int, **constants: np.ndarray
) -> Path:
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output[:1]],
        [numpy_helper.from_array(data, name) for name, data in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    entries = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, d.shape) for n, d in constants.items()
    )
    model.graph.input.extend(entries)
    onnx.save(model, path)
    return path


OLD = [
    ("slopes of channels", helper.make_node("PRelu", ["x", "w"], ["y"]), 6, {"w": (3,)}),
    ("an operand of channels", helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=1), 6,
     {"w": (3,)}),
    ("bounds as attributes", helper.make_node("Clip", ["x"], ["y"], min=-0.5, max=0.25), 7, {}),
    ("no bound above", helper.make_node("Clip", ["x"], ["y"], min=-0.5), 10, {}),
    ("two operands", helper.make_node("Max", ["x", "w"], ["y"]), 7, {"w": (2, 3, 3, 3)}),
    ("scales as an attribute",
     helper.make_node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0]), 7, {}),
    ("a count as an attribute", helper.make_node("TopK", ["x"], ["y", "i"], k=2, axis=1), 9, {}),
]  # fmt: skip


@pytest.mark.parametrize(("node", "opset", "constants"), [case[1:] for case in OLD],
                         ids=[case[0] for case in OLD])  # fmt: skip
def test_old_operators_mean_what_they_did(
    node: Any, opset: int, constants: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(opset)
    given = {n: rng.normal(size=s).astype(np.float32) for n, s in constants.items()}
    x = rng.normal(size=(2, 3, 3, 3)).astype(np.float32)
    path = save(tmp_path / "m.onnx", node, x.shape, opset, **given)
    (found, *_) = interpret(import_model(path).main, [x])
    if node.op_type in ("PRelu", "Add"):  # ONNX Runtime begins at opset 7
        w = given["w"].reshape(3, 1, 1)
        wanted = x + w if node.op_type == "Add" else np.where(x < 0, x * w, x)
    else:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        wanted = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, strict=True)


def test_every_operator_is_known_from_opset_7_on() -> None:
    edgec.ops.load()
    unknown = []
    for kind in importer_kinds("onnx"):
        for opset in range(onnx_versions.OLDEST, defs.onnx_opset_version() + 1):
            try:
                schema = defs.get_schema(kind, opset)
            except defs.SchemaError:
                continue
            if not schema.deprecated and find_importer("onnx", kind, opset) is None:
                unknown.append((kind, opset))
    assert not unknown


def test_what_is_too_new_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert defs.onnx_opset_version() <= onnx_versions.NEWEST, "look at what is new, then raise it"
    path = save(tmp_path / "m.onnx", helper.make_node("Relu", ["x"], ["y"]), (2,), 99)
    with pytest.raises(ImportFailed, match=f"of opset 99, newer than {onnx_versions.NEWEST}"):
        import_model(path)
    path = save(tmp_path / "m.onnx", helper.make_node("Relu", ["x"], ["y"]), (2,), 14)
    monkeypatch.setattr(onnx_versions, "NEWEST", 13)
    with pytest.raises(ImportFailed) as refusal:
        import_model(path)
    assert "Relu changed at opset 14: known is 13 and older" in str(refusal.value.details)


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Unheard", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", node, (2,), 3)
    with pytest.raises(ImportFailed, match="operators of opset 3, which could not be converted"):
        import_model(path)
