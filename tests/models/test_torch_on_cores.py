"""Networks in plain PyTorch on the simulated Cortex-M4: as floats and in integers."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch_models import CASES, made, samples_of  # noqa: E402

import edgec  # noqa: E402
from edgec.graph.interpret import Interpretation  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
QUICK = {"noise_gains"}
EVERY = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in CASES
]  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_the_core_computes_what_torch_does(name: str) -> None:
    samples = samples_of(name, 2)
    module = made(name)
    with torch.no_grad():
        wanted = [module(x).numpy().copy() for x in samples]
    imported = edgec.from_torch(made(name), (samples[0],))
    with imported.build(board="stm32", engine="core") as model:
        for x, expected in zip(samples, wanted, strict=True):
            answer = model.run(x.numpy())
            np.testing.assert_allclose(answer, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", EVERY)
def test_the_core_has_the_bits_of_the_integers(name: str) -> None:
    samples = samples_of(name, 6)
    quantized = edgec.from_torch(made(name), (samples[0],)).quantize([(x,) for x in samples])
    with quantized.build(board="stm32", engine="core") as model:
        reference = Interpretation(model.compiled.module.main)
        for x in samples[:2]:
            np.testing.assert_array_equal(model.run(x.numpy()), reference.run([x.numpy()])[0])
