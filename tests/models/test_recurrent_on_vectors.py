"""GRU, LSTM and RNN of floats on this computer's vectors: the bits of plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import edgec
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.loop.printer import print_func
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.samples import generate_inputs
from edgec.targets.core import native_core

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}

pytestmark = pytest.mark.skipif(
    not native_core().has("avx2") and not native_core().has("neon"),
    reason="this computer's vectors have no schedules of floats",
)


Sizes = tuple[int, int, int, int]


def recurrent(folder: Path, kind: str, sizes: Sizes, **attributes: object) -> Path:
    """One operator on sizes of steps, batch, inputs and units."""
    steps, batch, depth, units = sizes
    rng, rows = np.random.default_rng(8), GATES[kind] * units
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    tensors = {"W": (ways, rows, depth), "R": (ways, rows, units), "B": (ways, 2 * rows)}
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in tensors.items()
    ]
    node = make_node(kind, ["x", *tensors], ["y"], hidden_size=units, **attributes)
    x = make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, depth])
    y = make_tensor_value_info("y", TensorProto.FLOAT, [steps, ways, batch, units])
    graph = make_graph([node], "g", [x], [y], constants)
    model = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("sizes", [(1, 1, 9, 16), (5, 2, 7, 37), (3, 1, 1, 8)])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("GRU", {"linear_before_reset": 0}), ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {"direction": "bidirectional"}), ("RNN", {}),
    ],
)  # fmt: skip
def test_gates_have_the_bits_of_plain_sums(
    kind: str, attributes: dict[str, object], sizes: Sizes, tmp_path: Path
) -> None:
    path, ordered = recurrent(tmp_path, kind, sizes, **attributes), Options(float_sums="ordered")
    given = generate_inputs(4, [(sizes[:3], np.dtype("float32"))])
    compiled = compile_model(path, native_core(), ordered)
    texts = [print_func(variant.function) for variant in compiled.chosen]
    assert any("vectorized for own" in text for text in texts) == (sizes[1] == 1)  # one sequence
    with edgec.compile(path, float_sums="ordered") as model:
        found = model.run(*given)
    (expected,) = interpret(import_model(path).main, given)
    np.testing.assert_array_equal(found, expected)
