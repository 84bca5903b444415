"""Open sizes of PyTorch modules: one C function equals eager PyTorch at every size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import edgec  # noqa: E402
from edgec.errors import ImportFailed, RunFailed  # noqa: E402
from edgec.graph.interpret import interpret  # noqa: E402
from edgec.report.summary import print_build  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
MOST = 8
BATCH = Dim("batch", min=1, max=MOST)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3), nn.Softmax(-1))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 4),
    )  # fmt: skip


def fully_convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 1))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (perceptron, (6,)),
    "convolutions": (convolutions, (3, 8, 8)),
    "fully convolutional": (fully_convolutional, (3, 6, 7)),
}


def batch(rows: int, shape: tuple[int, ...]) -> Any:
    return torch.randn(rows, *shape, generator=torch.Generator().manual_seed(rows))


def require_every_size(module: nn.Module, model: Any, shape: tuple[int, ...]) -> None:
    with torch.no_grad():
        for rows in (*range(1, MOST + 1), 2):
            x = batch(rows, shape)
            np.testing.assert_allclose(
                model.run(x.numpy()), module(x).numpy(), rtol=1e-5, atol=1e-6
            )
    for rows in (MOST + 1, 100):
        with pytest.raises(
            RunFailed, match=f"is {rows} by the inputs' shapes, 1 to 8 are possible"
        ):
            model.run(batch(rows, shape).numpy())


@pytest.mark.parametrize("name", CASES)
def test_every_batch_is_what_eager_computes(name: str, tmp_path: Path) -> None:
    make, shape = CASES[name]
    torch.manual_seed(1)
    module = make().eval()
    imported = edgec.from_torch(module, (batch(4, shape),), dynamic_shapes=({0: BATCH},))
    with imported.build(output=tmp_path / "project") as model:
        require_every_size(module, model, shape)
        (size,) = model.built.manifest.sizes
        assert (size.name, size.minimum, size.maximum) == ("batch", 1, MOST)
        assert model.report["arena_bytes"] == model.compiled.plan.peak_bytes["arena"]


def test_frames_of_a_sequence_from_1_to_100() -> None:
    torch.manual_seed(4)
    module = nn.Sequential(nn.Linear(6, 10), nn.LayerNorm(10), nn.GELU(), nn.Linear(10, 3)).eval()
    time = Dim("time", min=1, max=100)
    example = batch(1, (40, 6))
    imported = edgec.from_torch(module, (example,), dynamic_shapes=({1: time},))
    with imported.build() as model, torch.no_grad():
        for frames in (1, 2, 3, 50, 99, 100):
            x = batch(1, (frames, 6))
            np.testing.assert_allclose(
                model.run(x.numpy()), module(x).numpy(), rtol=1e-5, atol=1e-6
            )
        with pytest.raises(RunFailed, match="'time' of sequential is 101"):
            model.run(batch(1, (101, 6)).numpy())


def test_integers_at_every_batch() -> None:
    torch.manual_seed(3)
    module = perceptron().eval()
    samples = [(batch(rows, (6,)),) for rows in range(1, MOST + 1)]
    imported = edgec.from_torch(module, (batch(4, (6,)),), dynamic_shapes=({0: BATCH},))
    quantized = imported.quantize(samples)
    with quantized.build() as model, torch.no_grad():
        for (x,) in samples:
            answer = model.run(x.numpy())
            np.testing.assert_array_equal(answer, interpret(quantized.module.main, [x.numpy()])[0])
            np.testing.assert_allclose(answer, module(x).numpy(), atol=0.03)


def test_a_saved_program_is_opened_too(tmp_path: Path) -> None:
    torch.manual_seed(2)
    module, path = perceptron().eval(), tmp_path / "open.pt2"
    program = torch.export.export(module, (batch(4, (6,)),), dynamic_shapes=({0: BATCH},))
    torch.export.save(program, path)
    with edgec.compile(path) as model:
        require_every_size(module, model, (6,))


class Halves(nn.Module):
    """Two inputs, of which one is twice as large."""

    def forward(self, x: Any, y: Any) -> Any:
        return torch.relu(x), torch.tanh(y)


def test_sizes_that_follow_from_others_are_terms(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"x": {0: BATCH}, "y": {0: 2 * BATCH}}
    imported = edgec.from_torch(Halves(), (batch(3, (2,)), batch(6, (2,))), dynamic_shapes=sizes)
    assert [str(p.type.extents[0]) for p in imported.module.main.inputs] == ["batch", "batch*2"]
    with imported.build() as model:
        assert model.report["sizes"] == [{"name": "batch", "minimum": 1, "maximum": MOST}]
        assert model.report["open_shapes"]["y"] == ["batch*2", "2"]
        print_build(model.report)
        assert "shape of y: [batch*2, 2]" in capsys.readouterr().out
        for rows in (1, 5, MOST):
            x, y = batch(rows, (2,)), batch(2 * rows, (2,))
            for mine, theirs in zip(model.run(x.numpy(), y.numpy()), Halves()(x, y), strict=True):
                np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)


class Function(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "range_", "message"),
    [
        (lambda x: x * (x.shape[0] // 2), {"max": MOST}, "differs from the model at that size"),
        (torch.relu, {}, "the size 'rows' has no largest value"),
    ],
)
def test_what_cannot_be_open_is_refused(
    function: Callable[[Any], Any], range_: dict[str, int], message: str
) -> None:
    dims = ({0: Dim("rows", min=1, **range_)},)
    with pytest.raises(ImportFailed, match=message):
        edgec.from_torch(Function(function), (batch(4, (3,)),), dynamic_shapes=dims)
