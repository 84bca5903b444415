"""Transformers over an open time: constants and masks that follow from the size of the input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402

import edgec  # noqa: E402
from edgec.errors import ImportFailed, RunFailed  # noqa: E402
from edgec.graph.interpret import interpret  # noqa: E402
from edgec.graph.parser import parse_module  # noqa: E402
from edgec.graph.printer import constant_data, print_module  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
MOST, WIDTH = 32, 8
TIME = ({1: Dim("time", min=1, max=MOST)},)
PAIRS = ({0: Dim("batch", min=1, max=4), 1: Dim("time", min=1, max=16)},)


def frames(time: int) -> Any:
    return torch.randn(1, time, WIDTH, generator=torch.Generator().manual_seed(time))


class Layer(nn.Module):
    """A decoder's layer of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.taken, self.made = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.after = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))

    def forward(self, x: Any) -> Any:
        batch, time, _ = x.shape
        parts = self.taken(self.norms[0](x)).view(batch, time, 3, 2, WIDTH // 2)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.made(seen.transpose(1, 2).reshape(batch, time, WIDTH))
        return x + self.after(self.norms[1](x))


class Decoder(nn.Module):
    """Places from a table, two causal layers, and a word for each place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.randn(MOST, WIDTH))
        self.layers = nn.Sequential(Layer(), Layer())
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(x + self.places[: x.shape[1]]))


class Constants(nn.Module):
    """What follows from the time: numbers, triangles, turns, ends of tables, results."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(MOST, WIDTH))

    def forward(self, x: Any) -> Any:
        time = x.shape[1]
        turns = torch.outer(torch.arange(time), torch.tensor([1.0, 0.1, 0.01, 0.001]))
        turned = x * torch.cat([turns.cos(), turns.sin()], -1)
        scores = (x @ x.transpose(1, 2)).masked_fill(
            torch.tril(torch.ones(time, time)) == 0, float("-inf")
        )
        latest = turned + self.table[MOST - time :]
        mean = scores.softmax(-1) @ x / time
        spread = x.mean(1, keepdim=True).expand(-1, time, -1)
        return latest, mean, torch.arange(time), torch.zeros(time, 2), x + spread, x[:, :1]


class Merged(nn.Module):
    """A layer over the rows of all samples, flattened by a view and by torch itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x.reshape(-1, WIDTH))).reshape(x.shape[0], x.shape[1], 12)
        return x + self.second(y), y.flatten(0, 1).amax(0)


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)


def made(module: nn.Module, sizes: Any = TIME) -> Any:
    return edgec.from_torch(module.eval(), (torch.randn(2 - (sizes is TIME), 5, WIDTH),),
                            dynamic_shapes=sizes)  # fmt: skip


def require_same(answers: Any, wanted: Any, tolerance: float) -> None:
    answers, wanted = (v if isinstance(v, tuple) else (v,) for v in (answers, wanted))
    for answer, want in zip(answers, wanted, strict=True):
        np.testing.assert_allclose(answer, want.numpy(), tolerance, tolerance)


@pytest.mark.parametrize("kind", [Decoder, Constants])
def test_every_time_is_what_eager_computes(kind: type[nn.Module]) -> None:
    torch.manual_seed(1)
    module = kind()
    with made(module).build() as model, torch.no_grad():
        for time in range(1, MOST + 1):
            require_same(model.run(frames(time).numpy()), module(frames(time)), 2e-5)
        for time in (MOST + 1, 100):
            with pytest.raises(RunFailed, match=f"is {time} by the inputs' shapes, 1 to 32"):
                model.run(frames(time).numpy())


@pytest.mark.parametrize("kind", [Merged, Decoder, encoder])
def test_every_batch_of_every_time_is_what_eager_computes(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(1)
    module = kind()
    with made(module, PAIRS).build() as model, torch.no_grad():
        for batch, time in itertools.product(range(1, 5), range(1, 17)):
            x = torch.randn(batch, time, WIDTH)
            require_same(model.run(x.numpy()), module(x), 2e-5)
        for shape in ((5, 3), (1, 17)):
            with pytest.raises(RunFailed, match="by the inputs' shapes, 1 to"):
                model.run(np.zeros((*shape, WIDTH), np.float32))


def test_an_encoder_of_open_batch_and_time_on_a_simulated_core() -> None:
    torch.manual_seed(1)
    module = encoder()
    with made(module, PAIRS).build(board="stm32", engine="core") as model, torch.no_grad():
        for batch, time in ((1, 1), (3, 5), (4, 16)):
            x = torch.randn(batch, time, WIDTH)
            require_same(model.run(x.numpy()), module(x), 2e-5)


def test_an_encoder_of_open_batch_and_time_in_integers() -> None:
    """Of 16 rows that are alike, attention is what it is of one row: a wider range than others."""
    torch.manual_seed(1)
    module = encoder()
    samples = [(torch.randn(4, 16, WIDTH),) for _ in range(10)]
    samples += [(torch.randn(4, 1, WIDTH).repeat(1, 16, 1),) for _ in range(10)]
    quantized = made(module, PAIRS).quantize(samples)
    with quantized.build() as model, torch.no_grad():
        for batch, time in itertools.product(range(1, 5), range(1, 17, 3)):
            x = torch.randn(batch, time, WIDTH)
            answer = model.run(x.numpy())
            (wanted,) = interpret(model.compiled.module.main, [x.numpy()])
            np.testing.assert_array_equal(answer, wanted)
            assert np.abs(answer - module(x).numpy()).mean() < 0.05


def test_a_decoder_on_a_simulated_core_and_in_integers() -> None:
    torch.manual_seed(1)
    module = Decoder()
    imported = made(module)
    with imported.build(board="stm32", engine="core") as model, torch.no_grad():
        for time in (1, 7, MOST):
            require_same(model.run(frames(time).numpy()), module(frames(time)), 2e-5)
    samples = [(torch.randn(1, MOST, WIDTH),) for _ in range(20)]
    quantized = imported.quantize(samples)
    with quantized.build() as model, torch.no_grad():
        for time in range(1, MOST + 1):
            answer = model.run(frames(time).numpy())
            (wanted,) = interpret(model.compiled.module.main, [frames(time).numpy()])
            np.testing.assert_array_equal(answer, wanted)
            assert np.abs(answer - module(frames(time)).numpy()).mean() < 0.08


def test_text_keeps_what_is_cut() -> None:
    module = made(Constants()).module
    text = print_module(module)
    assert "term('time')" in text
    assert print_module(parse_module(text, constant_data(module))) == text


class Turned(nn.Module):
    """A constant that begins with another row at each size."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(MOST, WIDTH))

    def forward(self, x: Any) -> Any:
        return x + self.table[: x.shape[1]].flip(0).cumsum(0)


def test_a_constant_that_is_no_part_of_the_largest_is_refused() -> None:
    with pytest.raises(ImportFailed, match=r"no open sizes|differs from the model"):
        made(Turned())
