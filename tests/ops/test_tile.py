"""tile: ONNX Tile and Expand as ONNX Runtime, TILE and BROADCAST_TO as LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import Quant, TensorType
from edgec.ops.tile import Tile, TileAttrs

X = np.arange(6, dtype=np.float32).reshape(2, 1, 3)


@pytest.mark.parametrize("repeats", [[1, 2, 3], [2, 1, 1], [3, 4, 2]], ids=str)
def test_tile(repeats: list[int], tmp_path: Path) -> None:
    constants = {"repeats": np.array(repeats, np.int64)}
    path = save_node(tmp_path / "m.onnx", "Tile", X, constants)
    check_nests(check_against_onnxruntime(path, X), [X])


@pytest.mark.parametrize("shape", [[2, 4, 3], [4, 1], [5, 2, 1, 3]], ids=str)
def test_expand(shape: list[int], tmp_path: Path) -> None:
    constants = {"shape": np.array(shape, np.int64)}
    path = save_node(tmp_path / "m.onnx", "Expand", X, constants)
    check_nests(check_against_onnxruntime(path, X), [X])


@pytest.mark.parametrize(("kind", "given"), [("Tile", [1, 1, 1]), ("Expand", [3]), ("Expand", [1])])
def test_nothing_to_repeat_is_a_view(kind: str, given: list[int], tmp_path: Path) -> None:
    path = save_node(tmp_path / "m.onnx", kind, X, {"n": np.array(given, np.int64)})
    main = check_against_onnxruntime(path, X)
    assert [node.op.name for node in main.nodes] == ["reshape"]


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("Expand", [2, 4, 2], "does not broadcast"),
        ("Tile", [0, 1, 1], "without elements"),
        ("Tile", [1 << 30, 1, 1], "elements"),
    ],
)
def test_what_cannot_be_is_refused(kind: str, given: list[int], why: str, tmp_path: Path) -> None:
    path = save_node(tmp_path / "m.onnx", kind, X, {"n": np.array(given, np.int64)})
    with pytest.raises(ImportFailed) as refused:
        import_model(path)
    assert why in "\n".join(refused.value.details)


def test_infer_refuses_what_has_no_meaning() -> None:
    with pytest.raises(TypeMismatch, match="tile by"):
        Tile().infer(TileAttrs((2,)), TensorType((2, 3), "int8"))
    quant = Quant((1.0, 2.0), (0, 0), 0)
    with pytest.raises(TypeMismatch, match="along an axis"):
        Tile().infer(TileAttrs((2, 1)), TensorType((2, 3), "int8", quant))
