"""ONNX's LSTM over floats: near ONNX Runtime, every nest in the reference's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed
from edgec.frontends import import_model

STEPS, BATCH, DEPTH, SIZE = 3, 2, 5, 4


def constants(*, bias: bool = True, states: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    found: dict[str, Any] = {"w": normal(1, 4 * SIZE, DEPTH), "r": normal(1, 4 * SIZE, SIZE)}
    if bias or states:
        found["b"] = normal(1, 8 * SIZE) if bias else None
    if states:
        found |= {"lengths": None, "h": normal(1, BATCH, SIZE), "c": normal(1, BATCH, SIZE)}
    return found


@pytest.mark.parametrize(("bias", "states"), [(True, True), (False, True), (False, False)])
def test_against_onnxruntime(bias: bool, states: bool, tmp_path: Path) -> None:
    x = float_values((STEPS, BATCH, DEPTH))
    path = save_node(
        tmp_path / "m.onnx", "LSTM", x, constants(bias=bias, states=states), hidden_size=SIZE
    )
    check_nests(check_against_onnxruntime(path, x, 1e-6), [x])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"direction": "reverse"}, "only the direction forward"),
        ({"activations": ["Relu", "Tanh", "Tanh"]}, "activations"),
        ({"input_forget": 1}, "coupled gates"),
    ],
)
def test_what_is_not_supported_is_refused(
    attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    x = float_values((STEPS, BATCH, DEPTH))
    path = save_node(tmp_path / "m.onnx", "LSTM", x, constants(), hidden_size=SIZE, **attributes)
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert message in "\n".join(caught.value.details)
