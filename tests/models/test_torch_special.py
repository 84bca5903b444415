"""ATen operators beyond Core ATen in C: linear algebra, orders, counts, experts' matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

import edgec  # noqa: E402
from edgec.errors import ImportFailed  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
#: Of the largest output.
TOLERANCE = 1e-5


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped_product(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """What Hugging Face's transformers call for experts in an exported program."""
    group = (torch.arange(len(x))[:, None] >= ends).sum(1)
    return (x[:, None] @ weights[group])[:, 0]


@grouped_product.register_fake
def _(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], weights.shape[2])


class Called(torch.nn.Module):
    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Any) -> Any:
        return tuple(function(x) for function in self.functions)


class Kalman(torch.nn.Module):
    """A filter of a body's place and speed by measured places: its estimate lives between runs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("motion", torch.tensor([[1.0, 0.1], [0.0, 1.0]]))
        self.register_buffer("seen", torch.eye(2)[:1])
        self.register_buffer("estimate", torch.zeros(2, 1))
        self.register_buffer("spread", torch.eye(2))

    def forward(self, place: Any) -> Any:
        guess = self.motion @ self.estimate
        spread = self.motion @ self.spread @ self.motion.T + 0.01 * torch.eye(2)
        innovation = self.seen @ spread @ self.seen.T + 0.5 * torch.eye(1)
        gain = torch.linalg.solve(innovation, self.seen @ spread).T
        estimate = guess + gain @ (place - self.seen @ guess)
        self.spread.copy_((torch.eye(2) - gain @ self.seen) @ spread)
        self.estimate.copy_(estimate)
        return estimate


def _positive(x: Any) -> Any:
    return x @ x.mT + torch.eye(x.shape[-1])


def _experts(x: Any) -> Any:
    ends = torch.tensor([3, 3, 5], dtype=torch.int32)
    weights = torch.linspace(-1, 1, 3 * 4 * 8).reshape(3, 4, 8)
    return grouped_product(x.reshape(-1, 4)[:5], weights, ends)


CASES: dict[str, Callable[[Any], Any]] = {
    "inverse": torch.linalg.inv,
    "solve": lambda x: torch.linalg.solve(x, x.mT[..., :2]),
    "solve_from_the_right": lambda x: torch.linalg.solve(x, x.mT, left=False),
    "cholesky": lambda x: torch.linalg.cholesky(_positive(x)),
    "upper_cholesky": lambda x: torch.linalg.cholesky(_positive(x), upper=True),
    "triangle": lambda x: torch.linalg.solve_triangular(x + 4, x, upper=False),
    "slogdet": lambda x: torch.linalg.slogdet(x)[1],
    "histogram": lambda x: torch.histc(x, bins=6, min=-1, max=2),
    "own_range": lambda x: torch.histc(x, bins=5),
    "median": lambda x: torch.median(x, dim=1, keepdim=True)[0],
    "kth": lambda x: torch.kthvalue(x, 2)[1].float(),
    "buckets": lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.2, 1.0]), right=True).float(),
    "products": lambda x: torch.cumprod(x, dim=-2),
    "hypot": lambda x: torch.hypot(x * 1e30, x.flip(-1) * 1e30) * 1e-30,
    "fmax": lambda x: torch.fmax(torch.where(x > 0, x, torch.nan), x.flip(0)),
    "copysign": lambda x: torch.copysign(x, -x.flip(0) * 0.0),
    "decimals": lambda x: torch.round(x, decimals=1),
    "experts": _experts,
    "antialias": lambda x: torch.nn.functional.interpolate(
        x[None], size=(2, 3), mode="bicubic", antialias=True),
}  # fmt: skip


@pytest.mark.parametrize(("board", "engine"), [
    pytest.param("host", "host", marks=pytest.mark.full), ("stm32", "core"),
])  # fmt: skip
def test_c_computes_what_torch_does(board: str, engine: str) -> None:
    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(3))
    module = edgec.from_torch(Called(*CASES.values()), (x,))
    with module.build(board=board, engine=engine) as model:
        answers = model.run(x.numpy())
    for name, answer in zip(CASES, answers, strict=True):
        wanted = CASES[name](x).numpy()
        atol = TOLERANCE * np.abs(wanted).max()
        np.testing.assert_allclose(answer, wanted, rtol=0, atol=atol, err_msg=name)


def test_a_filter_keeps_its_estimate() -> None:
    places = (
        torch.linspace(0, 3, 6).reshape(6, 1, 1) + 0.1 * torch.cos(torch.arange(6.0))[:, None, None]
    )
    eager = Kalman()
    wanted = [eager(place).numpy().copy() for place in places]
    with edgec.from_torch(Kalman(), (places[0],)).build(board="stm32", engine="core") as model:
        for place, expected in zip(places, wanted, strict=True):
            np.testing.assert_allclose(model.run(place.numpy()), expected, atol=1e-5)


def test_a_matrix_without_an_inverse_gives_no_numbers() -> None:
    x = torch.eye(3)
    with edgec.from_torch(Called(torch.linalg.inv), (x,)).build(board="host") as model:
        np.testing.assert_array_equal(model.run(x.numpy()), x.numpy())
        assert not np.isfinite(model.run(np.ones((3, 3), np.float32))).any()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: torch.linalg.lu_factor(x)[0], "linalg_lu_factor"),
        (lambda x: torch.nn.functional.interpolate(x[None], size=(2, 3), mode="bilinear",
                                                   antialias=True, align_corners=True),
         "antialias with align_corners"),
    ],
)  # fmt: skip
def test_refusals(function: Callable[..., Any], why: str) -> None:
    with pytest.raises(ImportFailed) as failure:
        edgec.from_torch(Called(function), (torch.randn(2, 4, 4),))
    assert why in "\n".join([failure.value.message, *failure.value.details])
