"""torch's control flow becomes C control flow: the numbers of eager PyTorch, by C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402
from torch._higher_order_ops.map import map as torch_map  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

import edgec  # noqa: E402
from edgec.errors import ImportFailed  # noqa: E402
from edgec.graph.interpret import interpret  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Chooses(nn.Module):
    """One of two layers, by the sum of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.cond(
            x.sum() > 0, lambda x: torch.relu(self.first(x)), lambda x: self.second(x) - x, (x,)
        )


class Nested(nn.Module):
    """A choice inside a choice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def inner(x: Any) -> Any:
            return torch.cond(x.amax() > 2, lambda x: x * 2, lambda x: self.layer(x), (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x - 1, (x,))


class Repeats(nn.Module):
    """A layer until the numbers are small, ten times at most; also how often."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return while_loop(
            lambda count, x: (count < 10) & (x.abs().amax() > 0.3),
            lambda count, x: (count + 1, torch.tanh(self.layer(x)) * 0.8),
            (torch.tensor(0), x),
        )


class Scans(nn.Module):
    """A recurrent cell over rows: its last state, and all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = torch.tanh(self.layer(state) + row)
            return state, state * 2

        return scan(step, torch.zeros(4), x)


class Maps(nn.Module):
    """The same for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return torch_map(lambda row: torch.relu(self.layer(row)), x)


#: The module, and the operator that it becomes.
CASES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "cond": (Chooses, "if"), "nested": (Nested, "if"), "while_loop": (Repeats, "while"),
    "scan": (Scans, "scan"), "map": (Maps, "scan"),
}  # fmt: skip


def inputs() -> list[Any]:
    generator = torch.Generator().manual_seed(6)
    return [torch.randn(5, 4, generator=generator) * scale for scale in (1, -1, 0.05, 3)]


def require_same(model: Any, module: nn.Module, given: list[Any] | None = None) -> None:
    for x in given or inputs():
        answers = model.run(x.numpy())
        with torch.no_grad():
            wanted = module(x)
        pairs = zip(answers, wanted, strict=True) if isinstance(wanted, tuple) else [
            (answers, wanted)]  # fmt: skip
        for mine, theirs in pairs:
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_c_takes_the_way_that_eager_takes(name: str) -> None:
    make, operator = CASES[name]
    torch.manual_seed(5)
    module = make().eval()
    imported = edgec.from_torch(module, (inputs()[0],))
    assert operator in {node.op.name for node in imported.module.main.nodes}
    with imported.build() as model:
        require_same(model, module)


def test_a_saved_program_keeps_its_bodies(tmp_path: Path) -> None:
    torch.manual_seed(5)
    module, path = Chooses().eval(), tmp_path / "chooses.pt2"
    torch.export.save(torch.export.export(module, (inputs()[0],)), path)
    with edgec.compile(path, board="mps2_an386", engine="core") as model:
        require_same(model, module)


class Attends(nn.Module):
    """Attention over any batch and time, or sums."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def attention(x: Any) -> Any:
            return torch.softmax(self.layer(x) @ x.transpose(1, 2), -1) @ x

        return torch.cond(x.mean() > 0, attention, lambda x: x.cumsum(1) * 0.5, (x,)) + x


CORE = {"board": "stm32", "engine": "core"}


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in CASES), ("nested", CORE), ("scan", CORE)],
    ids=str,
)
def test_rows_are_open(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(5)
    module = CASES[name][0]().eval()
    dims = {0: torch.export.Dim("n", min=1, max=9)}
    imported = edgec.from_torch(module, (inputs()[0],), dynamic_shapes=(dims,))
    with imported.build(**options) as model:
        for rows in (1, 4, 9):
            require_same(model, module, [x[:1].repeat(rows, 1) * 0.7 + x.mean() for x in inputs()])


def test_batch_and_time_are_open_in_bodies() -> None:
    torch.manual_seed(5)
    module = Attends().eval()
    dims = {0: torch.export.Dim("b", min=1, max=3), 1: torch.export.Dim("t", min=1, max=8)}
    imported = edgec.from_torch(module, (torch.randn(2, 5, 4),), dynamic_shapes=(dims,))
    with imported.build() as model:
        for batch, time in ((1, 1), (3, 8), (2, 3), (3, 1)):
            given = torch.randn(batch, time, 4)
            require_same(model, module, [given, given + 1, given - 1])


class Tail(nn.Module):
    """Convolutions, and one of two layers, by what they found."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1)
        self.left, self.right, self.last = nn.Linear(8, 4), nn.Linear(8, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.second(torch.relu(self.first(x)))).mean(2)
        x = torch.cond(x.mean() > 0.15, lambda x: torch.relu(self.left(x)), self.right, (x,))
        return self.last(x)


def test_what_lies_around_bodies_is_quantized() -> None:
    torch.manual_seed(5)
    module = Tail().eval()
    samples = [(torch.randn(1, 3, 16),) for _ in range(24)]
    quantized = edgec.from_torch(module, samples[0]).quantize(samples)
    with quantized.build() as model, torch.no_grad():
        convolutions = [n for n in model.compiled.module.main.nodes if n.op.name == "conv2d"]
        assert [node.input_types[0].dtype for node in convolutions] == ["int8", "int8"]
        for (x,) in samples[:6]:
            answer = model.run(x.numpy())
            (wanted,) = interpret(model.compiled.module.main, [x.numpy()])
            np.testing.assert_array_equal(answer, wanted)
            assert np.abs(answer - module(x).numpy()).max() < 0.05


class Unknown(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: torch.digamma(x), lambda x: x.clone(), (x,))


def test_what_a_body_lacks_is_named() -> None:
    with pytest.raises(ImportFailed, match="is not supported") as caught:
        edgec.from_torch(Unknown(), (inputs()[0],))
    assert "aten.digamma.default" in caught.value.render()
