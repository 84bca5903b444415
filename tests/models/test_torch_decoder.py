"""A decoder of ten million parameters in plain PyTorch, its cache of keys and values as state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import edgec  # noqa: E402
from edgec.graph.interpret import Interpretation  # noqa: E402

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]
WORDS = 1000


class Cached(nn.Module):
    """A layer of GPT-2's kind (Radford et al., 2019) that sees one token a run."""

    def __init__(self, width: int, heads: int, steps: int) -> None:
        super().__init__()
        self.heads, self.steps = heads, steps
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.keys: Any
        self.values: Any
        self.register_buffer("keys", torch.zeros(heads, steps, width // heads))
        self.register_buffer("values", torch.zeros(heads, steps, width // heads))

    def forward(self, x: Any, position: Any) -> Any:
        query, key, value = (
            part.view(self.heads, 1, -1) for part in self.parts(self.before(x)).chunk(3, -1)
        )
        self.keys.index_copy_(1, position, key)
        self.values.index_copy_(1, position, value)
        later = torch.arange(self.steps) > position
        scores = query @ self.keys.transpose(1, 2) / query.shape[-1] ** 0.5
        weights = torch.softmax(scores.masked_fill(later, -1e4), -1)
        x = x + self.join((weights @ self.values).reshape(1, -1))
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class Decoder(nn.Module):
    """Tokens in, scores of the next token out; the place in the text is state, too."""

    def __init__(self, width: int = 384, layers: int = 5, heads: int = 6, steps: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(steps, width)
        self.layers = nn.ModuleList(Cached(width, heads, steps) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.position: Any
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, token: Any) -> Any:
        x = self.words(token) + self.places(self.position)
        for layer in self.layers:
            x = layer(x, self.position)
        self.position.add_(1)
        return self.head(self.norm(x))


def made() -> nn.Module:
    torch.manual_seed(4)
    return Decoder().eval()


def test_a_text_step_by_step_as_floats_and_integers() -> None:
    module = made()
    assert sum(p.numel() for p in module.parameters()) > 9.5e6
    tokens = [torch.tensor([(37 * n + 11) % WORDS]) for n in range(12)]
    with torch.no_grad():
        wanted = [module(token).numpy().copy() for token in tokens]
    imported = edgec.from_torch(made(), (tokens[0],))
    with imported.build() as model:
        for token, expected in zip(tokens, wanted, strict=True):
            np.testing.assert_allclose(model.run(token.numpy()), expected, atol=2e-5)
        assert model.report["state_bytes"] >= 5 * 2 * 32 * 384 * 4
    quantized = imported.quantize([(token,) for token in tokens])
    noise = signal = 0.0
    with quantized.build() as model:
        reference = Interpretation(model.compiled.module.main)
        for number, (token, expected) in enumerate(zip(tokens, wanted, strict=True)):
            answer = model.run(token.numpy())
            if number < 3:
                np.testing.assert_array_equal(answer, reference.run([token.numpy()])[0])
            noise += float(((answer - expected) ** 2).sum())
            signal += float((expected**2).sum())
    assert 10 * np.log10(signal / noise) >= 20
