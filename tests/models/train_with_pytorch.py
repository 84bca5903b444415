"""Train the networks of `tests/models/trained_by_pytorch` with quantization in the loop.

    pip install torch==2.13.0 onnx
    python train_with_pytorch.py

For each of PyTorch's backends the network as `torch.ao.quantization` trained it: `prepared`, with
floats that are quantized where they pass by, and `converted`, with integers. Nothing in this
repository runs this script; what it wrote is committed beside it. The same version of PyTorch
writes the same files.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.ao import quantization
from torch.ao.nn.quantized import FloatFunctional

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "examples" / "digits" / "digits_test.npz"
FOLDER = HERE / "trained_by_pytorch"
BACKENDS = ("x86", "qnnpack")
STEPS = 200
OPSET = 17


class Network(nn.Module):
    """[N, 1, 8, 8] to [N, 10]: what QAT meets, with normalizations, a sum and a join."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
        )
        self.pointwise = nn.Sequential(nn.Conv2d(8, 12, 1), nn.BatchNorm2d(12), nn.ReLU())
        self.mix = nn.Sequential(nn.Conv2d(12, 12, 3, padding=1), nn.BatchNorm2d(12))
        self.sum, self.join = FloatFunctional(), FloatFunctional()
        self.largest, self.mean = nn.MaxPool2d(4), nn.AdaptiveAvgPool2d(1)
        self.logits = nn.Linear(24, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.pointwise(self.depthwise(self.stem(self.quant(image))))
        x = self.sum.add_relu(x, self.mix(x))
        x = self.join.cat([self.largest(x), self.mean(x)], dim=1)
        return self.dequant(self.logits(torch.flatten(x, 1)))


def trained(backend: str) -> nn.Module:
    torch.manual_seed(0)
    network = Network().train()
    # Version 0 trains with operators that the exporter knows.
    network.qconfig = quantization.get_default_qat_qconfig(backend, version=0)
    fused = [
        [f"{name}.{n}" for n in range(len(getattr(network, name)))]
        for name in ("stem", "depthwise", "pointwise", "mix")
    ]
    network = quantization.prepare_qat(quantization.fuse_modules_qat(network, fused))
    with np.load(DIGITS) as stored:
        images = torch.from_numpy(stored["x"].astype(np.float32))
        labels = torch.from_numpy(stored["y"].astype(np.int64))
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    for step in range(STEPS):
        batch = torch.arange(32 * step, 32 * step + 32) % len(images)
        loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval().apply(quantization.disable_observer)
    print(backend, float((network(images).argmax(1) == labels).float().mean()))
    return network


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    for backend in BACKENDS:
        torch.backends.quantized.engine = backend
        prepared = trained(backend)
        for name, network in (
            ("prepared", prepared),
            ("converted", quantization.convert(prepared)),
        ):
            torch.onnx.export(
                network, (torch.zeros(1, 1, 8, 8),), str(FOLDER / f"{backend}_{name}.onnx"),
                opset_version=OPSET, dynamo=False, input_names=["image"], output_names=["logits"],
            )  # fmt: skip


if __name__ == "__main__":
    main()
