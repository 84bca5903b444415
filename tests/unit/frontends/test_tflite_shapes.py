"""A TFLite file's open batch: fixed, or kept open, by the shape of the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from tflite_builder import TfliteBuilder

import edgec
from edgec.errors import ImportFailed, RunFailed
from edgec.frontends import import_model

RANDOM = np.random.default_rng(5)


@pytest.fixture
def open_file(tmp_path: Path) -> Path:
    """x [batch, 4] through a layer and tanh."""
    model = TfliteBuilder()
    x = model.tensor("x", (1, 4), "float32", signature=(-1, 4))
    weights = RANDOM.normal(size=(3, 4)).astype(np.float32)
    w = model.tensor("w", (3, 4), "float32", data=weights)
    b = model.tensor("b", (3,), "float32", data=RANDOM.normal(size=3).astype(np.float32))
    hidden = model.tensor("hidden", (1, 3), "float32", signature=(-1, 3))
    y = model.tensor("y", (1, 3), "float32", signature=(-1, 3))
    model.operator("FULLY_CONNECTED", [x, w, b], [hidden], "FullyConnectedOptions")
    model.operator("TANH", [hidden], [y])
    path = tmp_path / "open.tflite"
    path.write_bytes(model.build([x], [y]))
    return path


def litert(path: Path, x: Any) -> Any:
    interpreter = Interpreter(str(path))
    (entry,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(entry["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(entry["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_every_batch_is_what_litert_computes(open_file: Path) -> None:
    shapes = (("x", (range(1, 6), 4)),)
    with edgec.compile(open_file, input_shapes=shapes) as model:
        for rows in range(1, 6):
            x = RANDOM.normal(size=(rows, 4)).astype(np.float32)
            wanted = litert(open_file, x)
            np.testing.assert_allclose(model.run(x), wanted, rtol=1e-5, atol=1e-6)
        with pytest.raises(RunFailed, match="'x_0' of open is 6"):
            model.run(np.zeros((6, 4), np.float32))


def test_a_number_fixes_it(open_file: Path) -> None:
    main = import_model(open_file, shapes={"x": (3, 4)}).main
    assert [v.type.shape for v in (*main.inputs, *main.outputs)] == [(3, 4), (3, 3)]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (1, 5)}, "dimension 1 of input 'x' is 4, 5 was given"),
        ({"x": (1,)}, "has 2 dimensions, 1 were given"),
        ({"z": (1,)}, "has no input 'z'"),
    ],
)
def test_what_does_not_fit_is_refused(
    shapes: dict[str, tuple[int, ...]], message: str, open_file: Path
) -> None:
    with pytest.raises(ImportFailed, match=message):
        import_model(open_file, shapes=shapes)
