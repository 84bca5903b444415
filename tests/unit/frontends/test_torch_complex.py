"""Complex numbers inside of PyTorch modules become pairs of real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402

import edgec  # noqa: E402
from edgec.errors import ImportFailed  # noqa: E402
from edgec.graph.interpret import interpret  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Calls(nn.Module):
    """A function of inputs, with filters and a state."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        random = torch.Generator().manual_seed(4)
        self.register_buffer("filter", torch.randn(17, dtype=torch.complex64, generator=random))
        self.register_buffer("turns", torch.polar(torch.ones(3, 4), torch.arange(12.0).view(3, 4)))
        self.register_buffer("window", torch.hann_window(16))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.complex64))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def spectrum(module: Any, x: Any) -> Any:
    return torch.stft(x, 16, 4, window=module.window, return_complex=True)


def filtered(module: Any, x: Any) -> Any:
    """Overlapping frames, changed and joined again."""
    changed = spectrum(module, x) * 2
    return torch.istft(changed, 16, 4, window=module.window, length=x.shape[-1])


def turned(module: Any, x: Any) -> Any:
    """Rotary places of tokens, as Llama's code computes them."""
    pairs = torch.view_as_complex(x[:, :24].reshape(-1, 3, 4, 2))
    return torch.view_as_real(pairs * module.turns).flatten(2)


def arithmetic(module: Any, x: Any) -> Any:
    a, b = torch.complex(x[:, :8], x[:, 8:16]), torch.complex(x[:, 16:24], x[:, 24:])
    parts = (a * b - 2j * a, a / b + 1, b.conj() @ a.t(), a.exp(), b.log(), a**3, b.sgn(),
             torch.cat([a, b])[1:, ::2].flip(1), 1 - a, a.sum(0), x * (1 + 2j),
             torch.nn.functional.pad(a, (1, 0)))  # fmt: skip
    return torch.cat([torch.view_as_real(part).reshape(-1) for part in parts])


CASES: dict[str, Callable[..., Any]] = {
    "power of frames": lambda m, x: spectrum(m, x).abs().pow(2),
    "frames and back": filtered,
    "a filter": lambda m, x: torch.fft.irfft(torch.fft.rfft(x) * m.filter, norm="ortho"),
    "parts": lambda m, x: torch.cat([torch.fft.rfft(x).real, torch.fft.rfft(x, 9).angle()], -1),
    "two axes": lambda m, x: torch.fft.fft2(x.view(-1, 4, 8), norm="forward").imag,
    "rotary places": turned,
    "arithmetic": arithmetic,
}


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_torch_does(name: str) -> None:
    module = Calls(CASES[name]).eval()
    x = torch.randn(2, 32, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        wanted = module(x).numpy()
    (answer,) = interpret(edgec.from_torch(module, (x,)).module.main, [x.numpy()])
    assert answer.dtype == wanted.dtype
    np.testing.assert_allclose(answer, wanted, rtol=2e-5, atol=1e-5)


def test_c_of_a_spectrum() -> None:
    module, x = Calls(CASES["power of frames"]).eval(), torch.linspace(-1, 1, 64)[None]
    with edgec.from_torch(module, (x,)).build() as model:
        np.testing.assert_allclose(model.run(x.numpy()), module(x), rtol=1e-4, atol=1e-5)


def remembers(module: Any, x: Any, z: Any) -> Any:
    module.seen.copy_(z)
    return z.cumprod(0), torch.linalg.svdvals(x)


def test_what_breaks_the_contract_is_reported_at_once() -> None:
    with pytest.raises(ImportFailed, match="edgec cannot compile 4 parts of") as caught:
        given = torch.zeros(2, 2), torch.zeros(4, dtype=torch.complex64)
        edgec.from_torch(Calls(remembers), given)
    text = caught.value.render()
    assert "input 'inputs_1' has complex numbers: pass torch.view_as_real(x)" in text
    assert "the state 'seen' has complex numbers" in text
    assert "_linalg_svd.default  node" in text and "test_torch_complex.py" in text
    assert "aten.cumprod.default" in text and "no importer for complex numbers" in text
    with pytest.raises(ImportFailed, match=r"the result .* has complex numbers"):
        edgec.from_torch(Calls(spectrum), (torch.zeros(1, 32),))
