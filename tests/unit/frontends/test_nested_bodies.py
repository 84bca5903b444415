"""Bodies in bodies: each format refuses too many, before Python's stack ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tflite_builder import TfliteBuilder

from edgec.errors import TooLarge
from edgec.frontends import import_model
from edgec.graph.builder import MOST_NESTED
from edgec.targets.core import host_core

REFUSED = f"more than {MOST_NESTED} bodies lie in each other"


def tflite(depth: int, kind: str) -> bytes:
    """WHILE in WHILE, or IF in IF."""
    model = TfliteBuilder()
    x, y = (model.tensor(name, (1,), "float32") for name in "xy")
    is_less = model.subgraph()
    p, t = is_less.tensor("p", (1,), "float32"), is_less.tensor("t", (1,), "bool")
    zero = is_less.tensor("z", (1,), "float32", data=np.zeros(1, np.float32))
    is_less.operator("LESS", [p, zero], [t], "LessOptions")
    is_less.ends = [p], [t]
    where, inputs, output = model, [x], y
    for number in range(2, depth + 2):
        if kind == "WHILE":
            where.operator("WHILE", inputs, [output], "WhileOptions", CondSubgraphIndex=1,
                           BodySubgraphIndex=number)  # fmt: skip
        else:
            c = where.tensor("c", (1,), "bool")
            where.operator("LESS", [*inputs, *inputs], [c], "LessOptions")
            where.operator("IF", [c, *inputs], [output], "IfOptions", ThenSubgraphIndex=number,
                           ElseSubgraphIndex=number)  # fmt: skip
        where = model.subgraph()
        inputs, output = [where.tensor("p", (1,), "float32")], where.tensor("q", (1,), "float32")
        where.ends = inputs, [output]
    where.operator("ADD", [*inputs, *inputs], [output], "AddOptions")
    return model.build([x], [y])


def branches(depth: int, last: str) -> str:
    """If in If; `last` in the innermost."""
    body = last
    for number in range(depth):
        body = (
            f"y = If(c) <then_branch = t{number} () => (float[2] y) {{ {body} }},"
            f" else_branch = e{number} () => (float[2] y) {{ y = Relu(x) }}>"
        )
    return body


def loops(depth: int) -> str:
    """Loop in Loop."""
    body = "y = Relu(x)"
    for number in range(depth):
        body = (
            f"y = Loop(one, c, x) <body = b{number} (int64 i{number}, bool c{number}, float[2] x)"
            f" => (bool d{number}, float[2] y) {{ d{number} = Identity(c{number}) {body} }}>"
        )
    return body


def saved_onnx(body: str, folder: Path, *functions: str) -> Path:
    text = (
        '<ir_version: 9, opset_import: ["":17, "d":1]> g (float[2] x, bool c) => (float[2] y)'
        f" <int64 one = {{1}}> {{ {body} }} {' '.join(functions)}"
    )
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.mark.parametrize("kind", ["WHILE", "IF"])
def test_subgraphs(kind: str, tmp_path: Path) -> None:
    """1,198 of them ended in a RecursionError."""
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite(400 if kind == "WHILE" else MOST_NESTED + 1, kind))
    with pytest.raises(TooLarge, match=REFUSED):
        import_model(path)


@pytest.mark.parametrize("make", [lambda d: branches(d, "y = Relu(x)"), loops], ids=["If", "Loop"])
def test_onnx_bodies(make: Any, tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match=REFUSED):
        import_model(saved_onnx(make(MOST_NESTED + 1), tmp_path))


def test_functions_with_bodies(tmp_path: Path) -> None:
    """Each function is one body of another deep: together they are too deep."""
    functions = [
        '<domain: "d", opset_import: ["":17, "d":1]>'
        f" f{n} (x, c) => (y) {{ {branches(3, f'y = d.f{n - 1}(x, c)' if n else 'y = Relu(x)')} }}"
        for n in range(9)
    ]
    with pytest.raises(TooLarge, match=REFUSED):
        import_model(saved_onnx("y = d.f8(x, c)", tmp_path, *functions))


def test_as_many_as_may_be_compile(tmp_path: Path) -> None:
    from edgec.pipeline import compile_model

    path = tmp_path / "m.tflite"
    path.write_bytes(tflite(MOST_NESTED, "WHILE"))
    assert compile_model(path, host_core()).program
    path = saved_onnx(branches(MOST_NESTED, "y = Relu(x)"), tmp_path)
    assert compile_model(path, host_core()).program


def test_branches_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import edgec

    class Nested(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            def inner(x: Any) -> Any:
                return torch.cond(x.sum() > 1, lambda x: x + 1, lambda x: x - 1, (x,))

            return torch.cond(x.sum() > 0, inner, lambda x: x * 2, (x,))

    monkeypatch.setattr("edgec.graph.builder.MOST_NESTED", 1)
    with pytest.raises(TooLarge, match="more than 1 bodies lie in each other"):
        edgec.from_torch(Nested(), (torch.ones(3),))
