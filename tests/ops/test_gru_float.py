"""GRU, RNN and directions of LSTM: near ONNX Runtime, nests and C in the reference's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import TensorType
from edgec.ops.gru_float import GruFloat, GruFloatAttrs

STEPS, BATCH, DEPTH, SIZE = 3, 2, 5, 4
GATES = {"GRU": 3, "RNN": 1, "LSTM": 4}


def constants(kind: str, directions: int = 1, *, bias: bool = True, states: bool = True) -> Any:
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=(directions, *shape)).astype(np.float32)

    rows = GATES[kind] * SIZE
    found: dict[str, Any] = {"w": normal(rows, DEPTH), "r": normal(rows, SIZE)}
    found["b"] = normal(2 * rows) if bias else None
    if states:
        found |= {"lengths": None, "h": normal(BATCH, SIZE)}
        found |= {"c": normal(BATCH, SIZE)} if kind == "LSTM" else {}
    return found


@pytest.mark.parametrize("kind", ["GRU", "RNN"])
@pytest.mark.parametrize(("bias", "states"), [(True, True), (False, False)])
@pytest.mark.parametrize("resets_after", [0, 1])
def test_one_direction(
    kind: str, bias: bool, states: bool, resets_after: int, tmp_path: Path
) -> None:
    attributes = {"linear_before_reset": resets_after} if kind == "GRU" else {}
    if kind == "RNN" and resets_after:
        attributes = {"activations": ["Tanh"]}
    x = float_values((STEPS, BATCH, DEPTH))
    given = constants(kind, bias=bias, states=states)
    path = save_node(tmp_path / "m.onnx", kind, x, given, hidden_size=SIZE, **attributes)
    check_nests(check_against_onnxruntime(path, x, 1e-6), [x])


@pytest.mark.parametrize("kind", ["GRU", "RNN", "LSTM"])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_directions(kind: str, direction: str, tmp_path: Path) -> None:
    x = float_values((STEPS, BATCH, DEPTH))
    given = constants(kind, 2 if direction == "bidirectional" else 1)
    path = save_node(tmp_path / "m.onnx", kind, x, given, hidden_size=SIZE, direction=direction)
    check_nests(check_against_onnxruntime(path, x, 1e-6), [x])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"activations": ["Relu", "Cosine"]}, "activations Relu, Cosine"),
        ({"direction": "up"}, "direction 'up' is unknown"),
    ],
)
def test_what_is_not_supported_is_refused(
    attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    x = float_values((STEPS, BATCH, DEPTH))
    path = save_node(
        tmp_path / "m.onnx", "GRU", x, constants("GRU"), hidden_size=SIZE, **attributes
    )
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert message in "\n".join(caught.value.details)


def test_shapes_that_do_not_fit() -> None:
    def type_of(*shape: int) -> TensorType:
        return TensorType(shape, "float32")

    good = [type_of(3, 1, 5), type_of(1, 4), type_of(12, 5), type_of(12, 4), type_of(12),
            type_of(12)]  # fmt: skip
    assert GruFloat().infer(GruFloatAttrs(), *good)[0].shape == (3, 1, 4)
    for place, wrong in ((1, type_of(2, 4)), (2, type_of(12, 6)), (5, type_of(11))):
        with pytest.raises(TypeMismatch):
            GruFloat().infer(GruFloatAttrs(), *good[:place], wrong, *good[place + 1 :])
