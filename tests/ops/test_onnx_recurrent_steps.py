"""LSTM, GRU and RNN in forms without an operator of their own: ONNX Runtime's answers, and C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from official_cases import check_official_c
from onnx import helper

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.ops.onnx_recurrent_steps import GATES, PARAMETERS

STEPS, BATCH, DEPTH, UNITS = 4, 3, 2, 3


def arrays(kind: str, ways: int, names: str) -> dict[str, np.ndarray]:
    """Inputs of a node, by the letters of those that it has."""
    rng, rows = np.random.default_rng(len(names)), GATES[kind] * UNITS
    shapes = {
        "X": (STEPS, BATCH, DEPTH), "W": (ways, rows, DEPTH), "R": (ways, rows, UNITS),
        "B": (ways, 2 * rows), "h": (ways, BATCH, UNITS), "c": (ways, BATCH, UNITS),
        "P": (ways, 3 * UNITS),
    }  # fmt: skip
    made = {n: rng.normal(0, 0.8, shapes[n]).astype(np.float32) for n in names if n in shapes}
    if "s" in names:
        made["s"] = np.array([4, 1, 2], np.int32)
    return made


def save(path: Path, kind: str, given: dict[str, np.ndarray], **attributes: Any) -> Path:
    """A model of one node, all of whose inputs are inputs of the model."""
    places = "XWRBshcP"
    last = max(places.index(name) for name in given)
    names = [name if name in given else "" for name in places[: last + 1]]
    outputs = ["y", "y_h", "y_c"][: 3 if kind == "LSTM" else 2]
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, hidden_size=UNITS, **attributes)],
        "test",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(made), path)
    return path


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "peepholes": ("LSTM", "XWRBshcP", {}),
    "coupled gates": ("LSTM", "XWRB", {"input_forget": 1}),
    "a limit": ("LSTM", "XWRhcB", {"clip": 0.4}),
    "lengths both ways": ("LSTM", "XWRBs", {"direction": "bidirectional"}),
    "lengths backwards": ("GRU", "XWRBsh", {"direction": "reverse"}),
    "reset after the product": ("GRU", "XWRB", {"linear_before_reset": 1}),
    "parameters": (
        "RNN", "XWR",
        {
            "direction": "bidirectional", "activations": ["Affine", "LeakyRelu"],
            "activation_alpha": [0.5, 0.2], "activation_beta": [0.25],
        },
    ),
    **{
        activation: (
            "RNN", "XWRB",
            {"activations": [activation], **{f"activation_{name}": [0.3] for name in parameters}},
        )
        for activation, parameters in PARAMETERS.items()
        if activation != "Affine"
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    kind, letters, attributes = CASES[name]
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    given = arrays(kind, ways, letters)
    if name == "parameters":  # ONNX Runtime wants a beta for each; LeakyRelu has none
        attributes = {**attributes, "activation_beta": [0.25, 0.0]}
    path = save(tmp_path / "m.onnx", kind, given, **attributes)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, given)
    for mine, theirs in zip(
        Interpretation(import_model(path).main).run(list(given.values())), wanted, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6, strict=True)


@pytest.mark.parametrize("name", ["test_lstm_with_peepholes", "test_gru_bidirectional"])
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [({"activations": ["Cosine"]}, "activations Cosine"), ({"direction": "up"}, "direction 'up'")],
)
def test_refusals(attributes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "RNN", arrays("RNN", 1, "XWR"), **attributes)
    with pytest.raises(ImportFailed) as refusal:
        import_model(path)
    assert message in str(refusal.value.details)
