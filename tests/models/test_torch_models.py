"""Networks in plain PyTorch: C equals eager PyTorch, as floats and quantized."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch_models import CASES, made, samples_of, whole_mobilenet_v2  # noqa: E402

import edgec  # noqa: E402
from edgec.boards.board import load_board  # noqa: E402
from edgec.codegen.model_text import make_text  # noqa: E402
from edgec.graph.interpret import Interpretation  # noqa: E402
from edgec.options import Options  # noqa: E402
from edgec.pipeline import compile_module  # noqa: E402

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


CNNS = (
    "ds_cnn", "resnet8", "mobilenet_v2", "mobilenet_v3", "efficientnet_lite", "squeezenet", "unet",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if CASES[n].quick else pytest.param(n, marks=pytest.mark.full) for n in CNNS]
)
def test_cnns_have_transposes_of_images_at_the_interface_alone(name: str) -> None:
    """torch's channels come first: of images that the user gives or gets, and of nothing else."""
    imported = edgec.from_torch(made(name), (samples_of(name, 1)[0],))
    with imported.build(board="host") as model:
        main = model.compiled.module.main
    ports = (*main.inputs, *main.outputs)
    images = [port for port in ports if len(port.type.shape) == 4 and port.type.shape[1] > 1]
    moves = [node for node in main.nodes if node.op.name == "transpose"]
    assert len(moves) == len(images)
    assert all(node.inputs[0] in main.inputs or node.output in main.outputs for node in moves)


@pytest.mark.full
def test_a_whole_mobilenet_becomes_c_in_seconds() -> None:
    """MobileNetV2 at 224 x 224, all its blocks, from the module to C; time of this process."""
    torch.manual_seed(0)
    module = whole_mobilenet_v2().eval()
    start = time.process_time()
    imported = edgec.from_torch(module, (torch.randn(1, 3, 224, 224),))
    compiled = compile_module(imported.module, load_board("host").core, Options())
    text = make_text(compiled.program).text
    assert time.process_time() - start < 15
    assert len(text.calls) >= 53 and text.macs == pytest.approx(300e6, rel=0.05)
