"""einsum: NumPy's sums of every kind of equation, C on any numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c
from onnx import TensorProto, helper, save

import edgec
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret

EQUATIONS = {
    "ij->ji": [(3, 4)],
    "ij": [(3, 4)],
    "ji": [(3, 4)],
    "ii->i": [(4, 4)],
    "ii": [(4, 4)],
    "ij->": [(3, 4)],
    "i,j->ij": [(3,), (4,)],
    "bij, bjk -> bik": [(2, 3, 4), (2, 4, 5)],
    "...ij,...jk->...ik": [(2, 3, 4), (4, 5)],
    "...ij,jk": [(2, 1, 3, 4), (4, 5)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 5)],
    ",i->i": [(), (3,)],
    "bqhd,bkhd->bhqk": [(1, 3, 2, 4), (1, 5, 2, 4)],
}


def model(path: Path, equation: str, shapes: list[tuple[int, ...]]) -> Path:
    names = [f"x{n}" for n in range(len(shapes))]
    node = helper.make_node("Einsum", names, ["y"], name="product", equation=equation)
    kind = TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(n, kind, s) for n, s in zip(names, shapes, strict=True)]
    output = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "sums", ends, [output])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equals_numpy(equation: str, tmp_path: Path) -> None:
    shapes = EQUATIONS[equation]
    rng = np.random.default_rng(2)
    arrays = [rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]
    (found,) = interpret(import_model(model(tmp_path / "m.onnx", equation, shapes)).main, arrays)
    wanted = np.einsum(equation, *(x.astype(np.float64) for x in arrays))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("board", ["host", "mps2_an386"])
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,ij->", [(3, 8), (3, 8)]),
        ("ij,ij->i", [(3, 8), (3, 8)]),
        ("i,i->", [(5,), (5,)]),
        ("i,ij->j", [(5,), (5, 8)]),  # the matrix is read row by row, but the result has none
        ("ij,ij->", [(1, 1), (1, 1)]),  # so has this, whose axes all have one element
    ],
)
def test_products_of_computed_operands_compile(
    equation: str, shapes: list[tuple[int, ...]], board: str, tmp_path: Path
) -> None:
    """Those without an axis left, or with one, ended in a traceback."""
    rng = np.random.default_rng(3)
    x, y = (rng.normal(0, 1, shape).astype(np.float32) for shape in shapes)
    path = model(tmp_path / "m.onnx", equation, shapes)
    with edgec.compile(path, board=board) as built:
        found = built.run(x0=x, x1=y)
    (same,) = interpret(import_model(path).main, [x, y])
    np.testing.assert_allclose(found, same, rtol=1e-6)


@pytest.mark.parametrize("name", ["test_einsum_batch_diagonal", "test_einsum_batch_matmul"])
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(3, 4)], "1 inputs for 2 terms"),
        ("ijk->i", [(3, 4)], "does not fit"),
        ("ij,jk->ik", [(3, 4), (5, 6)], "'j' is 4 and 5"),
        ("ij->ik", [(3, 4)], "einsum to 'ik'"),
        ("ij->ii", [(3, 4)], "einsum to 'ii'"),
    ],
)
def test_refusals(
    equation: str, shapes: list[tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_model(model(tmp_path / "m.onnx", equation, shapes))
    assert message in refused.value.details[0] and "'product'" in refused.value.details[0]
