"""Large matrices on vectors: by blocks of columns and by parts of the sums, to the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import (
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor_value_info,
)

import edgec
from edgec.loop.printer import print_func
from edgec.loop.schedule import Schedule
from edgec.runners.samples import generate_inputs
from edgec.targets.common import vector_matrices, vector_tiles
from edgec.targets.core import native_core

pytestmark = pytest.mark.skipif(
    not native_core().has("avx2") and not native_core().has("neon"),
    reason="this computer's vectors have no schedules of matrices",
)

Shape = tuple[int, ...]
Floats = npt.NDArray[np.float32]
Seen = list[Schedule]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let matrices of a few KB be far, and their rows pages."""
    monkeypatch.setattr(vector_tiles, "MIDDLE_BYTES", 1 << 10)
    for name, value in (
        ("LEAST_PRODUCTS", 1 << 8), ("PAGE_BYTES", 64), ("MOST_PART", 12), ("LEAST_PART", 2),
        ("MOST_ROWS", 16),
    ):  # fmt: skip
        monkeypatch.setattr(vector_matrices, name, value)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The schedules by parts of sums."""
    found: Seen = []
    build = vector_matrices._in_parts

    def noted(*args: object) -> Schedule:
        found.append(build(*args))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(vector_matrices, "_in_parts", noted)
    return found


def product(folder: Path, x: Shape, second: Shape | Floats) -> Path:
    """The model x times a second matrix, an input or constant."""
    inputs, constants = {"x": x}, []
    if isinstance(second, tuple):
        inputs["y"] = second
    else:
        constants.append(numpy_helper.from_array(second, "y"))
    values = [make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in inputs.items()]
    nodes = [make_node("MatMul", ["x", "y"], ["sums"]), make_node("Relu", ["sums"], ["out"])]
    result = make_tensor_value_info("out", TensorProto.FLOAT, None)
    graph = make_graph(nodes, "g", values, [result], constants)
    model = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "m.onnx")
    return folder / "m.onnx"


def in_order(x: Floats, y: Floats) -> Floats:
    """The products of each sum, added in float32 one after the other, and at least 0."""
    total = np.zeros((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]),
                     np.float32)  # fmt: skip
    for k in range(x.shape[-1]):
        total = total + x[..., :, k, None] * y[..., None, k, :]
    return np.maximum(total, 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("x", "y"), [
    ((32, 24), (24, 32)),
    ((30, 36), (36, 50)),  # the last block of columns begins earlier
    ((13, 22), (22, 40)),  # one row at a time
    ((2, 24, 26), (2, 26, 48)),
    ((3, 20, 30), (30, 33)),
])  # fmt: skip
def test_parts_of_sums_have_the_same_bits(
    x: Shape, y: Shape, threads: int, seen: Seen, tmp_path: Path
) -> None:
    given = generate_inputs(3, [(shape, np.dtype("float32")) for shape in (x, y)])
    path = product(tmp_path, x, y)
    with edgec.compile(path, float_sums="ordered", threads=threads) as model:
        np.testing.assert_array_equal(model.run(*given), in_order(*given))
    assert any("acc_k_o" in print_func(schedule.func) for schedule in seen)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("columns", "in_parts"), [(37, True), (32, False)])
def test_constants_are_added_in_parts_where_they_fill_no_whole_blocks(
    columns: int, in_parts: bool, seen: Seen, tmp_path: Path
) -> None:
    """Whole blocks are packed; all rows go round a block either way."""
    x, y = generate_inputs(3, [(shape, np.dtype("float32")) for shape in ((40, 24), (24, columns))])
    with edgec.compile(product(tmp_path, x.shape, y), float_sums="ordered") as model:
        np.testing.assert_array_equal(model.run(x), in_order(x, y))
    assert bool(seen) == in_parts


def test_large_matrices_take_that_way(seen: Seen, tmp_path: Path) -> None:
    """Of the sizes that gain from it."""
    shapes = (256, 1024), (1024, 1024)
    x, y = generate_inputs(3, [(shape, np.dtype("float32")) for shape in shapes])
    with edgec.compile(product(tmp_path, x.shape, y.shape), float_sums="ordered") as model:
        np.testing.assert_array_equal(model.run(x, y), in_order(x, y))
    assert seen
