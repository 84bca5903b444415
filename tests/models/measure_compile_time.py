"""How long edgec takes for large models, without the C compiler, and its most memory.

    python tests/models/measure_compile_time.py [NAME...] [--target CORE] [--profile FILE]

Each model has random weights and is built in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

REPO_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO_ROOT / "tests"))

from onnx_builder import OnnxBuilder  # noqa: E402  tests are no package

#: Columns of a picture, rows of a convolution's table: (factor, channels, repeats, stride).
MOBILENET_V2 = [
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
]  # fmt: skip
#: Of ResNet50: (channels, blocks).
RESNET50 = [(64, 3), (128, 4), (256, 6), (512, 3)]


class Layers(OnnxBuilder):
    """What the models are made of; channels first. int8: convolutions are quantized."""

    int8 = False

    def floats(self, *shape: int) -> str:
        """Random weights that keep values in about the same range."""
        fan_in = max(1, int(np.prod(shape[1:])))
        return self.constant((self.rng.normal(size=shape) / fan_in**0.5).astype(np.float32), "w")

    def conv(self, x: str, channels: tuple[int, int], kernel: int = 1, stride: int = 1,
             groups: int = 1, act: str | None = "Relu") -> str:  # fmt: skip
        inputs, outputs = channels
        shape = (outputs, inputs // groups, kernel, kernel)
        if self.int8:
            x = self.qdq(x, 0.05, 3) if x == "x" else x
            weights, bias = self.bytes(shape, 0.05)
        else:
            weights, bias = self.floats(*shape), self.floats(outputs)
        y = self.add("Conv", [x, weights, bias], group=groups, pads=[kernel // 2] * 4,
                     strides=[stride] * 2)  # fmt: skip
        if self.int8:
            return self.qdq(self.add("Relu", [y]) if act else y, 0.05, -128 if act else 3)
        if act == "Clip":
            bounds = [self.constant(np.float32(bound), "bound") for bound in (0, 6)]
            return self.add("Clip", [y, *bounds])
        return self.add(act, [y]) if act else y

    def bytes(self, shape: tuple[int, ...], x_scale: float) -> tuple[str, str]:
        """Random int8 weights as training leaves them: few are large."""
        stored = np.clip(np.rint(self.rng.normal(0, 25, shape)), -127, 127).astype(np.int8)
        scale, zero = np.float32(0.7 / np.prod(shape[1:]) ** 0.5 / 25), np.int8(0)
        weights, bias = (
            self.add("DequantizeLinear", [self.constant(value, "w") for value in values])
            for values in (
                (stored, scale, zero),
                (np.zeros(shape[0], np.int32), np.float32(scale * np.float32(x_scale)),
                 np.int32(0)),
            )
        )  # fmt: skip
        return weights, bias

    def sum(self, x: str, y: str, act: str | None = None) -> str:
        z = self.add("Add", [x, y])
        z = self.add(act, [z]) if act else z
        return self.qdq(z, 0.1, -128 if act else 5) if self.int8 else z

    def classifier(self, x: str, channels: int) -> str:
        """Mean of a picture, and 1,000 classes of it."""
        mean = self.add("GlobalAveragePool", [x])
        if self.int8:
            return self.conv(self.qdq(mean, 0.05, -128), (channels, 1000), act=None)
        flat = self.add("Flatten", [mean])
        return self.add("Gemm", [flat, self.floats(1000, channels), self.floats(1000)], transB=1)


def convolutions(path: Path) -> Path:
    """300 equal layers, which could all stream in one segment."""
    b = Layers(0, (1, 8, 12, 8))
    x = "x"
    for _ in range(300):
        x = b.conv(x, (8, 8), 3)
    return b.save(x, path)


def mobilenet_v2(path: Path) -> Path:
    """Sandler et al., 2018, at width 1 and 224 by 224 pixels."""
    b = Layers(0, (1, 3, 224, 224))
    x, channels = b.conv("x", (3, 32), 3, 2, act="Clip"), 32
    for factor, outputs, repeats, first_stride in MOBILENET_V2:
        for number in range(repeats):
            stride, wide = first_stride if number == 0 else 1, factor * channels
            y = b.conv(x, (channels, wide), act="Clip") if factor > 1 else x
            y = b.conv(y, (wide, wide), 3, stride, groups=wide, act="Clip")
            y = b.conv(y, (wide, outputs), act=None)
            x, channels = b.sum(x, y) if number else y, outputs
    return b.save(b.classifier(b.conv(x, (320, 1280), act="Clip"), 1280), path)


def resnet50(path: Path) -> Path:
    """He et al., 2015, at 224 by 224 pixels."""
    b = Layers(0, (1, 3, 224, 224))
    x = b.add("MaxPool", [b.conv("x", (3, 64), 7, 2)], kernel_shape=[3, 3], strides=[2, 2],
              pads=[1, 1, 1, 1])  # fmt: skip
    channels = 64
    for width, blocks in RESNET50:
        for number in range(blocks):
            stride = 2 if number == 0 and width > 64 else 1
            y = b.conv(b.conv(x, (channels, width)), (width, width), 3, stride)
            y = b.conv(y, (width, 4 * width), act=None)
            if number == 0:
                x = b.conv(x, (channels, 4 * width), 1, stride, act=None)
            x, channels = b.sum(x, y, "Relu"), 4 * width
    return b.save(b.classifier(x, channels), path)


def transformer(path: Path) -> Path:
    """12 encoder layers over 64 tokens: width 256, 4 heads, 1,024 wide between."""
    tokens, width, heads = 64, 256, 4
    b = Layers(0, (1, tokens, width))

    def dense(x: str, inputs: int, outputs: int) -> str:
        weights = b.constant(
            (b.rng.normal(size=(inputs, outputs)) / inputs**0.5).astype(np.float32), "w"
        )
        return b.add("Add", [b.add("MatMul", [x, weights]), b.floats(outputs)])

    def split(x: str, order: list[int]) -> str:
        shape = b.constant(np.array([1, tokens, heads, width // heads], np.int64), "shape")
        return b.add("Transpose", [b.add("Reshape", [x, shape])], perm=order)

    def normed(x: str) -> str:
        return b.add("LayerNormalization", [x, b.floats(width), b.floats(width)], axis=-1)

    x = "x"
    for _ in range(12):
        y = normed(x)
        orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        query, key, value = (split(dense(y, width, width), order) for order in orders)
        scale = b.constant(np.float32((width // heads) ** -0.5), "scale")
        scores = b.add("Mul", [b.add("MatMul", [query, key]), scale])
        mixed = b.add("MatMul", [b.add("Softmax", [scores], axis=-1), value])
        rows = b.constant(np.array([1, tokens, width], np.int64), "shape")
        joined = b.add("Reshape", [b.add("Transpose", [mixed], perm=[0, 2, 1, 3]), rows])
        x = b.add("Add", [x, dense(joined, width, width)])
        wide = b.add("Relu", [dense(normed(x), width, 4 * width)])
        x = b.add("Add", [x, dense(wide, 4 * width, width)])
    return b.save(x, path)


MODELS: dict[str, Callable[[Path], Path]] = {
    "convolutions_300": convolutions, "mobilenet_v2_224": mobilenet_v2, "resnet50_224": resnet50,
    "transformer_12": transformer,
}  # fmt: skip


def measure(name: str, target: str, profile: str | None, *, int8: bool) -> str:
    """Seconds and MB of building one model's C."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / f"{name}.onnx"
        made = [sys.executable, __file__, "--make", name, str(model), *["--int8"] * int8]
        subprocess.run(made, check=True)
        how = ["-m", "cProfile", "-o", profile] if profile else []
        command = [sys.executable, *how, "-m", "edgec", "build", str(model), "--target", target,
                   "-o", f"{folder}/out", "--compile-budget", "100"]  # fmt: skip
        # Byte code of modules is there as for everyone's second build, also where none is kept.
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/pycache"}
        environment = {**os.environ, **kept}
        warm = [sys.executable, "-c", "import edgec.deploy.limits, edgec.deploy.project"]
        subprocess.run(warm, check=True, stdout=subprocess.DEVNULL, cwd=REPO_ROOT, env=environment)
        begun = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, cwd=REPO_ROOT, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        if status:
            return f"{name:20} failed"
        spent = usage.ru_utime + usage.ru_stime
        return f"{name:20}{seconds:8.1f} s{spent:8.1f} s CPU{usage.ru_maxrss / 1024:8.0f} MB"


def main() -> None:
    """Measure the models that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--profile", help="where cProfile writes what it saw of the last model")
    parser.add_argument("--int8", action="store_true", help="quantize the convolutions")
    parser.add_argument("--make", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        Layers.int8 = args.int8
        MODELS[args.make](Path(args.names[0]))
        return
    for name in args.names:
        print(measure(name, args.target, args.profile, int8=args.int8), flush=True)


if __name__ == "__main__":
    main()
