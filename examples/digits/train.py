"""Train the digits example: PyTorch -> float ONNX -> int8 QDQ ONNX, the same files every time.

    pip install torch scikit-learn onnx onnxscript onnxruntime
    python train.py [--output DIR]

1. scikit-learn's handwritten digits (1797 images of 8x8, values 0..16) are split once, by a fixed
   permutation: the held-out images are neither trained nor calibrated on.
2. A small CNN is trained for a fixed number of epochs (no choice is made by looking at the
   held-out images) and exported with a static batch of 1.
3. ONNX Runtime's quantizer makes it int8: QDQ, per-channel weights, ranges from training images.

Nothing in this repository runs this script; what it wrote is committed beside it.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from sklearn.datasets import load_digits
from torch import nn

SEED = 2024
HELD_OUT = 400  # of 1797 images
CALIBRATION = 256  # of the training images
EPOCHS = 60
BATCH = 32
OPSET = 18
# The exported nodes, in order; each names its output too, and both are what edgec will speak of.
NODES = (
    "stem",
    "stem_relu",
    "pool",
    "depthwise",
    "depthwise_relu",
    "pointwise",
    "pointwise_relu",
    "residual",
    "mix",
    "mix_relu",
    "flatten",
    "logits",
)


class DigitsNet(nn.Module):
    """[N, 1, 8, 8] in 0..1 -> [N, 10] logits; about 10 000 parameters, 94 000 MACs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = nn.Conv2d(16, 16, 1)
        self.mix = nn.Conv2d(16, 32, 3, padding=1)
        self.classify = nn.Linear(32 * 4 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.stem(image)))  # 16 x 4 x 4
        branch = torch.relu(self.pointwise(torch.relu(self.depthwise(x))))
        x = torch.relu(self.mix(x + branch))  # 32 x 4 x 4
        return self.classify(torch.flatten(x, 1))


class Split:
    """The data set, split by a permutation that NumPy promises never to change."""

    def __init__(self) -> None:
        digits = load_digits()
        x = (digits.images / 16.0).astype(np.float32)[:, np.newaxis]  # [1797, 1, 8, 8]
        y = digits.target.astype(np.int64)
        # RandomState, not default_rng: only its stream is frozen across NumPy versions.
        order = np.random.RandomState(SEED).permutation(len(x))
        self.test_index, train_index = order[:HELD_OUT], order[HELD_OUT:]
        self.test_x, self.test_y = x[self.test_index], y[self.test_index]
        self.train_x, self.train_y = x[train_index], y[train_index]
        seen = {image.tobytes() for image in self.train_x}
        assert not any(image.tobytes() in seen for image in self.test_x), "an image is in both"


def shift(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Move every image of a batch by up to one pixel each way, the only augmentation."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    corner = torch.randint(0, 3, (len(images), 2), generator=generator)
    return torch.stack(
        [p[:, r : r + 8, c : c + 8] for p, (r, c) in zip(padded, corner.tolist(), strict=True)]
    )


def train(split: Split) -> DigitsNet:
    """Train on the training images alone, one thread, fixed seeds and epochs."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(SEED)
    model = DigitsNet()
    x, y = torch.from_numpy(split.train_x), torch.from_numpy(split.train_y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    steps = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(x), generator=generator).split(BATCH):
            optimizer.zero_grad()
            loss = loss_of(model(shift(x[batch], generator)), y[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}  loss {total / len(x):.4f}")
    return model.eval()


def export(model: DigitsNet, path: Path) -> None:
    """Write the float model with names of our own, without the exporter's notes."""
    program = torch.onnx.export(
        copy.deepcopy(model),
        (torch.zeros(1, 1, 8, 8),),
        input_names=["image"],
        output_names=["logits"],
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    proto = program.model_proto
    graph = proto.graph
    for owner in (proto, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del owner.metadata_props[:]
    del graph.value_info[:]
    graph.name = "digits"
    renamed: dict[str, str] = {}
    for node, name in zip(graph.node, NODES, strict=True):
        renamed[node.output[0]] = node.name = node.output[0] = name
        node.input[:] = [renamed.get(value, value) for value in node.input]
    onnx.save(onnx.shape_inference.infer_shapes(proto), path)


class TrainingImages(CalibrationDataReader):
    """Feeds the quantizer training images one by one."""

    def __init__(self, images: np.ndarray) -> None:
        self.rest = iter(images)

    def get_next(self) -> dict[str, np.ndarray] | None:
        image = next(self.rest, None)
        return None if image is None else {"image": image[np.newaxis]}


def accuracy(path: Path, split: Split) -> float:
    """Share of held-out images that ONNX Runtime answers right with this file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    answers = [session.run(None, {"image": x[np.newaxis]})[0].argmax() for x in split.test_x]
    return float(np.mean(np.array(answers) == split.test_y))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    float_path, int8_path = folder / "digits_float.onnx", folder / "digits_int8.onnx"

    split = Split()
    model = train(split)
    export(model, float_path)
    quantize_static(
        float_path,
        int8_path,
        TrainingImages(split.train_x[:CALIBRATION]),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        # Weights of 7 bits. With 8, ONNX Runtime's kernels for x86 without VNNI saturate sums of
        # two products at 16 bits, and its answers would depend on the PC it runs on.
        reduce_range=True,
        calibrate_method=CalibrationMethod.MinMax,
    )
    np.savez_compressed(
        folder / "digits_test.npz",
        x=split.test_x,
        y=split.test_y.astype(np.uint8),
        index=split.test_index.astype(np.uint16),
    )
    print(f"parameters      {sum(p.numel() for p in model.parameters())}")
    print(f"float accuracy  {accuracy(float_path, split):.4f}")
    print(f"int8 accuracy   {accuracy(int8_path, split):.4f}")


if __name__ == "__main__":
    main()
