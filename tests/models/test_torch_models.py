"""Networks in plain PyTorch: C equals eager PyTorch, as floats and quantized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch_models import CASES, made, samples_of  # noqa: E402

import edgec  # noqa: E402
from edgec.graph.interpret import Interpretation  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
EVERY = [
    name if case.quick else pytest.param(name, marks=pytest.mark.full)
    for name, case in CASES.items()
]
#: Of the largest output: float32 sums in another order.
TOLERANCE = 2e-6


def eager(name: str, samples: list[Any]) -> list[np.ndarray]:
    """What PyTorch answers to samples, one after the other."""
    module = made(name)
    with torch.no_grad():
        return [module(x).numpy().copy() for x in samples]


@pytest.mark.parametrize("name", EVERY)
def test_c_computes_what_torch_does(name: str) -> None:
    samples = samples_of(name, 4)
    wanted = eager(name, samples)
    imported = edgec.from_torch(made(name), (samples[0],))
    with imported.build(board="host") as model:
        for x, expected in zip(samples, wanted, strict=True):
            answer = model.run(x.numpy())
            assert answer.shape == expected.shape
            np.testing.assert_allclose(answer, expected, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("name", EVERY)
def test_integers_are_near_and_c_has_their_bits(name: str) -> None:
    samples = samples_of(name, 12)
    wanted = eager(name, samples)
    imported = edgec.from_torch(made(name), (samples[0],))
    quantized = imported.quantize([(x,) for x in samples])
    noise = signal = 0.0
    with quantized.build(board="host") as model:
        reference = Interpretation(model.compiled.module.main)  # an LSTM is its integers only there
        for x, expected in zip(samples, wanted, strict=True):
            answer = model.run(x.numpy())
            np.testing.assert_array_equal(answer, reference.run([x.numpy()])[0])
            noise += float(((answer - expected) ** 2).sum())
            signal += float((expected**2).sum())
    assert 10 * np.log10(signal / noise) >= CASES[name].decibels


CNNS = ("ds_cnn", "resnet8", "mobilenet_v2", "mobilenet_v3", "efficientnet_lite", "squeezenet")


@pytest.mark.parametrize(
    "name", [n if CASES[n].quick else pytest.param(n, marks=pytest.mark.full) for n in CNNS]
)
def test_cnns_have_one_transpose_at_most(name: str) -> None:
    """torch's channels come first: of the input, which the user gives, and of nothing else."""
    imported = edgec.from_torch(made(name), (samples_of(name, 1)[0],))
    with imported.build(board="host") as model:
        kinds = [node.op.name for node in model.compiled.module.main.nodes]
    moved = [kind for kind in kinds if kind == "transpose"]
    is_gray = CASES[name].shape[1] == 1
    assert len(moved) == (0 if is_gray else 1), kinds
